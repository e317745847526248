"""The tables that lark computes for its LALR parser and its contextual lexer."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lark.common import LexerConf, ParserConf
from lark.lexer import BasicLexer, PatternRE, PatternStr, TerminalDef
from lark.parsers.lalr_analysis import LALR_Analyzer, Shift

from ..errors import GrammarLimitError
from ..regex.syntax import spelled_out
from ..work import spend

MAX_ITEMS = 400_000
"""The most items (beginnings of rules) in all states of a parser, as they are computed."""

END = "$END"

_Analyzer: Any = LALR_Analyzer
_Lexer: Any = BasicLexer


@dataclass
class NamedLalrState:
    """A state of the parser, with names for terminals and rules.

    actions  for each terminal, the state to shift to, or -1 - the rule to reduce
    gotos    for each left side of a rule, the state after it
    end      -1 - the rule to reduce at the end of the text, or None
    """

    actions: dict[str, int] = field(default_factory=dict)
    gotos: dict[str, int] = field(default_factory=dict)
    end: int | None = None


@dataclass(frozen=True)
class LalrTables:
    """The tables of a parser.

    rules      the left side of each rule, and the length of its right side
    states     the states, by number
    first      the state at the beginning of a text
    last       the state after a whole text
    terminals  all terminals that have an action
    shifted    the states after a terminal
    """

    rules: list[tuple[str, int]]
    states: list[NamedLalrState]
    first: int
    last: int
    terminals: set[str]
    shifted: set[int]


class _BoundedAnalyzer(_Analyzer):  # type: ignore[misc]
    """Lark's analysis, with a bound on its work: a grammar may have exponentially many states."""

    items = 0

    def expand_rule(self, *arguments: Any) -> Any:
        found = super().expand_rule(*arguments)
        self.items += len(found) + 1
        spend(len(found) + 1)
        if self.items > MAX_ITEMS:
            raise GrammarLimitError(f"the parser's states have more than {MAX_ITEMS} items")
        return found

    def compute_includes_lookback(self) -> None:
        spend(sum(len(state.closure) for state, _ in self.nonterminal_transitions) // 2)
        super().compute_includes_lookback()


def tables_of(rules: list[Any], start: str) -> LalrTables:
    """The tables of lark's rules. Raises lark's GrammarError for a conflict, and GrammarLimitError."""
    analysis = _BoundedAnalyzer(ParserConf(rules, {}, [start]))
    analysis.compute_lalr()
    table = analysis.parse_table
    numbers: dict[Any, int] = {}
    lengths: list[tuple[str, int]] = []
    states = [NamedLalrState() for _ in table.states]
    terminals: set[str] = set()
    shifted: set[int] = set()
    left_sides = {rule.origin.name for rule in rules}
    for number, actions in table.states.items():
        state = states[number]
        for name, (action, target) in actions.items():
            if action is not Shift:
                if target not in numbers:
                    numbers[target] = len(lengths)
                    lengths.append((target.origin.name, len(target.expansion)))
                target = -1 - numbers[target]
            if name == END:
                state.end = target
            elif name in left_sides:
                state.gotos[name] = target
            else:
                state.actions[name] = target
                terminals.add(name)
                if target >= 0:
                    shifted.add(target)
    return LalrTables(lengths, states, table.start_states[start], table.end_states[start], terminals, shifted)


class _Spelled(PatternRE):
    r"""A pattern that lark cannot compile because of its `\p{..}`; it keeps its place in the order."""

    def to_regexp(self) -> str:
        return PatternRE(spelled_out(self.value), self.flags).to_regexp()


def _readable(terminal: Any) -> Any:
    """The terminal with a pattern that `re` can compile."""
    pattern = terminal.pattern
    if not isinstance(pattern, PatternRE) or not any(name in pattern.value for name in ("\\p{", "\\P{")):
        return terminal
    return TerminalDef(terminal.name, _Spelled(pattern.value, pattern.flags, pattern.raw), terminal.priority)


class LexerOrder:
    """The order in which lark's lexers try terminals, and which terminals are keywords of which.

    terminals  all terminals with a pattern
    ignore     the names of the ignored ones

    Raises lark's errors for a terminal that can be empty, or whose pattern cannot be read.
    """

    def __init__(self, terminals: Sequence[Any], ignore: Collection[str]) -> None:
        self._sorted = _Lexer(LexerConf(list(map(_readable, terminals)), re, ignore)).terminals
        self._ignore = frozenset(ignore)
        self._entries_of: dict[frozenset[str], list[tuple[str, bool, bool]]] = {}
        self._is_matched: dict[tuple[str, str], bool] = {}

    def entries(self, accepted: Mapping[str, int]) -> list[tuple[str, bool, bool]]:
        """The lexer's entries for a state that accepts these terminals: a name, whether it is a keyword, and
        whether it is ignored."""
        key = frozenset(accepted)
        found = self._entries_of.get(key)
        if found is None:
            tried = [one for one in self._sorted if one.name in key | self._ignore]
            found = self._entries_of[key] = self._entries(tried)
        return found

    def _entries(self, terminals: Sequence[Any]) -> list[tuple[str, bool, bool]]:
        """As lark's `_create_unless`: a literal is a keyword of each expression that matches all of it.

        A literal with a flag that the expression lacks is also tried on its own. Ignored terminals have no
        keywords, and a keyword is never ignored.
        """
        literals = [one for one in terminals if isinstance(one.pattern, PatternStr)]
        keywords = {
            one.name: [literal for literal in literals if self._matches(one, literal)]
            for one in terminals
            if not isinstance(one.pattern, PatternStr)
        }
        embedded = {
            literal.name
            for one in terminals
            for literal in keywords.get(one.name, ())
            if literal.pattern.flags <= one.pattern.flags
        }
        found = []
        for one in terminals:
            if one.name in embedded:
                continue
            ignored = one.name in self._ignore
            if not ignored:
                found += [(literal.name, True, False) for literal in keywords.get(one.name, ())]
            found.append((one.name, False, ignored))
        return found

    def _matches(self, one: Any, literal: Any) -> bool:
        if one.priority != literal.priority:
            return False
        key = one.name, literal.name
        if key not in self._is_matched:
            match = re.match(one.pattern.to_regexp(), literal.pattern.value)
            self._is_matched[key] = match is not None and match.group() == literal.pattern.value
        return self._is_matched[key]
