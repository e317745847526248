"""`GuidedMatcher`: one text under a grammar of llguidance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from llguidance import LLMatcher

from engine_sampler.contract import Compiled, checked_bitmask

from .vocabulary import GuidedVocabulary, check, fill


class GuidedGrammar(Compiled):
    """A grammar for one vocabulary.

    begin       a matcher of llguidance at the beginning of a text, which is only copied.
    unenforced  what llguidance warns of.
    """

    def __init__(
        self, vocabulary: GuidedVocabulary, begin: LLMatcher, unenforced: Sequence[str] = ()
    ) -> None:
        self.vocabulary, self.begin, self.unenforced = vocabulary, begin, unenforced

    def matcher(self) -> GuidedMatcher:
        return GuidedMatcher(self, self.begin.deep_copy(), [])


class GuidedMatcher:
    """One text; see `contract.Matcher` for the methods. What exceeds a limit of llguidance raises
    `ConstraintError`, and so does everything after it until `rollback`."""

    def __init__(self, compiled: GuidedGrammar, guide: LLMatcher, accepted: list[list[int] | None]) -> None:
        self.compiled, self.guide = compiled, guide
        self.vocabulary = compiled.vocabulary
        self._accepted = accepted
        """The tokens of each accept; None for EOS, of which llguidance is not told."""

    def fill_bitmask(self, bitmask: np.ndarray, row: int = 0) -> None:
        """Write the mask of the next token into a row of `bitmask`, int32 `[rows, ceil(vocab / 32)]`."""
        checked_bitmask(bitmask, self.vocabulary.words)
        self.take(fill(self.guide, self.vocabulary.guided), bitmask[row])

    def take(self, guided: np.ndarray, row: np.ndarray) -> None:
        """Write llguidance's mask of the next token, int32 [guided], into `row`, int32 [words or more]."""
        check(self.guide)
        words = self.vocabulary.words
        row[:words] = self.vocabulary.ended if self.is_terminated() else guided[:words]
        row[words:] = 0

    def accept(self, token_id: int) -> bool:
        """Accept a token; False, and nothing changes, if it cannot follow."""
        if not 0 <= token_id < self.vocabulary.size or self.is_terminated():
            return False
        if token_id in self.vocabulary.eos_token_ids and self.is_accepting():
            self._accepted.append(None)
            return True
        return self._accept([int(token_id)])

    def accept_bytes(self, data: bytes) -> bool:
        """Accept bytes that need not form a token; False, and nothing changes, if they cannot follow."""
        if self.is_terminated() or 255 in data:
            return False
        return self._accept(self.vocabulary.byte_ids(data))

    def _accept(self, ids: list[int]) -> bool:
        taken = self.guide.try_consume_tokens(ids)
        check(self.guide)
        if taken < len(ids):
            self._undo(taken)
            return False
        self._accepted.append(ids)
        return True

    def rollback(self, n: int) -> None:
        """Undo the last n accepts; ValueError if there are fewer."""
        left = len(self._accepted) - n
        if not 0 <= n <= len(self._accepted):
            raise ValueError(f"n={n} is not allowed: {len(self._accepted)} accepts can be undone")
        undone = sum(len(ids or ()) for ids in self._accepted[left:])
        del self._accepted[left:]
        self._undo(undone)

    def _undo(self, count: int) -> None:
        """Take back `count` tokens of llguidance that `_accepted` does not have; where it takes none back, as
        with `max_tokens` and `stop`, read the text anew."""
        if count and not self.guide.rollback(count):
            self.guide = self.compiled.begin.deep_copy()
            self.guide.consume_tokens([token for ids in self._accepted for token in ids or ()])

    def fork(self) -> GuidedMatcher:
        """An independent copy."""
        return GuidedMatcher(self.compiled, self.guide.deep_copy(), self._accepted.copy())

    def is_accepting(self) -> bool:
        """Whether the text may end here."""
        return self.guide.is_accepting()

    def is_terminated(self) -> bool:
        """Whether EOS has been accepted."""
        return bool(self._accepted) and self._accepted[-1] is None

    def forced_tokens(self) -> list[int]:
        """The tokens that spell the bytes that must follow, as far as no other token can begin in them."""
        data = b"" if self.is_terminated() else self.guide.compute_ff_bytes()
        forced: list[int] = []
        pieces = self.vocabulary.tokenizer.token_bytes
        for token in self.vocabulary.guidance.tokenize_partial(data)[0] if data else ():
            inside = token < min(self.vocabulary.size, len(pieces))
            if not inside or not pieces[token] or not data.startswith(pieces[token]):
                break  # the model's encoding may add a blank
            forced.append(token)
            data = data[len(pieces[token]) :]
        return forced

    def validate(self, token_ids: Iterable[int]) -> int:
        """How many of the tokens can be accepted in sequence; nothing changes."""
        trial = self.fork()
        count = 0
        for token_id in token_ids:
            if not trial.accept(token_id):
                break
            count += 1
        return count
