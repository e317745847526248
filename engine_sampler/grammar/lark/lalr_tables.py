"""What lark computes for its LALR parser and the contextual lexer of that."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lark.common import LexerConf, ParserConf
from lark.lexer import BasicLexer, PatternStr
from lark.parsers.lalr_analysis import LALR_Analyzer, Shift

from ..errors import GrammarLimitError

MAX_ITEMS = 400_000
"""The most items (rules that begin) in all states of a parser, as they are made."""

MAX_PAIRS = 5_000_000
"""The most pairs of an item and a rule that may come in the same state."""

END = "$END"

_Analyzer: Any = LALR_Analyzer
_Lexer: Any = BasicLexer


@dataclass
class State:
    """A state of the parser.

    actions  of each terminal the state to shift to, or -1 - the rule to reduce
    gotos    of each left side of a rule the state behind it
    end      -1 - the rule to reduce at the end of the text, or None
    """

    actions: dict[str, int] = field(default_factory=dict)
    gotos: dict[str, int] = field(default_factory=dict)
    end: int | None = None


@dataclass(frozen=True)
class Tables:
    """The tables of a parser.

    rules      of each rule its left side and the length of its right side
    states     the states, by number
    first      the state of an empty text
    last       the state behind a whole text
    terminals  all that have an action
    shifted    the states behind a terminal
    """

    rules: list[tuple[str, int]]
    states: list[State]
    first: int
    last: int
    terminals: set[str]
    shifted: set[int]


class _Limited(_Analyzer):  # type: ignore[misc]
    """Lark's analysis, with a bound on its work: a grammar may have exponentially many states."""

    items = 0

    def expand_rule(self, *given: Any) -> Any:
        found = super().expand_rule(*given)
        self.items += len(found) + 1
        if self.items > MAX_ITEMS:
            raise GrammarLimitError(f"the parser's states have more than {MAX_ITEMS} items")
        return found

    def compute_includes_lookback(self) -> None:
        if sum(len(state.closure) for state, _ in self.nonterminal_transitions) > MAX_PAIRS:
            raise GrammarLimitError(f"the parser's states have more than {MAX_PAIRS} pairs of items")
        super().compute_includes_lookback()


def tables_of(rules: list[Any], start: str) -> Tables:
    """The tables of lark's rules. Raises lark's GrammarError for a conflict, and GrammarLimitError."""
    analysis = _Limited(ParserConf(rules, {}, [start]))
    analysis.compute_lalr()
    table = analysis.parse_table
    numbers: dict[Any, int] = {}
    lengths: list[tuple[str, int]] = []
    states = [State() for _ in table.states]
    terminals: set[str] = set()
    shifted: set[int] = set()
    left = {rule.origin.name for rule in rules}
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
            elif name in left:
                state.gotos[name] = target
            else:
                state.actions[name] = target
                terminals.add(name)
                if target >= 0:
                    shifted.add(target)
    return Tables(lengths, states, table.start_states[start], table.end_states[start], terminals, shifted)


class LexerOrder:
    """In which order lark's lexers try terminals, and which of those are keywords of which.

    terminals  all terminals with a pattern
    ignore     the names of those that are ignored

    Raises lark's errors for a terminal that can be empty, or whose pattern cannot be read.
    """

    def __init__(self, terminals: Sequence[Any], ignore: Collection[str]) -> None:
        self._sorted = _Lexer(LexerConf(terminals, re, ignore)).terminals
        self._ignore = frozenset(ignore)
        self._known: dict[frozenset[str], list[tuple[str, bool, bool]]] = {}
        self._whole: dict[tuple[str, str], bool] = {}

    def entries(self, accepted: Mapping[str, int]) -> list[tuple[str, bool, bool]]:
        """Where the parser accepts these terminals: names, whether of a keyword, and whether ignored."""
        key = frozenset(accepted)
        if key not in self._known:
            self._known[key] = self._entries([one for one in self._sorted if one.name in key | self._ignore])
        return self._known[key]

    def _entries(self, terminals: Sequence[Any]) -> list[tuple[str, bool, bool]]:
        """As lark's `_create_unless`: a literal is a keyword of each expression that matches all of it.

        One with a flag that the expression lacks is tried by itself as well. What is ignored is so before
        it could be found to be a keyword; a keyword is never ignored.
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
        if key not in self._whole:
            match = re.match(one.pattern.to_regexp(), literal.pattern.value)
            self._whole[key] = match is not None and match.group() == literal.pattern.value
        return self._whole[key]
