"""Stop strings found in a stream of bytes."""

from __future__ import annotations

from collections.abc import Sequence

from ..contract import TextMatch, TextMatcher


class StringMatcher(TextMatcher):
    """Finds the first of `strings` that is complete; of several that end with the same byte the first listed.

    include  whether the string stays in the text, which then ends behind it.

    The automaton of Aho and Corasick (CACM 1975): a state is the longest end of the text that some
    string begins with. A byte costs a look-up, or a few of which the bytes before have saved as many, however
    many strings there are; memory is that of the strings' bytes.
    """

    def __init__(self, strings: Sequence[str], include: bool = False) -> None:
        self.start = 0
        self._strings = tuple(strings)
        self._include = include
        self._next: dict[int, int] = {}
        """The state behind a state and a byte, by `state << 8 | byte`, where a string goes on so."""
        self._depth = [0]
        self._found = [len(strings)]
        """Of each state the first string that is complete there; their number where none is."""
        ends = [self._plant(string.encode()) for string in strings]
        for i, end in enumerate(ends):
            self._found[end] = min(i, self._found[end])
        self._failure, self._held = self._links()

    def advance(self, state: int, data: bytes) -> tuple[int, TextMatch | None]:
        match = None
        for i, byte in enumerate(data, 1):
            state = self._step(state, byte)
            if match is None and (number := self._found[state]) < len(self._strings):
                string = self._strings[number]
                match = TextMatch(i, i if self._include else i - len(string.encode()), string)
        return state, match

    def held(self, state: int) -> int:
        return self._held[state]

    def _step(self, state: int, byte: int) -> int:
        """The state behind `byte`, if need be by way of the shorter ends of the text."""
        following = self._next.get(state << 8 | byte)
        while following is None and state:
            state = self._failure[state]
            following = self._next.get(state << 8 | byte)
        return following or 0

    def _plant(self, data: bytes) -> int:
        """Add the states of one string; the last of them."""
        state = 0
        for byte in data:
            following = self._next.setdefault(state << 8 | byte, len(self._depth))
            if following == len(self._depth):
                self._depth.append(self._depth[state] + 1)
                self._found.append(len(self._strings))
            state = following
        return state

    def _links(self) -> tuple[list[int], list[int]]:
        """Of each state the next shorter end of the text that is a state, and how many bytes are held
        there."""
        self._failure = failure = [0] * len(self._depth)
        held = [0] * len(self._depth)
        goes_on = {edge >> 8 for edge in self._next}
        # A state's depth is above that of the state it comes from, so nearer ones are done before it.
        for edge, child in sorted(self._next.items(), key=lambda item: self._depth[item[1]]):
            state, byte = edge >> 8, edge & 0xFF
            if state:
                failure[child] = self._step(failure[state], byte)
            self._found[child] = min(self._found[child], self._found[failure[child]])
            if not self._include:  # a string that is complete and no other's beginning is not held
                held[child] = self._depth[child] if child in goes_on else held[failure[child]]
        return failure, held
