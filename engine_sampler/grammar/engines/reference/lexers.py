"""The lexers of an LALR parser: the terminals that each state tries, in order, as expressions.

A **future** is an expression of whole texts, from here up to their ends. A terminal that is tried matches
in some futures. In these, the terminals tried later cannot match; and in those where its match is longer,
its own shorter match does not count either. So besides the rest of a terminal, the lexer keeps the futures
that are excluded for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...derivatives.derivatives import Derivatives
from ...derivatives.expressions import ANYTHING, EMPTY
from ...errors import GrammarError
from ...program.lalr import IGNORED, KEYWORD, Pairs, Parser, once

IGNORED_SYMBOL = -1
"""The symbol of text that is read and discarded."""


class PartialMatch(NamedTuple):
    """A terminal that is being read, or may be.

    symbol   the terminal, or IGNORED_SYMBOL
    rest     what is left of its expression
    whole    what is left of the expression of the lexer's entry: a keyword is read as part of another
             terminal's entry
    """

    symbol: int
    rest: int
    whole: int


class RankedMatch(NamedTuple):
    """A partial match, and the futures in which an entry that is tried before it matches."""

    match: PartialMatch
    excluded: int


class Lexers:
    """The lexers of all states.

    terminals   the expression of each terminal, None for terminals of special tokens
    """

    def __init__(self, parser: Parser, terminals: Sequence[int | None], derivatives: Derivatives) -> None:
        self.derivatives = derivatives
        self.terminals = terminals
        self._x = derivatives.expressions

        @once
        def matches(entries: Pairs) -> list[list[PartialMatch]]:
            return self._entry_matches(entries, terminals)

        self._entries = [matches(state.entries) for state in parser.states]
        self._ranked_after: dict[tuple[int, int], list[RankedMatch]] = {}
        self._ranked: dict[int, list[RankedMatch]] = {}

    def _entry_matches(self, entries: Pairs, terminals: Sequence[int | None]) -> list[list[PartialMatch]]:
        """For each entry of a lexer, the terminals that it may turn out to be."""
        x = self._x
        matches_of_entries = []
        keywords: list[tuple[int, int]] = []
        for terminal, kind in entries:
            expression = terminals[terminal]
            if expression is None:
                raise GrammarError("a lexer cannot try special tokens")
            if kind & KEYWORD:
                keywords.append((terminal, expression))
                continue
            matches, before = [], EMPTY
            for keyword, text in keywords:
                only = x.both((text, expression, x.complement(before)))
                matches.append(PartialMatch(keyword, only, expression))
                before = x.union((before, text))
            own = x.both((expression, x.complement(before)))
            matches.append(PartialMatch(IGNORED_SYMBOL if kind & IGNORED else terminal, own, expression))
            matches_of_entries.append(matches)
            keywords = []
        return matches_of_entries

    def begin(self, state: int) -> list[RankedMatch]:
        """The terminals that the lexer of a state may read."""
        found = self._ranked.get(state)
        if found is None:
            found = self._ranked[state] = self._ordered(self._entries[state])
        return found

    def begin_with(self, state: int, byte: int) -> list[RankedMatch]:
        """The terminals that the lexer of a state may read, after a first byte."""
        found = self._ranked_after.get((state, byte))
        if found is None:
            rests = [[self.step(match, byte) for match in matches] for matches in self._entries[state]]
            found = self._ranked_after[state, byte] = self._ordered(rests)
        return found

    def step(self, match: PartialMatch, byte: int) -> PartialMatch:
        """The rest of a match after a byte."""
        derivative = self.derivatives.derivative
        return PartialMatch(match.symbol, derivative(match.rest, byte), derivative(match.whole, byte))

    def _ordered(self, entries: list[list[PartialMatch]]) -> list[RankedMatch]:
        excluded = EMPTY
        ranked = []
        for matches in entries:
            ranked += [RankedMatch(match, excluded) for match in matches if self.derivatives.live(match.rest)]
            excluded = self._x.union((excluded, self._x.future(matches[0].whole)))
            if excluded == ANYTHING:
                break
        return ranked
