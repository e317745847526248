"""Free text that stops at certain strings: what stands around and inside of tags.

All expressions here match valid UTF-8. They are automata over characters, of which each state is the
longest beginning of a watched string that the text ends in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from functools import lru_cache

from ..errors import GrammarError, GrammarLimitError
from ..program.expression import Expression, automaton, both, concat, literal, repeat, union
from ..program.unicode import ANY_CHARACTER, LAST, TEXT, byte_automaton

MAX_MOVES = 100_000
"""The most transitions of the automaton of one set of watched strings."""


def encoded(text: str) -> bytes:
    """`text` as UTF-8. Raises GrammarError for a lone surrogate, which has none."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise GrammarError(f"{text[:40]!r} has a lone surrogate, which no text has") from None


def free_text(stops: Iterable[str] = (), excludes: Iterable[str] = ()) -> Expression:
    """Any text in which none of the strings occurs."""
    watched = frozenset(stops) | frozenset(excludes)
    return _automaton(watched, None) if watched else TEXT


def text_until(
    wanted: frozenset[str],
    others: frozenset[str] = frozenset(),
    excludes: frozenset[str] = frozenset(),
    most: int | None = None,
) -> Expression:
    """Any text up to and with one of `wanted`, which must be the first of `wanted` and `others` in it.

    excludes  occur nowhere before that string
    most      characters before that string
    """
    text = _automaton(wanted | others, wanted)
    if not excludes and most is None:
        return text
    before = bounded_text(excludes, most)
    return both(text, concat(before, union(*(literal(encoded(one)) for one in sorted(wanted)))))


def bounded_text(excludes: frozenset[str], most: int | None) -> Expression:
    """Any text of at most that many characters in which none of the strings occurs."""
    text = free_text(excludes)
    return text if most is None else both(text, repeat(ANY_CHARACTER, 0, most))


@lru_cache(maxsize=256)
def separate(watched: frozenset[str]) -> bool:
    """Whether no two of the strings overlap where they occur, so that there is one way only to read a text
    without any of them and one of them behind it."""
    return _watch(watched)[2]


@lru_cache(maxsize=256)
def _automaton(watched: frozenset[str], wanted: frozenset[str] | None) -> Expression:
    """The texts without any watched string; or, with `wanted`, those that end in the first one of them."""
    if "" in watched:
        raise GrammarError("an empty string occurs everywhere: it cannot be looked for in a text")
    for one in watched:
        encoded(one)
    moves, complete, _ = _watch(watched)
    kept = [state for state in range(len(moves)) if state not in complete]
    numbers = {state: number for number, state in enumerate(kept)}
    if wanted is not None:
        numbers.update((state, len(kept)) for state, ends in complete.items() if ends & wanted)
    states = [(wanted is None, _pieces(moves[state], numbers)) for state in kept]
    if wanted is not None:
        states.append((True, ()))
    return automaton(byte_automaton(states))


def _watch(watched: Iterable[str]) -> tuple[list[dict[str, int]], dict[int, frozenset[str]], bool]:
    """Of each state where characters lead, 0 being the beginning and where all others lead; of states in
    which watched strings are complete, those strings; whether they are `separate`. (Aho and Corasick, 1975.)
    """
    children: list[dict[str, int]] = [{}]
    complete: dict[int, frozenset[str]] = {}
    for one in sorted(watched):
        state = 0
        for character in one:
            if character not in children[state]:
                children[state][character] = len(children)
                children.append({})
            state = children[state][character]
        complete[state] = frozenset((one,))
    moves: list[dict[str, int]] = [{} for _ in children]
    moves[0] = children[0]
    shorter = [0] * len(children)
    waiting = deque([0])
    work = 0
    while waiting:
        state = waiting.popleft()
        back = shorter[state]
        if state:
            moves[state] = moves[back] | children[state]
            work += len(moves[state])
            if work > MAX_MOVES:
                raise GrammarLimitError(f"the strings that text stops at take more than {MAX_MOVES} moves")
        if back in complete:
            complete[state] = complete.get(state, frozenset()) | complete[back]
        for character, child in children[state].items():
            shorter[child] = moves[back].get(character, 0) if state else 0
            waiting.append(child)
    return moves, complete, not any(shorter[state] or children[state] for state in complete)


def _pieces(moves: Mapping[str, int], numbers: Mapping[int, int]) -> tuple[tuple[int, int, int], ...]:
    """Moves as ranges of code points; what `numbers` lacks is no move, every other one leads to 0."""
    found: list[tuple[int, int, int]] = []
    begin = 0
    for code, target in sorted((ord(character), state) for character, state in moves.items()):
        if code > begin:
            found.append((begin, code - 1, 0))
        if target in numbers:
            found.append((code, code, numbers[target]))
        begin = code + 1
    if begin <= LAST:
        found.append((begin, LAST, 0))
    return tuple(found)
