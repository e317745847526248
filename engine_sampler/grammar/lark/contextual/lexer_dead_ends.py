"""Terminals after which an LALR parser cannot go on: nothing that it expects may follow their longest match.

One `/a+/` is never followed by another, nor a comment up to the end of its line by anything but that end.
Where such a terminal leads nowhere, it must not even begin, or a text would be begun that can never be
finished.

The stack of the parser is not followed: once a rule is reduced, the parser may be in any state that its left
side leads to. And of all that follows a terminal, only the next terminal is checked. Everything that is
removed is a real dead end; some dead ends remain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...errors import GrammarLimitError
from ...program.expression import EMPTY, Expression, union
from ...program.lalr import KEYWORD, Pairs, Parser
from ...program.rules import Rules
from ...work import half_of_work, spend
from .lexer_endings import ExactWays, LexerEntry, Rivals, RoughWays, Way
from .ways_on import Kind, LeadingWays, Lexer, kinds_of


def without_dead_ends(parser: Parser, rules: Rules) -> Parser:
    """The parser, in which the terminals that lead nowhere are read as ones that it does not expect.

    rules  the terminals of the parser; the new ones are added to them
    """
    try:
        with half_of_work():
            endings = _Endings(parser, rules.expressions)
            if not endings.found():
                return parser
    except GrammarLimitError:  # it is not worth the rest
        return parser
    unexpected: dict[Expression, int] = {}

    def new(name: str, texts: Expression) -> int:
        if texts not in unexpected:
            unexpected[texts] = rules.terminal(name, texts, shared=False)
        return unexpected[texts]

    def entries(kind: Kind) -> Pairs:
        if kind.leads_on:
            return kind.state.entries
        kept: Pairs = []
        for (symbol, flags), nowhere in zip(kind.state.entries, endings.nowhere(kind), strict=True):
            name = rules.terminal_names[symbol]
            if nowhere is None:
                symbol, flags = new(name, rules.expressions[symbol] or EMPTY), flags & KEYWORD
            elif nowhere != EMPTY:
                kept.append((new(name, nowhere), KEYWORD))
            kept.append((symbol, flags))
        return kept

    entries_of = {kind: entries(kind) for kind in endings.kinds}
    states = zip(parser.states, endings.kind_of, strict=True)
    return parser._replace(states=[state._replace(entries=entries_of[kind]) for state, kind in states])


class _Endings:
    """Where the entries of lexers end so that no text can go on.

    All terminals are looked at roughly first, then more closely where this does not suffice.

    kind_of  the kind of each state
    kinds    all kinds
    """

    def __init__(self, parser: Parser, expressions: Sequence[Expression | None]) -> None:
        self._rough = RoughWays(expressions)
        self._ways: RoughWays | ExactWays = self._rough
        self.kind_of = kinds_of(parser, expressions)
        self.kinds = list(dict.fromkeys(self.kind_of))
        self._read_entries()

    def _read_entries(self) -> None:
        """Find the entries of the lexers."""
        known: dict[tuple[tuple[int, int], ...], Lexer] = {}
        listed = [tuple(kind.state.entries) for kind in self.kinds]
        tried = {symbol: None for pairs in set(listed) for symbol, flags in pairs if not flags & KEYWORD}
        rivals = self._rough.rivals(tried)
        for kind, pairs in zip(self.kinds, listed, strict=True):
            if pairs not in known:
                known[pairs] = Lexer(list(_entries(pairs, rivals)))
            kind.lexer = known[pairs]

    def found(self) -> bool:
        """Whether anything leads nowhere: then `nowhere` knows what."""
        leading = LeadingWays(self.kinds, self._rough)
        suspects = self._suspects(leading)
        if suspects:
            self._rough.examine(suspects)
            suspects = self._suspects(leading)
        if not suspects:
            return False
        self._ways = self._rough.exact(suspects)
        return bool(self._suspects(LeadingWays(self.kinds, self._ways)))

    def nowhere(self, kind: Kind) -> list[Expression | None]:
        """For each entry of a kind of states its texts that lead nowhere; None for all of them."""
        found: list[Expression | None] = []
        for entry in kind.lexer.entries:
            dead, ways = self._dead(kind, entry), self._ways.of(entry)
            found.append(None if dead and len(dead) == len(ways) else union(*(way.texts for way in dead)))
        return found

    def _suspects(self, leading: LeadingWays) -> set[int]:
        """The terminals whose entries lead nowhere, judging by their ways."""
        leading.find()
        return {
            entry.whole
            for kind in self.kinds
            if not kind.leads_on
            for entry in kind.lexer.entries
            if self._dead(kind, entry)
        }

    def _dead(self, kind: Kind, entry: LexerEntry) -> list[Way]:
        """Those ways of ending an entry that lead nowhere; none if the parser does not expect it anyway."""
        dead = [way for way in self._ways.of(entry) if not kind.leading >> way.number & 1]
        return dead if dead and kind.expects(entry) else []


def _entries(pairs: Sequence[tuple[int, int]], rivals: Rivals) -> Iterator[LexerEntry]:
    """The entries of a lexer."""
    keywords: list[tuple[int, int]] = []
    tried: set[int] = set()
    for symbol, flags in pairs:
        keywords.append((symbol, flags))
        if flags & KEYWORD:
            continue
        before = tuple(other for other in rivals.of(symbol) if other in tried)
        spend(2 + len(rivals.of(symbol)) // 8)
        for one, flags_of_one in keywords:
            yield LexerEntry(one, symbol, flags_of_one, before)
        tried.add(symbol)
        keywords = []
