"""Terminals after which an LALR parser cannot go on: nothing that it expects may follow their longest match.

One `/a+/` is never followed by another, nor a comment up to the end of its line by anything but that end.
Where such a terminal leads nowhere, it must not even begin, or a text would be begun that can never be
finished.

The stack of the parser is not followed: once a rule is reduced, the parser may be in any state that its left
side leads to. And of what follows a terminal, only the next terminal is compared with what may not follow. So
whatever is found here leads nowhere, but more may.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import GrammarLimitError
from ..program.expression import EMPTY, Expression, union
from ..program.lalr import ACCEPT, IGNORED, KEYWORD, NOTHING, LalrState, Pairs, Parser
from ..program.rules import Rules
from ..work import half_of_work, spend
from .lexer_ways import ExactWays, LexerEntry, RoughWays, Way

END = -1
"""The end of the text, as a terminal."""


def without_dead_ends(parser: Parser, rules: Rules) -> Parser:
    """The parser, in which the terminals that lead nowhere are read as ones that it does not expect.

    rules  the terminals of the parser; those new ones are added to them
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

    states = []
    for number, state in enumerate(parser.states):
        entries: Pairs = []
        for (symbol, kind), nowhere in zip(state.entries, endings.nowhere(number), strict=True):
            name = rules.terminal_names[symbol]
            if nowhere is None:
                symbol, kind = new(name, rules.expressions[symbol] or EMPTY), kind & KEYWORD
            elif nowhere != EMPTY:
                entries.append((new(name, nowhere), KEYWORD))
            entries.append((symbol, kind))
        states.append(state._replace(entries=entries))
    return parser._replace(states=states)


class _Kind:
    """States of the parser with the same actions.

    entries  of their lexer
    after    for each entry the kinds of the states in which the parser may be after it, by their place in
             `_afters`
    ends     whether the text may end
    leading  the ways of entries that lead on to an end
    first    the bytes that these begin with
    """

    def __init__(self, state: LalrState) -> None:
        self.state = state
        self.entries: list[LexerEntry] = []
        self.after: list[int] = []
        self.ends = False
        self.leading: dict[Way, None] = {}
        self.first = 0


class _Endings:
    """The ways in which the entries of lexers end that lead nowhere.

    All terminals are looked at roughly first, then more closely where this does not suffice.
    """

    def __init__(self, parser: Parser, expressions: Sequence[Expression | None]) -> None:
        self._parser = parser
        self._expressions = expressions
        self._actions = [{**dict(state.actions), END: state.end} for state in parser.states]
        self._gotos: dict[int, set[int]] = {}
        for state in parser.states:
            for side, target in state.gotos:
                self._gotos.setdefault(side, set()).add(target)
        self._after_reduction: dict[tuple[int, int], tuple[int, ...]] = {}
        self._rough = RoughWays(expressions)
        self._ways: RoughWays | ExactWays = self._rough
        self._read_states()

    def _read_states(self) -> None:
        """Find the kinds of states, and what may come after each entry."""
        kinds: dict[tuple[tuple[tuple[int, int], ...], bool], _Kind] = {}
        self._kinds: list[_Kind] = []
        for state in self._parser.states:
            key = self._actions_by_side(state), bool(state.entries)
            if key not in kinds:
                kinds[key] = _Kind(state)
            self._kinds.append(kinds[key])
        self._distinct = list(kinds.values())
        self._afters: list[list[_Kind]] = []
        places: dict[tuple[int, ...], int] = {}
        entries: dict[tuple[tuple[int, int], ...], list[LexerEntry]] = {}
        for number, kind in enumerate(self._kinds):
            if kind.after or not kind.state.entries:
                continue
            listed = tuple(kind.state.entries)
            if listed not in entries:
                entries[listed] = self._entries(listed)
            kind.entries = entries[listed]
            for entry in kind.entries:
                after = self._after(number, entry)
                if after not in places:
                    places[after] = len(self._afters)
                    self._afters.append(list(dict.fromkeys(self._kinds[one] for one in after)))
                kind.after.append(places[after])
        for number, kind in enumerate(self._kinds):
            kind.ends = self._may_end(number)

    def _actions_by_side(self, state: LalrState) -> tuple[tuple[int, int], ...]:
        """The actions of a state, with the left sides of the rules that it reduces."""
        rules = self._parser.rules
        spend(1 + len(state.actions) // 8)
        actions = (*state.actions, (END, state.end))
        return tuple((symbol, to if to >= 0 else -1 - rules[-1 - to][0]) for symbol, to in actions)

    def found(self) -> bool:
        """Whether anything leads nowhere: then `nowhere` knows what."""
        suspects = self._suspects()
        if suspects:
            self._rough.examined = suspects
            suspects = self._suspects()
        if not suspects:
            return False
        self._ways = ExactWays(self._rough, self._expressions, suspects)
        return bool(self._suspects())

    def nowhere(self, state: int) -> list[Expression | None]:
        """For each entry of a state its texts that lead nowhere; None for all of them."""
        kind = self._kinds[state]
        found: list[Expression | None] = []
        for place, entry in enumerate(kind.entries):
            dead, ways = self._dead(kind, place), self._ways.of(entry)
            found.append(None if dead and len(dead) == len(ways) else union(*(way.texts for way in dead)))
        return found

    def _dead(self, kind: _Kind, place: int) -> list[Way]:
        """The ways in which an entry ends that lead nowhere. The parser may not expect it in the first
        place."""
        expected = self._afters[kind.after[place]]
        return [way for way in self._ways.of(kind.entries[place]) if expected and way not in kind.leading]

    def _suspects(self) -> set[int]:
        """The terminals of entries that lead nowhere, as far as their ways tell."""
        self._follow()
        return {
            entry.whole
            for kind in self._distinct
            for place, entry in enumerate(kind.entries)
            if self._dead(kind, place)
        }

    def _follow(self) -> None:
        """Find the ways that lead on to an end, from those ends backwards."""
        before: list[dict[Way, list[_Kind]]] = [{} for _ in self._afters]
        places: dict[_Kind, list[int]] = {kind: [] for kind in self._distinct}
        for place, after in enumerate(self._afters):
            for kind in after:
                places[kind].append(place)
        for kind in self._distinct:
            kind.leading, kind.first = {}, 0
            spend(1 + len(kind.entries) // 2)
            for entry, place in zip(kind.entries, kind.after, strict=True):
                for way in self._ways.of(entry):
                    before[place].setdefault(way, []).append(kind)
        waiting = {kind: None for kind in self._distinct if kind.ends}
        while waiting:
            kind = next(iter(waiting))
            del waiting[kind]
            for place in places[kind]:
                spend(1 + len(before[place]) // 2)
                for way in [way for way in before[place] if self._leads_on(way, kind)]:
                    for one in before[place].pop(way):
                        one.leading[way] = None
                        one.first |= way.first
                        waiting[one] = None

    def _leads_on(self, way: Way, kind: _Kind) -> bool:
        """Whether the text may end or go on in a state after a terminal that has ended in some way."""
        if kind.first & way.following or (kind.ends and self._ways.may_end(way)):
            return True
        return any(self._ways.may_follow(way, other) for other in kind.leading)

    def _may_end(self, number: int) -> bool:
        """Whether the text may end in a state, or go on with a special token."""
        end = self._actions[number][END]
        if end == ACCEPT or (end < 0 and ACCEPT in self._reduced(end, END)):
            return True
        return any(self._expressions[symbol] is None for symbol in self._actions[number] if symbol != END)

    def _entries(self, pairs: Sequence[tuple[int, int]]) -> list[LexerEntry]:
        """The entries of a lexer."""
        found: list[LexerEntry] = []
        keywords: list[tuple[int, int]] = []
        earlier = self._rough.earlier()
        for symbol, kind in pairs:
            keywords.append((symbol, kind))
            if kind & KEYWORD:
                continue
            before = earlier.rivals(symbol)
            spend(2 + len(before) // 4)
            found += (LexerEntry(one, symbol, kind_of_one, before) for one, kind_of_one in keywords)
            earlier.add(symbol)
            keywords = []
        return found

    def _after(self, state: int, entry: LexerEntry) -> tuple[int, ...]:
        """The states in which the parser may be after an entry of a state."""
        if entry.kind & IGNORED:
            return (state,)
        action = self._actions[state].get(entry.symbol, NOTHING)
        if action == NOTHING:
            return ()
        return (action,) if action >= 0 else self._reduced(action, entry.symbol)

    def _reduced(self, action: int, symbol: int) -> tuple[int, ...]:
        """The states after a terminal before which a rule is reduced; ACCEPT after the end."""
        key = self._parser.rules[-1 - action][0], symbol
        if key not in self._after_reduction:
            found: dict[int, None] = {}
            sides = {key[0]}
            for side in (waiting := [key[0]]):
                for goto in self._gotos.get(side, ()):
                    then = self._actions[goto].get(symbol, NOTHING)
                    if then >= 0 and then != NOTHING:
                        found[then] = None
                    elif then < 0 and (other := self._parser.rules[-1 - then][0]) not in sides:
                        sides.add(other)
                        waiting.append(other)
            spend(1 + len(sides) // 2)
            self._after_reduction[key] = tuple(found)
        return self._after_reduction[key]
