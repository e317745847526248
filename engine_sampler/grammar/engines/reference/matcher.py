"""Matchers: each follows one text under a grammar."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from ....base.copying import ForkedByCopy
from ....contract import checked_bitmask
from ....contract.draft_trees import walk_tree
from ...derivatives.limits import MAX_SHARED_STATES
from ...errors import GrammarError, GrammarLimitError
from ...program.rules import Program
from ..encoded import as_encoded
from ..excess import warn_of_excess
from .configurations import REJECTED
from .forced import forced_bytes, forced_tokens, next_bytes
from .places import NOWHERE, Place
from .tables import EngineTables
from .vocabulary import ReferenceVocabulary


class ReferenceGrammar:
    """A grammar for a vocabulary; any number of matchers, on any OS threads, share its tables.

    vocabulary         a ReferenceVocabulary, or the bytes of each token
    eos_token_ids, special_token_ids   see ReferenceVocabulary; used only if `vocabulary` is bytes

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
                raise GrammarError(f"the grammar names the special token {token_id}, which does not exist")
        self._program = program
        self._tables = EngineTables(program, vocabulary)

    def __repr__(self) -> str:
        return f"<ReferenceGrammar of {self._tables!r}>"

    def weight(self) -> int:
        """About how many bytes its tables have now."""
        return self._tables.weight()

    def tables(self) -> EngineTables:
        """The tables for a new matcher: new ones if the current ones have grown too large."""
        if self._tables.meter.states > MAX_SHARED_STATES:
            self._tables = EngineTables(self._program, self.vocabulary)
        return self._tables

    def matcher(self) -> ReferenceMatcher:
        """A matcher at the start of a text."""
        return ReferenceMatcher(self.vocabulary, self.tables())


class ReferenceMatcher(ForkedByCopy):
    """A text under a grammar.

    A call that exceeds a limit raises GrammarLimitError, and so does every later call.

    compiled   the `CompiledGrammar`, if more than masks may be asked of it; else None. Forks have the same
    """

    compiled: Any = None

    def __init__(self, vocabulary: ReferenceVocabulary, tables: EngineTables) -> None:
        self._vocabulary = vocabulary
        self._tables = tables
        self._configurations = tables.configurations
        self._places = [tables.places.start]
        self._terminated = False
        self._exceeds = False
        self._failure = ""

    def __repr__(self) -> str:
        threads = len(self._configurations.threads[self._configuration])
        ended = ", ended" * self._terminated
        return f"<ReferenceMatcher after {len(self._places) - 1} accepted calls, {threads} threads{ended}>"

    @property
    def _configuration(self) -> int:
        return self._places[-1].configuration

    @contextmanager
    def _call(self) -> Iterator[None]:
        """Take turns with other OS threads, and count the work."""
        if self._failure:
            raise GrammarLimitError(f"this matcher failed before: {self._failure}")
        with self._tables.lock:
            self._tables.meter.start()
            try:
                yield
            except GrammarLimitError as error:
                self._failure = str(error)
                raise

    @contextmanager
    def inspected(self) -> Iterator[tuple[EngineTables, int]]:
        """The tables and the configuration of the text, for the time of one call; see `readings`."""
        with self._call():
            yield self._tables, self._configuration

    def fill_bitmask(self, bitmask: npt.NDArray[np.int32], row: int = 0) -> None:
        """Write the mask of the next token into a row of `bitmask`.

        bitmask   int32 [rows, ceil(vocabulary / 32) or more]: bit t % 32 of word t // 32 is 1 if token t
                  may follow; further words become 0. After the end only EOS tokens may follow.

        Raises TypeError for any other array, IndexError for a row out of range.
        """
        words = self._vocabulary.words
        rows, _ = checked_bitmask(bitmask, words)
        if not 0 <= row < rows:
            raise IndexError(f"row={row} is not allowed: 0..{rows - 1} are")
        with self._call():
            mask = (
                self._tables.masks.ended if self._terminated else self._tables.masks.mask(self._configuration)
            )
        bitmask[row, :words] = mask
        bitmask[row, words:] = 0

    def fill_tree_bitmask(
        self,
        token_ids: Sequence[int],
        parents: Sequence[int],
        bitmask: Any,
        row: int = 0,
    ) -> npt.NDArray[np.bool_]:
        """Write the masks of all nodes of a draft tree, see `NativeMatcher.fill_tree_bitmask`."""
        return walk_tree(self, token_ids, parents, bitmask, row)

    def accept(self, token_id: int) -> bool:
        """Add a token to the text. False, and nothing changes, if it may not follow."""
        with self._call():
            after = self._after(self._places[-1], token_id)
            if after == NOWHERE:
                return False
            if after.exceeds and not self._exceeds:
                self._exceeds = True
                warn_of_excess()
            return self._push(after, token_id in self._vocabulary.eos_ids)

    def accept_bytes(self, data: bytes) -> bool:
        """Add bytes to the text, not necessarily those of a token. False if they may not follow."""
        with self._call():
            after = REJECTED if self._terminated else self._configurations.run(self._configuration, data)
            place = self._tables.places.after(self._places[-1], data, after, None)
            return place != NOWHERE and self._push(place, False)

    def validate(self, token_ids: Sequence[int]) -> int:
        """The number of leading tokens that could be accepted in turn; nothing changes."""
        with self._call():
            place = self._places[-1]
            for count, token_id in enumerate(token_ids):
                place = self._after(place, token_id)
                if place == NOWHERE:
                    return count
                if token_id in self._vocabulary.eos_ids:
                    return count + 1
            return len(token_ids)

    @property
    def accepted_calls(self) -> int:
        """How many accepted calls can be undone."""
        return len(self._places) - 1

    def rewind(self, calls: int) -> None:
        """Undo all accepted calls but the first `calls`, also after a call that was interrupted; EOS was in
        none of these."""
        self._terminated = False
        del self._places[1 + calls :]

    def rollback(self, n: int) -> None:
        """Undo the last `n` accepted calls of accept and accept_bytes; ValueError if there are fewer."""
        with self._call():
            accepted = self.accepted_calls
            if not 0 <= n <= accepted:
                raise ValueError(f"n={n} is not allowed: 0..{accepted} accepted calls can be undone")
            if n:
                del self._places[-n:]
                self._terminated = False

    def fork(self) -> ReferenceMatcher:
        """An independent matcher of the same text."""
        with self._call():
            other = ReferenceMatcher(self._vocabulary, self._tables)
            other._places, other.compiled = self._places.copy(), self.compiled
            other._terminated, other._exceeds = self._terminated, self._exceeds
            return other

    def is_accepting(self) -> bool:
        """Whether the text so far is in the language."""
        with self._call():
            return self._configurations.accepting(self._configuration)

    def is_terminated(self) -> bool:
        """Whether an EOS token has been accepted."""
        with self._call():
            return self._terminated

    def open_terminals(self) -> npt.NDArray[np.uint8]:
        """Which terminals the next token may begin in: uint8, 1 for each that is being read or may begin."""
        found = np.zeros(len(self._tables.program.terminals), np.uint8)
        with self._call():
            if not self._terminated:
                found[sorted(self._configurations.open_terminals(self._configuration))] = 1
        return found

    def next_bytes(self) -> bytes:
        """The bytes that may come next, ascending."""
        with self._call():
            return b"" if self._terminated else bytes(next_bytes(self._configurations, self._configuration))

    def forced_bytes(self, limit: int = 4096) -> bytes:
        """The bytes that must come next, at most `limit`."""
        with self._call():
            return (
                b"" if self._terminated else forced_bytes(self._configurations, self._configuration, limit)[0]
            )

    def forced_tokens(self, limit: int = 1024) -> list[int]:
        """The tokens that must come next, at most `limit`; [] if there is a choice.

        They are those in which the tokenizer's own encoding writes the forced text, as far as this does not
        depend on what follows; without one, the longest tokens, up to the point where a longer token could
        reach past the forced text.
        """
        with self._call():
            if self._terminated:
                return []
            masks, trie = self._tables.masks, self._vocabulary.trie
            longest = forced_tokens(self._configurations, masks, trie, self._configuration, limit)
        return as_encoded(self, longest, self._vocabulary.split, limit)

    def _after(self, place: Place, token_id: int) -> Place:
        """The place after a token; EOS does not change it. NOWHERE if the token may not follow."""
        tokens = self._vocabulary.token_bytes
        if self._terminated or not 0 <= token_id < len(tokens):
            return NOWHERE
        if token_id in self._vocabulary.eos_ids:
            return place if self._configurations.accepting(place.configuration) else NOWHERE
        after = self._configuration_after(place.configuration, token_id)
        data = b"" if token_id in self._vocabulary.special_ids else tokens[token_id]
        return self._tables.places.after(place, data, after, token_id)

    def _configuration_after(self, configuration: int, token_id: int) -> int:
        """The configuration after a token that is not EOS."""
        configurations = self._configurations
        if token_id in self._vocabulary.special_ids:
            return configurations.special_step(configuration, token_id)
        data = self._vocabulary.token_bytes[token_id]
        as_text = configurations.run(configuration, data) if data else REJECTED
        if token_id not in self._tables.ordinary_ids:
            return as_text
        return configurations.either(configurations.special_step(configuration, token_id), as_text)

    def _push(self, place: Place, ends: bool) -> bool:
        self._terminated = ends
        self._places.append(place)
        return True
