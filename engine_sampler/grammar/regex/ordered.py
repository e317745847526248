r"""Patterns as deterministic automata: with lookarounds anywhere, and with the order of preference.

A **cell** is the rest of a way through the pattern: a node, and the cell that follows it; cell 0 is the end.
A **thread** is (cell, forbidden, required): the rest, threads none of which may reach its end (negative
lookaheads), and sets of threads: at least one of each must reach its end (positive lookaheads). A state of
the automaton is the threads after a text, in order of preference where order counts, and the state of each
lookbehind. A thread that has reached its end hides all that are less preferred.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from ..errors import GrammarError, GrammarLimitError
from ..program.expression import EMPTY, EPSILON, Expression, concat, guard, nullable, union, without
from ..program.unicode import Ranges, overlap
from ..work import spend
from .automaton import Alphabet, State, expression_of
from .beginning import TEXT_BEGIN, UNKNOWN, Before, TextBeforeError
from .tree import ANY, Choice, Lookaround, Node, Repeat, Sequence, Set, repeat, sequence

Thread: TypeAlias = "tuple[int, frozenset[Thread], frozenset[frozenset[Thread]]]"
Cells: TypeAlias = "frozenset[int]"
LookbehindState: TypeAlias = "tuple[Cells, Cells]"
"""The cells of a lookbehind after the text that certainly precedes, and after any text that may precede."""
LookbehindResults: TypeAlias = "tuple[bool | None, ...]"
"""Whether each lookbehind matches; None where that depends on the text before the terminal."""
Threads: TypeAlias = "tuple[Thread, ...] | frozenset[Thread]"
Resolved: TypeAlias = "tuple[Threads, frozenset[frozenset[Thread]]]"
"""The threads that remain, and how they accept their text, see below."""
Configuration: TypeAlias = "tuple[tuple[LookbehindState, ...], Threads]"
"""The state of each lookbehind, and the threads."""

END = 0
_NONE: frozenset[Thread] = frozenset()
_NO_SETS: frozenset[frozenset[Thread]] = frozenset()
MATCHED: Thread = (END, _NONE, _NO_SETS)
_ALWAYS = frozenset((_NONE,))
ALWAYS: Configuration = ((), _NONE)
"""The condition of a state that accepts unconditionally."""

_MANY = 16
"""The threads of a lookahead that are copied with as much work as one is read."""

MAX_GUARDS = 32
"""The most distinct conditions on the text after the end of one terminal."""


def whole(tree: Node, search: bool, max_states: int, max_work: int) -> Expression:
    """The texts that the tree matches as a whole; with `search`, those in which it is found.

    Raises GrammarError for a lookaround within a lookbehind, GrammarLimitError.
    """
    machine = Machine(sequence((repeat(ANY, 0, None), tree)) if search else tree, True, max_work)
    resolve = _resolve_matched_somewhere if search else _resolve_matched
    states = machine.explore(machine.start(), resolve, search, max_states)
    return expression_of(states, ALWAYS, machine.alphabet)


def preferred(tree: Node, max_states: int, max_work: int, before: Before = UNKNOWN) -> Expression:
    """The texts that `re.match` matches as a whole, see `pattern.terminal_expression`.

    before  what may precede them, for lookbehinds that look at more than the match

    Raises GrammarError where the text before the match, or a positive lookahead beyond its end, decides,
    and GrammarLimitError.
    """
    machine = Machine(tree, False, max_work, before)
    states = machine.explore(machine.start(), _resolve_preferred, False, max_states)
    conditions = dict.fromkeys(condition for ends, _ in states for condition in ends)
    if len(conditions) > MAX_GUARDS:
        raise GrammarLimitError(
            f"a pattern has more than {MAX_GUARDS} distinct lookaheads at its end; one negative lookahead at "
            "its beginning, such as (?!(?:if|in)\\b)[a-z]+, may have any number of words"
        )
    parts = []
    for condition in conditions:
        part = expression_of(states, condition, machine.alphabet)
        if condition != ALWAYS:
            after = machine.explore(condition, _resolve_found, True, max_states)
            part = concat(part, guard(EPSILON, expression_of(after, ALWAYS, machine.alphabet)))
        parts.append(part)
    return union(*parts)


def unless(
    forbidden: Node, part: Expression, max_states: int, max_work: int, before: Before = UNKNOWN
) -> Expression:
    """The texts of `part`, unless `forbidden` matches at their beginning: one negative lookahead there.

    A lookaround within `forbidden` sees the end of the text of `part` as the end of the text, or what
    follows, where `forbidden` goes on beyond it.

    Raises TextBeforeError where the text before the match decides, and GrammarLimitError.
    """
    machine = Machine(forbidden, False, max_work, before)
    if forbidden.has_lookaround:
        ended = machine.explore(machine.start(), _resolve_matched_somewhere, True, max_states)
        part = without(part, expression_of(ended, ALWAYS, machine.alphabet))
    found = expression_of(
        machine.explore(machine.start(), _resolve_found, True, max_states), ALWAYS, machine.alphabet
    )
    return EMPTY if nullable(found) else guard(part, found)


# These functions drop threads that no longer matter, and say how the others accept their text: a set of
# conditions, any of which suffices. A condition is a set of threads none of which may reach its end in the
# text that follows; the empty set is no condition.


def _resolve_matched(threads: Iterable[Thread]) -> Resolved:
    """A text is accepted if any thread has reached its end."""
    kept = frozenset(threads)
    return kept, _ALWAYS if any(map(holds_at_end, kept)) else _NO_SETS


def _resolve_matched_somewhere(threads: Iterable[Thread]) -> Resolved:
    """A text is accepted if any thread has reached its end somewhere in it."""
    kept = frozenset(threads)
    return (frozenset((MATCHED,)), _ALWAYS) if MATCHED in kept else _resolve_matched(kept)


def _resolve_found(threads: Iterable[Thread]) -> Resolved:
    """A text is accepted if a thread has reached its end whatever follows; no longer text is."""
    kept = frozenset(threads)
    return (_NONE, _ALWAYS) if MATCHED in kept else (kept, _NO_SETS)


def _resolve_preferred(threads: Iterable[Thread]) -> Resolved:
    """A text is accepted by the first thread that has reached its end.

    If that thread has a condition, the threads after it continue where the condition fails: they require
    what it forbids.
    """
    kept: list[Thread] = []
    seen: dict[int, list[Thread]] = {}
    ends: frozenset[frozenset[Thread]] = _NO_SETS
    for cell, forbidden, required in threads:
        if any(end <= forbidden for end in ends):  # it matches only where a preferred thread ends
            continue
        if cell == END:
            if required:
                raise GrammarError(
                    "a lookahead beyond the end of a terminal would decide whether it matches; negative ones "
                    "are read: (?![^a-z]) is (?=[a-z]), but also allows the end of the text"
                )
            if holds_at_end((cell, forbidden, required)):
                ends |= {forbidden}
            continue
        required |= ends
        if any(other[1] <= forbidden and other[2] <= required for other in seen.get(cell, ())):
            continue
        kept.append((cell, forbidden, required))
        seen.setdefault(cell, []).append(kept[-1])
    return tuple(kept), _ALWAYS if _NONE in ends else ends


def holds_at_end(thread: Thread) -> bool:
    """Whether the thread matches if the text ends here."""
    cell, forbidden, required = thread
    if cell != END or any(map(holds_at_end, forbidden)):
        return False
    return all(any(map(holds_at_end, one)) for one in required)


class Machine:
    """The threads of one pattern, and the states that they form.

    whole   the pattern is matched against the whole text: no character precedes it
    before  what may precede it otherwise
    """

    def __init__(self, tree: Node, whole: bool, max_work: int, before: Before = UNKNOWN) -> None:
        self.tree = tree
        self.work = max_work
        nodes = _nodes(tree)
        sets = list(dict.fromkeys(node.ranges for node in nodes if isinstance(node, Set)))
        lookbehinds = [node for node in nodes if isinstance(node, Lookaround) and not node.ahead]
        self._spend((len(sets) ** 2 + len(lookbehinds) ** 2) // 4)  # each may be compared with every other
        self.alphabet = Alphabet(sets)
        self._atoms = {id(node): self.alphabet.atoms(node.ranges) for node in nodes if isinstance(node, Set)}
        self._cells: list[tuple[Node, int, int, int | None, bool]] = [(tree, END, 0, 0, False)]
        self._begun = [False]
        self._numbers: dict[tuple[int, int, int, int | None, bool], int] = {}
        self._settled = {END: END}
        self._closures: dict[tuple[int, LookbehindResults], tuple[Thread, ...]] = {}
        self._lookbehinds = {id(node): i for i, node in enumerate(lookbehinds)}
        self._starts = [self._lookbehind_start(node) for node in lookbehinds]
        last = TEXT_BEGIN.last if whole else before.last
        self._possible = [self._reachable(cells, last) for cells in self._starts]

    def _spend(self, work: int = 1) -> None:
        spend(6 * work)
        self.work -= work
        if self.work < 0:
            raise GrammarLimitError("a pattern takes too much work to convert to an automaton")

    # Cells.

    def _cell(self, node: Node, rest: int) -> int:
        """The cell of a node followed by the cell `rest`."""
        if isinstance(node, Repeat):
            return self._loop(node, rest, node.low, node.high)
        return self._number((node, rest, 0, 0, False))

    def _loop(self, node: Repeat, rest: int, low: int, high: int | None, begun: bool = False) -> int:
        """The cell of the rest of a Repeat: `low` to `high` more times.

        begun  an iteration has begun at the current position; if it ends here too, no other may begin
        """
        return rest if high == 0 else self._number((node, rest, low, high, begun))

    def _number(self, cell: tuple[Node, int, int, int | None, bool]) -> int:
        node, after, low, high, begun = cell
        key = id(node), after, low, high, begun
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._cells)
            self._cells.append(cell)
            self._begun.append(begun or self._begun[after])
        return number

    def _settle(self, cell: int) -> int:
        """The cell after a character has been read: no iteration has begun at the new position."""
        chain = []
        while self._begun[cell] and cell not in self._settled:
            chain.append(cell)
            cell = self._cells[cell][1]
        cell = self._settled.get(cell, cell)
        for before in reversed(chain):
            node, _, low, high, _ = self._cells[before]
            cell = self._settled[before] = self._number((node, cell, low, high, False))
        return cell

    # Threads before the next character.

    def _closure(self, cell: int, results: LookbehindResults) -> tuple[Thread, ...]:
        """The threads that `cell` leads to before a character is read: each is at a set, or at the end."""
        key = cell, results
        found = self._closures.get(key)
        if found is None:
            found = self._closures[key] = tuple(self._open(cell, results))
        return found

    def _open(self, cell: int, results: LookbehindResults) -> Iterator[Thread]:
        waiting: list[Thread] = [(cell, _NONE, _NO_SETS)]
        seen: set[Thread] = set()
        while waiting:
            thread = waiting.pop()
            if thread in seen:
                continue
            seen.add(thread)
            self._spend()
            cell, forbidden, required = thread
            if len(forbidden) + len(required) >= _MANY:
                self._spend((len(forbidden) + len(required)) // _MANY)
            node = self._cells[cell][0]
            if cell == END or isinstance(node, Set):
                yield thread
            elif isinstance(node, Lookaround):
                waiting += self._lookaround(node, thread, results)
            else:
                waiting += ((way, forbidden, required) for way in self._ways(cell))

    def _ways(self, cell: int) -> list[int]:
        """The cells that `cell` leads to, the preferred one last."""
        node, after, low, high, begun = self._cells[cell]
        if isinstance(node, Choice):
            return [self._cell(item, after) for item in reversed(node.items)]
        if isinstance(node, Sequence):
            self._spend(len(node.items) // 8)  # each of them is cheap
            for item in reversed(node.items):
                after = self._cell(item, after)
            return [after]
        assert isinstance(node, Repeat)
        if begun and not low:
            return [after]
        more = None if high is None else high - 1
        once = self._cell(node.item, self._loop(node, after, max(low - 1, 0), more, not node.item.shortest))
        if low:
            return [once]
        return [once, after] if node.reluctant else [after, once]

    def _lookaround(self, node: Lookaround, thread: Thread, results: LookbehindResults) -> list[Thread]:
        """The thread after a lookaround, if it can match."""
        cell, forbidden, required = thread
        after = self._cells[cell][1]
        if not node.ahead:
            result = results[self._lookbehinds[id(node)]]
            if result is None:
                raise TextBeforeError(
                    "^, \\b or a lookbehind depends on the text before a terminal, which is unknown"
                )
            return [] if result == node.negative else [(after, forbidden, required)]
        inner = frozenset(self._closure(self._cell(node.item, END), results))
        self._spend(1 + len(inner))
        if not inner or MATCHED in inner:
            return [] if bool(inner) == node.negative else [(after, forbidden, required)]
        if node.negative:
            return [(after, forbidden | inner, required)]
        return [(after, forbidden, required | {inner})]

    # Reading an atom.

    def read(self, thread: Thread, atom: int, results: LookbehindResults, sticky: bool) -> Iterable[Thread]:
        """The threads that one becomes; `sticky`: one at its end stays there."""
        cell, forbidden, required = thread
        if cell == END and not sticky:
            return ()
        if cell != END and atom not in self._atoms[id(self._cells[cell][0])]:
            return ()
        self._spend()
        if forbidden:
            forbidden = self._read_all(forbidden, atom, results)
            if MATCHED in forbidden:
                return ()
        if required:
            remaining = [self._read_all(threads, atom, results) for threads in required]
            if not all(remaining):
                return ()
            required = frozenset(threads for threads in remaining if MATCHED not in threads)
        if cell == END:
            return ((END, forbidden, required),)
        opened = self._closure(self._settle(self._cells[cell][1]), results)
        self._spend(len(opened) // 2 + len(opened) * (len(forbidden) + len(required)) // _MANY)
        return ((way, forbidden | more, required | also) for way, more, also in opened)

    def _read_all(
        self, threads: frozenset[Thread], atom: int, results: LookbehindResults
    ) -> frozenset[Thread]:
        return frozenset(new for one in threads for new in self.read(one, atom, results, True))

    # Lookbehinds.

    def _lookbehind_start(self, node: Lookaround) -> Cells:
        if node.item.has_lookaround:
            raise GrammarError("a lookaround within a lookbehind cannot be matched token by token")
        return self._open_cells(self._cell(node.item, END))

    def _open_cells(self, cell: int) -> Cells:
        return frozenset(thread[0] for thread in self._closure(cell, ()))

    def _read_cells(self, cells: Cells, atom: int) -> Cells:
        self._spend(len(cells))
        reading = (c for c in cells if c != END and atom in self._atoms[id(self._cells[c][0])])
        return frozenset().union(*(self._open_cells(self._settle(self._cells[c][1])) for c in reading))

    def read_lookbehinds(
        self, lookbehinds: tuple[LookbehindState, ...], atom: int
    ) -> tuple[LookbehindState, ...]:
        return tuple(
            (self._read_cells(certain, atom) | start, self._read_cells(possible, atom))
            for (certain, possible), start in zip(lookbehinds, self._starts, strict=True)
        )

    def _reachable(self, cells: Cells, last: Ranges) -> Cells:
        """All cells that some text leads to that ends with a character of `last`."""
        if not last:
            return frozenset()
        reached: set[int] = set()
        opening: set[int] = set()
        waiting = list(cells)
        while waiting:
            cell = waiting.pop()
            if cell in reached:
                continue
            reached.add(cell)
            node, after, *_ = self._cells[cell]
            if cell != END and isinstance(node, Set):
                opened = self._open_cells(self._settle(after))
                waiting += opened
                if overlap(node.ranges, last):
                    opening |= opened
        return frozenset(opening)

    def results(self, lookbehinds: tuple[LookbehindState, ...]) -> LookbehindResults:
        return tuple(
            True if END in certain else None if END in possible else False
            for certain, possible in lookbehinds
        )

    # States.

    def start(self) -> Configuration:
        """The configuration at the beginning of a text."""
        lookbehinds = tuple(zip(self._starts, self._possible, strict=True))
        return lookbehinds, self._closure(self._cell(self.tree, END), self.results(lookbehinds))

    def explore(
        self,
        start: Configuration,
        resolve: Callable[[Iterable[Thread]], Resolved],
        sticky: bool,
        max_states: int,
    ) -> list[State]:
        """All states that are reachable from the given one, each with the conditions under which it accepts.

        resolve  drops threads that no longer matter, and says how the others accept
        sticky   threads at their end stay
        """
        states: list[State] = []
        configurations: list[Configuration] = []
        numbers: dict[tuple[Configuration, frozenset[frozenset[Thread]]], int] = {}

        def number(lookbehinds: tuple[LookbehindState, ...], threads: Iterable[Thread]) -> int:
            left, ends = resolve(threads)
            key = (lookbehinds, left), ends
            if key not in numbers:
                if len(states) == max_states:
                    raise GrammarLimitError(f"a pattern needs an automaton of more than {max_states} states")
                numbers[key] = len(states)
                configurations.append(key[0])
                states.append((frozenset((lookbehinds, end) if end else ALWAYS for end in ends), {}))
            return numbers[key]

        number(*start)
        # Both lists grow during the loop.
        for (lookbehinds, threads), (_, edges) in zip(configurations, states, strict=True):
            for atom in self._readable(threads):
                following = self.read_lookbehinds(lookbehinds, atom)
                results = self.results(following)
                self._spend(1 + len(threads) // 16)
                new = [one for thread in threads for one in self.read(thread, atom, results, sticky)]
                if new:
                    edges[atom] = number(following, new)
        return states

    def _readable(self, threads: Threads) -> Iterable[int]:
        found: set[int] = set()
        for cell, _, _ in threads:
            if cell == END:
                return range(self.alphabet.size)
            found |= self._atoms[id(self._cells[cell][0])]
        return found


def _nodes(tree: Node) -> list[Node]:
    """Every node of the tree, once."""
    nodes = {tree: None}
    unread = [tree]
    while unread:
        node = unread.pop()
        spend()
        items = node.items if isinstance(node, Sequence | Choice) else ()
        if isinstance(node, Repeat | Lookaround):
            items = (node.item,)
        for item in items:
            if item not in nodes:
                nodes[item] = None
                unread.append(item)
    return list(nodes)
