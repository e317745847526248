"""Wrong selectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine_sampler.arithmetic import draw64
from engine_sampler.contract import Selection

from .collection import ANY, breaks
from .right import Last, Uniform

POSITION = "randomness_depends_on_the_seed_and_the_position"
DRAW = "randomness_comes_from_draw"
BESIDE_OTHERS = "requests_beside_others_do_as_alone"


@breaks("a_surviving_token_is_chosen", ANY, says="the choice is a token that was removed")
class ChoosesRemoved(Last):
    """Chooses the last column, even if it is removed."""

    def choose(self, row: np.ndarray, state: Any) -> int:
        return len(row) - 1


@breaks("the_same_seed_twice_gives_the_same_token", ANY, says="two equal rows of a batch")
class IgnoresTheSeed(Last):
    """Draws from a generator of its own."""

    def select(self, logits: np.ndarray, rows: Any) -> Selection:
        noise = np.random.default_rng().random(logits.shape)
        return Selection(np.where(logits > -np.inf, noise, -1).argmax(axis=1))


@breaks("a_row_depends_on_itself_only", ANY, says="between a batch and the row alone")
class DrawsByRow(Last):
    """Chooses by the row's index in the batch."""

    def select(self, logits: np.ndarray, rows: Any) -> Selection:
        alive = [np.flatnonzero(row > -np.inf) for row in logits]
        return Selection(np.array([ids[i % len(ids)] for i, ids in enumerate(alive)]))


@breaks("logits_are_only_read", ANY, says="select writes to the logits")
class WritesLogits(Last):
    """Marks the choice in the logits."""

    def select(self, logits: np.ndarray, rows: Any) -> Selection:
        selection = super().select(logits, rows)
        logits[np.arange(len(logits)), selection.columns] = 0
        return selection


@breaks("rollback_undoes_accept", says="after accept and rollback")
class KeepsCounting(Last):
    """Never rolls a token back."""

    def rollback(self, state: Any, n: int) -> None:
        pass


@breaks("a_fork_is_independent")
class SharesItsForks(Last):
    """Gives the child the parent's state."""

    def fork(self, state: Any) -> Any:
        return state


@breaks("tokens_may_arrive_in_any_portions", "a_resumed_request_continues_alike", ANY)
class CountsCalls(Last):
    """Counts calls of accept in place of tokens."""

    def accept(self, state: Any, token_ids: Any, notes: Any = ()) -> None:
        state["accepted"] += 1


@breaks("neutral_parameters_leave_it_out")
class IsAlwaysOn(Last):
    """Is chosen for requests that do not ask for it."""

    def is_active(self, params: Any) -> bool:
        return True


@breaks("examples_hold")
class HasNoExamples(Last):
    """Leaves it open what it chooses."""

    examples = ()


@breaks("examples_hold", ANY)
class IsOffByOne(Last):
    """Begins with the token before the last."""

    def choose(self, row: np.ndarray, state: Any) -> int:
        return super().choose(row, {"accepted": state["accepted"] + 1})


@breaks("the_declaration_is_sound")
class HasADeprecatedApi(Last):
    """Is made for another version of the contract."""

    api = 0


@breaks(
    POSITION,
    DRAW,
    says="its randomness uses the seed alone",
)
class DrawsFromTheSeedAlone(Uniform):
    """Draws the same at every position."""

    def bits(self, rows: Any) -> np.ndarray:
        return draw64(rows.seed, np.zeros(len(rows), np.int64), self.stream)


@breaks(POSITION, DRAW)
class ForgetsHighPositions(Uniform):
    """Uses 16 bits of the position."""

    def bits(self, rows: Any) -> np.ndarray:
        return draw64(rows.seed, rows.position & 0xFFFF, self.stream)


@breaks(DRAW)
class MixesItsOwnNumbers(Uniform):
    """Multiplies seed and position."""

    def bits(self, rows: Any) -> np.ndarray:
        mixed = rows.seed * np.uint64(0x9E3779B97F4A7C15) ^ rows.position.astype(np.uint64)
        return (mixed ^ mixed >> np.uint64(29)) * np.uint64(0xBF58476D1CE4E5B9) >> np.uint64(3)


@breaks("nothing_rests_on_libm")
class DrawsByGumbel(Uniform):
    """Adds Gumbel noise, computed with np.log."""

    def select(self, logits: np.ndarray, rows: Any) -> Selection:
        ids = np.arange(logits.shape[1])[None] if rows.ids is None else rows.ids
        u = (
            (rows.draw()[:, None] ^ ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(12)
        ) + 0.5
        noise = -np.log(-np.log(u * 2.0**-52))
        alive = logits > -np.inf
        count = alive.sum(axis=1)
        return Selection(
            (np.clip(logits, -50, 50) + np.where(alive, noise, -np.inf)).argmax(axis=1), count * 1.0
        )


@breaks("a_row_does_not_depend_on_the_size_of_the_batch")
class TakesAnotherPathForLargeBatches(Uniform):
    """From 64 rows on, chooses the best token."""

    def select(self, logits: np.ndarray, rows: Any) -> Selection:
        selection = super().select(logits, rows)
        return Selection(logits.argmax(axis=1), selection.notes) if len(logits) >= 64 else selection


@breaks("removed_columns_do_not_matter", ANY)
class ReturnsTokensForColumns(Uniform):
    """Returns ids in place of columns."""

    def select(self, logits: np.ndarray, rows: Any) -> Selection:
        selection = super().select(logits, rows)
        return Selection(
            np.minimum(rows.token_ids_at(selection.columns), logits.shape[1] - 1), selection.notes
        )


@breaks("removed_columns_do_not_matter", ANY)
class CountsRemovedColumns(Uniform):
    """Has the number of columns as a note."""

    def notes(self, count: np.ndarray, rows: Any) -> np.ndarray | None:
        return count * 0.0 + (rows.vocabulary.size if rows.ids is None else rows.ids.shape[1])


@breaks("a_surviving_token_is_chosen", ANY)
class HasInfiniteNotes(Uniform):
    """Divides by zero in its note."""

    def notes(self, count: np.ndarray, rows: Any) -> np.ndarray | None:
        return 1.0 / (count - 1)


@breaks("the_choice_is_one_of_the_candidates")
class ExplainsAnotherChoice(Uniform):
    """Reports that the best token alone may be chosen."""

    def candidates(self, logits: np.ndarray, rows: Any) -> Any:
        return logits >= logits.max(axis=1, keepdims=True), {}


@breaks("the_choice_is_one_of_the_candidates")
class WritesWhatItExplains(Uniform):
    """Cuts the logits when it is asked for its candidates."""

    def candidates(self, logits: np.ndarray, rows: Any) -> Any:
        logits[logits < 0] = -np.inf
        return logits > -np.inf, {}


@breaks("the_sign_of_zero_does_not_matter")
class SeesTheSignOfZero(Last):
    """Prefers tokens that are not negative, and takes −0 for one that is."""

    def choose(self, row: np.ndarray, state: Any) -> int:
        some = np.where(np.signbit(row), -np.inf, row)
        return super().choose(some if some.max() > -np.inf else row, state)


@breaks("inputs_are_only_read", ANY)
class WritesParameters(Last):
    """Clears its parameter."""

    def select(self, logits: np.ndarray, rows: Any) -> Selection:
        rows["last"][:] = False
        return super().select(logits, rows)


@breaks("no_input_is_kept", ANY)
class KeepsItsRows(Last):
    """Remembers the rows of the last call."""

    def select(self, logits: np.ndarray, rows: Any) -> Selection:
        self.rows = rows
        return super().select(logits, rows)


@breaks(BESIDE_OTHERS, ANY)
class DrawsOnceItHasTokens(Last):
    """Has a generator of its own, which it uses from the twentieth token on."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)

    def choose(self, row: np.ndarray, state: Any) -> int:
        more = int(self.random.integers(4)) if state["accepted"] > 24 else 0
        return super().choose(row, {"accepted": state["accepted"] + more})


@breaks(BESIDE_OTHERS, ANY)
class KeepsTheLongestOfTheBatch(Last):
    """Treats all requests like the longest, once that is long."""

    def select(self, logits: np.ndarray, rows: Any) -> Selection:
        most = max(state["accepted"] for state in rows.states)
        states = [{"accepted": most} if most > 30 else state for state in rows.states]
        return Selection(np.array([self.choose(*pair) for pair in zip(logits, states, strict=True)]))


@breaks(DRAW)
class ForgetsTheHighestBitOfTheSeed(Uniform):
    """Draws nothing for seeds of 2^63 and above."""

    def bits(self, rows: Any) -> np.ndarray:
        return np.where(rows.seed >> np.uint64(63) == 1, np.uint64(0), rows.draw())


@breaks("surroundings_do_not_matter", "examples_hold")
class HashesItsName(Last):
    """Depends on the hash of a text."""

    def choose(self, row: np.ndarray, state: Any) -> int:
        return super().choose(row, {"accepted": state["accepted"] + hash("last") % 1_000_003})


@breaks("a_row_does_not_depend_on_the_size_of_the_batch", ANY, says="in a batch of 520 rows")
class HasRoomFor300Rows(Last):
    """Chooses the best token from row 300 on."""

    def select(self, logits: np.ndarray, rows: Any) -> Selection:
        columns = super().select(logits, rows).columns
        columns[300:] = logits[300:].argmax(axis=1)
        return Selection(columns)
