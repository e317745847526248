"""Look-aheads after which a text cannot go on: nothing that the rules expect is allowed by them.

In `start: A "b"` with `A: /a(?!b)/`, what must follow A is what its look-ahead forbids. Such a terminal must
not even begin, or a text would be begun that can never be finished: it is removed from the rule, or loses
those of its texts that end so.

Where a rule ends, whatever may follow any of its uses counts. And a look-ahead counts as fulfilled once
nothing that it forbids can come any more. So what this removes leads nowhere, but it does not remove
everything: it misses two look-aheads that only together leave nothing, and one that leaves nothing in some
uses of a rule but not in all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from ...derivatives.expressions import EMPTY
from ...derivatives.partitions import meet, representatives
from ...derivatives.states import texts_between
from ...errors import GrammarLimitError
from ...program.expression import (
    AUTOMATON,
    CLASS,
    CONCAT,
    LITERAL,
    REPEAT,
    UNION,
    Expression,
    both,
    complement,
    looks_ahead,
    nullable,
)
from ...program.expression import EMPTY as NOTHING
from ...program.reaching import nodes_reaching, states_reaching_ends
from ...program.rules import ACCEPT, Edge, Rules
from ...work import half_of_work, spend, spend_on_each
from .terminal_states import TerminalStates

MAX_THREADS = 500
"""The most ways in which a text is followed after a look-ahead; if there are more, it is taken to lead on."""


def looking_ahead(rules: Rules) -> list[int]:
    """The terminals that look ahead."""
    return [
        symbol
        for symbol, expression in spend_on_each(enumerate(rules.expressions), 2)
        if expression is not None and looks_ahead(expression)
    ]


def drop_dead_ends(rules: Rules, states: TerminalStates, guarded: Iterable[int]) -> bool:
    """Remove the texts of terminals after which their look-aheads rule out everything. Returns whether there
    were any.

    states   of the terminals
    guarded  those that look ahead
    """
    changed = False
    try:
        with half_of_work():
            endings = _Endings(rules, states, guarded)
            while endings.drop():
                changed = True  # what is removed may be what else was expected
    except GrammarLimitError:
        pass  # it is not worth the rest
    return changed


class _Ending(NamedTuple):
    """A state in which a terminal may end: the texts that lead there, and the guards on what follows."""

    texts: Expression
    guards: frozenset[int]


class _Thread(NamedTuple):
    """A way in which a text goes on under a guard.

    rest     what is left of the terminal that is being read; BETWEEN: the next one is still open
    guard    what must not follow
    after    the state after the terminal
    ignored  whether it is skipped, as far as it matches
    """

    rest: int
    guard: int
    after: int
    ignored: bool = False


BETWEEN = -1


class _Expected(NamedTuple):
    """What may come in a state: terminals, each with the state after it, and whether the text may end, or go
    on with a special token."""

    terminals: tuple[tuple[int, int], ...]
    ends: bool


class _Endings:
    """The ways in which terminals that look ahead end, and whether they lead on.

    A state is a number over the states of all rules.
    """

    def __init__(self, rules: Rules, states: TerminalStates, guarded: Iterable[int]) -> None:
        self._rules = rules
        self._states = states
        self._x, self._derivatives = states.x, states.derivatives
        states.begin_search()
        self._endings = {symbol: list(self._endings_of(symbol)) for symbol in guarded}

    def _is_live(self, symbol: int) -> bool:
        """Whether a terminal matches anything."""
        expression = self._rules.expressions[symbol]
        return (
            expression is None or _matches(expression) or self._derivatives.live(self._states.start(symbol))
        )

    def _number_states(self) -> None:
        """Number the states, and find the edges on the paths of finite texts, and what follows each rule."""
        self._automata = self._rules.automata()
        counts = [len(states) for states in self._automata]
        self._firsts = list(accumulate(counts, initial=0))
        edges = [
            [Edge(symbol, first + target) for symbol, target, _ in leaving]
            for first, states in zip(self._firsts, self._automata, strict=False)
            for leaving in states
        ]
        productive = filter(self._is_live, range(len(self._rules.expressions)))
        symbols_of = {first: -1 - rule for rule, first in enumerate(self._firsts[:-1])}
        live, symbols = states_reaching_ends(edges, symbols_of, productive)
        self._edges = [
            [
                edge
                for edge in leaving
                if edge.symbol in symbols and (edge.symbol == ACCEPT or edge.target in live)
            ]
            for leaving in edges
        ]
        self._rule_of = [-1 - rule for rule, count in enumerate(counts) for _ in range(count)]
        self._after_rule: dict[int, list[int]] = {}
        for leaving in self._edges:
            for symbol, target, _ in leaving:
                self._after_rule.setdefault(symbol, []).append(target)

    def drop(self) -> bool:
        """Remove what leads nowhere; returns whether there was anything."""
        if not any(map(self._may_lead_nowhere, self._endings)):
            return False
        self._number_states()
        self._expected: dict[int, _Expected] = {}
        self._leads: dict[tuple[int, int], bool] = {}
        changed = False
        for first, states in zip(self._firsts, self._automata, strict=False):
            for edges in states:
                kept = [new for edge in edges if (new := self._kept(first + edge.target, edge)) is not None]
                changed |= kept != edges
                edges[:] = kept
        return changed

    def _may_lead_nowhere(self, symbol: int) -> bool:
        """Whether a terminal ends in such a way that something may not follow."""
        continues = self._derivatives.continues
        return any(all(map(continues, one.guards)) for one in self._endings[symbol])

    def _kept(self, state: int, edge: Edge) -> Edge | None:
        """An edge to a state without the texts that lead nowhere; None if there are no others."""
        endings = self._endings.get(edge.symbol, [])
        dead = [
            ending for ending in endings if not any(self._leads_on(state, guard) for guard in ending.guards)
        ]
        if not dead:
            return edge
        if len(dead) == len(endings):
            return None
        whole = self._rules.expressions[edge.symbol] or NOTHING
        less = both(whole, *(complement(ending.texts) for ending in dead))
        return edge._replace(symbol=self._rules.terminal(self._rules.terminal_names[edge.symbol], less))

    def _endings_of(self, symbol: int) -> Iterator[_Ending]:
        """The ways in which a terminal ends; none if it has too many states, or may be empty."""
        start = self._states.start(symbol)
        steps = None if self._x.endings[start] else self._states.steps(symbol)
        if steps is None:
            return
        numbers = {state: number for number, state in enumerate(steps)}
        states = [(False, [(mask, numbers[after]) for after, mask in to.items()]) for to in steps.values()]
        for state, number in numbers.items():
            if guards := self._x.endings[state]:
                yield _Ending(texts_between(states, 0, (number,)), guards)

    def _leads_on(self, state: int, guard: int) -> bool:
        """Whether the text may end or go on in a state under a guard."""
        if not self._derivatives.continues(guard):
            return True
        key = state, guard
        if key not in self._leads:
            self._leads[key] = self._search(_Thread(BETWEEN, guard, state))
        return self._leads[key]

    def _search(self, start: _Thread) -> bool:
        """Whether some way in which the text goes on ends, or gets to where its guard can forbid nothing
        more."""
        known = {start}
        for thread in (threads := [start]):
            spend(20)
            if len(threads) > MAX_THREADS:
                return True
            if thread.rest == BETWEEN:
                expected = self._expect(thread.after)
                if expected.ends:
                    return True
                following = self._begun(thread, expected)
            else:
                following = self._read(thread)
            for successor in following:
                if successor.guard == EMPTY:
                    return True
                if successor not in known:
                    known.add(successor)
                    threads.append(successor)
        return False

    def _begun(self, thread: _Thread, expected: _Expected) -> Iterator[_Thread]:
        """The terminals that may begin."""
        for symbol, after in expected.terminals:
            yield _Thread(self._states.start(symbol), thread.guard, after)
        for symbol in self._rules.ignore:
            yield _Thread(self._states.start(symbol), thread.guard, thread.after, True)

    def _read(self, thread: _Thread) -> Iterator[_Thread]:
        """What becomes of a thread with each byte that its guard allows; its guard is EMPTY once it forbids
        nothing."""
        x, derivatives = self._x, self._derivatives
        for byte in representatives(meet((x.partition[thread.rest], x.partition[thread.guard]))):
            text_left, guard = (derivatives.derivative(part, byte) for part in thread[:2])
            if x.endings[guard] or not derivatives.live(text_left):
                continue
            guard = guard if derivatives.continues(guard) else EMPTY
            if guard == EMPTY or derivatives.continues(text_left):
                yield thread._replace(rest=text_left, guard=guard)
            for end in x.endings[text_left]:
                both_guards = x.union((guard, end, text_left) if thread.ignored else (guard, end))
                yield _Thread(BETWEEN, both_guards, thread.after)

    def _expect(self, state: int) -> _Expected:
        """What may come in a state."""
        if state not in self._expected:
            terminals: dict[tuple[int, int], None] = {}
            ends = False
            seen = {state}
            for reached in (states := [state]):
                spend(1 + len(self._edges[reached]) // 4)
                for symbol, target, _ in self._edges[reached]:
                    following: Sequence[int] = ()
                    if symbol == ACCEPT:
                        following = self._after_rule.get(self._rule_of[reached], ())
                        ends |= self._rule_of[reached] == self._rules.start
                    elif symbol < 0:
                        following = (self._firsts[-1 - symbol],)
                    elif (expression := self._rules.expressions[symbol]) is None:
                        ends = True
                    else:
                        terminals[symbol, target] = None
                        following = (target,) if nullable(expression) else ()
                    states += (new for new in following if new not in seen)
                    seen.update(following)
            self._expected[state] = _Expected(tuple(terminals), ends)
        return self._expected[state]


def _matches(expression: Expression) -> bool:
    """Whether an expression matches something, as far as its parts tell."""
    kind = expression[0]
    if kind in (CONCAT, UNION):
        return (all if kind == CONCAT else any)(map(_matches, expression[1]))
    if kind == AUTOMATON:
        states = expression[1]
        steps = ((number, target) for number, (_, edges) in enumerate(states) for *_, target in edges)
        return 0 in nodes_reaching(steps, (number for number, (accepts, _) in enumerate(states) if accepts))
    if kind == REPEAT:
        return not expression[2] or _matches(expression[1])
    return kind == LITERAL or (kind == CLASS and bool(expression[1]))
