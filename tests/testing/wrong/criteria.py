"""Wrong stopping criteria."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine_sampler.contract import Param, StopVerdict, Watch

from .collection import ANY, breaks
from .right import Budget

ALONE = "rows_are_answered_one_by_one"
BESIDE_OTHERS = "requests_beside_others_do_as_alone"
SURROUNDINGS = "surroundings_do_not_matter"


@breaks("parameters_turn_it_on")
class IsAlwaysOn(Budget):
    """Runs for requests that do not set its parameter."""

    def is_active(self, params: Any, vocabulary: Any) -> bool:
        return True


@breaks("parameters_turn_it_on")
class IsNeverOn(Budget):
    """Never runs."""

    def is_active(self, params: Any, vocabulary: Any) -> bool:
        return False


@breaks("some_outputs_end_by_it", says="'abc', one of its texts, does not end by budget")
class NeverEnds(Budget):
    """Has no verdict, although it names a text."""

    texts = ("abc",)

    def check(self, state: Any, token_ids: Any, text: str) -> Any:
        return None


@breaks("an_end_has_a_reason", ANY)
class ReturnsABool(Budget):
    """Returns True in place of a verdict."""

    def check(self, state: Any, token_ids: Any, text: str) -> Any:
        return super().check(state, token_ids, text) is not None


@breaks("an_end_has_a_reason", ANY)
class InventsAReason(Budget):
    """Returns an unknown finish_reason."""

    def check(self, state: Any, token_ids: Any, text: str) -> Any:
        return super().check(state, token_ids, text) and StopVerdict("budget", "poor")


@breaks("an_end_has_a_reason", ANY)
class CutsBackwards(Budget):
    """Has a negative cut."""

    def check(self, state: Any, token_ids: Any, text: str) -> Any:
        return super().check(state, token_ids, text) and StopVerdict("budget", "length", -1)


@breaks("an_end_has_a_reason", ANY)
class GivesAnObjectAsReason(Budget):
    """Has a list as its reason."""

    def check(self, state: Any, token_ids: Any, text: str) -> Any:
        reason: Any = [1]
        return super().check(state, token_ids, text) and StopVerdict(reason, "length")


@breaks("the_same_tokens_get_the_same_verdict", ANY)
class KeepsOneListForAll(Budget):
    """Keeps one list for all requests, and compares multiples."""

    shared: Any = []

    def new_state(self, params: Any, prompt_token_ids: Any, vocabulary: Any) -> Any:
        return {"most": params["budget"], "tokens": self.shared}

    def check(self, state: Any, token_ids: Any, text: str) -> Any:
        before = sum(self.shared) // state["most"]
        super().check(state, token_ids, text)
        return StopVerdict("budget") if sum(self.shared) // state["most"] > before else None


@breaks("requests_share_no_state", ANY)
class GivesAllOneState(Budget):
    """Returns one object from every `new_state`: two requests end together, at half the count."""

    state: Any = {"tokens": []}

    def new_state(self, params: Any, prompt_token_ids: Any, vocabulary: Any) -> Any:
        self.state.update(most=params["budget"], tokens=[])
        return self.state


@breaks("requests_share_no_state", ANY)
class ForgetsAtTheNextRequest(Budget):
    """Keeps the state of the newest request only."""

    def new_state(self, params: Any, prompt_token_ids: Any, vocabulary: Any) -> Any:
        self.newest = super().new_state(params, prompt_token_ids, vocabulary)
        return self.newest

    def check(self, state: Any, token_ids: Any, text: str) -> Any:
        if state is not self.newest:
            return None
        return super().check(state, token_ids, text)


@breaks("the_same_tokens_get_the_same_verdict", ANY)
class IsRandom(Budget):
    """Ends at random."""

    random = np.random.default_rng(0)

    def check(self, state: Any, token_ids: Any, text: str) -> Any:
        return super().check(state, token_ids, text) if self.random.random() < 0.5 else None


@breaks("tokens_may_arrive_in_any_portions")
class SeesOnlyTheLast(Budget):
    """Forgets all but the last of several tokens."""

    def check(self, state: Any, token_ids: Any, text: str) -> Any:
        return super().check(state, token_ids[-1:], text)


@breaks("tokens_may_arrive_in_any_portions", "a_scheduler_ends_the_request_with_that_token", ANY)
class SeesTheLatestPortionOnly(Budget):
    """Has its verdict only if the last token of a portion is large."""

    def check(self, state: Any, token_ids: Any, text: str) -> Any:
        verdict = super().check(state, token_ids, text)
        return verdict if token_ids and token_ids[-1] > 5 else None


@breaks("rollback_undoes_check", ANY)
class ForgetsNothing(Budget):
    """Does not roll back."""

    def rollback(self, state: Any, n: int) -> None:
        pass


@breaks("rollback_undoes_check", ANY)
class RollsBackOne(Budget):
    """Rolls back one token, however many it is asked to."""

    def rollback(self, state: Any, n: int) -> None:
        super().rollback(state, min(n, 1))


@breaks("rollback_undoes_check", ANY)
class RollsBackEverything(Budget):
    """Starts again at every rollback."""

    def rollback(self, state: Any, n: int) -> None:
        state["tokens"].clear()


@breaks("a_fork_is_independent")
class ForksByReference(Budget):
    """Returns the same state for the fork."""

    def fork(self, state: Any) -> Any:
        return state


@breaks("a_fork_is_independent")
class ForksFromTheBeginning(Budget):
    """Forgets in a fork what came before."""

    def fork(self, state: Any) -> Any:
        return {**state, "tokens": []}


@breaks("a_fork_is_independent")
class ForksShallowly(Budget):
    """Copies the dict, but not the list in it."""

    def fork(self, state: Any) -> Any:
        return dict(state)


@breaks("a_watch_misses_nothing", "a_scheduler_ends_the_request_with_that_token", ANY)
class WatchesTooLate(Budget):
    """Watches an output length that may be beyond its end."""

    def watch(self, params: Any, prompt_token_ids: Any, vocabulary: Any) -> Any:
        return Watch(output_length=24)


@breaks("a_watch_misses_nothing", "a_scheduler_ends_the_request_with_that_token", ANY)
class WatchesTooFewTokens(Budget):
    """Watches the large tokens, although a small one can complete the sum."""

    def watch(self, params: Any, prompt_token_ids: Any, vocabulary: Any) -> Any:
        return Watch(token_ids=range(10, vocabulary.size))


@breaks("inputs_are_only_read", ANY)
class EmptiesTheTokens(Budget):
    """Takes the tokens out of the list that it is given."""

    def check(self, state: Any, token_ids: Any, text: str) -> Any:
        verdict = super().check(state, list(token_ids), text)
        token_ids.clear()
        return verdict


@breaks("inputs_are_only_read")
class SpendsItsParameter(Budget):
    """Counts its parameter down."""

    def new_state(self, params: Any, prompt_token_ids: Any, vocabulary: Any) -> Any:
        state = super().new_state(params, prompt_token_ids, vocabulary)
        if isinstance(params, dict):
            params["budget"] = params["budget"] * 1.0
            params["spent"] = True
        return state


@breaks("inputs_are_only_read", ANY)
class SortsThePrompt(Budget):
    """Sorts the prompt in place."""

    def new_state(self, params: Any, prompt_token_ids: Any, vocabulary: Any) -> Any:
        prompt_token_ids.sort()
        return super().new_state(params, prompt_token_ids, vocabulary)


@breaks("the_declaration_is_sound", ANY)
class HasABadNeutralValue(Budget):
    """Its neutral value is outside its bounds."""

    params = (Param("budget", int, -1, low=0),)


@breaks("tokens_may_arrive_in_any_portions", ANY)
class CountsChecks(Budget):
    """Ends after so many calls of `check`."""

    def check(self, state: Any, token_ids: Any, text: str) -> Any:
        state["tokens"].append(8 * len(token_ids) if len(token_ids) == 1 else 3)
        return StopVerdict("budget", "length") if sum(state["tokens"]) >= state["most"] else None

    def rollback(self, state: Any, n: int) -> None:
        if n:
            del state["tokens"][-1:]


@breaks("drafts_change_nothing", ANY)
class EndsEverySecondRequest(Budget):
    """Spares one request out of two."""

    requests = 0

    def new_state(self, params: Any, prompt_token_ids: Any, vocabulary: Any) -> Any:
        self.requests += 1
        most = params["budget"] if self.requests % 2 else 10**9
        return {"most": most, "tokens": []}


@breaks("a_scheduler_ends_the_request_with_that_token", ANY)
class CutsTheTokensBefore(Budget):
    """Cuts more bytes than its last token has."""

    def check(self, state: Any, token_ids: Any, text: str) -> Any:
        return super().check(state, token_ids, text) and StopVerdict("budget", "length", cut=5)


class Called(Budget):
    """Can be called on arrays."""

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        return np.asarray(input_ids)[:, -1] == 3


@breaks(ALONE, called=True, rounds=16)
class WritesToItsInput(Called):
    """Changes the arrays it is called with."""

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        input_ids[:, -1] = 0
        return np.zeros(len(input_ids), bool)


@breaks(ALONE, called=True, rounds=16)
class DependsOnOtherRows(Called):
    """Ends all rows when one ends."""

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        return np.full(len(input_ids), (np.asarray(input_ids) == 3).any())


@breaks(ALONE, called=True, rounds=16)
class ReturnsAList(Called):
    """Returns a list of bools."""

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        return [False] * len(input_ids)


@breaks(ALONE, called=True, rounds=16)
class ReturnsNumbers(Called):
    """Returns 0 and 1."""

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        return super().__call__(input_ids, scores).astype(np.int64)


@breaks(ALONE, called=True, rounds=16)
class ReturnsOneAnswer(Called):
    """Returns one answer for all rows."""

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        return np.array([super().__call__(input_ids, scores).all()])


@breaks("rollback_undoes_check", ANY)
class RemembersSixTokens(Budget):
    """Can roll back six tokens at most."""

    def rollback(self, state: Any, n: int) -> None:
        super().rollback(state, min(n, 6))


@breaks(BESIDE_OTHERS, ANY)
class EndsAtALineOnce(Budget):
    """Counts lines for all requests together."""

    lines = 0

    def check(self, state: Any, token_ids: Any, text: str) -> Any:
        self.lines += text.count("\n")
        extra = 50 if self.lines % 7 == 6 else 0
        state["tokens"] += token_ids
        return StopVerdict("budget", "length") if sum(state["tokens"]) + extra >= state["most"] else None


@breaks(SURROUNDINGS, ANY)
class CountsByHash(Budget):
    """Depends on the hash of a text."""

    def check(self, state: Any, token_ids: Any, text: str) -> Any:
        state["tokens"] += token_ids
        return (
            StopVerdict(f"budget {hash('budget') % 1_000_003}")
            if sum(state["tokens"]) >= state["most"]
            else None
        )
