"""Matchers: texts that are followed under a grammar."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from ....contract import checked_bitmask
from ...derivatives.limits import MAX_SHARED_STATES
from ...errors import GrammarError, GrammarLimitError
from ...program.rules import Program
from .configurations import LOST
from .forced import forced_bytes, forced_tokens, next_bytes
from .tables import Tables
from .vocabulary import ReferenceVocabulary


class ReferenceGrammar:
    """A grammar for a vocabulary; any number of matchers, on any threads, share what it learns.

    vocabulary         a ReferenceVocabulary, or the bytes of each token
    eos_token_ids, special_token_ids   see ReferenceVocabulary; for bytes only

    Raises GrammarError if no text matches or the program does not fit the vocabulary, GrammarLimitError
    if a limit is exceeded.
    """

    def __init__(
        self,
        program: Program,
        vocabulary: ReferenceVocabulary | Sequence[bytes],
        eos_token_ids: Sequence[int] = (),
        special_token_ids: Sequence[int] = (),
    ) -> None:
        if not isinstance(vocabulary, ReferenceVocabulary):
            vocabulary = ReferenceVocabulary(vocabulary, eos_token_ids, special_token_ids)
        self.vocabulary = vocabulary
        for token_id in program.special_ids:
            if not 0 <= token_id < len(vocabulary.token_bytes):
                raise GrammarError(f"the grammar names the special token {token_id}, and there is none")
        self._program = program
        self._tables = Tables(program, vocabulary)

    def tables(self) -> Tables:
        """The tables for a new matcher: new ones where the old ones have grown large."""
        if self._tables.meter.states > MAX_SHARED_STATES:
            self._tables = Tables(self._program, self.vocabulary)
        return self._tables

    def matcher(self) -> ReferenceMatcher:
        """A matcher at the beginning of a text."""
        return ReferenceMatcher(self.vocabulary, self.tables())


class ReferenceMatcher:
    """A text under a grammar.

    A call that needs more than a limit allows raises GrammarLimitError, and so does every later one.
    """

    def __init__(self, vocabulary: ReferenceVocabulary, tables: Tables) -> None:
        self._vocabulary = vocabulary
        self._tables = tables
        self._threads = tables.threads
        self._states = [tables.threads.start]
        self._terminated = False
        self._failure = ""

    @contextmanager
    def _call(self) -> Iterator[None]:
        """Take turns with other threads, and count the work."""
        if self._failure:
            raise GrammarLimitError(f"this matcher failed before: {self._failure}")
        with self._tables.lock:
            self._tables.meter.start()
            try:
                yield
            except GrammarLimitError as error:
                self._failure = str(error)
                raise

    def fill_bitmask(self, bitmask: npt.NDArray[np.int32], row: int = 0) -> None:
        """Write the mask of the next token into a row of `bitmask`.

        bitmask   int32 [rows, ceil(vocabulary / 32) or more]: bit t % 32 of word t // 32 is 1 where
                  token t may follow; further words become 0. After the end only EOS tokens may follow.

        Raises TypeError for another array, IndexError for a row that is not there.
        """
        words = self._vocabulary.words
        rows, _ = checked_bitmask(bitmask, words)
        if not 0 <= row < rows:
            raise IndexError(f"row is {row}, allowed are 0..{rows - 1}")
        with self._call():
            mask = self._tables.masks.ended if self._terminated else self._tables.masks.mask(self._states[-1])
        bitmask[row, :words] = mask
        bitmask[row, words:] = 0

    def accept(self, token_id: int) -> bool:
        """Add a token to the text. False, and nothing changes, if it may not follow."""
        with self._call():
            after = self._after(self._states[-1], token_id)
            return after != LOST and self._go(after, token_id in self._vocabulary.eos_ids)

    def accept_bytes(self, data: bytes) -> bool:
        """Add bytes to the text, which need not be those of a token. False if they may not follow."""
        with self._call():
            after = LOST if self._terminated else self._threads.run(self._states[-1], data)
            return after != LOST and self._go(after, False)

    def validate(self, token_ids: Sequence[int]) -> int:
        """How many of the tokens could be accepted, one after the other; nothing changes."""
        with self._call():
            at = self._states[-1]
            for count, token_id in enumerate(token_ids):
                at = self._after(at, token_id)
                if at == LOST:
                    return count
                if token_id in self._vocabulary.eos_ids:
                    return count + 1
            return len(token_ids)

    def rollback(self, n: int) -> None:
        """Take back the last `n` calls of accept and accept_bytes. Raises ValueError if there are fewer."""
        with self._call():
            most = len(self._states) - 1
            if not 0 <= n <= most:
                raise ValueError(f"n is {n}, allowed are 0..{most}: that many accepts can be taken back")
            if n:
                del self._states[-n:]
                self._terminated = False

    def fork(self) -> ReferenceMatcher:
        """A matcher of the same text that goes its own way."""
        with self._call():
            other = ReferenceMatcher(self._vocabulary, self._tables)
            other._states = self._states.copy()
            other._terminated = self._terminated
            return other

    def is_accepting(self) -> bool:
        """Whether the text so far is in the language."""
        with self._call():
            return self._threads.accepting(self._states[-1])

    def is_terminated(self) -> bool:
        """Whether an EOS token was accepted."""
        with self._call():
            return self._terminated

    def next_bytes(self) -> bytes:
        """The bytes that may come next, ascending."""
        with self._call():
            return b"" if self._terminated else bytes(next_bytes(self._threads, self._states[-1]))

    def forced_bytes(self, limit: int = 4096) -> bytes:
        """The bytes that must come next, at most `limit`."""
        with self._call():
            return b"" if self._terminated else forced_bytes(self._threads, self._states[-1], limit)[0]

    def forced_tokens(self, limit: int = 1024) -> list[int]:
        """The tokens that must come next, at most `limit`; [] where there is a choice.

        They are the longest tokens that spell the forced bytes, up to where a longer token could reach
        beyond those.
        """
        with self._call():
            if self._terminated:
                return []
            masks, trie = self._tables.masks, self._vocabulary.trie
            return forced_tokens(self._threads, masks, trie, self._states[-1], limit)

    def _after(self, configuration: int, token_id: int) -> int:
        """The configuration behind a token; behind EOS the same. LOST if it may not follow."""
        tokens = self._vocabulary.token_bytes
        if self._terminated or not 0 <= token_id < len(tokens):
            return LOST
        if token_id in self._vocabulary.eos_ids:
            return configuration if self._threads.accepting(configuration) else LOST
        if token_id in self._vocabulary.special_ids:
            return self._threads.special_step(configuration, token_id)
        return self._threads.run(configuration, tokens[token_id]) if tokens[token_id] else LOST

    def _go(self, configuration: int, ends: bool) -> bool:
        self._terminated = ends
        self._states.append(configuration)
        return True
