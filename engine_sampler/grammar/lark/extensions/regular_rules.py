"""What a rule derives as one expression, for rules that are one terminal.

A rule may name others, and itself at the end of its alternatives: `r ::= "a" r | "b"` is `a*b`. The rules
that lead to each other are equations, each a sum of rules with what stands in front of them; they are solved
one after the other, since the least `r` of `r = A r | B` is `A*B`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any, NamedTuple

from lark.grammar import NonTerminal

from ...errors import GrammarError, GrammarLimitError
from ...program.expression import EMPTY, EPSILON, Expression, concat, repeat, union
from ...program.reaching import unite
from ...work import spend
from ..statements import ENDLESS, MAX_BRACKETS, MAX_GROWTH

MAX_TOGETHER = 8
"""The most rules that lead to each other."""

MAX_DEPTH = 2 * MAX_BRACKETS
"""The deepest nesting of expressions."""

MAX_COUNT = 1_000_000
"""The highest bound of a repetition."""

_OPERATORS = {"?": (0, 1), "*": (0, None), "+": (1, None)}


class RegularRule(NamedTuple):
    """A rule that is one terminal.

    name    of the rule
    trees   the tree of each rule
    marked  the rules that cannot be part of another terminal, because of their attributes
    shown   the names of rules as they were written
    """

    name: str
    trees: Mapping[str, Any]
    marked: Container[str]
    shown: Mapping[str, str]

    def expression(self, atom: Callable[[Any], tuple[Expression, int]]) -> Expression:
        """The texts of the rule. Raises GrammarError without a place, which names the rule that is at fault.

        atom   the expression of a literal or of a terminal, and its size; raises GrammarError for a token
        """
        return _Solver(self, atom).solve()


class _Sum(NamedTuple):
    """What a part derives: `ends`, or what is before a rule, and then what that rule derives.

    before  by the names of rules that are not solved yet
    depth   how deep the expressions are nested, at most
    size    how large they are, at most, where what they share counts as often as it is used
    """

    ends: Expression
    before: dict[str, Expression]
    depth: int
    size: int


_EPSILON = _Sum(EPSILON, {}, 0, 1)


class _Solver:
    def __init__(self, rule: RegularRule, atom: Callable[[Any], tuple[Expression, int]]) -> None:
        self._rule = rule
        self._atom = atom
        self._solved: dict[str, _Sum] = {}
        self._uses: dict[str, list[str]] = {}
        """The rules that each rule names."""
        self._groups: dict[str, list[str]] = {}
        """The rules that lead to each other, by each of them."""

    def solve(self) -> Expression:
        self._group()
        waiting = [self._rule.name]
        while waiting:
            group = self._groups[waiting[-1]]
            below = {used for name in group for used in self._uses[name] if used not in self._solved}
            if further := sorted(below.difference(group)):
                waiting += further
            elif waiting.pop() not in self._solved:
                self._solve(group)
        return self._solved[self._rule.name].ends

    def _group(self) -> None:
        """Find which rules lead to each other among those that the terminal consists of."""
        numbers = {self._rule.name: 0}
        for name in (names := [self._rule.name]):  # it grows during the loop
            if len(names) > 1 and name in self._rule.marked:
                raise GrammarError(f"{self._shown(name)} has attributes of its own, within one terminal")
            self._uses[name] = _names_in(self._rule.trees[name])
            for used in self._uses[name]:
                if used not in numbers:
                    numbers[used] = len(names)
                    names.append(used)
        edges = [[numbers[used] for used in self._uses[name]] for name in names]
        members: dict[int, list[str]] = {}
        for name, group in zip(names, unite([0] * len(names), edges), strict=True):
            members.setdefault(group, []).append(name)
            self._groups[name] = members[group]

    def _shown(self, name: str) -> str:
        return f"the rule {self._rule.shown.get(name, name)}"

    def _solve(self, group: list[str]) -> None:
        """Solve the equations of rules that lead to each other, and to no others that are not solved."""
        if len(group) > MAX_TOGETHER:
            more = f"more than {MAX_TOGETHER} rules that lead to each other"
            raise GrammarLimitError(f"{self._shown(group[0])}: {more}, within one terminal")
        sums = {name: self._of(self._rule.trees[name]) for name in group}
        for number, name in enumerate(group):
            if own := sums[name].before.pop(name, None):
                front = sums[name]._replace(ends=repeat(own), before={})
                sums[name] = self._in_order([front, sums[name]])
            for other in group[number + 1 :]:
                self._substitute(name, sums[name], other, sums)
        for name in reversed(group):
            for other in list(sums[name].before):
                self._substitute(other, self._solved[other], name, sums)
            self._solved[name] = sums[name]

    def _substitute(self, name: str, found: _Sum, other: str, sums: dict[str, _Sum]) -> None:
        """Replace the rule `name` in the sum of another one by what it is."""
        front = sums[other].before.pop(name, None)
        if front is not None:
            behind = self._in_order([sums[other]._replace(ends=front, before={}), found])
            sums[other] = self._any_of([sums[other], behind])

    def _of(self, node: Any) -> _Sum:
        if isinstance(node, NonTerminal):
            return self._solved.get(node.name) or _Sum(EMPTY, {node.name: EPSILON}, 0, 1)
        child = node.children[0] if node.children else None
        if node.data == "value" and not isinstance(child, NonTerminal):
            expression, size = self._atom(child)
            return _Sum(expression, {}, 1, 1 + size)
        if node.data == "expr":
            return self._repeated(self._of(child), *node.children[1:])
        parts = [self._of(part) for part in node.children]
        return self._any_of(parts) if node.data == "expansions" else self._in_order(parts)

    def _repeated(self, part: _Sum, operator: Any, low: Any = "", high: Any = "") -> _Sum:
        bounds = (int(low), None if int(high) == ENDLESS else int(high)) if low else _OPERATORS[operator]
        if max(bounds[0], bounds[1] or 0) > MAX_COUNT:
            raise GrammarLimitError(f"a count is above {MAX_COUNT}")
        if not part.before:
            return self._checked(_Sum(repeat(part.ends, *bounds), {}, part.depth + 1, part.size + 1))
        if bounds != (0, 1):
            self._refuse(part)
        return self._any_of([part, _EPSILON])

    def _in_order(self, parts: list[_Sum]) -> _Sum:
        """One part after the other."""
        if len(parts) == 1:
            return parts[0]
        *fronts, last = [part for part in parts if part is not _EPSILON] or [_EPSILON]
        for part in fronts:
            if part.before:
                self._refuse(part)
        front = [part.ends for part in fronts]
        before = {name: concat(*front, part) for name, part in last.before.items()}
        return self._checked(_Sum(concat(*front, last.ends), before, *_measure(parts)))

    def _any_of(self, parts: list[_Sum]) -> _Sum:
        """Any one of the parts."""
        if len(parts) == 1:
            return parts[0]
        before: dict[str, list[Expression]] = {}
        for name, front in (pair for part in parts for pair in part.before.items()):
            before.setdefault(name, []).append(front)
        ends = union(*(part.ends for part in parts))
        fronts = {name: union(*some) for name, some in before.items()}
        return self._checked(_Sum(ends, fronts, *_measure(parts)))

    def _checked(self, terms: _Sum) -> _Sum:
        """`terms`, if it is neither too deep nor too large."""
        spend(2)
        for what, measure, most in (("deep", terms.depth, MAX_DEPTH), ("large", terms.size, MAX_GROWTH)):
            if measure > most:
                text = f"a terminal is too {what} with the rules that it consists of: more than {most}"
                raise GrammarLimitError(text)
        return terms

    def _refuse(self, part: _Sum) -> None:
        """Raise an error about a part that is not at the end."""
        name = self._shown(next(iter(part.before)))
        raise GrammarError(f"{name} leads back to itself, and not at the end only, within one terminal")


def _names_in(tree: Any) -> list[str]:
    """The rules that a tree names."""
    names: dict[str, None] = {}
    nodes = [tree]
    while nodes:
        node = nodes.pop()
        spend()
        if isinstance(node, NonTerminal):
            names[node.name] = None
        nodes += getattr(node, "children", ())
    return list(names)


def _measure(parts: list[_Sum]) -> tuple[int, int]:
    """The depth and the size of what is made of some parts."""
    return max((part.depth for part in parts), default=0) + 1, sum(part.size for part in parts) + 1
