"""Wrong matchers."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from engine_sampler import UnfinishedError
from engine_sampler.contract import Work, spending

from .collection import ANY, breaks
from .right import EOS, PIECES, BoundedSteps, Steps

MASK = "the_mask_is_what_accept_takes"
ROLLBACK = "rollback_undoes_accept"
FORK = "a_fork_is_independent"
PARTS = "little_work_at_a_time_changes_no_result"


@breaks(MASK, ANY, says="which the mask allows")
class AllowsTooMuch(Steps):
    """Allows tokens whose first byte fits, whatever follows."""

    def allows(self, token_id: int) -> bool:
        if token_id == EOS or self.is_terminated():
            return super().allows(token_id)
        return self.after(PIECES[token_id][:1]) is not None


@breaks(MASK, ANY)
class AllowsTooLittle(Steps):
    """Allows tokens of one byte alone."""

    def allows(self, token_id: int) -> bool:
        return super().allows(token_id) and (token_id == EOS or len(PIECES[token_id]) == 1)


@breaks(MASK, ANY)
class IsOneTokenOff(Steps):
    """Sets the bit of the next token."""

    def allows(self, token_id: int) -> bool:
        return super().allows((token_id + 1) % len(PIECES))


@breaks(MASK, ANY)
class HasAStaleMask(Steps):
    """Fills the mask of the state before the last."""

    def allows(self, token_id: int) -> bool:
        if len(self.states) < 2 or self.is_terminated():
            return super().allows(token_id)
        trial = self.fork()
        Steps.rollback(trial, 1)
        return Steps.allows(trial, token_id)


@breaks("a_refused_token_changes_nothing", ANY)
class AdvancesOnRefusal(Steps):
    """Goes on as far as a refused token fits."""

    def accept(self, token_id: int) -> bool:
        if super().accept(token_id):
            return True
        if 0 <= token_id < EOS and not self.is_terminated():
            first = self.after(PIECES[token_id][:1])
            if first is not None:
                self.states[-1] = first
        return False


@breaks("a_refused_token_changes_nothing")
class TakesNegativeIds(Steps):
    """Takes −1 for the last token."""

    def accept(self, token_id: int) -> bool:
        return super().accept(token_id % len(PIECES))


@breaks("a_refused_token_changes_nothing", "validate_counts_the_tokens_that_follow")
class RaisesForUnknownIds(Steps):
    """Raises for an id outside the vocabulary."""

    def accept(self, token_id: int) -> bool:
        assert PIECES[token_id]
        return super().accept(token_id)


@breaks("a_refused_token_changes_nothing", ANY)
class AcceptsEverything(Steps):
    """Accepts what its mask forbids."""

    def accept(self, token_id: int) -> bool:
        return super().accept(token_id) or self.push(self.states[-1])


@breaks("eos_may_follow_where_the_text_may_end", ANY)
class AllowsEosAnywhere(Steps):
    """Lets the text end anywhere, but says that it may not."""

    def allows(self, token_id: int) -> bool:
        return token_id == EOS or super().allows(token_id)

    def accept(self, token_id: int) -> bool:
        if token_id == EOS and not self.is_terminated():
            return self.push(-1)
        return super().accept(token_id)


@breaks("eos_may_follow_where_the_text_may_end", ANY)
class NeverAllowsEos(Steps):
    """Masks EOS at the end of a text."""

    def allows(self, token_id: int) -> bool:
        return token_id != EOS and super().allows(token_id)


@breaks("eos_may_follow_where_the_text_may_end", ANY)
class GoesOnAfterEos(Steps):
    """Starts a new text after EOS."""

    def accept(self, token_id: int) -> bool:
        return super().accept(token_id) or (
            self.is_terminated() and self.push(self.moves[0, PIECES[token_id][0]])
        )


@breaks("eos_may_follow_where_the_text_may_end", ANY)
class DoesNotTerminate(Steps):
    """Says after EOS that the text has not ended."""

    def is_terminated(self) -> bool:
        return False


@breaks("eos_may_follow_where_the_text_may_end", ANY)
class MasksNothingAfterEos(Steps):
    """Allows every token after EOS."""

    def allows(self, token_id: int) -> bool:
        return self.is_terminated() or super().allows(token_id)


@breaks("a_text_that_may_not_end_can_go_on", ANY)
class RunsIntoADeadEnd(Steps):
    """Lets a text begin that it cannot complete."""

    moves: Mapping[tuple[int, int], int] = {**Steps.moves, (0, ord("c")): 9}


@breaks("accept_bytes_agrees_with_accept", ANY)
class RefusesParts(Steps):
    """Accepts only the bytes of whole tokens."""

    def accept_bytes(self, data: bytes) -> bool:
        return len(data) != 1 and super().accept_bytes(data)

    def accept(self, token_id: int) -> bool:
        if 0 <= token_id < EOS and not self.is_terminated():
            after = self.after(PIECES[token_id])
            return after is not None and self.push(after)
        return super().accept(token_id)


@breaks("accept_bytes_agrees_with_accept", ANY)
class ReadsTheFirstByte(Steps):
    """Reads the first byte of what accept_bytes is given."""

    def accept_bytes(self, data: bytes) -> bool:
        after = self.after(data[:1])
        return after is not None and self.push(after)

    def accept(self, token_id: int) -> bool:
        if 0 <= token_id < EOS and not self.is_terminated():
            after = self.after(PIECES[token_id])
            return after is not None and self.push(after)
        return super().accept(token_id)


@breaks("forced_tokens_must_follow", says="may follow as well")
class ForcesAChoice(Steps):
    """Forces "ab" at the beginning, where "ac" and "d" may follow as well."""

    def forced_tokens(self) -> list[int]:
        return [PIECES.index(b"ab")] if self.states[-1] == 0 else []


@breaks("forced_tokens_must_follow")
class ForcesAMaskedToken(Steps):
    """Forces a token that may not follow."""

    def forced_tokens(self) -> list[int]:
        return [PIECES.index(b"b")] if self.states[-1] == 2 else []


@breaks("forced_tokens_must_follow", ANY)
class AcceptsWhatItForces(Steps):
    """Accepts the forced tokens itself."""

    def forced_tokens(self) -> list[int]:
        forced = super().forced_tokens()
        for token_id in forced:
            self.accept(token_id)
        return forced


@breaks("validate_counts_the_tokens_that_follow")
class ValidatesEachAlone(Steps):
    """Counts the tokens that may follow now, each on its own."""

    def validate(self, token_ids: Sequence[int]) -> int:
        return sum(self.allows(token_id) for token_id in token_ids)


@breaks("validate_counts_the_tokens_that_follow")
class ValidateAccepts(Steps):
    """Accepts what it validates."""

    def validate(self, token_ids: Sequence[int]) -> int:
        return next((i for i, token in enumerate(token_ids) if not self.accept(token)), len(token_ids))


@breaks("validate_counts_the_tokens_that_follow")
class ValidatesABool(Steps):
    """Says whether all tokens may follow."""

    def validate(self, token_ids: Sequence[int]) -> Any:
        return super().validate(token_ids) == len(token_ids)


@breaks("a_mask_fills_its_row_alone", ANY)
class FillsTheWholeMask(Steps):
    """Writes to every row."""

    def fill_bitmask(self, bitmask: np.ndarray, row: int = 0) -> None:
        super().fill_bitmask(bitmask, row)
        bitmask[:] = bitmask[row]


@breaks("a_mask_fills_its_row_alone", ANY)
class FillsTheFirstRow(Steps):
    """Ignores the row that it is given."""

    def fill_bitmask(self, bitmask: np.ndarray, row: int = 0) -> None:
        super().fill_bitmask(bitmask, 0)


@breaks("a_mask_fills_its_row_alone", ANY)
class OnlySetsBits(Steps):
    """Leaves bits that were set before."""

    def fill_bitmask(self, bitmask: np.ndarray, row: int = 0) -> None:
        before = bitmask[row].copy()
        super().fill_bitmask(bitmask, row)
        bitmask[row] |= before


@breaks(ROLLBACK, ANY)
class IgnoresRollback(Steps):
    """Does not roll back."""

    def rollback(self, n: int) -> None:
        pass


@breaks(ROLLBACK, ANY)
class RollsBackOne(Steps):
    """Rolls back one accept, however many it is asked to."""

    def rollback(self, n: int) -> None:
        super().rollback(min(n, 1))


@breaks(ROLLBACK, ANY)
class RollsBackBytes(Steps):
    """Counts bytes, not accepts."""

    def accept_bytes(self, data: bytes) -> bool:
        after = [self.after(data[:i]) for i in range(1, len(data) + 1)]
        if not after or after[-1] is None:
            return False
        self.states += [state for state in after if state is not None]
        return True


@breaks(ROLLBACK, ANY)
class RollsBackAllForNone(Steps):
    """Makes the mistake of `del states[-0:]`."""

    def rollback(self, n: int) -> None:
        del self.states[1:][-n:]
        self.states = self.states[:1] if not n else self.states[:-n]


@breaks(ROLLBACK, ANY)
class CannotUndoItsEnd(Steps):
    """Stays terminated when EOS is rolled back."""

    ended = False

    def push(self, state: int) -> bool:
        self.ended |= state == -1
        return super().push(state)

    def is_terminated(self) -> bool:
        return self.ended

    def fork(self) -> Any:
        child = super().fork()
        child.ended = self.ended
        return child


@breaks(FORK, ANY)
class ForksByReference(Steps):
    """Returns itself as a fork."""

    def fork(self) -> Any:
        return self


@breaks(FORK, ANY)
class SharesItsList(Steps):
    """Shares the states with its forks."""

    def fork(self) -> Any:
        child = super().fork()
        child.states = self.states
        return child


@breaks(FORK, ANY)
class ForksWithoutItsPast(Steps):
    """Cannot roll back beyond the fork."""

    def fork(self) -> Any:
        child = super().fork()
        child.states = self.states[-1:]
        return child

    def rollback(self, n: int) -> None:
        del self.states[max(1, len(self.states) - n) :]


@breaks(FORK, ANY)
class ForksFromTheBeginning(Steps):
    """Starts a new text in a fork."""

    def fork(self) -> Any:
        return type(self)()


@breaks("requests_share_no_state", ANY)
class IsResetByTheNextRequest(Steps):
    """Is the same object for all requests, and begins again with each."""

    one: ClassVar[Any] = None

    def __new__(cls) -> Any:
        cls.one = cls.one or super().__new__(cls)
        return cls.one

    def fork(self) -> Any:
        child = Steps()
        child.states = self.states.copy()
        return child


@breaks("whole_texts_are_accepted_in_any_tokens", ANY)
class SharesItsState(Steps):
    """Has one list of states for all matchers."""

    everything: ClassVar[list[int]] = [0]

    def __init__(self) -> None:
        self.states = self.everything


@breaks("whole_texts_are_accepted_in_any_tokens", ANY)
class RefusesAPartOfItsLanguage(Steps):
    """Forgets that c may follow a."""

    moves: Mapping[tuple[int, int], int] = {
        key: to for key, to in Steps.moves.items() if key != (1, ord("c"))
    }


@breaks("other_texts_are_refused", ANY)
class AcceptsMoreThanItsLanguage(Steps):
    """Lets the text end before "!"."""

    def is_accepting(self) -> bool:
        return self.states[-1] in (2, 3)


@breaks("a_matcher_has_all_methods", ANY)
class LacksAMethod(Steps):
    """Has no validate."""

    validate: Any = None


@breaks("work_is_for_bounded_matchers")
class DoesNotSayThatItIsBounded(BoundedSteps):
    """Takes work, but is never given any."""

    bounded = False


@breaks("work_is_for_bounded_matchers", PARTS, "a_scheduler_keeps_its_text_in_the_language")
class AcceptsWithoutWork(BoundedSteps):
    """Says that it is bounded, but its accept takes no work."""

    accept: Any = Steps.accept


@breaks(PARTS, says="must continue where it stopped")
class StartsItsMaskAgain(BoundedSteps):
    """Forgets what a call has found that did not finish."""

    def fill_bitmask(self, bitmask: np.ndarray, row: int = 0, work: Work | None = None) -> None:
        self.found = []
        super().fill_bitmask(bitmask, row, work)


@breaks(PARTS, says="not")
class TakesPartOfAMaskForAll(BoundedSteps):
    """Leaves out the tokens for which the work does not suffice."""

    def fill_bitmask(self, bitmask: np.ndarray, row: int = 0, work: Work | None = None) -> None:
        bitmask[row] = 0
        with contextlib.suppress(UnfinishedError):
            super().fill_bitmask(bitmask, row, work)


@breaks(PARTS, says="after an accept that is unfinished")
class IsHalfAccepted(BoundedSteps):
    """Has accepted the token when it raises."""

    def accept(self, token_id: int, work: Work | None = None) -> bool:
        spend, accepted = spending(work), super().accept(token_id)
        for _ in range(5):
            spend(200)
        return accepted


@breaks(PARTS, says="no call counts what it does")
class CountsNothing(BoundedSteps):
    """Takes work without counting."""

    def fill_bitmask(self, bitmask: np.ndarray, row: int = 0, work: Work | None = None) -> None:
        super().fill_bitmask(bitmask, row)

    def accept(self, token_id: int, work: Work | None = None) -> bool:
        return super().accept(token_id)

    def forced_tokens(self, *, work: Work | None = None) -> list[int]:
        return super().forced_tokens()


@breaks("a_scheduler_keeps_its_text_in_the_language", ANY)
class AcceptsNothingTwice(Steps):
    """Refuses the second token that its mask allows."""

    def accept(self, token_id: int) -> bool:
        return len(self.states) < 2 and super().accept(token_id)


@breaks("a_mask_fills_its_row_alone", ANY)
class FillsThreeRows(Steps):
    """Is wrong from row 3 on."""

    def fill_bitmask(self, bitmask: np.ndarray, row: int = 0) -> None:
        super().fill_bitmask(bitmask, row)
        if row >= 3:
            bitmask[row] = -1


@breaks("requests_beside_others_do_as_alone", ANY)
class RemembersSixAccepts(Steps):
    """Can roll back six accepts at most."""

    def rollback(self, n: int) -> None:
        super().rollback(min(n, 6))


@breaks("requests_beside_others_do_as_alone", ANY)
class IsWrongInLongTexts(Steps):
    """Forks without its past after 40 accepts."""

    def fork(self) -> Any:
        child = super().fork()
        if len(self.states) > 40:
            child.states = self.states[-1:]
        return child

    def rollback(self, n: int) -> None:
        del self.states[max(1, len(self.states) - n) :]


@breaks("surroundings_do_not_matter", ANY)
class IsRightInItsThread(Steps):
    """Allows "!" at the end in the main thread alone."""

    def allows(self, token_id: int) -> bool:
        main = threading.current_thread() is threading.main_thread()
        return super().allows(token_id) and (main or PIECES[token_id] != b"d!")
