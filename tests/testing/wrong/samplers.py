"""Wrong samplers without a state."""

from __future__ import annotations

import math
import random
import threading
from typing import Any

import numpy as np
from numpy import log1p

from engine_sampler.arithmetic import SELECTOR_STREAM, distances, draw64, settle, weights

from .collection import ANY, breaks
from .right import Flip, Near, Tilt

POSITION = "randomness_depends_on_the_seed_and_the_position"
DRAW = "randomness_comes_from_draw"
SURROUNDINGS = "surroundings_do_not_matter"

# --- nothing happens ---------------------------------------------------------------------------------


@breaks("parameters_change_some_row", "examples_hold", says="`apply` must write to the array")
class DoesNothing(Tilt):
    """Computes new logits and never writes them."""

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        logits = logits * np.float32(0.5)


@breaks("parameters_change_some_row", "examples_hold")
class ReturnsItsResult(Tilt):
    """Returns an array in place of changing the one that it is given."""

    def apply(self, logits: np.ndarray, rows: Any) -> Any:
        out = logits.copy()
        super().apply(out, rows)
        return out


@breaks("parameters_change_some_row", "examples_hold")
class WritesToACopy(Tilt):
    """Writes to what fancy indexing returned, which is a copy."""

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        super().apply(logits[np.arange(len(logits))], rows)


# --- libm and float sums -----------------------------------------------------------------------------


@breaks("nothing_rests_on_libm", ANY, says="with another np.exp")
class CutsBySoftmax(Near):
    """Keeps the tokens whose np.exp is heavy enough."""

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        return p >= 0.3


@breaks("nothing_rests_on_libm", ANY, says="with another np.power")
class RaisesToAPower(Tilt):
    """Uses the operator ** on the logits."""

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        alive = logits > -np.inf
        with np.errstate(all="ignore"):
            np.copyto(logits, -(np.abs(logits) ** np.float32(0.7)), where=alive)
        settle(logits, alive)


@breaks("nothing_rests_on_libm", ANY)
class RaisesAParameter(Tilt):
    """Uses the operator ** on its parameter."""

    def shift(self, rows: Any) -> np.ndarray:
        return np.sign(rows["tilt"]) * np.abs(rows["tilt"]) ** 1.5


@breaks("nothing_rests_on_libm", "examples_hold", says="with another math.log2")
class UsesTheMathModule(Tilt):
    """Calls math.log2 on its parameter."""

    def shift(self, rows: Any) -> np.ndarray:
        return np.array([math.log2(1 + abs(value)) for value in rows["tilt"].tolist()])


@breaks("nothing_rests_on_libm", "examples_hold")
class ImportsALogarithm(Tilt):
    """Calls a function that it has imported from numpy by name."""

    def shift(self, rows: Any) -> np.ndarray:
        return np.array([float(log1p(abs(value))) for value in rows["tilt"].tolist()])


@breaks("nothing_rests_on_libm", ANY)
class NormalizesByLogAddExp(Tilt):
    """Subtracts np.logaddexp.reduce."""

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        total = np.logaddexp.reduce(logits.astype(np.float64), axis=1)
        alive = logits > -np.inf
        np.copyto(logits, (logits - total[:, None]).astype(np.float32), where=alive)
        settle(logits, alive)


@breaks("nothing_rests_on_libm", "examples_hold", ANY)
class ComputesItsStateWithLibm(Tilt):
    """Computes a factor with math.exp when a request begins."""

    def new_state(self, params: Any, prompt_token_ids: np.ndarray) -> Any:
        return [math.exp(-abs(params["tilt"]))]

    def shift(self, rows: Any) -> np.ndarray:
        return np.array([state[0] for state in rows.states])


@breaks("nothing_rests_on_the_order_of_a_float_sum", ANY, says="with another np.add.reduce")
class SubtractsTheMean(Tilt):
    """Uses mean."""

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        alive = logits > -np.inf
        for row, some in zip(logits, alive, strict=True):
            row[some] -= np.float32(np.clip(row[some], -50, 50).mean())
        settle(logits, alive)


@breaks("nothing_rests_on_the_order_of_a_float_sum", ANY)
class CutsByDeviation(Near):
    """Uses std."""

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        some = [np.clip(row[row > -np.inf], -50, 50) for row in logits]
        floor = np.array([row.max() - row.std() for row in some], np.float32)
        return np.clip(logits, -50, 50) >= floor[:, None]


@breaks("nothing_rests_on_the_order_of_a_float_sum", ANY)
class SumsShares(Near):
    """Adds float32 shares in NumPy's order."""

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        w = weights(distances(logits))
        share = (w / w.sum(axis=1, keepdims=True)).astype(np.float32)
        return share * share >= np.square(share).sum(axis=1, keepdims=True) * np.float32(0.1)


@breaks("nothing_rests_on_the_order_of_a_float_sum", ANY)
class MultipliesMatrices(Near):
    """Takes a mean by a matrix product."""

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        w = weights(distances(logits)).astype(np.float64)
        gaps = np.where(w > 0, logits.max(axis=1, keepdims=True) - logits, 0).astype(np.float64)
        mean = np.array([one @ other / one.sum() for one, other in zip(w, gaps, strict=True)])
        return np.where(w > 0, gaps, np.inf) <= mean[:, None]


@breaks("nothing_rests_on_the_order_of_a_float_sum", ANY)
class UsesEinsum(Near):
    """Takes a mean with np.einsum."""

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        w = weights(distances(logits)).astype(np.float64)
        gaps = np.where(w > 0, logits.max(axis=1, keepdims=True) - logits, 0).astype(np.float64)
        mean = np.einsum("ij,ij->i", w, gaps) / w.max(axis=1) / 4
        return np.where(w > 0, gaps, np.inf) <= mean[:, None]


# --- randomness ----------------------------------------------------------------------------------------


@breaks(POSITION, DRAW)
class DrawsFromTheSeedAlone(Flip):
    """Tosses the same coin at every position."""

    def bits(self, rows: Any) -> np.ndarray:
        return draw64(rows.seed, np.zeros(len(rows), np.int64), self.stream)


@breaks(
    POSITION,
    DRAW,
    says="that have the same 16 low bits",
)
class ForgetsHighPositions(Flip):
    """Uses 16 bits of the position."""

    def bits(self, rows: Any) -> np.ndarray:
        return draw64(rows.seed, rows.position & 0xFFFF, self.stream)


@breaks(POSITION, DRAW)
class ForgetsPositionsAbove32Bits(Flip):
    """Uses 32 bits of the position."""

    def bits(self, rows: Any) -> np.ndarray:
        return draw64(rows.seed, rows.position & 0xFFFFFFFF, self.stream)


@breaks(
    POSITION,
    DRAW,
    says="differ in their high 32 bits",
)
class ForgetsHighSeeds(Flip):
    """Uses 32 bits of the seed."""

    def bits(self, rows: Any) -> np.ndarray:
        return draw64(rows.seed & np.uint64(0xFFFFFFFF), rows.position, self.stream)


@breaks(DRAW, says="not those of rows.draw")
class HasItsOwnGenerator(Flip):
    """Seeds a generator of NumPy with seed and position."""

    def bits(self, rows: Any) -> np.ndarray:
        pairs = zip(rows.seed.tolist(), rows.position.tolist(), strict=True)
        return np.array([int(np.random.default_rng(pair).integers(2**63)) << 1 for pair in pairs], np.uint64)


@breaks(DRAW)
class DrawsFromTheStreamOfTheSelector(Flip):
    """Uses the numbers with which the token is drawn."""

    def bits(self, rows: Any) -> np.ndarray:
        return draw64(rows.seed, rows.position, SELECTOR_STREAM)


@breaks("the_same_call_gives_the_same_result", ANY)
class UsesGlobalRandomness(Flip):
    """Calls np.random."""

    generator = np.random.default_rng(0)

    def bits(self, rows: Any) -> np.ndarray:
        return self.generator.integers(0, 2**64, len(rows), np.uint64, endpoint=False)


@breaks("a_row_depends_on_itself_only", ANY)
class DrawsByRowOfTheBatch(Flip):
    """Shares one generator among the rows of a batch."""

    def bits(self, rows: Any) -> np.ndarray:
        return np.random.default_rng(0).integers(0, 2**64, len(rows), np.uint64, endpoint=False)


# --- columns and rows ------------------------------------------------------------------------------------


@breaks("removed_columns_do_not_matter", ANY)
class TakesColumnsForTokens(Tilt):
    """Ignores rows.ids."""

    def ids(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        return np.arange(logits.shape[1])[None]


@breaks("removed_columns_do_not_matter", ANY)
class RaisesPaddingFromTheDead(Tilt):
    """Gives the last column, which may be padding, a finite logit."""

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        super().apply(logits, rows)
        if rows.ids is not None:
            logits[:, -1] = np.maximum(logits[:, -1], np.float32(-5))


@breaks("removed_columns_do_not_matter", ANY)
class NeedsAllColumns(Tilt):
    """Fails if columns are left out."""

    def ids(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        assert logits.shape[1] == rows.vocabulary.size
        return np.arange(logits.shape[1])[None]


@breaks("results_are_finite_or_removed", ANY)
class RemovesByOverflow(Tilt):
    """Overflows to −inf, although it claims to remove nothing."""

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        super().apply(logits, rows)
        logits *= np.float32(2)
        np.minimum(logits, np.finfo(np.float32).max, out=logits)


@breaks("a_row_depends_on_itself_only", ANY)
class UsesTheFirstRowsParameter(Tilt):
    """Applies the parameter of row 0 to all rows."""

    def shift(self, rows: Any) -> np.ndarray:
        return np.full(len(rows), rows["tilt"][0]) * (1 + rows.seed[0] % np.uint64(7))


@breaks("a_row_does_not_depend_on_the_size_of_the_batch", ANY, vocab_sizes=(17,))
class WorksOnThe128RowsOfItsBuffer(Tilt):
    """Has room for 128 rows, and drops the others."""

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        super().apply(logits[:128], rows.take(slice(0, 128)))


@breaks("the_sign_of_zero_does_not_matter", "examples_hold")
class DividesByLogits(Tilt):
    """Sees the sign of zero in 1/l."""

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        with np.errstate(all="ignore"):
            negative = (np.float32(1) / logits < 0) & (logits > -np.inf)
        logits -= negative.astype(np.float32)
        settle(logits, negative)


# --- hidden inputs ---------------------------------------------------------------------------------------


@breaks(DRAW, ANY, says="rows.draw")
class ForgetsTheHighestBitOfTheSeed(Flip):
    """Tosses no coin for seeds of 2^63 and above."""

    def bits(self, rows: Any) -> np.ndarray:
        return np.where(rows.seed >> np.uint64(63) == 1, np.uint64(0), rows.draw())


@breaks(DRAW)
class AddsTheSeed(Flip):
    """Mixes the seed into what `rows.draw` gives."""

    def bits(self, rows: Any) -> np.ndarray:
        return rows.draw() ^ rows.seed << np.uint64(40)


@breaks(SURROUNDINGS, says="in another thread")
class CountsPerThread(Tilt):
    """Is right in the main thread alone."""

    def shift(self, rows: Any) -> np.ndarray:
        in_main = threading.current_thread() is threading.main_thread()
        return rows["tilt"] * (1 if in_main else 2)


@breaks(SURROUNDINGS, says="np.errstate")
class ReadsTheErrorState(Tilt):
    """Is right if NumPy ignores overflows."""

    def shift(self, rows: Any) -> np.ndarray:
        return rows["tilt"] * (1 if np.geterr()["over"] == "ignore" else 2)


@breaks(SURROUNDINGS, ANY)
class SeedsFromTheModule(Flip):
    """Seeds its coins anew from `random`, which somebody else has seeded."""

    def bits(self, rows: Any) -> np.ndarray:
        state = hash(random.getstate()) & 0xFFFF
        return draw64(rows.seed ^ np.uint64(state), rows.position, self.stream)


@breaks(SURROUNDINGS, "examples_hold", says="in another process")
class HashesItsName(Tilt):
    """Depends on the hash of a text."""

    def shift(self, rows: Any) -> np.ndarray:
        return rows["tilt"] * (1 + hash("tilt") % 1_000_003)


@breaks(SURROUNDINGS, "examples_hold", says="in another process")
class IsWrongWithoutAssertions(Tilt):
    """Does its work in an assertion."""

    def shift(self, rows: Any) -> np.ndarray:
        values = rows["tilt"].copy()
        assert np.multiply(values, 2, out=values) is values
        return values
