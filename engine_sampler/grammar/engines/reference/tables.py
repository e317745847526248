"""Everything that is known of a grammar so far: made from a program, and growing as texts are read."""

from __future__ import annotations

from collections.abc import Sequence
from threading import RLock
from typing import Any

from ...derivatives.derivatives import Derivatives
from ...derivatives.expressions import EMPTY, Expressions
from ...derivatives.limits import Meter
from ...derivatives.loading import Loader
from ...errors import GrammarError
from ...program.lalr import decoded
from ...program.rules import Program
from .automata import Automata
from .configurations import Configurations
from .lexers import Lexers
from .lexing import Lexing
from .lr import LRRows
from .masks import Masks
from .rows import Rows
from .scans import Scans
from .summaries import SummaryMasks
from .threads import Threads
from .vocabulary import ReferenceVocabulary


class Tables:
    """The tables of a program. Raises GrammarError if no text at all matches it.

    lock    for one call at a time
    meter   what that call may cost
    """

    def __init__(self, program: Program, vocabulary: ReferenceVocabulary) -> None:
        self.lock = RLock()
        self.meter = Meter()
        expressions = Expressions(self.meter)
        numbers = Loader(expressions, program.expressions).numbers
        derivatives = Derivatives(expressions)
        terminals = [None if node < 0 else numbers[node] for node in program.terminals]
        specials = _specials(program)
        if program.parser:
            parser = decoded(program.parser)
            lexers = Lexers(parser, terminals, derivatives)
            self.threads: Configurations[Any] = Lexing(
                LRRows(parser, self.meter), lexers, specials, self.meter
            )
            self.masks = Masks(self.threads, vocabulary)
            return
        _check_ignored(expressions, [terminals[terminal] for terminal in program.ignore])
        productive = [
            bool(specials[terminal]) if number is None else derivatives.live(number)
            for terminal, number in enumerate(terminals)
        ]
        empty = [
            terminal
            for terminal, number in enumerate(terminals)
            if number is not None and EMPTY in expressions.endings[number]
        ]
        rows = Rows(Automata(program, productive, empty, self.meter), self.meter)
        threads = Threads(rows, Scans(derivatives), terminals, specials, program.ignore)
        self.threads = threads
        self.masks = SummaryMasks(threads, vocabulary)


def _specials(program: Program) -> dict[int, frozenset[int]]:
    """The token ids of each terminal that stands for special tokens."""
    starts, ids = program.special_starts, program.special_ids
    return {
        terminal: frozenset(ids[starts[terminal] : starts[terminal + 1]])
        for terminal, node in enumerate(program.terminals)
        if node < 0
    }


def _check_ignored(expressions: Expressions, ignored: Sequence[int | None]) -> None:
    for number in ignored:
        if number is None:
            raise GrammarError("a special token cannot be ignored")
        if expressions.guarded[number]:
            raise GrammarError("a look-ahead cannot stand in what is ignored")
