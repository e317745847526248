"""Free text that stops at certain strings: the text around and inside tags.

All expressions here match valid UTF-8. They are automata over characters; each state represents the
longest prefix of a watched string that is a suffix of the text.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from ..errors import GrammarError, GrammarLimitError
from ..work import spend, spend_on_each
from .expression import Expression, automaton, both, concat, literal, repeat, union
from .unicode import ANY_CHARACTER, LAST, TEXT, byte_automaton

MAX_TRANSITIONS = 100_000
"""Maximum number of transitions of the automaton of one set of watched strings."""


UNBOUNDED = 2**31 - 1
"""The largest bound that can be given on tokens or repetitions; no text reaches it."""


class TextBounds(NamedTuple):
    """How long a text may be.

    max_chars   the most characters; None for any number
    max_tokens  the most tokens that may begin in it; 0 for any number
    """

    max_chars: int | None = None
    max_tokens: int = 0


UNBOUNDED_TEXT = TextBounds()


def text_bounds(max_chars: int | None, max_tokens: int | None, path: str) -> TextBounds:
    """The bounds that a format states, without the one on tokens where the one on characters implies it: a
    token has at least one byte, a character at most four. Raises GrammarError, with `path`.
    """
    if max_chars is not None and max_chars < 0:
        raise GrammarError(f"{path}.max_chars={max_chars} is not allowed: at least 0")
    if max_tokens is None:
        return TextBounds(max_chars)
    if not 0 <= max_tokens <= UNBOUNDED:
        raise GrammarError(f"{path}.max_tokens={max_tokens} is not allowed: 0 to {UNBOUNDED}")
    if not max_tokens:
        return TextBounds(0)
    most = UNBOUNDED if max_chars is None else 4 * max_chars
    return TextBounds(max_chars, max_tokens if max_tokens < most else 0)


def utf8(text: str) -> bytes:
    """`text` as UTF-8. Raises GrammarError for a lone surrogate, which has no encoding."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise GrammarError(f"{text[:40]!r} contains a lone surrogate, which UTF-8 cannot encode") from None


def free_text(stops: Iterable[str] = (), excludes: Iterable[str] = ()) -> Expression:
    """Any text in which none of the strings occurs."""
    watched = frozenset(stops) | frozenset(excludes)
    return _automaton(watched, None) if watched else TEXT


def text_until(
    targets: frozenset[str],
    others: frozenset[str] = frozenset(),
    excludes: frozenset[str] = frozenset(),
    max_chars: int | None = None,
) -> Expression:
    """Any text up to and including its first occurrence of a watched string, which must be one of `targets`.

    targets    watched strings that end the text
    others     watched strings that must not occur before the target
    excludes   strings that must not occur before the target
    max_chars  maximum number of characters before the target
    """
    text = _automaton(targets | others, targets)
    if not excludes and max_chars is None:
        return text
    before = bounded_text(excludes, max_chars)
    return both(text, concat(before, union(*(literal(utf8(one)) for one in sorted(targets)))))


def bounded_text(excludes: frozenset[str], max_chars: int | None) -> Expression:
    """Any text of at most `max_chars` characters in which none of the strings occurs."""
    text = free_text(excludes)
    return text if max_chars is None else both(text, repeat(ANY_CHARACTER, 0, max_chars))


def text_before(
    end: str, watched: frozenset[str], excludes: frozenset[str] = frozenset(), max_chars: int | None = None
) -> Expression:
    """Any text before `end`: in both together, none of the watched strings, `end` among them, is complete
    before `end` is. So the two are what `text_until` is in one."""
    text = _automaton_before(end, watched)
    return both(text, bounded_text(excludes, max_chars)) if excludes or max_chars is not None else text


@lru_cache(maxsize=256)
def overlap_free(watched: frozenset[str]) -> bool:
    """Whether occurrences of the strings never overlap.

    If so, an input splits in only one way into a text without any of them and one of them after it.
    """
    return _watch(watched)[2]


@lru_cache(maxsize=256)
def _automaton(watched: frozenset[str], targets: frozenset[str] | None) -> Expression:
    """The texts without any watched string; or, given `targets`, texts that end with its first occurrence.

    With `targets`, that occurrence must be one of them.
    """
    if "" in watched:
        raise GrammarError("an empty string occurs everywhere, so text cannot stop at it")
    for one in watched:
        utf8(one)
    moves, complete, _ = _watch(watched)
    incomplete = [state for state in range(len(moves)) if state not in complete]
    numbers = {state: number for number, state in enumerate(incomplete)}
    if targets is not None:
        numbers.update((state, len(incomplete)) for state, ends in complete.items() if ends & targets)
    states = [(targets is None, _pieces(moves[state], numbers)) for state in spend_on_each(incomplete, 5)]
    if targets is not None:
        states.append((True, ()))
    return automaton(byte_automaton(states))


@lru_cache(maxsize=256)
def _automaton_before(end: str, watched: frozenset[str]) -> Expression:
    """The texts without watched strings after which `end` completes none before itself."""
    moves, complete, _ = _watch(watched)
    incomplete = [state for state in range(len(moves)) if state not in complete]
    numbers = {state: number for number, state in enumerate(incomplete)}
    states = []
    for state in incomplete:
        at, read = state, 0
        while read < len(end) - 1 and at not in complete:
            at, read = moves[at].get(end[read], 0), read + 1
        spend(10 + read + len(moves[state]))
        states.append((at not in complete, _pieces(moves[state], numbers)))
    return automaton(byte_automaton(states))


def _watch(watched: Iterable[str]) -> tuple[list[dict[str, int]], dict[int, frozenset[str]], bool]:
    """The Aho-Corasick automaton (Aho and Corasick, 1975) of some strings, as three values:

    - for each state, the target of each character; state 0 is the start, and the target of all others;
    - for each state in which watched strings are complete, those strings;
    - whether the strings are `overlap_free`.
    """
    children: list[dict[str, int]] = [{}]
    complete: dict[int, frozenset[str]] = {}
    for string in sorted(watched):
        state = 0
        for character in spend_on_each(string):
            if character not in children[state]:
                if len(children) > MAX_TRANSITIONS:  # every state has one at least
                    raise _too_many_transitions()
                children[state][character] = len(children)
                children.append({})
            state = children[state][character]
        complete[state] = frozenset((string,))
    moves: list[dict[str, int]] = [{} for _ in children]
    moves[0] = children[0]
    suffix_link = [0] * len(children)
    queue = deque([0])
    work = 0
    while queue:
        state = queue.popleft()
        back = suffix_link[state]
        if state:
            moves[state] = moves[back] | children[state]
            work += len(moves[state])
            spend(10 + len(moves[state]))
            if work > MAX_TRANSITIONS:
                raise _too_many_transitions()
        if back in complete:
            complete[state] = complete.get(state, frozenset()) | complete[back]
        for character, child in children[state].items():
            suffix_link[child] = moves[back].get(character, 0) if state else 0
            queue.append(child)
    return moves, complete, not any(suffix_link[state] or children[state] for state in complete)


def _too_many_transitions() -> GrammarLimitError:
    text = f"the strings at which text stops need more than {MAX_TRANSITIONS} transitions"
    return GrammarLimitError(text)


def _pieces(moves: Mapping[str, int], numbers: Mapping[int, int]) -> tuple[tuple[int, int, int], ...]:
    """Moves as ranges of code points.

    Moves to states that `numbers` lacks are dropped; all other characters lead to 0.
    """
    ranges: list[tuple[int, int, int]] = []
    begin = 0
    for code, target in sorted((ord(character), state) for character, state in moves.items()):
        if code > begin:
            ranges.append((begin, code - 1, 0))
        if target in numbers:
            ranges.append((code, code, numbers[target]))
        begin = code + 1
    if begin <= LAST:
        ranges.append((begin, LAST, 0))
    return tuple(ranges)
