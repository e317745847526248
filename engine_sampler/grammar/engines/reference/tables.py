"""All state that is shared by the matchers of a grammar: built from a program, extended as texts are read."""

from __future__ import annotations

from collections.abc import Sequence
from threading import RLock
from typing import Any

from ...derivatives.derivatives import Derivatives
from ...derivatives.expressions import EMPTY, Expressions
from ...derivatives.limits import Meter
from ...derivatives.loading import numbers_of
from ...errors import GrammarError
from ...program.lalr import decoded
from ...program.rules import Program
from .automata import Automata
from .configurations import Configurations
from .lexers import Lexers
from .lexing import LalrConfigurations
from .lr import LrRows
from .masks import ConfigurationMasks
from .places import Places
from .rows import EarleyRows
from .scans import Scans
from .summaries import SummaryMasks
from .threads import EarleyConfigurations
from .vocabulary import ReferenceVocabulary

_BYTES_PER_STATE = 4000
"""What a state, a row or an expression takes as Python objects, measured over ordinary schemas."""


class EngineTables:
    """The tables of a program. Raises GrammarError if no text at all matches it.

    program          the program, for the names of its symbols
    lock             held for the duration of a call: one call at a time
    meter            counts the work of that call
    expressions      those of the program, and their derivatives
    configurations   see `configurations`
    masks            see `masks`
    places           see `places`
    ordinary_ids     the tokens that rules name although they are not special: each is also text
    """

    def __init__(self, program: Program, vocabulary: ReferenceVocabulary) -> None:
        self.program = program
        self.lock = RLock()
        self.meter = Meter()
        self.expressions = expressions = Expressions(self.meter)
        numbers = numbers_of(expressions, program.expressions)
        derivatives = Derivatives(expressions)
        terminals = [None if node < 0 else numbers[node] for node in program.terminals]
        specials = _specials(program)
        self.ordinary_ids = frozenset(program.special_ids) - vocabulary.special_ids - vocabulary.eos_ids
        if program.parser:
            parser = decoded(program.parser)
            lexers = Lexers(parser, terminals, derivatives)
            self.configurations: Configurations[Any] = LalrConfigurations(
                LrRows(parser, self.meter), lexers, specials, self.meter
            )
            self.masks = ConfigurationMasks(self.configurations, vocabulary)
            self.places = Places(self.configurations, self.masks, (), 0)
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
        rows = EarleyRows(Automata(program, productive, empty, self.meter), self.meter)
        configurations = EarleyConfigurations(rows, Scans(derivatives), terminals, specials, program.ignore)
        self.configurations = configurations
        self.masks = SummaryMasks(configurations, vocabulary)
        self.places = Places(configurations, self.masks, program.budgets, len(terminals))

    def weight(self) -> int:
        """About how many bytes the tables have now: those of the masks, and a guess for all else."""
        return self.masks.weight() + (1 + self.meter.states) * _BYTES_PER_STATE

    def __repr__(self) -> str:
        configurations, expressions = len(self.configurations.threads), len(self.expressions.nodes)
        return f"<EngineTables: {configurations} configurations, {expressions} expressions>"


def _specials(program: Program) -> dict[int, frozenset[int]]:
    """The token ids of each terminal that represents special tokens."""
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
            raise GrammarError("an ignored terminal cannot contain a look-ahead")
