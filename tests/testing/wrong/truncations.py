"""Wrong truncations."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine_sampler.arithmetic import distances, weights
from engine_sampler.contract import Example, Param

from .collection import ANY, breaks
from .right import Near

COLUMNS = "keep_columns_agrees_with_keep"
SIZE = "a_row_does_not_depend_on_the_size_of_the_batch"


@breaks("removed_tokens_stay_removed", ANY, says="was removed before and is back")
class Resurrects(Near):
    """Sets what it drops to a low logit, and what was removed as well."""

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        np.maximum(logits, np.float32(-100), out=logits)


@breaks("a_token_is_left", ANY, says="no token is left")
class KeepsNothing(Near):
    """Drops the best token too."""

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        return super().keep(logits, rows) & (logits < logits.max(axis=1, keepdims=True))


@breaks("a_row_depends_on_itself_only", ANY, says="between a batch and the row alone")
class ReadsOtherRows(Near):
    """Takes the best logit of the whole batch."""

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        mask = logits >= logits.max() - rows["near"][:, None]
        mask[np.arange(len(mask)), logits.argmax(axis=1)] = True
        return mask


@breaks("the_best_token_stays_the_best_if_claimed", ANY, says="the best token changes")
class LiesAboutArgmax(Near):
    """Keeps the last of equal tokens, although it claims that the best token stays."""

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        super().apply(logits, rows)
        logits[logits < logits.max(axis=1, keepdims=True)] = -np.inf
        last = logits.shape[1] - 1 - logits[:, ::-1].argmax(axis=1)
        rest = logits.max(axis=1)
        logits[:] = -np.inf
        logits[np.arange(len(logits)), last] = rest


@breaks("the_same_call_gives_the_same_result", ANY, says="when the call is repeated")
class IsNotDeterministic(Near):
    """Counts its calls."""

    calls = 0

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        self.calls += 1
        mask = super().keep(logits, rows)
        return mask if self.calls % 2 else logits >= logits.max(axis=1, keepdims=True)


@breaks("a_row_depends_on_itself_only", ANY)
class CachesByShape(Near):
    """Keeps its first result for every later batch of the same shape."""

    def __init__(self) -> None:
        self.masks: dict[Any, np.ndarray] = {}

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        return self.masks.setdefault(logits.shape, super().keep(logits, rows))


@breaks("removed_columns_do_not_matter", ANY, says="when removed columns are left out")
class IsWrongOnSubsets(Near):
    """Depends on the number of columns."""

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        floor = logits.max(axis=1) - np.float32(logits.shape[1])
        return logits >= floor[:, None]


@breaks("removed_columns_do_not_matter", ANY, says="columns are left out")
class ConfusesColumnsWithIds(Near):
    """Treats column 0 as token 0."""

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        mask = super().keep(logits, rows)
        mask[:, 0] = True
        return mask


@breaks("removed_columns_do_not_matter", ANY, vocab_sizes=(300,))
class SortsTiesAtRandom(Near):
    """Keeps the first half in the order of an unstable sort."""

    argmax_invariant = False

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        order = np.argsort(-logits, axis=1)
        half = ((logits > -np.inf).sum(axis=1) + 1) // 2
        mask = np.zeros(logits.shape, bool)
        np.put_along_axis(mask, order, np.arange(logits.shape[1]) < half[:, None], axis=1)
        return mask


@breaks("removed_columns_do_not_matter", ANY)
class AveragesAllColumns(Near):
    """Divides by the number of columns, removed ones included."""

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        gaps = np.rint(np.clip(logits.max(axis=1, keepdims=True) - logits, 0, 99))
        return gaps <= gaps.sum(axis=1, keepdims=True) / logits.shape[1]


@breaks(
    "neutral_values_change_nothing",
    ANY,
    says="if they have no meaning in `apply`, set apply_at_neutral = False",
)
class ChangesAtNeutral(Near):
    """Treats a neutral −1 as 1."""

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        near = np.abs(rows["near"]).astype(np.float32)
        return logits >= (logits.max(axis=1) - near)[:, None]


@breaks("neutral_parameters_leave_it_out", says="although no parameter turns it on")
class IsAlwaysOn(Near):
    """Runs for requests that do not set its parameter."""

    def is_active(self, params: Any) -> bool:
        return True


@breaks("params_turn_it_on", "extreme_parameters_work", says="leaves it off")
class IsNeverOn(Near):
    """Never runs."""

    def is_active(self, params: Any) -> bool:
        return False


@breaks("results_are_finite_or_removed", ANY, says="becomes NaN")
class MakesNaN(Near):
    """Subtracts −inf from −inf."""

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        super().apply(logits, rows)
        logits -= logits.min(axis=1, keepdims=True)


@breaks("results_are_finite_or_removed", ANY, says="becomes infinite")
class Overflows(Near):
    """Doubles the best logit without a limit."""

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        super().apply(logits, rows)
        logits *= 2


@breaks("inputs_are_only_read", ANY, says="writes to parameter near")
class WritesParameters(Near):
    """Clears its parameter when it is done."""

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        mask = super().keep(logits, rows)
        rows["near"][:] = 0
        return mask


@breaks("inputs_are_only_read", ANY, says="writes to the history of row")
class WritesHistories(Near):
    """Clears the histories."""

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        for i in range(len(rows)):
            rows.token_ids(i)[:] = 0
        return super().keep(logits, rows)


@breaks("no_input_is_kept", says="keeps a reference to near")
class KeepsReferences(Near):
    """Remembers the parameters of the last call."""

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        self.near = rows["near"]
        return super().keep(logits, rows)


@breaks("keep_agrees_with_apply_and_only_reads", ANY, says="keep writes to the logits")
class KeepWrites(Near):
    """Removes tokens, although it should only return a mask."""

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        mask = super().keep(logits, rows)
        logits[~mask] = -np.inf
        return mask


@breaks("keep_agrees_with_apply_and_only_reads", ANY)
class AppliesMoreThanItKeeps(Near):
    """Removes in `apply` what `keep` reports as kept."""

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        super().apply(logits, rows)
        logits[logits < logits.max(axis=1, keepdims=True)] = -np.inf


@breaks("examples_hold", says="not (3.0, 2.0, 0.0)")
class HasAWrongExample(Near):
    """Declares another result."""

    examples = (Example((3.0, 2.0, 0.0), {"near": 1.5}, (3.0, 2.0, 0.0)),)


@breaks("examples_hold", says="declare at least one Example")
class HasNoExamples(Near):
    """Leaves it open what its formula is."""

    examples = ()


@breaks("examples_hold")
class CutsTheBoundary(Near):
    """Drops the token that is exactly at the boundary: an off-by-one."""

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        near = rows["near"].astype(np.float32)
        floor = np.where(near < 0, np.float32(-np.inf), logits.max(axis=1) - near)[:, None]
        return (logits > floor) | (logits == logits.max(axis=1, keepdims=True)) | (near < 0)[:, None]


@breaks("extreme_parameters_work", ANY, says="params {'near': 0.0, 'far': 0}")
class HasABadBound(Near):
    """Divides by its parameter, whose lower bound is 0."""

    params = (Param("near", float, neutral=-1.0, low=-1, high=1e6), Param("far", float, 1.0, low=0, high=2))

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        alive = logits > -np.inf
        np.divide(logits, rows["far"].astype(np.float32)[:, None], out=logits, where=alive)
        np.minimum(logits, np.finfo(np.float32).max, out=logits)


@breaks("the_declaration_is_sound", ANY, says="near=-1.0 is not allowed")
class HasABadNeutralValue(Near):
    """Its neutral value is outside its bounds."""

    params = (Param("near", float, neutral=-1.0, low=0, high=1e6),)


@breaks("the_declaration_is_sound")
class HasAnotherApi(Near):
    """Is made for another version of the contract."""

    api = 99


@breaks(SIZE, ANY, says="in a batch of 64 rows", vocab_sizes=(17,))
class TakesAnotherPathForLargeBatches(Near):
    """From 64 rows on, keeps the best token alone."""

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        if len(logits) >= 64:
            return logits >= logits.max(axis=1, keepdims=True)
        return super().keep(logits, rows)


@breaks(SIZE, vocab_sizes=(17,))
class ForgetsTheRestOfABlock(Near):
    """Works on blocks of four rows, and leaves what remains of an odd batch as it is."""

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        mask = super().keep(logits, rows)
        rest = len(logits) % 4 if 4 < len(logits) < 24 else 0
        mask[len(logits) - rest :] = True
        return mask


@breaks(
    SIZE,
    ANY,
    says="when other requests sit out the step",
    vocab_sizes=(17,),
)
class TakesRowsForSlots(Near):
    """Reads the parameters of slots 0, 1, …, whichever requests take part in the step."""

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        near = rows.slots.column("near")[: len(logits)].astype(np.float32)
        floor = np.where(near < 0, np.float32(-np.inf), logits.max(axis=1) - near)
        return logits >= floor[:, None]


@breaks("the_sign_of_zero_does_not_matter", ANY, says="when zeros have another sign")
class SeesTheSignOfZero(Near):
    """Drops negative tokens, and takes −0 for one."""

    argmax_invariant = False

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        mask = super().keep(logits, rows) & ~np.signbit(logits)
        mask[np.arange(len(mask)), logits.argmax(axis=1)] = True
        return mask


@breaks("parameters_change_some_row", "examples_hold")
class KeepsEverything(Near):
    """Compares with itself."""

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        return logits >= logits


class Columns(Near):
    """Right: finds the few columns of a wide row without a mask."""

    def keep_columns(self, row: np.ndarray, rows: Any) -> np.ndarray | None:
        return np.flatnonzero(self.keep(row[None], rows)[0])


@breaks(COLUMNS, says="ascending")
class GivesColumnsFromTheBest(Columns):
    """Reports the columns of a wide row by their logits, not ascending."""

    def keep_columns(self, row: np.ndarray, rows: Any) -> np.ndarray | None:
        columns = super().keep_columns(row, rows)
        assert columns is not None
        return columns[np.argsort(-row[columns], kind="stable")]


@breaks(COLUMNS)
class KeepsFewerColumnsThanItsMask(Columns):
    """Leaves out the last column of several."""

    def keep_columns(self, row: np.ndarray, rows: Any) -> np.ndarray | None:
        columns = super().keep_columns(row, rows)
        assert columns is not None
        return columns[: max(1, len(columns) - 1)]


@breaks(COLUMNS)
class HasNoColumnsForWideRows(Columns):
    """Gives a mask where the row is wide."""

    def keep_columns(self, row: np.ndarray, rows: Any) -> Any:
        return self.keep(row[None], rows)[0] if len(row) > 30_000 else None


@breaks("removed_columns_do_not_matter", ANY)
class KeepsTheBestOfLargeVocabularies(Near):
    """From 20,000 columns on, keeps the best token alone."""

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        if logits.shape[1] > 20_000:
            return logits >= logits.max(axis=1, keepdims=True)
        return super().keep(logits, rows)


@breaks("no_integer_overflows", says="overflows")
class SquaresWeights(Near):
    """Keeps what weighs at least the sum of the squared weights, in int64: eight ties are too many."""

    argmax_invariant = False
    examples = (Example((0.0, 0.0, -9.0), {"near": 1.0}, (0.0, 0.0, -np.inf)),)

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        w = weights(distances(logits))
        squares, total = (w * w).sum(axis=1), w.sum(axis=1)
        cut = np.minimum(np.maximum(squares, 0) // total, w.max(axis=1))
        return (w >= cut[:, None]) | (rows["near"] < 0)[:, None]


@breaks("surroundings_do_not_matter", ANY, says="objects more after 24 equal calls")
class KeepsWhatItSees(Near):
    """Keeps every array that it is given."""

    def __init__(self) -> None:
        self.seen: list[np.ndarray] = []

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        self.seen.append(logits.copy())
        return super().keep(logits, rows)


@breaks("surroundings_do_not_matter", says="near prints 'kept")
class PrintsWhatItKeeps(Near):
    """Prints at every call."""

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        print("kept", np.array_equal(logits, logits))
        return super().keep(logits, rows)
