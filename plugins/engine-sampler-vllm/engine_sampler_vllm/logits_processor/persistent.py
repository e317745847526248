"""The persistent batch of vLLM's V1 model runner: requests enter, leave and change rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine_sampler.for_bridges import dtype_name, follow_update, like, unmoved

from .requests import FollowedRequest, Requests


@dataclass(eq=False)
class _Member:
    """A request in the batch. `output` is vLLM's own list, which grows by every token."""

    followed: FollowedRequest
    prompt: Sequence[int]
    output: Sequence[int]

    def catch_up(self, requests: Requests, width: int) -> None:
        """Bring the request up to `output`; restart it if vLLM has taken tokens back."""
        followed = self.followed
        if len(self.output) < followed.token_count:
            requests.close(followed)
        if not followed.started:
            output = _before_placeholder(self.output)
            requests.start(followed, self.prompt, output, width)
        else:
            output = _before_placeholder(self.output[followed.token_count :])
            requests.extend(followed, output)
        followed.token_count += len(output)


class PersistentBatch:
    """The request in each row, maintained by V1's batch updates."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._members: dict[int, _Member] = {}

    def update(self, update: Any) -> None:
        """Apply a `BatchUpdate`, or None for no change: removals, then arrivals, then moves.

        A request that enters a row replaces the one there.
        """
        follow_update(self._members, update, self._enter, self._leave)

    def apply(self, logits: Any) -> Any:
        """Process in place the rows of `logits` [rows, width] whose requests enable our samplers."""
        width = int(logits.shape[1])
        for row, member in self._members.items():
            if row < len(logits) and not member.followed.refused:
                member.catch_up(self._requests, width)
        rows = [row for row, member in self._members.items() if row < len(logits) and member.followed.started]
        if rows:
            followed = [self._members[row].followed for row in rows]
            processed = self._requests.process(unmoved(logits[rows]), followed)
            logits[rows] = like(logits, processed, dtype_name(logits))
        return logits

    def _enter(self, params: Any, prompt: Sequence[int] | None, output: Sequence[int]) -> _Member | None:
        followed = self._requests.open(params)
        return None if followed is None else _Member(followed, prompt or (), output)

    def _leave(self, member: _Member) -> None:
        self._requests.close(member.followed)


def _before_placeholder(output: Sequence[int]) -> Sequence[int]:
    """The tokens before the first −1, vLLM's placeholder for a token that is still being drawn."""
    return output[: output.index(-1)] if -1 in output else output
