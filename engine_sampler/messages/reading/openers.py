"""`OpenerIndex`: which of many beginnings a text has at a place."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from ...base.giving_way import unhurried
from ...grammar.errors import GrammarLimitError
from ..definition import Opener
from ..templates import FAILED, PARTIAL, Found, Part, after_space

MAX_NESTED = 64
"""Maximum number of places at which a text may go on with a string that begins with another one, after which
others go on: so many ways are followed at once."""


class OpenerIndex:
    """Finds which of some openers begin at a place of a text, in steps that hardly grow with their number:
    those that begin alike share a way through a tree. Raises GrammarLimitError for more than `MAX_NESTED`."""

    def __init__(self, openers: Sequence[Opener]) -> None:
        self._openers = tuple(openers)
        self._root = _Node()
        for number, opener in enumerate(unhurried(self._openers)):
            for parts in opener.begin.beginnings:
                node = self._root
                for part in parts:
                    node = node.after(part)
                node.openers += (number,)
                node.goes_on = node.goes_on or not opener.begin.is_plain
        self._root.arrange()
        is_any = bool(self._root.openers) or self._root.space is not None
        self._twos = None if is_any else frozenset(text[:2] for text in self._root.texts)
        """The first two characters of all, or the only one."""

    def find(self, text: str, at: int) -> tuple[Opener | None, Found]:
        """What begins at a position: a partial match of any opener, if there is one, else the longest."""
        best: tuple[Opener | None, Found] = (None, Found(FAILED))
        two = text[at : at + 2]
        if self._twos is not None and two not in self._twos and len(two) == 2 and two[0] not in self._twos:
            return best
        likely = self._likely(text, at)
        if likely is None:
            return self._openers[0], Found(PARTIAL)
        for opener in likely:
            found = opener.begin.match(text, at)
            if found.end == PARTIAL:
                return opener, found
            if found.end > best[1].end:
                best = opener, found
        return best

    def _likely(self, text: str, at: int) -> Sequence[Opener] | None:
        """The openers that the text may have from a position on, in their order; None if it ends within the
        beginning of one."""
        numbers: list[int] = []
        ways = [(self._root, at)]
        while ways:
            node, place = ways.pop()
            numbers += node.openers
            if node.space is not None:
                ways.append((node.space, after_space(text, place)))
            if node.texts:
                found = node.found_in(text, place)
                if found is None:
                    return None
                ways += ((node.nodes[one], place + len(one)) for one in found)
        return [self._openers[number] for number in (sorted(set(numbers)) if len(numbers) > 1 else numbers)]


class _Node:
    """What may follow some parts of beginnings.

    nodes    what follows each of some texts; `texts` are these in order
    space    what follows white space
    openers  those whose parts end here
    goes_on  whether more than these texts decides about them
    parents  for each of the texts, the longest other one with which it begins, or None
    """

    __slots__ = ("_longest", "goes_on", "nodes", "openers", "parents", "space", "texts")

    def __init__(self) -> None:
        self.nodes = _NO_NODES
        self.texts: Sequence[str] = ()
        self.parents = _NO_PARENTS
        self.space: _Node | None = None
        self.openers: tuple[int, ...] = ()
        self.goes_on = False
        self._longest = 0

    def after(self, part: Part) -> _Node:
        """The node after a part."""
        self.goes_on = True
        if part.kind == "text":
            if not self.nodes:
                self.nodes = {}
            node = self.nodes.get(part.text)
            if node is None:
                node = self.nodes[part.text] = _Node()
            return node
        self.space = self.space or _Node()
        return self.space

    def arrange(self) -> None:
        """Put the texts of this node and those below in order."""
        left, nested = [self], 0
        while left:
            node = left.pop()
            if node.nodes:
                nested += node._arrange()
                left += unhurried(node.nodes.values())
            if node.space is not None:
                left.append(node.space)
            if nested > MAX_NESTED:
                raise GrammarLimitError(
                    f"structural_tag: more than {MAX_NESTED} tags whose beginnings begin with those of "
                    "others, and go on otherwise, are not allowed"
                )

    def _arrange(self) -> int:
        """Put its own texts in order; returns how many of them begin with one after which others go on."""
        self.texts, self.parents = sorted(self.nodes), {}
        self._longest = max(map(len, self.texts))
        open_texts: list[tuple[str, bool]] = []
        count = 0
        for text in unhurried(self.texts):
            while open_texts and not text.startswith(open_texts[-1][0]):
                open_texts.pop()
            parent, is_nested = open_texts[-1] if open_texts else (None, False)
            self.parents[text] = parent
            count += is_nested
            open_texts.append((text, is_nested or self.nodes[text].goes_on))
        return count

    def found_in(self, text: str, at: int) -> list[str] | None:
        """The texts that stand at a position; None if the text ends within one of them."""
        rest = text[at : at + self._longest]
        number = bisect_right(self.texts, rest)
        if len(rest) < self._longest and number < len(self.texts) and self.texts[number].startswith(rest):
            return None
        beginnings: list[str] = []
        one = self.texts[number - 1] if number else None
        while one is not None:
            if beginnings or rest.startswith(one):
                beginnings.append(one)
            one = self.parents[one]
        return beginnings


_NO_NODES: dict[str, _Node] = {}
_NO_PARENTS: dict[str, str | None] = {}
"""What the many nodes have that nothing follows. They never change."""
