"""The states of an LALR(1) parser, and the terminals before which each of them reduces.

The algorithm is that of DeRemer and Pennello ("Efficient computation of LALR(1) look-ahead sets", 1982), over
numbers: a terminal is its number, a rule's left side n is -1 - n, and a set of terminals is an integer with
their bits. The items that a state predicts depend only on the left sides it expects, so states share them.

The result is lark's, including that a rule in progress widens the look-aheads of what its left side begins in
the same state: a contextual lexer reads by these sets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...errors import GrammarLimitError
from ...program.reaching import unite
from ...work import spend

MAX_ITEMS = 400_000
"""The most items (beginnings of rules) in all states of a parser, as they are computed: states that share
what they predict share its items."""

Kernel = tuple[int, ...]
"""Positions in rules, ascending."""


@dataclass(frozen=True)
class PlainRules:
    """Rules by number. The last one derives the start rule and is the only one of its left side.

    left   the left side of each rule, -1 - n
    right  the symbols of its right side
    """

    left: list[int]
    right: list[tuple[int, ...]]

    def nullable(self) -> set[int]:
        """The left sides that derive the empty text."""
        empty: set[int] = set()
        rules = [
            (left, right)
            for left, right in zip(self.left, self.right, strict=True)
            if min(right, default=-1) < 0
        ]
        while True:
            spend(len(rules) // 4)
            more = {left for left, right in rules if left not in empty and empty.issuperset(right)}
            if not more:
                return empty
            empty |= more


@dataclass
class _Predicted:
    """What a state predicts.

    sides   the left sides
    items   how many items these have
    shifts  the items after each terminal
    gotos   the items after each left side
    shared  the states after each terminal, once they are known, where nothing else is expected but left sides
    """

    sides: frozenset[int]
    items: int
    shifts: dict[int, Kernel]
    gotos: dict[int, Kernel]
    shared: dict[int, int] | None = None


class LalrStates:
    """The states by number; 0 is the first.

    shifts      for each state, the state after each terminal; many states may have the same dict
    gotos       for each state, the state after each left side
    last        the state after a whole text
    reductions  for each state, the rules to reduce, and the terminals before which to do so
    """

    def __init__(self, rules: PlainRules, end: int) -> None:
        self._rules = rules
        self._rules_of: dict[int, list[int]] = {}
        for number, left in enumerate(rules.left):
            self._rules_of.setdefault(left, []).append(number)
        self._terminal_rules = {
            left: [rule for rule in some if _is_terminal(rules.right[rule])]
            for left, some in self._rules_of.items()
        }
        self._other_rules = {
            left: [rule for rule in some if not _is_terminal(rules.right[rule])]
            for left, some in self._rules_of.items()
        }
        self._number_positions()
        self._predicted: dict[frozenset[int], _Predicted] = {}
        self._kernels: list[Kernel] = []
        self._sides: list[frozenset[int]] = []
        self.shifts: list[dict[int, int]] = []
        self.gotos: list[dict[int, int]] = []
        self._find_states()
        self.last = self.gotos[0][rules.right[-1][0]]
        self.reductions: list[dict[int, int]] = [{} for _ in self._kernels]
        self._find_lookaheads(end)

    def _number_positions(self) -> None:
        """Positions in rules, one rule after the other; each has a symbol behind it, or None at the end."""
        self._first: list[int] = []
        self._symbol: list[int | None] = []
        self._rule_at: list[int] = []
        for number, right in enumerate(self._rules.right):
            self._first.append(len(self._symbol))
            self._symbol += [*right, None]
            self._rule_at += [number] * (len(right) + 1)

    # --- states ---

    def _find_states(self) -> None:
        numbers: dict[Kernel, int] = {(self._first[-1],): 0}
        self._kernels.append((self._first[-1],))
        items = 0
        for kernel in self._kernels:  # grows
            after: dict[int, list[int]] = {}
            for position in kernel:
                if (symbol := self._symbol[position]) is not None:
                    after.setdefault(symbol, []).append(position + 1)
            own = [symbol for symbol in after if symbol >= 0]
            expected = [symbol for symbol in after if symbol < 0]
            predicted = self._predict(frozenset(expected))
            shared = None if own else predicted.shared
            items += len(kernel) + (predicted.items if shared is None else len(predicted.gotos))
            if items > MAX_ITEMS:
                raise GrammarLimitError(f"the parser's states have more than {MAX_ITEMS} items")
            spend(2 + len(kernel) + len(predicted.gotos))
            if shared is None:
                spend(len(predicted.shifts))
                shared = self._numbered(_joined(predicted.shifts, after, own), numbers)
                if not own:
                    predicted.shared = shared
            self.shifts.append(shared)
            self.gotos.append(self._numbered(_joined(predicted.gotos, after, expected), numbers))
            self._sides.append(predicted.sides)

    def _numbered(self, targets: dict[int, Kernel], numbers: dict[Kernel, int]) -> dict[int, int]:
        """The states of these kernels, by symbol; new ones get a number."""
        by_symbol = {}
        for symbol, target in targets.items():
            number = numbers.get(target)
            if number is None:
                number = numbers[target] = len(self._kernels)
                self._kernels.append(target)
            by_symbol[symbol] = number
        return by_symbol

    def _predict(self, expected: frozenset[int]) -> _Predicted:
        """What a state predicts that expects these left sides."""
        predicted = self._predicted.get(expected)
        if predicted is None:
            sides: dict[int, None] = dict.fromkeys(sorted(expected))
            after: dict[int, list[int]] = {}
            items = 0
            unread = list(sides)
            while unread:
                for rule in self._rules_of[unread.pop()]:
                    items += 1
                    position = self._first[rule]
                    symbol = self._symbol[position]
                    if symbol is None:
                        continue
                    after.setdefault(symbol, []).append(position + 1)
                    if symbol < 0 and symbol not in sides:
                        sides[symbol] = None
                        unread.append(symbol)
            spend(1 + items)
            kernels = {symbol: tuple(sorted(positions)) for symbol, positions in after.items()}
            shifts = {symbol: kernel for symbol, kernel in kernels.items() if symbol >= 0}
            gotos = {symbol: kernel for symbol, kernel in kernels.items() if symbol < 0}
            predicted = self._predicted[expected] = _Predicted(frozenset(sides), items, shifts, gotos)
        return predicted

    # --- look-aheads ---

    def _find_lookaheads(self, end: int) -> None:
        """Compute `reductions`; `end` is the number of the end of the text among the terminals."""
        nullable = self._rules.nullable()
        numbers: dict[tuple[int, int], int] = {}
        for state, gotos in enumerate(self.gotos):
            for symbol in gotos:
                numbers[state, symbol] = len(numbers)
        of_shifts = {id(one): one for one in self.shifts}
        shifted = {key: sum(1 << symbol for symbol in one) for key, one in of_shifts.items()}
        reads: list[list[int]] = []
        sets: list[int] = []
        for state, symbol in numbers:
            after = self.gotos[state][symbol]
            sets.append(shifted[id(self.shifts[after])])
            reads.append([numbers[after, other] for other in self.gotos[after] if other in nullable])
        sets[numbers[0, self._rules.right[-1][0]]] |= 1 << end
        spend(len(sets) + sum(map(len, reads)) + sum(map(len, of_shifts.values())) // 8)
        unite(sets, reads)
        includes: list[list[int]] = [[] for _ in sets]
        lookbacks = list(self._lookbacks(numbers, nullable, includes))
        unite(sets, includes)
        for state, rule, number in lookbacks:
            self._reduce(state, rule, sets[number])
        self._reduce_terminals(numbers, sets)

    def _reduce(self, state: int, rule: int, terminals: int) -> None:
        reductions = self.reductions[state]
        reductions[rule] = reductions.get(rule, 0) | terminals

    def _reduce_terminals(self, numbers: dict[tuple[int, int], int], sets: list[int]) -> None:
        """Reduce the rules of one terminal. They end in the same states wherever the same terminals lead to
        the same states."""
        before: dict[tuple[int, int], int] = {}
        shifts_of = {id(one): one for one in self.shifts}
        for (state, symbol), number in numbers.items():
            if self._terminal_rules[symbol]:
                key = id(self.shifts[state]), symbol
                before[key] = before.get(key, 0) | sets[number]
        for (shifts, symbol), terminals in before.items():
            spend(len(self._terminal_rules[symbol]) // 2)
            for rule in self._terminal_rules[symbol]:
                self._reduce(shifts_of[shifts][self._rules.right[rule][0]], rule, terminals)

    def _lookbacks(
        self, numbers: dict[tuple[int, int], int], nullable: set[int], includes: list[list[int]]
    ) -> Iterator[tuple[int, int, int]]:
        """The states in which rules end, those rules, and the transitions over their left sides, but for
        rules of one terminal; adds to `includes` the transitions whose look-aheads others have as well."""
        tails = [_tail(right, nullable) for right in self._rules.right]
        for (state, symbol), number in numbers.items():
            rules = self._other_rules[symbol]
            spend(len(rules) // 2)
            for rule in rules:
                at = self._follow(state, self._rules.right[rule], tails[rule], number, numbers, includes)
                yield at, rule, number
        for state, kernel in enumerate(self._kernels):
            sides = self._sides[state]
            for position in kernel:
                rule = self._rule_at[position]
                left = self._rules.left[rule]
                if left in sides:
                    at = position - self._first[rule]
                    rest, tail = self._rules.right[rule][at:], max(tails[rule] - at, 0)
                    self._follow(state, rest, tail, numbers[state, left], numbers, includes)

    def _follow(
        self,
        state: int,
        symbols: Sequence[int],
        tail: int,
        number: int,
        numbers: dict[tuple[int, int], int],
        includes: list[list[int]],
    ) -> int:
        """The state after `symbols`, the end of a rule; after those from `tail` on, nothing need come."""
        shifts, gotos = self.shifts, self.gotos
        for symbol in symbols[:tail]:
            state = (shifts if symbol >= 0 else gotos)[state][symbol]
        for symbol in symbols[tail:]:
            if symbol < 0:
                includes[numbers[state, symbol]].append(number)
            state = (shifts if symbol >= 0 else gotos)[state][symbol]
        return state


def _joined(
    predicted: Mapping[int, Kernel], after: Mapping[int, list[int]], symbols: Collection[int]
) -> dict[int, Kernel]:
    """The items after each symbol: those predicted, and those after the ones expected anyway."""
    found = dict(predicted)
    for symbol in symbols:
        positions = after[symbol]
        found[symbol] = tuple(sorted({*positions, *found[symbol]} if symbol in found else positions))
    return found


def _is_terminal(right: Sequence[int]) -> bool:
    """Whether a right side is one terminal."""
    return len(right) == 1 and right[0] >= 0


def _tail(right: Sequence[int], nullable: set[int]) -> int:
    """The index of the last symbol that is not nullable; 0 if there is none."""
    at = len(right) - 1
    while at > 0 and right[at] in nullable:
        at -= 1
    return max(at, 0)


def bits_of(terminals: int) -> Iterable[int]:
    """The numbers in a set of terminals."""
    while terminals:
        low = terminals & -terminals
        yield low.bit_length() - 1
        terminals ^= low
