r"""Patterns as deterministic automata: lookarounds anywhere, and the order in which ways are preferred.

A **cell** is what is left of a way through the pattern: a node, and the cell that follows it; cell 0 is
the end. A **thread** is (cell, forbidden, required): what is left, threads of which none may reach
its end (negative lookaheads), and sets of threads of each of which one must (positive ones). A state
of the automaton is the threads after a text, in order of preference where order counts, and what
each lookbehind has read. A thread that has reached its end hides all that are less preferred.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from ..errors import GrammarError, GrammarLimitError
from ..program.expression import EPSILON, Expression, concat, guard, union
from .automaton import Alphabet, State, expression_of
from .tree import ANY, Choice, Look, Node, Repeat, Sequence, Set, repeat, sequence

Thread: TypeAlias = "tuple[int, frozenset[Thread], frozenset[frozenset[Thread]]]"
Cells: TypeAlias = "frozenset[int]"
Behind: TypeAlias = "tuple[Cells, Cells]"
"""What a lookbehind has read: cells of what surely stands before, and of what may."""
Truths: TypeAlias = "tuple[bool | None, ...]"
Threads: TypeAlias = "tuple[Thread, ...] | frozenset[Thread]"
Judged: TypeAlias = "tuple[Threads, frozenset[frozenset[Thread]]]"
Situation: TypeAlias = "tuple[tuple[Behind, ...], Threads]"
"""What each lookbehind has read, and the threads."""

END = 0
_NONE: frozenset[Thread] = frozenset()
_NO_SETS: frozenset[frozenset[Thread]] = frozenset()
_MATCHED: Thread = (END, _NONE, _NO_SETS)
_ALWAYS = frozenset((_NONE,))
ALWAYS: Situation = ((), _NONE)
"""How a state accepts without condition."""

MAX_GUARDS = 32
"""The most different things that may be forbidden behind the end of one terminal."""


def whole(tree: Node, search: bool, max_states: int, max_work: int) -> Expression:
    """The texts that the tree matches; with `search`, those in which it is found.

    Raises GrammarError for a lookaround within a lookbehind, GrammarLimitError.
    """
    machine = _Machine(sequence((repeat(ANY, 0, None), tree)) if search else tree, True, max_work)
    judge = _matched_somewhere if search else _matched
    states = machine.explore(machine.start(), judge, search, max_states)
    return expression_of(states, ALWAYS, machine.alphabet)


def preferred(tree: Node, max_states: int, max_work: int) -> Expression:
    """The texts that `re.match` takes whole, see `regex.terminal`.

    Raises GrammarError where what stands before or a positive lookahead beyond the end decides, and
    GrammarLimitError.
    """
    machine = _Machine(tree, False, max_work)
    states = machine.explore(machine.start(), _preferred, False, max_states)
    conditions = dict.fromkeys(one for ends, _ in states for one in ends)
    if len(conditions) > MAX_GUARDS:
        raise GrammarLimitError(f"a pattern has more than {MAX_GUARDS} different lookaheads at its end")
    parts = []
    for condition in conditions:
        part = expression_of(states, condition, machine.alphabet)
        if condition != ALWAYS:
            behind = machine.explore(condition, _found, True, max_states)
            part = concat(part, guard(EPSILON, expression_of(behind, ALWAYS, machine.alphabet)))
        parts.append(part)
    return union(*parts)


# What is kept of threads, and how they accept their text: each way is the threads of which none may
# reach its end by what follows; none at all is without condition.


def _matched(threads: Iterable[Thread]) -> Judged:
    """A text is accepted if any thread has reached its end."""
    kept = frozenset(threads)
    return kept, _ALWAYS if any(map(_holds_at_end, kept)) else _NO_SETS


def _matched_somewhere(threads: Iterable[Thread]) -> Judged:
    """A text is accepted if any thread has reached its end somewhere in it."""
    kept = frozenset(threads)
    return (frozenset((_MATCHED,)), _ALWAYS) if _MATCHED in kept else _matched(kept)


def _found(threads: Iterable[Thread]) -> Judged:
    """A text is accepted if a thread has reached its end whatever follows; nothing longer is."""
    kept = frozenset(threads)
    return (_NONE, _ALWAYS) if _MATCHED in kept else (kept, _NO_SETS)


def _preferred(threads: Iterable[Thread]) -> Judged:
    """A text is accepted by the first thread that has reached its end.

    Where that one has a condition, those behind it go on if the condition fails: what it forbids
    they require.
    """
    kept: list[Thread] = []
    seen: dict[int, list[Thread]] = {}
    ends: frozenset[frozenset[Thread]] = _NO_SETS
    for cell, forbidden, required in threads:
        if any(end <= forbidden for end in ends):  # it lives only where a preferred one ends
            continue
        if cell == END:
            if required:
                raise GrammarError("what a lookahead finds beyond the end of a terminal would decide")
            if _holds_at_end((cell, forbidden, required)):
                ends |= {forbidden}
            continue
        required |= ends
        if any(other[1] <= forbidden and other[2] <= required for other in seen.get(cell, ())):
            continue
        kept.append((cell, forbidden, required))
        seen.setdefault(cell, []).append(kept[-1])
    return tuple(kept), _ALWAYS if _NONE in ends else ends


def _holds_at_end(thread: Thread) -> bool:
    """Whether the thread matches if the text ends here."""
    cell, forbidden, required = thread
    if cell != END or any(map(_holds_at_end, forbidden)):
        return False
    return all(any(map(_holds_at_end, one)) for one in required)


class _Machine:
    """Threads of one pattern, and the states that they make.

    whole  the pattern's text is the whole text: nothing stands before it
    """

    def __init__(self, tree: Node, whole: bool, max_work: int) -> None:
        self.tree = tree
        self.work = max_work
        nodes = _nodes(tree)
        sets = list(dict.fromkeys(node.ranges for node in nodes if isinstance(node, Set)))
        behinds = [node for node in nodes if isinstance(node, Look) and not node.ahead]
        self._spend((len(sets) ** 2 + len(behinds) ** 2) // 4)  # each may be compared with each
        self.alphabet = Alphabet(sets)
        self._atoms = {id(node): self.alphabet.atoms(node.ranges) for node in nodes if isinstance(node, Set)}
        self._cells: list[tuple[Node, int, int, int | None, bool]] = [(tree, END, 0, 0, False)]
        self._begun = [False]
        self._numbers: dict[tuple[int, int, int, int | None, bool], int] = {}
        self._settled = {END: END}
        self._closures: dict[tuple[int, Truths], tuple[Thread, ...]] = {}
        self._behinds = {id(node): i for i, node in enumerate(behinds)}
        self._fresh = [self._behind_start(node) for node in behinds]
        self._maybe = [frozenset() if whole else self._reachable(cells) for cells in self._fresh]

    def _spend(self, work: int = 1) -> None:
        self.work -= work
        if self.work < 0:
            raise GrammarLimitError("a pattern takes too much work to make an automaton of")

    # Cells.

    def _cell(self, node: Node, rest: int) -> int:
        """The cell of a node with `rest` behind it."""
        if isinstance(node, Repeat):
            return self._loop(node, rest, node.low, node.high)
        return self._number((node, rest, 0, 0, False))

    def _loop(self, node: Repeat, rest: int, low: int, high: int | None, begun: bool = False) -> int:
        """The cell of what is left of a Repeat: `low` to `high` more times.

        begun  an iteration has begun where we stand; if it ends here too, no other is to begin
        """
        return rest if high == 0 else self._number((node, rest, low, high, begun))

    def _number(self, cell: tuple[Node, int, int, int | None, bool]) -> int:
        node, rest, low, high, begun = cell
        key = id(node), rest, low, high, begun
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._cells)
            self._cells.append(cell)
            self._begun.append(begun or self._begun[rest])
        return number

    def _settle(self, cell: int) -> int:
        """The cell once a character has been read: no iteration has begun where we stand now."""
        chain = []
        while self._begun[cell] and cell not in self._settled:
            chain.append(cell)
            cell = self._cells[cell][1]
        cell = self._settled.get(cell, cell)
        for before in reversed(chain):
            node, _, low, high, _ = self._cells[before]
            cell = self._settled[before] = self._number((node, cell, low, high, False))
        return cell

    # What can be read next.

    def _closure(self, cell: int, truths: Truths) -> tuple[Thread, ...]:
        """The threads that `cell` becomes before anything is read: at a set each, or at the end."""
        key = cell, truths
        found = self._closures.get(key)
        if found is None:
            found = self._closures[key] = tuple(self._open(cell, truths))
        return found

    def _open(self, cell: int, truths: Truths) -> Iterator[Thread]:
        waiting: list[Thread] = [(cell, _NONE, _NO_SETS)]
        seen: set[Thread] = set()
        while waiting:
            thread = waiting.pop()
            if thread in seen:
                continue
            seen.add(thread)
            self._spend()
            cell, forbidden, required = thread
            node = self._cells[cell][0]
            if cell == END or isinstance(node, Set):
                yield thread
            elif isinstance(node, Look):
                waiting += self._look(node, thread, truths)
            else:
                waiting += ((way, forbidden, required) for way in self._ways(cell))

    def _ways(self, cell: int) -> list[int]:
        """The cells that `cell` can become, the preferred one last."""
        node, rest, low, high, begun = self._cells[cell]
        if isinstance(node, Choice):
            return [self._cell(item, rest) for item in reversed(node.items)]
        if isinstance(node, Sequence):
            self._spend(len(node.items) // 8)  # they are light
            for item in reversed(node.items):
                rest = self._cell(item, rest)
            return [rest]
        assert isinstance(node, Repeat)
        if begun and not low:
            return [rest]
        more = None if high is None else high - 1
        once = self._cell(node.item, self._loop(node, rest, max(low - 1, 0), more, not node.item.shortest))
        if low:
            return [once]
        return [once, rest] if node.reluctant else [rest, once]

    def _look(self, node: Look, thread: Thread, truths: Truths) -> list[Thread]:
        """The thread behind a lookaround, if there is one."""
        cell, forbidden, required = thread
        rest = self._cells[cell][1]
        if not node.ahead:
            truth = truths[self._behinds[id(node)]]
            if truth is None:
                raise GrammarError("what stands before a terminal is not known: no ^, \\b, lookbehind there")
            return [] if truth == node.negative else [(rest, forbidden, required)]
        inner = frozenset(self._closure(self._cell(node.item, END), truths))
        self._spend(1 + len(inner))
        if not inner or _MATCHED in inner:
            return [] if bool(inner) == node.negative else [(rest, forbidden, required)]
        if node.negative:
            return [(rest, forbidden | inner, required)]
        return [(rest, forbidden, required | {inner})]

    # Reading an atom.

    def _read(self, thread: Thread, atom: int, truths: Truths, sticky: bool) -> Iterable[Thread]:
        """What becomes of a thread; `sticky`: one at its end stays there."""
        cell, forbidden, required = thread
        if cell == END and not sticky:
            return ()
        if cell != END and atom not in self._atoms[id(self._cells[cell][0])]:
            return ()
        self._spend()
        if forbidden:
            forbidden = self._read_all(forbidden, atom, truths)
            if _MATCHED in forbidden:
                return ()
        if required:
            left = [self._read_all(one, atom, truths) for one in required]
            if not all(left):
                return ()
            required = frozenset(one for one in left if _MATCHED not in one)
        if cell == END:
            return ((END, forbidden, required),)
        opened = self._closure(self._settle(self._cells[cell][1]), truths)
        self._spend(len(opened) // 2)
        return ((way, forbidden | more, required | also) for way, more, also in opened)

    def _read_all(self, threads: frozenset[Thread], atom: int, truths: Truths) -> frozenset[Thread]:
        return frozenset(new for one in threads for new in self._read(one, atom, truths, True))

    # Lookbehinds.

    def _behind_start(self, node: Look) -> Cells:
        if node.item.looks:
            raise GrammarError("a lookaround within a lookbehind cannot be matched token by token")
        return self._open_cells(self._cell(node.item, END))

    def _open_cells(self, cell: int) -> Cells:
        return frozenset(thread[0] for thread in self._closure(cell, ()))

    def _read_cells(self, cells: Cells, atom: int) -> Cells:
        self._spend(len(cells))
        reading = (c for c in cells if c != END and atom in self._atoms[id(self._cells[c][0])])
        return frozenset().union(*(self._open_cells(self._settle(self._cells[c][1])) for c in reading))

    def _read_behinds(self, behinds: tuple[Behind, ...], atom: int) -> tuple[Behind, ...]:
        return tuple(
            (self._read_cells(sure, atom) | fresh, self._read_cells(maybe, atom))
            for (sure, maybe), fresh in zip(behinds, self._fresh, strict=True)
        )

    def _reachable(self, cells: Cells) -> Cells:
        """All cells that any text leads to."""
        found: set[int] = set()
        waiting = list(cells)
        while waiting:
            cell = waiting.pop()
            if cell not in found:
                found.add(cell)
                if cell != END:
                    waiting += self._open_cells(self._settle(self._cells[cell][1]))
        return frozenset(found)

    def _truths(self, behinds: tuple[Behind, ...]) -> Truths:
        return tuple(True if END in sure else None if END in maybe else False for sure, maybe in behinds)

    # States.

    def start(self) -> Situation:
        """Where a text begins."""
        behinds = tuple(zip(self._fresh, self._maybe, strict=True))
        return behinds, self._closure(self._cell(self.tree, END), self._truths(behinds))

    def explore(
        self, start: Situation, judge: Callable[[Iterable[Thread]], Judged], sticky: bool, max_states: int
    ) -> list[State]:
        """All states from the given one on, each with the conditions on which it accepts.

        judge   says what is kept of threads, and how they accept
        sticky  threads at their end stay
        """
        states: list[State] = []
        kept: list[Situation] = []
        numbers: dict[tuple[Situation, frozenset[frozenset[Thread]]], int] = {}

        def number(behinds: tuple[Behind, ...], threads: Iterable[Thread]) -> int:
            left, ends = judge(threads)
            key = (behinds, left), ends
            if key not in numbers:
                if len(states) == max_states:
                    raise GrammarLimitError(f"a pattern needs an automaton of more than {max_states} states")
                numbers[key] = len(states)
                kept.append(key[0])
                states.append((frozenset((behinds, end) if end else ALWAYS for end in ends), {}))
            return numbers[key]

        number(*start)
        for (behinds, threads), (_, edges) in zip(kept, states, strict=True):  # both grow meanwhile
            for atom in self._readable(threads):
                then = self._read_behinds(behinds, atom)
                truths = self._truths(then)
                self._spend(1 + len(threads) // 16)
                new = [one for thread in threads for one in self._read(thread, atom, truths, sticky)]
                if new:
                    edges[atom] = number(then, new)
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
    found = {tree: None}
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        items = node.items if isinstance(node, Sequence | Choice) else ()
        if isinstance(node, Repeat | Look):
            items = (node.item,)
        for item in items:
            if item not in found:
                found[item] = None
                waiting.append(item)
    return list(found)
