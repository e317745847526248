"""Stop strings found in a stream of bytes."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from ..contract import TextMatch, TextMatcher


class StringMatcher(TextMatcher):
    """Finds the first of `strings` that is complete; of several that end with the same byte the first listed.

    include  whether the string stays in the text, which then ends behind it.

    The automaton of Aho and Corasick (CACM 1975): a state is the longest end of the text that some
    string begins with. Steps over failures are remembered, so that a byte costs one look-up, however many
    strings there are. Memory is that of the strings' bytes.
    """

    def __init__(self, strings: Sequence[str], include: bool = False) -> None:
        self.start = 0
        self._strings = tuple(strings)
        self._include = include
        self._next: list[dict[int, int]] = [{}]
        self._depth = [0]
        self._found = [len(strings)]
        """Of each state the first string that is complete there; their number where none is."""
        ends = [self._plant(string.encode()) for string in strings]
        for i, end in enumerate(ends):
            self._found[end] = min(i, self._found[end])
        self._failure = [0] * len(self._next)
        self._held = [0] * len(self._next)
        self._link()

    def advance(self, state: int, data: bytes) -> tuple[int, TextMatch | None]:
        match = None
        for i, byte in enumerate(data, 1):
            following = self._next[state].get(byte)
            state = self._fall(state, byte) if following is None else following
            if match is None and (number := self._found[state]) < len(self._strings):
                string = self._strings[number]
                match = TextMatch(i, i if self._include else i - len(string.encode()), string)
        return state, match

    def held(self, state: int) -> int:
        return self._held[state]

    def _plant(self, data: bytes) -> int:
        """Add the states of one string; the last of them."""
        state = 0
        for byte in data:
            if byte not in self._next[state]:
                self._next[state][byte] = len(self._next)
                self._next.append({})
                self._depth.append(self._depth[state] + 1)
                self._found.append(len(self._strings))
            state = self._next[state][byte]
        return state

    def _link(self) -> None:
        """Find, nearest states first, where a state goes on when its string does not."""
        waiting = deque([0])
        while waiting:
            state = waiting.popleft()
            failure = self._failure[state]
            self._found[state] = min(self._found[state], self._found[failure])
            if not self._include:  # a string that is complete and no other's beginning is not held
                self._held[state] = self._depth[state] if self._next[state] else self._held[failure]
            for byte, child in self._next[state].items():
                self._failure[child] = 0 if state == 0 else self._fall(failure, byte, remember=False)
                waiting.append(child)

    def _fall(self, state: int, byte: int, remember: bool = True) -> int:
        """Where `byte` leads from `state`, by way of the shorter ends of the text."""
        at = state
        while at and byte not in self._next[at]:
            at = self._failure[at]
        found = self._next[at].get(byte, 0)
        if remember:
            self._next[state][byte] = found
        return found
