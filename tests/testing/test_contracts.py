"""The contract kits find violations, and name them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine_sampler.contract import Example, Param, ParameterError, Sampler, Selection, Selector, Truncation
from engine_sampler.params import SamplingParams
from engine_sampler.registry import default_registry
from engine_sampler.testing import SamplerContract, SelectorContract, apply_sampler, failing_laws, select


class Near(Truncation):
    """Keep the tokens at most `near` below the best: a correct sampler, which is not registered."""

    name = "near"
    params = (Param("near", float, neutral=-1.0, low=-1, high=1e6),)
    argmax_invariant = True
    examples = (Example((3.0, 2.0, 0.0), {"near": 1.5}, (3.0, 2.0, -np.inf)),)

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        near = rows["near"].astype(np.float32)
        floor = np.where(near < 0, np.float32(-np.inf), logits.max(axis=1) - near)
        return logits >= floor[:, None]


class Streak(Sampler):
    """Lower the last accepted token by `streak` for each time in a row, counted in a state."""

    name = "streak"
    role = "penalty"
    params = (Param("streak", float, neutral=0.0, low=0, high=1e6),)
    examples = (Example((1.0, 1.0), {"streak": 0.5}, (1.0, 0.0), output_token_ids=(0, 1, 1)),)

    def new_state(self, params: Any, prompt_token_ids: np.ndarray) -> list[int]:
        return []

    def accept(self, state: list[int], token_ids: Any) -> None:
        state.extend(token_ids)

    def rollback(self, state: list[int], n: int) -> None:
        del state[len(state) - n :]

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        for i, state in enumerate(rows.states):
            if state:
                columns, _ = rows.columns(i, np.array(state[-1:]))
                logits[i, columns] -= np.float32(rows["streak"][i] * self.length(state))
                np.maximum(logits[i], -np.finfo(np.float32).max, out=logits[i], where=logits[i] > -np.inf)

    def length(self, state: list[int]) -> int:
        return next((n for n, t in enumerate(reversed(state)) if t != state[-1]), len(state))


class Last(Selector):
    """Choose the last surviving token, or after each accepted token the one before."""

    name = "last"
    params = (Param("last", bool, neutral=False),)
    examples = (Example((0.0, 1.0, -np.inf), {"last": True}, token=1),)

    def new_state(self, params: Any, prompt_token_ids: np.ndarray) -> dict[str, int]:
        return {"accepted": 0}

    def accept(self, state: dict[str, int], token_ids: Any, notes: Any = ()) -> None:
        state["accepted"] += len(token_ids)

    def rollback(self, state: dict[str, int], n: int) -> None:
        state["accepted"] -= n

    def select(self, logits: np.ndarray, rows: Any) -> Selection:
        return Selection(np.array([self.choose(*pair) for pair in zip(logits, rows.states, strict=True)]))

    def choose(self, row: np.ndarray, state: dict[str, int]) -> int:
        alive = np.flatnonzero(row > -np.inf)
        return int(alive[-1 - state["accepted"] % len(alive)])


NEAR = {"params": [{"near": 0.0}, {"near": 2.5}]}
STREAK = {"params": [{"streak": 0.75}], "removes": False}


def laws_broken_by(part: Sampler | Selector, **attributes: Any) -> dict[str, str]:
    base: Any = SelectorContract if isinstance(part, Selector) else SamplerContract
    role = "selector" if isinstance(part, Selector) else "sampler"
    return failing_laws(type("Kit", (base,), {role: part, **attributes}))


@pytest.mark.parametrize(
    ("part", "attributes"), [(Near(), NEAR), (Streak(), STREAK), (Last(), {"params": [{"last": True}]})]
)
def test_a_correct_part_passes_without_being_registered(part: Any, attributes: Any) -> None:
    assert laws_broken_by(part, **attributes) == {}
    assert part.name not in default_registry().catalogue.params


# --- wrong truncations ---------------------------------------------------------------------------


class Resurrects(Near):
    """Sets what it drops to a low logit, and what was removed as well."""

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        np.maximum(logits, np.float32(-100), out=logits)


class KeepsNothing(Near):
    """Drops the best token too."""

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        return super().keep(logits, rows) & (logits < logits.max(axis=1, keepdims=True))


class ReadsOtherRows(Near):
    """Takes the best logit of the whole batch."""

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        mask = logits >= logits.max() - rows["near"][:, None]
        mask[np.arange(len(mask)), logits.argmax(axis=1)] = True
        return mask


class LiesAboutArgmax(Near):
    """Keeps the last of equal tokens, although it claims that the best token stays."""

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        super().apply(logits, rows)
        logits[logits < logits.max(axis=1, keepdims=True)] = -np.inf
        last = logits.shape[1] - 1 - logits[:, ::-1].argmax(axis=1)
        rest = logits.max(axis=1)
        logits[:] = -np.inf
        logits[np.arange(len(logits)), last] = rest


class IsNotDeterministic(Near):
    """Counts its calls."""

    calls = 0

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        self.calls += 1
        mask = super().keep(logits, rows)
        return mask if self.calls % 2 else logits >= logits.max(axis=1, keepdims=True)


class IsWrongOnSubsets(Near):
    """Depends on the number of columns."""

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        floor = logits.max(axis=1) - np.float32(logits.shape[1])
        return logits >= floor[:, None]


class ConfusesColumnsWithIds(Near):
    """Treats column 0 as token 0."""

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        mask = super().keep(logits, rows)
        mask[:, 0] = True
        return mask


class ChangesAtNeutral(Near):
    """Treats a neutral −1 as 1."""

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        near = np.abs(rows["near"]).astype(np.float32)
        return logits >= (logits.max(axis=1) - near)[:, None]


class IsAlwaysOn(Near):
    """Runs for requests that do not set its parameter."""

    def is_active(self, params: Any) -> bool:
        return True


class IsNeverOn(Near):
    """Never runs."""

    def is_active(self, params: Any) -> bool:
        return False


class MakesNaN(Near):
    """Subtracts −inf from −inf."""

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        super().apply(logits, rows)
        logits -= logits.min(axis=1, keepdims=True)


class Overflows(Near):
    """Doubles the best logit without a limit."""

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        super().apply(logits, rows)
        logits *= 2


class WritesParameters(Near):
    """Clears its parameter when it is done."""

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        mask = super().keep(logits, rows)
        rows["near"][:] = 0
        return mask


class WritesHistories(Near):
    """Clears the histories."""

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        for i in range(len(rows)):
            rows.token_ids(i)[:] = 0
        return super().keep(logits, rows)


class KeepsReferences(Near):
    """Remembers the parameters of the last call."""

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        self.near = rows["near"]
        return super().keep(logits, rows)


class KeepWrites(Near):
    """Removes tokens, although it should only return a mask."""

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        mask = super().keep(logits, rows)
        logits[~mask] = -np.inf
        return mask


class HasAWrongExample(Near):
    """Declares another result."""

    examples = (Example((3.0, 2.0, 0.0), {"near": 1.5}, (3.0, 2.0, 0.0)),)


class HasABadBound(Near):
    """Divides by its parameter, whose lower bound is 0."""

    params = (Param("near", float, neutral=-1.0, low=-1, high=1e6), Param("far", float, 1.0, low=0, high=2))

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        alive = logits > -np.inf
        np.divide(logits, rows["far"].astype(np.float32)[:, None], out=logits, where=alive)
        np.minimum(logits, np.finfo(np.float32).max, out=logits)


class HasABadNeutralValue(Near):
    """Its neutral value is outside its bounds."""

    params = (Param("near", float, neutral=-1.0, low=0, high=1e6),)


@pytest.mark.parametrize(
    ("wrong", "law", "message"),
    [
        (Resurrects, "test_removed_tokens_stay_removed", "was removed before and is back"),
        (KeepsNothing, "test_a_token_is_left", "no token is left"),
        (ReadsOtherRows, "test_a_row_depends_on_itself_only", "between a batch and the row alone"),
        (LiesAboutArgmax, "test_the_best_token_stays_the_best_if_claimed", "the best token changes"),
        (IsNotDeterministic, "test_the_same_call_gives_the_same_result", "when the call is repeated"),
        (IsWrongOnSubsets, "test_removed_columns_do_not_matter", "when removed columns are left out"),
        (ConfusesColumnsWithIds, "test_removed_columns_do_not_matter", "columns are left out"),
        (ChangesAtNeutral, "test_neutral_values_change_nothing", "differs from the input at neutral values"),
        (IsAlwaysOn, "test_neutral_parameters_leave_it_out", "although no parameter turns it on"),
        (IsNeverOn, "test_params_turn_it_on", "leaves it off"),
        (MakesNaN, "test_results_are_finite_or_removed", "becomes NaN"),
        (Overflows, "test_results_are_finite_or_removed", "becomes infinite"),
        (WritesParameters, "test_inputs_are_only_read", "writes to parameter near"),
        (WritesHistories, "test_inputs_are_only_read", "writes to the history of row"),
        (KeepsReferences, "test_no_input_is_kept", "keeps a reference to near"),
        (KeepWrites, "test_keep_agrees_with_apply_and_only_reads", "keep writes to the logits"),
        (HasAWrongExample, "test_examples_hold", "not (3.0, 2.0, 0.0)"),
        (HasABadBound, "test_extreme_parameters_work", "params {'near': 0.0, 'far': 0}"),
        (HasABadNeutralValue, "test_the_declaration_is_sound", "near=-1.0 is not allowed"),
    ],
)
def test_a_wrong_truncation_breaks_its_law(wrong: type[Near], law: str, message: str) -> None:
    broken = laws_broken_by(wrong(), **NEAR, vocab_sizes=(2, 17))
    assert message in broken.get(law, f"nothing broken but {sorted(broken)}")


# --- wrong states --------------------------------------------------------------------------------


class IgnoresRollback(Streak):
    """Never rolls a token back."""

    def rollback(self, state: list[int], n: int) -> None:
        pass


class RollsBackAllForNone(Streak):
    """Makes the mistake of `del state[-0:]`."""

    def rollback(self, state: list[int], n: int) -> None:
        del state[-n:]


class SharesForks(Streak):
    """Gives the child the parent's own list."""

    def fork(self, state: list[int]) -> list[int]:
        return state


class ForgetsForks(Streak):
    """Starts the child from scratch."""

    def fork(self, state: list[int]) -> list[int]:
        return []


class AcceptsTheFirstOnly(Streak):
    """Ignores that several tokens may arrive at once."""

    def accept(self, state: list[int], token_ids: Any) -> None:
        state.append(token_ids[0])


class AppliesTwice(Streak):
    """Counts applications instead of accepted tokens."""

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        super().apply(logits, rows)
        for state in rows.states:
            state.extend(state[-1:])


class Removes(Streak):
    """Overflows to −inf where it should stop at the lowest float."""

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        super().apply(logits, rows)
        logits *= np.float32(2)
        np.minimum(logits, np.finfo(np.float32).max, out=logits)


@pytest.mark.parametrize(
    ("wrong", "law", "message"),
    [
        (IgnoresRollback, "test_rollback_undoes_accept", "after accept and rollback"),
        (RollsBackAllForNone, "test_rollback_undoes_accept", "after accept and rollback"),
        (SharesForks, "test_a_fork_is_independent", "after a fork continued"),
        (ForgetsForks, "test_a_fork_is_independent", "differs in a fork"),
        (AcceptsTheFirstOnly, "test_tokens_may_arrive_in_any_portions", "when tokens arrive together"),
        (AcceptsTheFirstOnly, "test_a_resumed_request_continues_alike", "when the output is given at once"),
        (AppliesTwice, "test_the_same_call_gives_the_same_result", "when the call is repeated"),
        (Removes, "test_results_are_finite_or_removed", "by a sampler that removes nothing"),
    ],
)
def test_a_wrong_state_breaks_its_law(wrong: type[Streak], law: str, message: str) -> None:
    broken = laws_broken_by(wrong(), **STREAK, vocab_sizes=(2, 17))
    assert message in broken.get(law, f"nothing broken but {sorted(broken)}")


# --- wrong selectors -----------------------------------------------------------------------------


class ChoosesRemoved(Last):
    """Chooses the last column, even if it is removed."""

    def choose(self, row: np.ndarray, state: dict[str, int]) -> int:
        return len(row) - 1


class IgnoresTheSeed(Last):
    """Draws from a generator of its own."""

    def select(self, logits: np.ndarray, rows: Any) -> Selection:
        noise = np.random.default_rng().random(logits.shape)
        return Selection(np.where(logits > -np.inf, noise, -1).argmax(axis=1))


class DrawsByRow(Last):
    """Chooses by the row's index in the batch."""

    def select(self, logits: np.ndarray, rows: Any) -> Selection:
        alive = [np.flatnonzero(row > -np.inf) for row in logits]
        return Selection(np.array([ids[i % len(ids)] for i, ids in enumerate(alive)]))


class WritesLogits(Last):
    """Marks the choice in the logits."""

    def select(self, logits: np.ndarray, rows: Any) -> Selection:
        selection = super().select(logits, rows)
        logits[np.arange(len(logits)), selection.columns] = 0
        return selection


class KeepsCounting(Last):
    """Never rolls a token back."""

    def rollback(self, state: dict[str, int], n: int) -> None:
        pass


@pytest.mark.parametrize(
    ("wrong", "law", "message"),
    [
        (ChoosesRemoved, "test_a_surviving_token_is_chosen", "the choice is a token that was removed"),
        (IgnoresTheSeed, "test_the_same_seed_twice_gives_the_same_token", "two equal rows of a batch"),
        (DrawsByRow, "test_a_row_depends_on_itself_only", "between a batch and the row alone"),
        (WritesLogits, "test_logits_are_only_read", "select writes to the logits"),
        (KeepsCounting, "test_rollback_undoes_accept", "after accept and rollback"),
    ],
)
def test_a_wrong_selector_breaks_its_law(wrong: type[Last], law: str, message: str) -> None:
    broken = laws_broken_by(wrong(), params=[{"last": True}], vocab_sizes=(2, 17))
    assert message in broken.get(law, f"nothing broken but {sorted(broken)}")


# --- the kit itself ------------------------------------------------------------------------------


def test_a_message_names_the_token_the_row_and_the_parameters() -> None:
    broken = laws_broken_by(Resurrects(), params=[{"near": 2.5}], vocab_sizes=[17])
    assert broken["test_removed_tokens_stay_removed"] == (
        "token 0 was removed before and is back, in row 6 of 12: "
        "half removed, vocabulary 17, params {'near': 2.5}"
    )


def test_a_kit_without_parameters_to_try_fails() -> None:
    assert "no params to try" in laws_broken_by(Near())["test_a_token_is_left"]


def test_a_sampler_that_raises_fails_with_its_error() -> None:
    class Raises(Near):
        def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
            raise IndexError("one beyond the end")

    assert laws_broken_by(Raises(), **NEAR)["test_a_token_is_left"] == "IndexError('one beyond the end')"


def test_apply_sampler_takes_plain_parameters_and_sampling_params_alike() -> None:
    top_k = default_registry().catalogue.samplers["top_k"]
    row = [1.0, 3.0, 2.0]
    assert np.array_equal(
        apply_sampler(top_k, row, {"top_k": 1}), apply_sampler(top_k, row, SamplingParams(top_k=1))
    )


def test_select_takes_a_selector_that_is_not_registered() -> None:
    assert select(Last(), [[0.0, 1.0], [0.0, -np.inf]], {"last": True}).columns.tolist() == [1, 0]


def test_a_parameter_without_an_owner_is_refused() -> None:
    with pytest.raises(ParameterError, match="'nearer' is neither registered nor a parameter of near"):
        apply_sampler(Near(), [1.0, 2.0], {"nearer": 1.0})


def test_every_row_may_have_parameters_of_its_own() -> None:
    result = apply_sampler(Near(), [[1.0, 3.0], [1.0, 3.0]], [{"near": 1.0}, {"near": 2.0}])
    assert result.tolist() == [[-np.inf, 3.0], [1.0, 3.0]]
