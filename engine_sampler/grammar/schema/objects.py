"""Objects: what a way to be valid asks of keys and members, and the plans by which they are written.

A `Plan` has no open questions left: these keys may stand there, each once, those have to; any number of
others from these regions; so many in all. Its automaton needs nothing but bits and counters, and
wherever it is, it can still reach the closing brace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TypeAlias

from ..errors import GrammarLimitError
from ..program.expression import EMPTY, Expression
from .formula import (
    ALL,
    ALWAYS,
    AND,
    CLAUSE,
    HAS,
    NEVER,
    NOT,
    OR,
    PROPERTIES,
    SIZE,
    SOME,
    TRUE,
    WITHIN,
    Formula,
    conjunction,
    disjunction,
)
from .limits import MAX_CELLS, MAX_PATTERNS
from .nodes import Expander
from .strings import holds, is_possible, string_set
from .texts import can_be_written

Literals: TypeAlias = frozenset[int]
Productive: TypeAlias = Callable[[Literals], bool]
Demand: TypeAlias = "tuple[tuple[str, bool], ...]"

Truth: TypeAlias = tuple[bool, ...]
"""Of each pattern whether a key matches it."""

_MAX_PLANS = 512
_FEW_PATTERNS = 4
"""Of more patterns than these it is found out which can match the same key."""


@dataclass(frozen=True)
class Region:
    """Keys that are not told apart, and what their values must satisfy.

    wishes  the numbers of the wishes that a member with such a key may fulfil
    """

    keys: Expression
    literals: Literals
    wishes: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Wish:
    """Some member whose key is in a set, and whose value satisfies literals, has to be there."""

    keys: Formula
    literals: Literals


@dataclass(frozen=True)
class Plan:
    """One way to write an object.

    names     of each key that is told apart what its value must satisfy
    required  those of them that have to be there
    regions   all other keys
    demands   at the end one literal (key, whether it is there) of each must be true
    wishes    by number: some member from a region that has it must satisfy its literal
    slots     members from regions that have to be there once, with what their values must satisfy
    low, high the number of members
    """

    names: dict[str, Literals]
    required: frozenset[str]
    regions: tuple[Region, ...]
    demands: tuple[Demand, ...]
    wishes: dict[int, Wish]
    slots: tuple[Region, ...] = ()
    low: int = 0
    high: int | None = None
    settled: frozenset[int] = field(default=frozenset())

    def required_count(self) -> int:
        """How many members have to be there."""
        return len(self.required) + len(self.slots)


class ObjectShape:
    """Objects that satisfy assertions; see `plans`."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._simple = not (plan.demands or plan.wishes or plan.low or plan.high is not None)

    def is_productive(self, productive: Productive) -> bool:
        """Whether there is such an object, given which members there are."""
        names = self._plan.names
        if not self._simple:
            return bool(self.plans(productive))
        return all(name in names and productive(names[name]) for name in self._plan.required)

    def members(self) -> Iterable[Literals]:
        """What the values of its members may have to satisfy."""
        return {*self._plan.names.values(), *(region.literals for region in self._plan.regions)}

    def plans(self, productive: Productive) -> list[Plan]:
        """All plans, given which members there are."""
        names = {name: of for name, of in self._plan.names.items() if productive(of)}
        regions = tuple(region for region in self._plan.regions if productive(region.literals))
        first = replace(self._plan, names=names, regions=regions)
        if self._simple:
            return [first] if first.required <= names.keys() else []
        done: list[Plan] = []
        waiting = [first]
        while waiting:
            if len(waiting) + len(done) > _MAX_PLANS:
                raise GrammarLimitError(f"an object of the JSON Schema has more than {_MAX_PLANS} plans")
            plan = waiting.pop()
            if not plan.required <= plan.names.keys():
                continue
            step = _demanded(plan)
            if step is None:
                step = _wished(plan, self._plan.regions, productive)
            if step is not None:
                waiting += reversed(step)
            elif _fits(plan):
                done.append(plan)
        return done


def _fits(plan: Plan) -> bool:
    least = plan.required_count()
    if plan.high is not None and max(least, plan.low) > plan.high:
        return False
    return bool(plan.regions) or len(plan.names) + len(plan.slots) >= plan.low


def _require(plan: Plan, name: str) -> Plan:
    return replace(plan, required=plan.required | {name})


def _forbid(plan: Plan, name: str) -> Plan:
    return replace(plan, names={other: of for other, of in plan.names.items() if other != name})


def _demanded(plan: Plan) -> list[Plan] | None:
    """The plans that come of a demand that registers cannot take care of; None if there is none."""
    kept: list[Demand] = []
    for demand in plan.demands:
        if any(name in plan.required if value else name not in plan.names for name, value in demand):
            continue
        left = tuple(
            (name, value)
            for name, value in demand
            if (name in plan.names if value else name not in plan.required)
        )
        if len(left) < 2 or plan.high is not None or not any(value for _, value in left):
            rest = replace(plan, demands=tuple(other for other in plan.demands if other is not demand))
            return [_require(rest, name) if value else _forbid(rest, name) for name, value in left]
        kept.append(left)
    if tuple(kept) != plan.demands:
        return [replace(plan, demands=tuple(kept))]
    return None


def _wished(plan: Plan, regions: Iterable[Region], productive: Productive) -> list[Plan] | None:
    """The plans that come of the first wish that is still open; None if there is none."""
    for number, wish in plan.wishes.items():
        if number in plan.settled:
            continue
        keys = [name for name in plan.names if holds(wish.keys, name)]
        without = replace(plan, wishes={n: other for n, other in plan.wishes.items() if n != number})
        if any(name in plan.required and wish.literals <= plan.names[name] for name in keys):
            return [without]
        there = [
            region
            for region in plan.regions
            if number in region.wishes and productive(region.literals | wish.literals)
        ]
        if there and plan.high is None:
            return [replace(plan, settled=plan.settled | {number})]
        return [
            *_by_name(without, keys, wish, productive),
            *_by_slot(without, there, number, wish, productive),
        ]
    return None


def _by_name(plan: Plan, keys: list[str], wish: Wish, productive: Productive) -> list[Plan]:
    found = []
    for name in keys:
        literals = plan.names[name] | wish.literals
        if productive(literals):
            found.append(_require(replace(plan, names={**plan.names, name: literals}), name))
    return found


def _by_slot(
    plan: Plan, regions: list[Region], number: int, wish: Wish, productive: Productive
) -> list[Plan]:
    found = []
    for index, slot in enumerate(plan.slots):
        literals = slot.literals | wish.literals
        if number in slot.wishes and productive(literals):
            slots = (*plan.slots[:index], replace(slot, literals=literals), *plan.slots[index + 1 :])
            found.append(replace(plan, slots=slots))
    for region in regions:
        slot = replace(region, literals=region.literals | wish.literals)
        found.append(replace(plan, slots=(*plan.slots, slot)))
    return found


def object_shape(atoms: Iterable[Formula], expander: Expander) -> ObjectShape:
    """The objects of which all the assertions are true."""
    names: dict[str, list[int]] = {}
    required: set[str] = set()
    absent: set[str] = set()
    demands: list[Demand] = []
    everywhere: list[tuple[Formula, int]] = []
    wishes: list[Wish] = []
    low, high = 0, None
    for atom in atoms:
        kind = atom[0]
        if kind == PROPERTIES:
            for name, literal in atom[1]:
                names.setdefault(name, []).append(literal)
            expander.budget.spend(len(atom[1]))
        elif kind == HAS:
            (required if atom[2] else absent).add(atom[1])
        elif kind == CLAUSE:
            demands.append(atom[1])
        elif kind == ALL:
            everywhere.append((atom[1], atom[2]))
        elif kind == SOME:
            wishes.append(Wish(atom[1], frozenset((atom[2],)) - {ALWAYS}))
        elif kind == SIZE:
            low = max(low, atom[1])
            high = atom[2] if high is None or (atom[2] is not None and atom[2] < high) else high
    mentioned = [name for one in demands for name, _ in one]
    mentioned += [name for keys, _ in everywhere for name in _constants(keys)]
    mentioned += [name for wish in wishes for name in _constants(wish.keys)]
    for name in (*required, *absent, *mentioned):
        names.setdefault(name, [])
    patterns: dict[Formula, None] = {}
    for keys in (*(keys for keys, _ in everywhere), *(wish.keys for wish in wishes)):
        _patterns(keys, patterns)
    expander.budget.spend(len(patterns) * sum(map(len, names)) // 16)
    members = {}
    for name, literals in names.items():
        if name not in absent:
            of = frozenset(
                literals + [literal for keys, literal in everywhere if holds(keys, name, expander.budget)]
            ) - {ALWAYS}
            if NEVER not in of and can_be_written(name):
                members[name] = of
    expander.budget.spend(len(names) * (1 + len(everywhere)) // 4)
    regions = _regions(list(names), list(patterns), everywhere, wishes)
    numbered = dict(enumerate(wishes))
    return ObjectShape(
        Plan(members, frozenset(required), regions, tuple(demands), numbered, low=low, high=high)
    )


def _constants(keys: Formula) -> Iterable[str]:
    """The keys that a set of keys names."""
    if keys[0] == WITHIN:
        names: Iterable[str] = keys[1]
        return names
    if keys[0] == NOT:
        return _constants(keys[1])
    return [name for part in keys[1] for name in _constants(part)] if keys[0] in (AND, OR) else ()


def _unnamed(keys: Formula, truths: dict[Formula, bool]) -> bool:
    """Whether a set has a key that nothing names, given which patterns match it."""
    kind = keys[0]
    if kind == WITHIN:
        return False
    if kind == NOT:
        return not _unnamed(keys[1], truths)
    if kind == AND:
        return all(_unnamed(part, truths) for part in keys[1])
    if kind == OR:
        return any(_unnamed(part, truths) for part in keys[1])
    return truths[keys]


def _patterns(keys: Formula, found: dict[Formula, None]) -> None:
    if keys[0] in (AND, OR):
        for part in keys[1]:
            _patterns(part, found)
    elif keys[0] == NOT:
        _patterns(keys[1], found)
    elif keys[0] != WITHIN:
        found[keys] = None


def _regions(
    names: list[str], patterns: list[Formula], everywhere: list[tuple[Formula, int]], wishes: list[Wish]
) -> tuple[Region, ...]:
    """All keys but `names`, split by what is asked of their values."""
    every = _truths(patterns)
    cells: dict[tuple[Literals, frozenset[int]], list[Truth]] = {}
    for truth in every:
        truths = dict(zip(patterns, truth, strict=True))
        literals = frozenset(literal for keys, literal in everywhere if _unnamed(keys, truths)) - {ALWAYS}
        if NEVER not in literals:
            own = frozenset(number for number, wish in enumerate(wishes) if _unnamed(wish.keys, truths))
            cells.setdefault((literals, own), []).append(truth)
    found = []
    for (literals, own), truths_of in cells.items():
        keys = _key_texts(names, patterns, [] if len(truths_of) == len(every) else truths_of)
        if keys != EMPTY:
            found.append(Region(keys, literals, own))
    return tuple(found)


def _truths(patterns: list[Formula]) -> list[Truth]:
    """The ways in which a key can match the patterns; of many, only those that there are."""
    if len(patterns) <= _FEW_PATTERNS:
        return list(product((True, False), repeat=len(patterns)))
    if len(patterns) > MAX_PATTERNS:
        raise GrammarLimitError(f"there are more than {MAX_PATTERNS} patterns of keys in one object")
    found: list[Truth] = [()]
    for number in range(1, len(patterns) + 1):
        longer = [(*truth, value) for truth in found for value in (True, False)]
        found = [truth for truth in longer if is_possible(_matching(patterns[:number], truth))]
        if len(found) > MAX_CELLS:
            raise GrammarLimitError(
                f"the patterns of one object tell more than {MAX_CELLS} sets of keys apart"
            )
    return found


def _matching(patterns: list[Formula], truth: Truth) -> Formula:
    return conjunction(atom if true else (NOT, atom) for atom, true in zip(patterns, truth, strict=True))


def _key_texts(names: list[str], patterns: list[Formula], truths: list[Truth]) -> Expression:
    """The texts of all keys but `names` that match the patterns in one of some ways; in any, if none."""
    if not truths:
        return string_set((NOT, (WITHIN, frozenset(names))) if names else TRUE)
    allowed = disjunction(_matching(patterns, truth) for truth in truths)
    inside = frozenset(name for name in names if holds(allowed, name))
    return string_set(conjunction([allowed, (NOT, (WITHIN, inside))]) if inside else allowed)
