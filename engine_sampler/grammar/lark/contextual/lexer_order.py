"""The order in which lark's contextual lexers try terminals, and which literals are keywords of others.

Lark finds keywords with `re`, which may take exponential time; here derivatives do, and their work counts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from lark.exceptions import GrammarError as LarkGrammarError
from lark.lexer import PatternStr

from ...derivatives.derivatives import Derivatives
from ...derivatives.expressions import EMPTY, Expressions
from ...derivatives.limits import WORK_PER_CALL, ReadingMeter
from ...derivatives.loading import number_of
from ...program.expression import Expression
from ...regex.items import MAX_WIDTH
from ...regex.pattern import Outline, whole_texts
from ...work import spend
from ..extensions.terminal_operators import OperatorTerminal, greatest_width
from ..messages import Messages
from ..terminal_patterns import literal_pattern, outline_of

_PAIRS_PER_STEP, _BYTES_PER_STEP = 16, 4
"""Pairs of a pattern and a literal, and bytes of a literal, that take a step."""


def lexer_outlines(
    terminals: Sequence[Any], ignore: Collection[str], messages: Messages
) -> dict[str, Outline]:
    """The outline of each terminal.

    Raises GrammarError for a pattern that cannot be read, GrammarLimitError, and lark's GrammarError for a
    terminal that may be empty, or an ignored one that is not among them.
    """
    outlines = {}
    for one in terminals:
        with messages.translated(terminal=one.name):
            outlines[one.name] = outline_of(one.pattern)
        if outlines[one.name].width[0] == 0:
            raise LarkGrammarError(f"zero-width terminals are not allowed by this lexer: {one.name}")
    for name in ignore:
        if name not in outlines:
            raise LarkGrammarError(f"the ignored terminal {name} is not defined")
    return outlines


class OperatorWidths:
    """The greatest widths of terminals with & or ~.

    patterns   those of all other terminals; None for one that is only declared
    """

    def __init__(self, operators: Mapping[str, OperatorTerminal], patterns: Mapping[str, Any]) -> None:
        self._operators, self._patterns = operators, patterns
        self._known: dict[str, int] = {}

    def of(self, name: str) -> int:
        """That of a terminal; of one that contains itself, which is refused elsewhere, any number."""
        if name not in self._known:
            self._known[name] = MAX_WIDTH
            if one := self._operators.get(name):
                self._known[name] = greatest_width(one.body, lambda word: self.of(word.text), self._literal)
            elif pattern := self._patterns.get(name):
                self._known[name] = outline_of(pattern).width[1]
        return self._known[name]

    def _literal(self, node: Any) -> int:
        return outline_of(literal_pattern(node)).width[1]


class LexerOrder:
    """The order in which lark's lexers try terminals, and which terminals are keywords of which.

    terminals    all terminals with a pattern
    ignore       the names of the ignored ones
    outlines     see `lexer_outlines`
    expressions  of all terminals, at the beginning of a text
    """

    def __init__(
        self,
        terminals: Sequence[Any],
        ignore: Collection[str],
        outlines: Mapping[str, Outline],
        expressions: Mapping[str, Expression],
    ) -> None:
        def place(one: Any) -> tuple[Any, ...]:
            return -one.priority, -outlines[one.name].width[1], -len(one.pattern.value), one.name

        self._sorted = sorted(terminals, key=place)
        self._places = {one.name: place for place, one in enumerate(self._sorted)}
        self._ignore = frozenset(ignore)
        self._keywords = _Keywords(self._sorted, outlines, expressions)
        self._entries_of: dict[frozenset[str], list[tuple[str, bool, bool]]] = {}

    def entries(self, accepted: Mapping[str, int]) -> list[tuple[str, bool, bool]]:
        """The lexer's entries for a state that accepts these terminals: a name, whether it is a keyword, and
        whether it is ignored."""
        key = frozenset(accepted)
        found = self._entries_of.get(key)
        if found is None:
            places = sorted(self._places[name] for name in key | self._ignore if name in self._places)
            found = self._entries_of[key] = self._entries([self._sorted[place] for place in places])
        return found

    def _entries(self, terminals: Sequence[Any]) -> list[tuple[str, bool, bool]]:
        """A literal is a keyword of each pattern that matches all of it.

        A literal with a flag that the pattern lacks is also tried on its own. Ignored terminals have no
        keywords, and a keyword is never ignored.
        """
        literals = list(filter(_is_literal, terminals))
        spend((len(terminals) - len(literals)) * len(literals) // _PAIRS_PER_STEP)
        keywords = {}
        for terminal in terminals:
            if not _is_literal(terminal) and (own := self._keywords.of(terminal)):
                keywords[terminal.name] = [literal for literal in literals if literal.name in own]
        embedded = {
            literal.name
            for terminal in terminals
            for literal in keywords.get(terminal.name, ())
            if literal.pattern.flags <= terminal.pattern.flags
        }
        entries = []
        for terminal in terminals:
            if terminal.name in embedded:
                continue
            ignored = terminal.name in self._ignore
            if not ignored:
                entries += [(literal.name, True, False) for literal in keywords.get(terminal.name, ())]
            entries.append((terminal.name, False, ignored))
        return entries


def _is_literal(terminal: Any) -> bool:
    return isinstance(terminal.pattern, PatternStr)


class _Keywords:
    """Which literals are the whole match of which patterns, where nothing stands before or after them.

    Expressions tell, but where a lookahead nests others: in an expression, these see the end of the match as
    the end of the text. Then the pattern itself is followed through the literal.
    """

    def __init__(
        self,
        terminals: Sequence[Any],
        outlines: Mapping[str, Outline],
        expressions: Mapping[str, Expression],
    ) -> None:
        self._literals = [
            (one.name, one.priority, one.pattern.value) for one in terminals if _is_literal(one)
        ]
        self._outlines, self._expressions = outlines, expressions
        self._x = Expressions(ReadingMeter(WORK_PER_CALL))
        self._derivatives = Derivatives(self._x)
        self._known: dict[str, frozenset[str]] = {}

    def of(self, terminal: Any) -> frozenset[str]:
        """The names of the literals of the same priority that a terminal matches as a whole."""
        if terminal.name not in self._known:
            spend(len(self._literals) // _PAIRS_PER_STEP)
            is_whole = self._matching(terminal)
            self._known[terminal.name] = frozenset(
                name
                for name, priority, text in self._literals
                if priority == terminal.priority and is_whole(text)
            )
        return self._known[terminal.name]

    def _matching(self, terminal: Any) -> Callable[[str], bool]:
        """A function: whether a terminal matches all of a text."""
        if self._outlines[terminal.name].nests_lookarounds:
            return whole_texts(terminal.pattern.to_regexp())
        start = number_of(self._x, self._expressions[terminal.name])
        first = self._x.first[start]
        return lambda text: bool(first >> text[0].encode()[0] & 1) and self._ends(start, text.encode())

    def _ends(self, state: int, text: bytes) -> bool:
        """Whether a text leads from a state to one that may end where nothing follows."""
        spend(1 + len(text) // _BYTES_PER_STEP)
        derivative = self._derivatives.derivative
        for byte in text:
            state = derivative(state, byte)
            if state == EMPTY:
                return False
        endings = self._x.endings
        return any(not endings[forbidden] for forbidden in endings[state])
