"""Plugins for the random requests: criteria, grammars and samplers that follow them, and ones that fail."""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import numpy as np

from engine_sampler.contract import Param, Sampler, StoppingCriteria, StopVerdict, Watch, hookimpl

from ..engines import ToyMatcher, registered_plugin
from .faulty import FaultySampler, FaultySelector


class Tally(StoppingCriteria):
    """Ends a request at the third of the tokens that it counts; called at these only."""

    name = "tally"
    counted = frozenset({3, 5, 7})
    waits_for_min_tokens = False

    def new_state(self, params: Any, prompt_token_ids: Any, vocabulary: Any) -> list[int]:
        return []

    def watch(self, params: Any, prompt_token_ids: Any, vocabulary: Any) -> Watch:
        return Watch(self.counted)

    def check(self, state: list[int], token_ids: Sequence[int], text: str) -> StopVerdict | None:
        state += token_ids
        return StopVerdict("tally") if self.ends(state) else None

    def rollback(self, state: list[int], n: int) -> None:
        del state[len(state) - n :]

    def ends(self, token_ids: Sequence[int]) -> bool:
        return token_ids[-1] in self.counted and sum(t in self.counted for t in token_ids) >= 3


class Reader(StoppingCriteria):
    """Ends a request when its certain text contains three letters b."""

    name = "reader"

    def new_state(self, params: Any, prompt_token_ids: Any, vocabulary: Any) -> list[str]:
        return []

    def check(self, state: list[str], token_ids: Sequence[int], text: str) -> StopVerdict | None:
        assert len(token_ids) == 1
        state.append(text)
        return StopVerdict("reader") if self.reads("".join(state)) else None

    def rollback(self, state: list[str], n: int) -> None:
        del state[len(state) - n :]

    def reads(self, text: str) -> bool:
        return text.count("b") >= 3


class Failing(StoppingCriteria):
    """Fails at a token: raises, or returns a value that is not a verdict."""

    name = "failing"
    at = (6, 9)

    def check(self, state: Any, token_ids: Sequence[int], text: str) -> Any:
        if self.at[0] in token_ids:
            raise RuntimeError("out of patience")
        return "enough" if self.at[1] in token_ids else None


class Stuck(StoppingCriteria):
    """Ends nothing, and cannot roll back."""

    name = "stuck"

    def check(self, state: Any, token_ids: Sequence[int], text: str) -> None:
        return None

    def rollback(self, state: Any, n: int) -> None:
        raise RuntimeError("rollback failed")


class Interferer(StoppingCriteria):
    """Ends nothing; while it checks tokens, another thread calls `interfere`."""

    name = "meddler"
    interfere: ClassVar[Callable[[], None] | None] = None
    """Done once."""

    def check(self, state: Any, token_ids: Sequence[int], text: str) -> None:
        work, Interferer.interfere = Interferer.interfere, None
        if work is not None:
            with ThreadPoolExecutor(1) as thread:
                thread.submit(work).result()


CRITERIA: Mapping[str, Callable[[], StoppingCriteria]] = {
    "tally": Tally,
    "reader": Reader,
    "failing": Failing,
    "stuck": Stuck,
    "meddler": Interferer,
}


class FailingMatcher(ToyMatcher):
    """A grammar over a few tokens that fails after its fourth, in the way that `how` selects."""

    def __init__(self, how: str) -> None:
        super().__init__({"start": dict.fromkeys(range(2, 10), "start")})
        self.how = how

    @property
    def wrong(self) -> bool:
        return len(self.states) > 4

    def _fail(self, how: str) -> None:
        if self.wrong and self.how == how:
            raise RuntimeError(f"no {how}")

    @property
    def follow(self) -> Mapping[int, str]:
        return {} if self.wrong and self.how == "dead end" else super().follow

    def fill_bitmask(self, bitmask: np.ndarray, row: int = 0) -> None:
        self._fail("fill")
        super().fill_bitmask(bitmask, row)

    def accept(self, token_id: int) -> bool:
        self._fail("accept")
        if self.wrong and self.how == "refuse":
            return False
        return super().accept(token_id)

    def rollback(self, n: int) -> None:
        self._fail("rollback")
        super().rollback(n)

    def forced_tokens(self) -> list[int]:
        self._fail("forced")
        return []

    def fork(self) -> FailingMatcher:
        child = FailingMatcher(self.how)
        child.states = self.states.copy()
        return child

    def is_accepting(self) -> bool:
        return True

    def is_terminated(self) -> bool:
        self._fail("end")
        return False


def table_matcher() -> ToyMatcher:
    """A grammar with two choices, a forced token between them, and an end without EOS."""
    free = dict.fromkeys(range(2, 12), "one")
    return ToyMatcher(
        {"start": free, "one": {5: "two"}, "two": {8: "three", 3: "start"}, "three": {2: "end"}}
    )


GRAMMARS: Mapping[str, Callable[[], Any]] = {
    "table": table_matcher,
    **{how: functools.partial(FailingMatcher, how)
       for how in ("dead end", "fill", "accept", "refuse", "rollback", "forced", "end")},
}  # fmt: skip
"""Constraints given as objects: a new one for every use."""


# --- samplers and observers ----------------------------------------------------------------------


class Weary(Sampler):
    """A sampler with a state: it lowers a token's logit by `weary` for every occurrence.

    It cannot follow token 11 if `weary` is above 1, nor roll back below 8 tokens; above 2 it fails once token
    10 has occurred twice.
    """

    name = "weary"
    after = "min_p"
    params = (Param("weary", float, 0.0, low=0, high=4),)

    def new_state(self, params: Mapping[str, Any], prompt_token_ids: Any) -> dict[str, Any]:
        return {"value": params["weary"], "tokens": []}

    def accept(self, state: dict[str, Any], token_ids: Sequence[int]) -> None:
        if 11 in token_ids and 1 < state["value"] <= 2:
            raise RuntimeError("cannot follow")
        state["tokens"] += token_ids

    def rollback(self, state: dict[str, Any], n: int) -> None:
        if len(state["tokens"]) > 8 and 1 < state["value"] <= 2:
            raise RuntimeError("cannot roll back")
        del state["tokens"][len(state["tokens"]) - n :]

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        for i, (state, row) in enumerate(zip(rows.states, logits, strict=True)):
            count = Counter(state["tokens"])
            if state["value"] > 2 and count[10] >= 2:
                raise RuntimeError("out of order")
            ids = range(len(row)) if rows.ids is None else rows.ids[i].tolist()
            row -= np.array([count[t] * state["value"] for t in ids], np.float32)


class Listener:
    """An observer that counts requests added and finished."""

    def __init__(self) -> None:
        self.muted = False
        self.forget()

    def forget(self) -> None:
        self.added: Counter[Any] = Counter()
        self.finished: Counter[Any] = Counter()

    def request_added(self, request_id: Any, params: Any) -> None:
        if not self.muted:
            self.added[request_id] += 1

    def request_finished(self, record: Any) -> None:
        assert record.finish_reason is not None
        if not self.muted:
            self.finished[record.request_id] += 1

    @contextlib.contextmanager
    def mute(self) -> Iterator[None]:
        """Ignores events of other schedulers."""
        self.muted = True
        try:
            yield
        finally:
            self.muted = False


LISTENER = Listener()


class _Plugin:
    @hookimpl
    def register_samplers(self, register: Any) -> None:
        for part in (Weary(), FaultySampler(), FaultySelector()):
            register(part)

    @hookimpl
    def register_observers(self, register: Any) -> None:
        register(LISTENER)


def plugins() -> contextlib.AbstractContextManager[None]:
    """Registers the samplers and the observer, which the random requests need."""
    return registered_plugin(_Plugin())
