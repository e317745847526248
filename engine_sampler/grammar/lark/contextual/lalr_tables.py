"""The tables of lark's LALR parser."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lark.exceptions import GrammarError as LarkGrammarError

from ...program.lalr import once
from ...work import spend
from .lalr_analysis import LalrStates, PlainRules, bits_of

END = "$END"


@dataclass
class NamedLalrState:
    """A state of the parser, with names for terminals and rules.

    actions  for each terminal, the state to shift to, or -1 - the rule to reduce; many states may have the
             same dict
    gotos    for each left side of a rule, the state after it
    end      -1 - the rule to reduce at the end of the text, or None
    """

    actions: dict[str, int]
    gotos: dict[str, int]
    end: int | None


@dataclass(frozen=True)
class LalrTables:
    """The tables of a parser.

    rules      the left side of each rule, and the length of its right side; of rules that differ in terminals
               that are used alike, one
    states     the states, by number; equal ones may be one
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


def tables_of(rules: list[Any], start: str) -> LalrTables:
    """The tables of lark's rules. Raises lark's GrammarError for a conflict, and GrammarLimitError."""
    names = _Names(rules, start)
    states = LalrStates(names.rules, names.end)
    numbers = _numbers(states, names.rules)
    named_states: list[NamedLalrState] = []

    @once
    def named(shifts: dict[int, int]) -> dict[str, int]:
        targets = ((symbol, numbers[target]) for symbol, target in shifts.items())
        actions = {name: target for symbol, target in targets for name in names.of_terminal[symbol]}
        spend(3 * len(actions) // 4)  # for these tables and all that is made of them
        return actions

    for state, number in enumerate(numbers):
        if number < len(named_states):  # an earlier state equals it
            continue
        gotos = {names.sides[-1 - side]: numbers[to] for side, to in states.gotos[state].items()}
        actions, reduced = named(states.shifts[state]), _resolved(states.reductions[state], names)
        end = reduced.pop(END, None)
        if reduced:
            actions = reduced | actions
            spend(3 * len(actions) // 4)
        named_states.append(NamedLalrState(actions, gotos, end))
    lengths = [(rule.origin.name, len(rule.expansion)) for rule in names.written]
    distinct = {id(state.actions): state.actions for state in named_states}
    terminals = set().union(*distinct.values())
    shifted = {to for actions in distinct.values() for to in actions.values() if to >= 0}
    return LalrTables(lengths, named_states, 0, numbers[states.last], terminals, shifted)


def _numbers(states: LalrStates, rules: PlainRules) -> list[int]:
    """The number of each state. States that only reduce one symbol to the same left side, before the same
    terminals, are equal."""
    numbers: dict[object, int] = {}
    by_state = []
    for state, reductions in enumerate(states.reductions):
        key: object = state
        if len(reductions) == 1 and not (states.shifts[state] or states.gotos[state] or state == states.last):
            ((rule, terminals),) = reductions.items()
            if len(rules.right[rule]) == 1:
                key = rules.left[rule], terminals
        by_state.append(numbers.setdefault(key, len(numbers)))
    return by_state


class _Names:
    """The rules with numbers instead of names, of which one stands for all terminals that are used alike.

    rules        these rules
    written      the rule of lark's that each of them is, but for the last
    end          the number of the end of the text
    of_terminal  the names of the terminals that a number stands for
    sides        the names of the left sides
    """

    def __init__(self, rules: list[Any], start: str) -> None:
        self.sides = list(dict.fromkeys(rule.origin.name for rule in rules))
        numbers = {name: -1 - number for number, name in enumerate(self.sides)}
        if len(rules) != len(set(rules)):
            twice = next(rule for number, rule in enumerate(rules) if rule in rules[:number])
            raise LarkGrammarError(f"Rules defined twice: {twice}")
        terminals: dict[str, int] = {}
        right = []
        for rule in rules:
            symbols = []
            for symbol in rule.expansion:
                if symbol.is_term:
                    symbols.append(terminals.setdefault(symbol.name, len(terminals)))
                elif symbol.name in numbers:
                    symbols.append(numbers[symbol.name])
                else:
                    raise LarkGrammarError(f"Using an undefined rule: {symbol}")
            right.append(tuple(symbols))
        plain = [(numbers[rule.origin.name], symbols) for rule, symbols in zip(rules, right, strict=True)]
        self._unite(rules, plain, list(terminals))
        self.rules.left.append(-1 - len(self.sides))
        self.rules.right.append((numbers[start],))
        self._listed: dict[int, list[str]] = {}

    def _unite(self, rules: list[Any], plain: list[tuple[int, tuple[int, ...]]], names: list[str]) -> None:
        """Let one terminal stand for all that are used alike, and one rule for all that are equal then."""
        groups = alike(plain, list(map(_priority, rules)))
        number_of = {symbol: number for number, group in enumerate(groups.values()) for symbol in group}
        self.of_terminal = [[names[symbol] for symbol in group] for group in groups.values()]
        self.end = len(self.of_terminal)
        self.of_terminal.append([END])
        written: dict[tuple[int, tuple[int, ...]], Any] = {}
        for rule, (left, right) in zip(rules, plain, strict=True):
            written.setdefault((left, tuple(number_of.get(symbol, symbol) for symbol in right)), rule)
        self.written = list(written.values())
        self.rules = PlainRules([left for left, _ in written], [right for _, right in written])

    def of_terminals(self, terminals: int) -> list[str]:
        """The names of a set of terminals."""
        if terminals not in self._listed:
            self._listed[terminals] = [
                name for number in bits_of(terminals) for name in self.of_terminal[number]
            ]
        return self._listed[terminals]


def _resolved(reductions: Mapping[int, int], names: _Names) -> dict[str, int]:
    """-1 - the rule to reduce before each terminal: of several, the one whose priority is the greatest."""
    if len(reductions) == 1:
        ((only, terminals),) = reductions.items()
        return dict.fromkeys(names.of_terminals(terminals), -1 - only)
    rules = names.written
    reduced: dict[str, int] = {}
    for rule, terminals in reductions.items():
        for name in names.of_terminals(terminals):
            other = reduced.setdefault(name, -1 - rule)
            if other != -1 - rule:
                reduced[name] = -1 - _preferred(rule, -1 - other, rules)
    conflicts: dict[str, list[int]] = {}
    for rule, terminals in reductions.items():
        for name in names.of_terminals(terminals):
            other = -1 - reduced[name]
            if other != rule and _priority(rules[other]) == _priority(rules[rule]):
                conflicts.setdefault(name, [other]).append(rule)
    for name, colliding in conflicts.items():
        raise LarkGrammarError(_collision(name, [rules[rule] for rule in colliding]))
    return reduced


def _priority(rule: Any) -> int:
    return rule.options.priority or 0


def _preferred(rule: int, other: int, rules: Sequence[Any]) -> int:
    return rule if _priority(rules[rule]) > _priority(rules[other]) else other


def _collision(name: str, rules: Sequence[Any]) -> str:
    before = "the end" if name == END else name
    text = f"the grammar is not LALR: before {before}, the text may be reduced to each of these rules: "
    return text + "; ".join(sorted(str(rule)[1:-1].strip() for rule in rules))


MAX_SYMBOLS = 16
"""The most symbols of a rule whose terminals are compared with others."""

_Rule = tuple[int, tuple[int, ...]]


def alike(rules: Sequence[_Rule], kinds: Sequence[Any]) -> dict[int, list[int]]:
    """The terminals that rules use alike, such as the keywords of `word: NAME | "if" | "else" | ...`:
    ascending, by the first of them; each terminal is in one list.

    Wherever one of them may come, so may the others, and what comes after them is the same. The LALR states
    of a grammar in which one terminal stands for all of these, each of whose shifts and look-aheads then
    counts for all, are those of the whole grammar with equal ones united: a thousand keywords that are read
    in any order would have as many states, in each of which a rule ends before each of them.

    That holds because no rule contains two of them. So what rules in progress have read of them is one
    terminal, at one place in the text, and no state before it depends on which one that is.

    rules  the left side and the right side of each; terminals are numbers from 0 on, left sides are below
    kinds  what else must be equal about rules for their terminals to be alike
    """
    uses: dict[int, set[object]] = {}
    for number, ((left, right), kind) in enumerate(zip(rules, kinds, strict=True)):
        compared = len(right) <= MAX_SYMBOLS
        spend(len(right) // 4)
        for place, symbol in enumerate(right):
            if symbol >= 0:
                use = (left, right[:place], right[place + 1 :], kind) if compared else number
                uses.setdefault(symbol, set()).add(use)
    groups: dict[frozenset[object], list[int]] = {}
    for symbol in sorted(uses):
        groups.setdefault(frozenset(uses[symbol]), []).append(symbol)
    found = {group[0]: group for group in groups.values()}
    for first in _twice(rules, {symbol: group[0] for group in groups.values() for symbol in group[1:]}):
        found |= {symbol: [symbol] for symbol in found[first]}
    return found


def _twice(rules: Sequence[_Rule], first: Mapping[int, int]) -> set[int]:
    """The terminals that stand for two in one rule. `first`: for those that are not first, which is."""
    doubled: set[int] = set()
    for _, right in rules if first else ():
        if len(right) > 1:
            symbols = [first.get(symbol, symbol) for symbol in right]
            if len(set(symbols)) < len(symbols):
                doubled.update(one for one, count in Counter(symbols).items() if one >= 0 and count > 1)
    return doubled
