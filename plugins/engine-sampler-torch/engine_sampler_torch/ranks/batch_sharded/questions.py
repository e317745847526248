"""What all ranks ask of those that own the requests."""

from __future__ import annotations

import json
from abc import ABC
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from engine_sampler import Record, RequestError, Scheduler
from engine_sampler.for_backends import RequestId, quoted

from ..exchange import Exchange, digest
from .ledger import Ledger
from .owner import Owner
from .rank_steps import RankSteps
from .soundness import Soundness


class _Questions(ABC):
    """The calls of a scheduler that change nothing: each rank tells what it knows, and all get it."""

    local: Scheduler
    _control: Exchange
    _ledger: Ledger
    _owner: Owner
    _soundness: Soundness
    _steps: RankSteps

    def record(self, request_id: RequestId) -> Record:
        """Everything known about a request, on all ranks. All ranks must ask."""

        def told() -> dict[str, Any]:
            return replace(self._owner.record(request_id), request_id=0).to_dict()

        return replace(Record.from_dict(self._ask("record", [request_id], told)), request_id=request_id)

    def best(self, request_ids: Sequence[RequestId]) -> list[RequestId]:
        """`Scheduler.best` of the siblings of one group, on all ranks. All ranks must ask."""
        ids = list(request_ids)
        order = self._ask("best", ids, lambda: [ids.index(best) for best in self.local.best(ids)])
        return [ids[i] for i in order]

    def forced_tokens(self, request_id: RequestId) -> list[int]:
        """`Scheduler.forced_tokens`, on all ranks. All ranks must ask."""

        def told() -> list[int]:
            ended = self._owner.record(request_id).finish_reason is not None
            return [] if ended else self.local.forced_tokens(request_id)

        token_ids: list[int] = self._ask("forced_tokens", [request_id], told)
        return token_ids

    def draft(
        self,
        request_ids: Sequence[RequestId] | None = None,
        max_tokens: int = 8,
        drafter: str | Sequence[str] | None = None,
    ) -> dict[RequestId, list[int]]:
        """`Scheduler.draft`, on all ranks. All ranks must ask. What drafters may do in one call is counted by
        rank, so a draft may be longer than on one; no token depends on it."""
        ids = list(self._ledger.live if request_ids is None else request_ids)

        def check() -> None:
            self._steps.check_idle()
            for request_id in ids:
                self._ledger.find_row(request_id)

        def told() -> dict[int, list[int]]:
            own = {r: i for i, r in enumerate(ids) if self._has_here(r)}
            drafts = self.local.draft([*own], max_tokens, drafter)
            return {own[request_id]: draft for request_id, draft in drafts.items()}

        drafts = {int(i): d for told in self._ask_all("draft", ids, check, told) for i, d in told.items()}
        return {ids[i]: drafts[i] for i in sorted(drafts)}

    # --- inside ----------------------------------------------------------------------------------

    def _has_here(self, request_id: RequestId) -> bool:
        """Whether the scheduler of this rank has a live request."""
        entry = self._ledger.live.get(request_id)
        if entry is None or self._ledger.owner(entry) != self._control.rank:
            return False
        return self._owner.record(request_id).finish_reason is None

    def _ask(self, question: str, ids: Sequence[RequestId], told: Callable[[], Any]) -> Any:
        """What the owner of the requests `ids` knows, on all ranks."""
        owners: list[int] = []

        def check() -> None:
            if question == "forced_tokens":
                self._steps.check_idle()
            owners.extend({self._ledger.owner(self._ledger.find(request_id)) for request_id in ids})
            if len(owners) != 1:
                raise RequestError(f"request_ids={quoted(list(ids))} is not allowed: siblings of one group")

        def told_here() -> Any:
            return told() if owners[0] == self._control.rank else None

        return self._ask_all(question, ids, check, told_here)[owners[0]]

    def _ask_all(
        self, question: str, ids: Sequence[RequestId], check: Callable[[], None], told: Callable[[], Any]
    ) -> list[Any]:
        """What every rank knows of the requests `ids`, on all ranks, if they pass a `check`."""

        def facts() -> dict[str, int]:
            self._soundness.check()
            check()
            return {"requests": self._ledger.digest, "ids": digest(repr(list(ids)))}

        self._steps.agree(question, facts, lambda: f"{question} of {quoted(list(ids))}")
        blob = b""

        def length() -> list[int]:
            nonlocal blob
            blob = json.dumps(told(), default=str).encode()
            return [len(blob)]

        lengths = self._control.gather((1,), length).flatten().tolist()
        self._control.settle()
        return [json.loads(blob) for blob in self._control.blobs(blob, lengths)]
