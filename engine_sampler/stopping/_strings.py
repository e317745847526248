"""Finding stop strings in a stream of bytes."""

from __future__ import annotations

from collections.abc import Sequence

from ..contract import TextMatch, TextMatcher


class StringMatcher(TextMatcher):
    """Finds the first of `strings` to be completed; of several that end with the same byte, the one listed
    first.

    include  whether the string stays in the text, which then ends after it.

    The automaton of Aho and Corasick (CACM 1975): a state is the longest suffix of the text that is a
    prefix of some string. A byte costs one look-up, amortised, however many strings there are; memory is
    proportional to the bytes of the strings.
    """

    def __init__(self, strings: Sequence[str], include: bool = False) -> None:
        self.start = 0
        self._strings = tuple(strings)
        self._by_name = {string.encode(): string for string in strings}
        self._include = include
        self._next: dict[int, int] = {}
        """The transitions of the trie: the next state, by `state << 8 | byte`."""
        self._depth = [0]
        self._found = [len(strings)]
        """For each state the index of the first string that ends there; len(strings) if none does."""
        ends = [self._insert(string.encode()) for string in strings]
        for i, end in enumerate(ends):
            self._found[end] = min(i, self._found[end])
        self._failure, self._held = self._links()

    def advance(self, state: int, data: bytes) -> tuple[int, TextMatch | None]:
        match = None
        for i, byte in enumerate(data, 1):
            state = self._step(state, byte)
            if match is None and (index := self._found[state]) < len(self._strings):
                string = self._strings[index]
                match = TextMatch(i, i if self._include else i - len(string.encode()), string)
        return state, match

    def held(self, state: int) -> int:
        return self._held[state]

    def at_special(self, name: bytes) -> TextMatch | None:
        string = self._by_name.get(name)
        return None if string is None else TextMatch(0, 0, string)

    def _step(self, state: int, byte: int) -> int:
        """The state after `byte`, following failure links where necessary."""
        following = self._next.get(state << 8 | byte)
        while following is None and state:
            state = self._failure[state]
            following = self._next.get(state << 8 | byte)
        return following or 0

    def _insert(self, data: bytes) -> int:
        """Add the states of one string to the trie; returns the last of them."""
        state = 0
        for byte in data:
            following = self._next.setdefault(state << 8 | byte, len(self._depth))
            if following == len(self._depth):
                self._depth.append(self._depth[state] + 1)
                self._found.append(len(self._strings))
            state = following
        return state

    def _links(self) -> tuple[list[int], list[int]]:
        """For each state its failure link, the next shorter suffix of the text that is a state, and the
        number of bytes held back there."""
        self._failure = failure = [0] * len(self._depth)
        held = [0] * len(self._depth)
        inner = {edge >> 8 for edge in self._next}
        # By depth, because the link of a state depends on those of shallower states.
        for edge, child in sorted(self._next.items(), key=lambda item: self._depth[item[1]]):
            state, byte = edge >> 8, edge & 0xFF
            if state:
                failure[child] = self._step(failure[state], byte)
            self._found[child] = min(self._found[child], self._found[failure[child]])
            if not self._include:  # a complete string that is not a prefix of another is not held back
                held[child] = self._depth[child] if child in inner else held[failure[child]]
        return failure, held
