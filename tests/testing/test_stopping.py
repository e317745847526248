"""The kit of stopping criteria finds violations, and names them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from engine_sampler.contract import (
    Param,
    StoppingCriteria,
    StopVerdict,
    TextCriteria,
    TextMatch,
    TextMatcher,
    Watch,
)
from engine_sampler.testing import StoppingContract, failing_laws


class Budget(StoppingCriteria):
    """Ends an output when the sum of its token ids reaches `budget`: correct, and not registered."""

    name = "budget"
    params = (Param("budget", int, None, low=0),)

    def new_state(self, params: Mapping[str, Any], prompt_token_ids: Any, vocabulary: Any) -> dict[str, Any]:
        return {"most": params["budget"], "tokens": []}

    def check(self, state: dict[str, Any], token_ids: Sequence[int], text: str) -> StopVerdict | None:
        state["tokens"] += token_ids
        return StopVerdict("budget", "length") if sum(state["tokens"]) >= state["most"] else None

    def rollback(self, state: dict[str, Any], n: int) -> None:
        del state["tokens"][len(state["tokens"]) - n :]


class Letter(TextMatcher):
    """Finds one letter."""

    start = 0

    def __init__(self, letter: str) -> None:
        self.letter = letter

    def advance(self, state: int, data: bytes) -> tuple[int, TextMatch | None]:
        at = data.find(self.letter.encode())
        return 0, None if at < 0 else TextMatch(at + 1, at, self.letter)

    def held(self, state: int) -> int:
        return 0


class AtLetter(TextCriteria):
    """Ends an output at a letter."""

    name = "letter"
    params = (Param("letter", str, ""),)

    def matcher(self, params: Mapping[str, Any], vocabulary: Any) -> TextMatcher:
        return Letter(params["letter"])


def laws_broken_by(criterion: StoppingCriteria, **attributes: Any) -> dict[str, str]:
    own = {"params": [{"budget": 60}, {"budget": 150}]} if isinstance(criterion, Budget) else LETTER
    return failing_laws(type("Kit", (StoppingContract,), {"criterion": criterion, **own, **attributes}))


LETTER = {"params": [{"letter": "a"}, {"letter": "0"}]}


@pytest.mark.parametrize("criterion", [Budget(), AtLetter()], ids=lambda c: c.name)
def test_a_correct_criterion_passes_without_being_registered(criterion: StoppingCriteria) -> None:
    assert laws_broken_by(criterion) == {}


class IsAlwaysOn(Budget):
    """Runs for requests that do not set its parameter."""

    def is_active(self, params: Any, vocabulary: Any) -> bool:
        return True


class IsNeverOn(Budget):
    """Never runs."""

    def is_active(self, params: Any, vocabulary: Any) -> bool:
        return False


class NeverEnds(Budget):
    """Has no verdict."""

    def check(self, state: Any, token_ids: Any, text: str) -> None:
        return None


class ReturnsABool(Budget):
    """Returns True in place of a verdict."""

    def check(self, state: Any, token_ids: Any, text: str) -> Any:
        return super().check(state, token_ids, text) is not None


class InventsAReason(Budget):
    """Returns an unknown finish_reason."""

    def check(self, state: Any, token_ids: Any, text: str) -> StopVerdict | None:
        return super().check(state, token_ids, text) and StopVerdict("budget", "poor")


class SharesItsState(Budget):
    """Keeps one list for all requests."""

    shared: list[int] = []

    def new_state(self, params: Any, prompt_token_ids: Any, vocabulary: Any) -> dict[str, Any]:
        return {"most": params["budget"], "tokens": self.shared}

    def check(self, state: Any, token_ids: Any, text: str) -> StopVerdict | None:
        before = sum(self.shared) // state["most"]
        super().check(state, token_ids, text)
        return StopVerdict("budget") if sum(self.shared) // state["most"] > before else None


class SeesOnlyTheLast(Budget):
    """Forgets all but the last of several tokens."""

    def check(self, state: Any, token_ids: Any, text: str) -> StopVerdict | None:
        return super().check(state, token_ids[-1:], text)


class ForgetsNothing(Budget):
    """Does not roll back."""

    def rollback(self, state: Any, n: int) -> None:
        pass


class ForksByReference(Budget):
    """Returns the same state for the fork."""

    def fork(self, state: Any) -> Any:
        return state


class WatchesTooLate(Budget):
    """Watches an output length that may be beyond its end."""

    def watch(self, params: Any, prompt_token_ids: Any, vocabulary: Any) -> Watch:
        return Watch(output_length=24)


class CutsTooMuch(AtLetter):
    """Finds its letter, and cuts text that is already out."""

    def matcher(self, params: Any, vocabulary: Any) -> TextMatcher:
        class Early(Letter):
            def advance(self, state: int, data: bytes) -> tuple[int, TextMatch | None]:
                _, match = super().advance(state, data)
                return 0, match and match._replace(text_end=match.text_end - 2)

        return Early(params["letter"])


class WritesToItsInput(Budget):
    """Changes the arrays it is called with."""

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> np.ndarray:
        input_ids[:, -1] = 0
        return np.zeros(len(input_ids), bool)


class DependsOnOtherRows(Budget):
    """Ends all rows when one ends."""

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> np.ndarray:
        return np.full(len(input_ids), (np.asarray(input_ids) == 3).any())


class ReturnsAList(Budget):
    """Returns a list of bools."""

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        return [False] * len(input_ids)


PORTIONS = "test_tokens_may_arrive_in_any_portions"
ALONE = "test_rows_are_answered_one_by_one"


@pytest.mark.parametrize(
    ("criterion", "law"),
    [
        (IsAlwaysOn(), "test_parameters_turn_it_on"),
        (IsNeverOn(), "test_parameters_turn_it_on"),
        (NeverEnds(), "test_some_outputs_end_by_it_and_with_a_reason"),
        (ReturnsABool(), "test_some_outputs_end_by_it_and_with_a_reason"),
        (InventsAReason(), "test_some_outputs_end_by_it_and_with_a_reason"),
        (SharesItsState(), "test_the_same_tokens_get_the_same_verdict"),
        (SeesOnlyTheLast(), PORTIONS),
        (ForgetsNothing(), "test_rollback_undoes_check"),
        (ForksByReference(), "test_a_fork_is_independent"),
        (WatchesTooLate(), "test_a_watch_misses_nothing"),
        (CutsTooMuch(), "test_a_scheduler_ends_the_request_with_that_token"),
        (WritesToItsInput(), ALONE),
        (DependsOnOtherRows(), ALONE),
        (ReturnsAList(), ALONE),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, StoppingCriteria) else "",
)
def test_a_wrong_criterion_is_caught_by_the_law_it_breaks(criterion: StoppingCriteria, law: str) -> None:
    called = {"called": criterion} if law == ALONE else {}
    assert law in laws_broken_by(criterion, **called)
