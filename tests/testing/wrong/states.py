"""Wrong states of samplers."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine_sampler import UnfinishedError
from engine_sampler.arithmetic import settle

from .collection import ANY, breaks
from .right import Streak, Toll

BESIDE_OTHERS = "requests_beside_others_do_as_alone"
PORTIONS = "tokens_may_arrive_in_any_portions"
PREPARING = "preparing_with_little_work_at_a_time_changes_no_result"


@breaks("rollback_undoes_accept", says="after accept and rollback")
class IgnoresRollback(Streak):
    """Never rolls a token back."""

    def rollback(self, state: Any, n: int) -> None:
        pass


@breaks("rollback_undoes_accept", says="after accept and rollback")
class RollsBackAllForNone(Streak):
    """Makes the mistake of `del state[-0:]`."""

    def rollback(self, state: Any, n: int) -> None:
        del state[-n:]


@breaks("rollback_undoes_accept")
class RollsBackOne(Streak):
    """Undoes one token, however many it is asked to undo."""

    def rollback(self, state: Any, n: int) -> None:
        del state[len(state) - min(n, 1) :]


@breaks("rollback_undoes_accept")
class RollsBackEverything(Streak):
    """Starts again at every rollback."""

    def rollback(self, state: Any, n: int) -> None:
        if n:
            state.clear()


@breaks("a_fork_is_independent", says="after a fork continued")
class SharesForks(Streak):
    """Gives the child the parent's own list."""

    def fork(self, state: Any) -> Any:
        return state


@breaks("a_fork_is_independent", says="differs in a fork")
class ForgetsForks(Streak):
    """Starts the child from scratch."""

    def fork(self, state: Any) -> Any:
        return []


@breaks("a_fork_is_independent")
class CopiesForksShallowly(Streak):
    """Copies the outer of two lists."""

    def new_state(self, params: Any, prompt_token_ids: np.ndarray) -> Any:
        return [[]]

    def accept(self, state: Any, token_ids: Any) -> None:
        state[0].extend(token_ids)

    def rollback(self, state: Any, n: int) -> None:
        del state[0][len(state[0]) - n :]

    def fork(self, state: Any) -> Any:
        return state.copy()

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        super().apply(logits, _Inner(rows))


class _Inner:
    """Rows whose states are the inner lists."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows
        self.states = [state[0] for state in rows.states]

    def __getitem__(self, name: str) -> Any:
        return self._rows[name]

    def columns(self, i: int, token_ids: np.ndarray) -> Any:
        return self._rows.columns(i, token_ids)


@breaks(
    PORTIONS,
    "a_resumed_request_continues_alike",
    ANY,
    says="when tokens arrive together",
)
class AcceptsTheFirstOnly(Streak):
    """Ignores that several tokens may arrive at once."""

    def accept(self, state: Any, token_ids: Any) -> None:
        state.append(token_ids[0])


@breaks(PORTIONS, ANY)
class SortsWhatArrives(Streak):
    """Forgets the order of tokens that arrive together."""

    def accept(self, state: Any, token_ids: Any) -> None:
        state.extend(sorted(token_ids))


@breaks("a_resumed_request_continues_alike", ANY, says="when the output is given at once")
class CountsCallsOfAccept(Streak):
    """Counts how often `accept` is called."""

    def new_state(self, params: Any, prompt_token_ids: np.ndarray) -> Any:
        return {"calls": 0}

    def accept(self, state: Any, token_ids: Any) -> None:
        state["calls"] += 1

    def rollback(self, state: Any, n: int) -> None:
        state["calls"] -= n

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        for i, state in enumerate(rows.states):
            alive = logits[i] > -np.inf
            logits[i, alive] = np.maximum(logits[i, alive] - np.float32(state["calls"]), -3e38)


@breaks("the_same_call_gives_the_same_result", ANY, says="when the call is repeated")
class AppliesTwice(Streak):
    """Counts applications in place of accepted tokens."""

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        super().apply(logits, rows)
        for state in rows.states:
            state.extend(state[-1:])


@breaks("a_row_depends_on_itself_only", ANY)
class SharesOneState(Streak):
    """Gives every request the same list."""

    state: Any = []

    def new_state(self, params: Any, prompt_token_ids: np.ndarray) -> Any:
        return self.state


@breaks("the_same_call_gives_the_same_result", ANY)
class KeepsItsStateInTheClass(Streak):
    """Remembers the last tokens of all requests in the sampler."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def accept(self, state: Any, token_ids: Any) -> None:
        self.seen.extend(token_ids)
        state.extend(token_ids)

    def length(self, state: Any) -> int:
        return super().length(state) + len(self.seen) % 5


@breaks("results_are_finite_or_removed", ANY, says="by a sampler that removes nothing")
class RemovesWhatItPenalizes(Streak):
    """Overflows to −inf where it should stop at the lowest float."""

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        super().apply(logits, rows)
        logits *= np.float32(2)
        np.minimum(logits, np.finfo(np.float32).max, out=logits)


@breaks(PORTIONS, ANY)
class IsNotLazy(Streak):
    """Claims that its state may be brought up to date later, and counts the calls that do so."""

    lazy = True

    def accept(self, state: Any, token_ids: Any) -> None:
        state.append(len(token_ids) % 2)

    def rollback(self, state: Any, n: int) -> None:
        state.clear()


@breaks("examples_hold")
class CountsThePromptToo(Streak):
    """Begins with the prompt, although its Example does not."""

    examples = (*Streak.examples, Streak.examples[0].__class__((1.0, 1.0), {"streak": 0.5}, (1.0, 1.0), (1,)))

    def new_state(self, params: Any, prompt_token_ids: np.ndarray) -> Any:
        return prompt_token_ids.tolist()


@breaks(PREPARING, says="after prepare")
class PreparesForAnEarlierText(Toll):
    """Keeps the count of the text for which it was first prepared."""

    def prepare(self, rows: Any, work: Any) -> None:
        super().prepare(rows, work)
        (state,) = rows.states
        state.setdefault("ready", state["count"])

    def count(self, state: Any, spend: Any) -> int:
        return state["ready"] if "ready" in state else super().count(state, spend)


@breaks(PREPARING, says="must continue where it stopped")
class PreparesFromTheBeginning(Toll):
    """Forgets what a call has found that did not finish."""

    def prepare(self, rows: Any, work: Any) -> None:
        (state,) = rows.states
        self.forget(state)
        super().prepare(rows, work)


@breaks(PREPARING, says="no call counts what it does")
class PreparesWithoutCounting(Toll):
    """Takes as long as it takes."""

    def prepare(self, rows: Any, work: Any) -> None:
        super().prepare(rows, None)


@breaks(PREPARING, says="not for want of work")
class StopsWithoutCounting(Toll):
    """Stops after one token, whatever it may do."""

    def prepare(self, rows: Any, work: Any) -> None:
        (state,) = rows.states
        if work is not None and state["seen"] < len(state["tokens"]):
            state["count"] += state["tokens"][state["seen"]] == state["tokens"][-1]
            state["seen"] += 1
            raise UnfinishedError


@breaks(BESIDE_OTHERS, ANY, says="beside others")
class DrawsOnceItHasTokens(Streak):
    """Has a generator of its own, which it uses from the third token on."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)

    def length(self, state: Any) -> int:
        return super().length(state) + (int(self.random.integers(4)) if len(state) > 24 else 0)


@breaks(BESIDE_OTHERS, ANY)
class KeepsTheLongestOfTheBatch(Streak):
    """Counts a long streak for every request of the batch."""

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        self.most = max([len(state) for state in rows.states], default=0)
        super().apply(logits, rows)

    def length(self, state: Any) -> int:
        return super().length(state) + (self.most > 25)


@breaks(BESIDE_OTHERS, ANY, says="beside others")
class RemembersSixTokens(Streak):
    """Can roll back six tokens at most."""

    def rollback(self, state: Any, n: int) -> None:
        super().rollback(state, min(n, 6))


@breaks(BESIDE_OTHERS, ANY)
class CountsTo64(Streak):
    """Forgets a history of more than 64 tokens when it forks."""

    def fork(self, state: Any) -> Any:
        return list(state) if len(state) <= 64 else []


@breaks("a_fork_is_independent", ANY)
class NumbersItsRequests(Streak):
    """Tells requests apart by their slot, which another one may have had."""

    def __init__(self) -> None:
        self.lengths: dict[Any, int] = {}

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        alive = logits > -np.inf
        for i, (slot, state) in enumerate(zip(rows.slot_numbers.tolist(), rows.states, strict=True)):
            if state:
                length = self.lengths.setdefault((slot, len(state)), self.length(state))
                columns, _ = rows.columns(i, np.array(state[-1:]))
                logits[i, columns] -= np.float32(rows["streak"][i] * length)
        settle(logits, alive)
