"""Budgets of the parts of a text that rules derive: how many tokens may begin in them.

The rules that such a rule uses are copied for it, with terminals of their own: those that a part may begin
with, and those that go on with it. So the terminals that are read tell where a part begins, and whether the
text is in it. The language stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..errors import GrammarLimitError
from ..work import spend
from .bodies import ACCEPT, Edge, PlainEdge
from .expression import looks_ahead, nullable

if TYPE_CHECKING:
    from .rules import Rules

MAX_WITHIN = 4
"""The most parts with budgets within each other."""


_STEPS = 12
"""The steps for an edge, or a symbol, that is copied."""


class BudgetedPart(NamedTuple):
    """A part with a budget.

    rule    the symbol of its rule
    budget  how many tokens may begin in it
    """

    rule: int
    budget: int


class _Place(NamedTuple):
    """Where a copy of a symbol stands.

    parts  the parts that it is in, outer ones first, each with a smaller budget than the one around it
    begun  how many of these have begun before it
    """

    parts: tuple[BudgetedPart, ...] = ()
    begun: int = 0


def apply_budgets(rules: Rules, given: Mapping[int, int]) -> None:
    """Bound the tokens that may begin in each text of the rules `given`: by their symbols, how many. Raises
    GrammarLimitError if more than MAX_WITHIN of them bind within each other."""
    _Copying(rules, given).run()


class _Copying:
    def __init__(self, rules: Rules, given: Mapping[int, int]) -> None:
        self._rules = rules
        self._given = given
        self._empty = _empty_rules(rules)
        self._nothing = 0
        self._copies: dict[tuple[int, _Place], int] = {}
        self._waiting: list[tuple[int, int, _Place]] = []

    def run(self) -> None:
        rules = self._rules
        start = rules.start
        rules.start = self._symbol(start, _Place())
        originals = {start: None} if rules.start == start else {}
        self._waiting += [(start, start, _Place()) for start in originals]
        while self._waiting:
            origin, copy, place = self._waiting.pop()
            before = rules.states_of(origin)
            spend(_STEPS * (1 + sum(map(len, before))))
            states = self._states(before, place)
            if copy != origin:
                rules.redefine(origin, copy, states)
                continue
            used = dict.fromkeys(edge[0] for edges in before for edge in edges if ACCEPT < edge[0] < 0)
            new = [symbol for symbol in used if symbol not in originals and symbol not in self._given]
            originals |= dict.fromkeys(new)
            self._waiting += [(symbol, symbol, place) for symbol in new]
            if any(symbol in self._given for symbol in used):
                rules.redefine(origin, origin, states)

    def _states(self, states: Sequence[Sequence[PlainEdge]], place: _Place) -> list[list[Edge]]:
        """The states of a copy: in a part that begins here, each twice, before and after its beginning."""
        after = _Place(place.parts, len(place.parts))
        moved = len(states) if place != after else 0
        found = [list(self._edges(edges, place, moved)) for edges in states]
        return found + [list(self._edges(edges, after, moved)) for edges in states] if moved else found

    def _edges(self, edges: Sequence[PlainEdge], place: _Place, moved: int) -> Iterator[Edge]:
        begins = place.begun < len(place.parts)
        for symbol, target, done in edges:
            yield Edge(self._symbol(symbol, place), target + moved, done)
            if begins and (symbol in self._empty or _is_left_out(self._rules, symbol)):
                yield Edge(self._empty_rule(), target, done)

    def _symbol(self, symbol: int, place: _Place) -> int:
        """The symbol that stands for `symbol` at a place."""
        if symbol == ACCEPT:
            return symbol
        budget = self._given.get(symbol, 0)
        if budget and all(budget < part.budget for part in place.parts):
            place = _Place((*place.parts, BudgetedPart(symbol, budget)), place.begun)
            if len(place.parts) > MAX_WITHIN:
                name = self._rules.rule_names[-1 - symbol]
                text = f"the rule {name}: more than {MAX_WITHIN} rules with max_tokens are within each other"
                raise GrammarLimitError(text)
        if not place.parts:
            return symbol
        if (symbol, place) not in self._copies:
            self._copies[symbol, place] = self._copy(symbol, place)
        return self._copies[symbol, place]

    def _copy(self, symbol: int, place: _Place) -> int:
        rules = self._rules
        spend(_STEPS)
        if symbol >= 0:
            copy = rules.copy_of_terminal(symbol)
            own = rules.budgets.get(symbol, ())
            levels = (part.budget if i >= place.begun else -part.budget for i, part in enumerate(place.parts))
            rules.budgets[copy] = (*levels, *own)
            return copy
        copy = rules.rule(rules.rule_names[-1 - symbol])
        for names in (rules.captures, rules.marks):
            if symbol in names:
                names[copy] = names[symbol]  # type: ignore[assignment]
        self._waiting.append((symbol, copy, place))
        return copy

    def _empty_rule(self) -> int:
        """The symbol of a rule that derives the empty text only."""
        if not self._nothing:
            self._nothing = self._rules.rule("nothing")
            self._rules.define(self._nothing, ("sequence", ()))
        return self._nothing


def _empty_rules(rules: Rules) -> set[int]:
    """The rules that derive the empty text without a look at registers."""
    empty: set[int] = set()
    waiting: dict[int, list[tuple[int, int]]] = {}
    """By rules that may still turn out empty: the states behind them, each with its rule."""
    queue = [(symbol, 0) for symbol in range(-len(rules.rule_names), 0) if rules.states_of(symbol)]
    seen = set(queue)
    for rule, state in queue:  # which grows
        edges = rules.states_of(rule)[state]
        spend(2 + len(edges))
        for symbol, target, done in edges:
            after: list[tuple[int, int]] = []
            if done:
                continue
            if symbol == ACCEPT:
                after = waiting.pop(rule, []) if rule not in empty else []
                empty.add(rule)
            elif _is_left_out(rules, symbol) or symbol in empty:
                after = [(rule, target)]
            elif symbol < 0:
                waiting.setdefault(symbol, []).append((rule, target))
            new = dict.fromkeys(one for one in after if one not in seen)
            queue += new
            seen.update(new)
    return empty


def _is_left_out(rules: Rules, symbol: int) -> bool:
    """Whether a terminal matches the empty text, whatever follows."""
    expression = rules.expressions[symbol] if symbol >= 0 else None
    return expression is not None and nullable(expression) and not looks_ahead(expression)
