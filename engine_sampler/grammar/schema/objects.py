"""Objects: the constraints of one disjunct on keys and members, and the plans that satisfy them.

A finished `Plan` leaves nothing to decide: the keys that may occur, each at most once, and those that must;
the regions from which any number of other keys may come; the total number of members. Its automaton needs
only bits and counters, and can reach the closing brace from every state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import product
from typing import NamedTuple, TypeAlias

from ..errors import GrammarLimitError
from ..program.expression import EMPTY, Expression
from ..work import sort, spend, spend_on_each
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
    weight,
)
from .limits import MAX_CELLS, MAX_PATTERNS
from .nodes import Expander
from .scalars.strings import holds, is_possible, some_truths, string_set
from .scalars.texts import is_encodable

Literals: TypeAlias = frozenset[int]
Productive: TypeAlias = Callable[[Literals], bool]
KeyClause: TypeAlias = "tuple[tuple[str, bool], ...]"

Truth: TypeAlias = tuple[bool, ...]
"""For each pattern, whether a key matches it."""

_MANY = 64
"""The number of keys beyond which each is counted where they are looked through."""

_MAX_PLANS = 512
_MAX_UNCHECKED_PATTERNS = 4
"""With more patterns than this, combinations of patterns that no key can match are eliminated."""


class Region(NamedTuple):
    """A set of keys that are treated alike, and the literals that their values must satisfy.

    keys          their texts in JSON; `names`: the keys themselves, as a formula
    requirements  the numbers of the requirements that a member with such a key may satisfy
    """

    keys: Expression
    literals: Literals
    requirements: frozenset[int] = frozenset()
    names: Formula = TRUE


class MemberRequirement(NamedTuple):
    """The requirement that some member has a key in a set and a value that satisfies literals."""

    keys: Formula
    literals: Literals


class Plan(NamedTuple):
    """One set of objects that an automaton with bits and counters can read.

    names         the literals that the value of each named key must satisfy
    required      the named keys that must be present
    regions       all other keys
    clauses       at the end, at least one literal (key, whether it is present) of each must be true
    requirements  by number: some member with one of its keys must satisfy its literals
    slots         regions from each of which one further member must be present
    low, high     bounds on the number of members
    settled       the numbers of requirements that bits check at the end
    """

    names: dict[str, Literals]
    required: frozenset[str]
    regions: tuple[Region, ...]
    clauses: tuple[KeyClause, ...]
    requirements: dict[int, MemberRequirement]
    slots: tuple[Region, ...] = ()
    low: int = 0
    high: int | None = None
    settled: frozenset[int] = frozenset()

    @property
    def counts_other_keys(self) -> bool:
        """Whether a key that the schema does not name changes the verdict if it occurs twice."""
        if self.requirements or len(self.slots) + bool(self.slots and self.regions) > 1:
            return True
        return bool(self.regions) and self.low - self.required_count() > 1

    def required_count(self) -> int:
        """The number of members that must be present."""
        return len(self.required) + len(self.slots)


class ObjectShape:
    """Objects that satisfy assertions; see `plans`."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._simple = not (plan.clauses or plan.requirements or plan.low or plan.high is not None)

    @property
    def names(self) -> Iterable[str]:
        """The keys that have constraints of their own, and may occur."""
        return self._plan.names

    @property
    def restricts_others(self) -> bool:
        """Whether the values of other keys have constraints."""
        return any(region.literals for region in self._plan.regions)

    def is_productive(self, productive: Productive) -> bool:
        """Whether such an object exists, given which members exist."""
        names = self._plan.names
        if not self._simple:
            return any(True for _ in self._plans(productive, False))
        required = spend_on_each(self._plan.required)
        return all(name in names and productive(names[name]) for name in required)

    def members(self) -> Iterable[Literals]:
        """The literals that the values of its members may have to satisfy."""
        if len(self._plan.names) > _MANY:
            spend(len(self._plan.names) // 8)
        return {*self._plan.names.values(), *(region.literals for region in self._plan.regions)}

    def plans(self, productive: Productive, ordered: bool = False) -> list[Plan]:
        """All finished plans, given which members exist; `ordered`: registers are not to be used."""
        return list(self._plans(productive, ordered))

    def _plans(self, productive: Productive, ordered: bool) -> Iterator[Plan]:
        first = self._plan
        given = spend_on_each(first.names.items())
        names = {name: literals for name, literals in given if productive(literals)}
        regions = tuple([region for region in first.regions if productive(region.literals)])
        if len(names) < len(first.names) or len(regions) < len(first.regions):
            first = first._replace(names=names, regions=regions)
        if self._simple:
            if first.required <= names.keys():
                yield first
            return
        done = 0
        waiting = [first]
        while waiting:
            if len(waiting) + done > _MAX_PLANS:
                raise GrammarLimitError(f"an object in the JSON Schema needs more than {_MAX_PLANS} plans")
            plan = waiting.pop()
            if not plan.required <= plan.names.keys():
                continue
            decided = ordered or plan.high is not None
            step = _split_clause(plan, decided)
            if step is None:
                step = _split_requirement(plan, productive, decided)
            if step is not None:
                waiting += reversed(step)
            elif _fits(plan):
                done += 1
                yield plan


def _fits(plan: Plan) -> bool:
    low = max(plan.required_count(), plan.low)
    if plan.high is not None and low > plan.high:
        return False
    return bool(plan.regions) or len(plan.names) + len(plan.slots) >= plan.low


def _require(plan: Plan, name: str) -> Plan:
    return plan._replace(required=plan.required | {name})


def _forbid(plan: Plan, name: str) -> Plan:
    return plan._replace(names={other: literals for other, literals in plan.names.items() if other != name})


def _split_clause(plan: Plan, decided: bool) -> list[Plan] | None:
    """The plans that result from a clause that registers cannot check; None if there is no such clause.

    decided  registers must not check any
    """
    kept: list[KeyClause] = []
    spend(20 + len(plan.names) + 4 * len(plan.clauses))
    for clause in plan.clauses:
        if any(name in plan.required if value else name not in plan.names for name, value in clause):
            continue
        left = tuple(
            (name, value)
            for name, value in clause
            if (name in plan.names if value else name not in plan.required)
        )
        if len(left) < 2 or decided or not any(value for _, value in left):
            rest = plan._replace(clauses=tuple(other for other in plan.clauses if other is not clause))
            return [_require(rest, name) if value else _forbid(rest, name) for name, value in left]
        kept.append(left)
    if tuple(kept) != plan.clauses:
        return [plan._replace(clauses=tuple(kept))]
    return None


def _split_requirement(plan: Plan, productive: Productive, decided: bool) -> list[Plan] | None:
    """The plans that result from the first requirement that is not settled; None if all are.

    decided  registers must not check any
    """
    for number, requirement in plan.requirements.items():
        if number in plan.settled:
            continue
        keys = [name for name in plan.names if holds(requirement.keys, name)]
        spend(10 + len(plan.requirements))
        unsettled = {n: further for n, further in plan.requirements.items() if n != number}
        if any(name in plan.required and requirement.literals <= plan.names[name] for name in keys):
            return [plan._replace(requirements=unsettled)]
        candidates = [
            region
            for region in plan.regions
            if number in region.requirements and productive(region.literals | requirement.literals)
        ]
        if candidates and not decided:
            return [plan._replace(settled=plan.settled | {number})]
        plans = []
        for name in keys:
            literals = plan.names[name] | requirement.literals
            spend(4 + len(plan.names) // 16)
            if productive(literals):
                names, required = {**plan.names, name: literals}, plan.required | {name}
                plans.append(plan._replace(names=names, required=required, requirements=unsettled))
        if candidates or plan.slots:
            without = plan._replace(requirements=unsettled)
            plans += _by_slot(without, candidates, number, requirement, productive)
        return plans
    return None


def _by_slot(
    plan: Plan, regions: list[Region], number: int, requirement: MemberRequirement, productive: Productive
) -> list[Plan]:
    """The plans in which a slot, an existing or a new one, satisfies the requirement."""
    plans = []
    for index, slot in enumerate(plan.slots):
        literals = slot.literals | requirement.literals
        if number in slot.requirements and productive(literals):
            slots = (*plan.slots[:index], slot._replace(literals=literals), *plan.slots[index + 1 :])
            plans.append(plan._replace(slots=slots))
    for region in regions:
        slot = region._replace(literals=region.literals | requirement.literals)
        plans.append(plan._replace(slots=(*plan.slots, slot)))
    return plans


def object_shape(atoms: Collection[Formula], expander: Expander) -> ObjectShape:
    """The objects that satisfy all the assertions."""
    names: dict[str, list[int]] = {}
    required: dict[str, None] = {}  # in order, as the order of keys follows from it
    absent: dict[str, None] = {}
    clauses: list[KeyClause] = []
    everywhere: list[tuple[Formula, int]] = []
    requirements: list[MemberRequirement] = []
    low, high = 0, None
    spend(4 * len(atoms))
    for atom in atoms:
        kind = atom[0]
        if kind == PROPERTIES:
            spend(4 * len(atom[1]))
            for name, literal in atom[1]:
                names.setdefault(name, []).append(literal)
        elif kind == HAS:
            (required if atom[2] else absent)[atom[1]] = None
        elif kind == CLAUSE:
            clauses.append(atom[1])
        elif kind == ALL:
            everywhere.append((atom[1], atom[2]))
        elif kind == SOME:
            requirements.append(MemberRequirement(atom[1], frozenset((atom[2],)) - {ALWAYS}))
        elif kind == SIZE:
            low = max(low, atom[1])
            high = atom[2] if high is None or (atom[2] is not None and atom[2] < high) else high
    sets = [*(keys for keys, _ in everywhere), *(one.keys for one in requirements)]
    spend(4 * sum([weight(keys) for keys in sets]))
    in_sets = {name for keys in sets for name in _constants(keys)}
    in_clauses = (name for clause in clauses for name, _ in clause)
    for name in (*required, *absent, *in_clauses, *sort(in_sets.difference(names))):
        names.setdefault(name, [])
    patterns: dict[Formula, None] = {}
    for keys in sets:
        _patterns(keys, patterns)
    spend(len(patterns) * sum(map(len, names)))
    members = {}
    for name, literals in spend_on_each(names.items(), 6):
        if name not in absent:
            needed = set(literals)
            for keys, literal in everywhere:
                if holds(keys, name):
                    needed.add(literal)
            needed.discard(ALWAYS)
            if NEVER not in needed and is_encodable(name):
                members[name] = frozenset(needed)
    regions = (
        () if _is_closed(everywhere) else _regions(list(names), list(patterns), everywhere, requirements)
    )
    numbered = dict(enumerate(requirements))
    return ObjectShape(
        Plan(members, frozenset(required), regions, tuple(clauses), numbered, low=low, high=high)
    )


def _is_closed(everywhere: list[tuple[Formula, int]]) -> bool:
    """Whether no key may occur that the schema does not name."""
    spend(len(everywhere))
    return any(literal == NEVER and keys[0] == NOT and keys[1][0] == WITHIN for keys, literal in everywhere)


def _constants(keys: Formula) -> Iterable[str]:
    """The keys that a set of keys names."""
    if keys[0] == WITHIN:
        names: Iterable[str] = keys[1]
        if len(keys[1]) > _MANY:
            spend(len(keys[1]) // 8)
        return names
    if keys[0] == NOT:
        return _constants(keys[1])
    return [name for part in keys[1] for name in _constants(part)] if keys[0] in (AND, OR) else ()


def _unnamed(keys: Formula, truths: dict[Formula, bool]) -> bool:
    """Whether a set contains a key that the schema does not name, given which patterns match the key."""
    kind = keys[0]
    if kind == WITHIN:
        return False
    if kind == NOT:
        return not _unnamed(keys[1], truths)
    if kind in (AND, OR):
        spend(len(keys[1]))
        return (all if kind == AND else any)(_unnamed(part, truths) for part in keys[1])
    return truths[keys]


def _patterns(keys: Formula, patterns: dict[Formula, None]) -> None:
    if keys[0] in (AND, OR):
        for part in keys[1]:
            _patterns(part, patterns)
    elif keys[0] == NOT:
        _patterns(keys[1], patterns)
    elif keys[0] != WITHIN:
        patterns[keys] = None


def _regions(
    names: list[str],
    patterns: list[Formula],
    everywhere: list[tuple[Formula, int]],
    requirements: list[MemberRequirement],
) -> tuple[Region, ...]:
    """All keys except `names`, partitioned by the constraints on their values."""
    every = _truths(patterns)
    cells: dict[tuple[Literals, frozenset[int]], list[Truth]] = {}
    for truth in every:
        spend(1 + len(everywhere) + len(requirements))
        truths = dict(zip(patterns, truth, strict=True))
        literals = frozenset(literal for keys, literal in everywhere if _unnamed(keys, truths)) - {ALWAYS}
        if NEVER not in literals:
            own = frozenset(number for number, one in enumerate(requirements) if _unnamed(one.keys, truths))
            cells.setdefault((literals, own), []).append(truth)
    regions = []
    for (literals, own), truths_of in cells.items():
        other = _other_keys(names, patterns, [] if len(truths_of) == len(every) else truths_of)
        keys = string_set(other)
        if keys != EMPTY:
            regions.append(Region(keys, literals, own, other))
    return tuple(regions)


def _truths(patterns: list[Formula]) -> list[Truth]:
    """The combinations of patterns that a key can match; for many patterns, impossible ones are omitted."""
    if len(patterns) <= _MAX_UNCHECKED_PATTERNS:
        return list(product((True, False), repeat=len(patterns)))
    if len(patterns) > MAX_PATTERNS:
        raise GrammarLimitError(f"one object has more than {MAX_PATTERNS} key patterns")
    truths: list[Truth] = [()]
    sampled = some_truths(patterns)
    for number, pattern in enumerate(patterns, 1):
        known = {truth[:number] for truth in sampled}
        apart = {one for one in patterns[: number - 1] if not is_possible(conjunction((one, pattern)))}
        longer = [(*truth, value) for truth in truths for value in (True, False)]
        truths = [truth for truth in longer if truth in known or _exists(patterns[:number], truth, apart)]
        if len(truths) > MAX_CELLS:
            raise GrammarLimitError(
                f"the key patterns of one object distinguish more than {MAX_CELLS} sets of keys"
            )
    return truths


def _exists(patterns: list[Formula], truth: Truth, apart: set[Formula]) -> bool:
    """Whether a key matches just those patterns; no key matches the last one and one of `apart`."""
    if truth[-1] and any(true and one in apart for one, true in zip(patterns, truth, strict=True)):
        return False
    return is_possible(_matching(patterns, truth))


def _matching(patterns: list[Formula], truth: Truth) -> Formula:
    return conjunction(atom if true else (NOT, atom) for atom, true in zip(patterns, truth, strict=True))


def _other_keys(names: list[str], patterns: list[Formula], truths: list[Truth]) -> Formula:
    """All keys except `names` that match one of the combinations; no combinations: any key."""
    if not truths:
        return (NOT, (WITHIN, frozenset(names))) if names else TRUE
    allowed = disjunction(_matching(patterns, truth) for truth in truths)
    inside = frozenset(name for name in spend_on_each(names) if holds(allowed, name))
    return conjunction([allowed, (NOT, (WITHIN, inside))]) if inside else allowed
