"""Strings of a tag as rules: a special token stands for its name.

Chat templates mark the parts of a message by strings such as `<|call|>`, which are special tokens of many
vocabularies. A grammar does not know its vocabulary yet: what looks like the name of a special token becomes
a terminal of its own, which is that token where the vocabulary has it, and the literal text elsewhere.
"""

from __future__ import annotations

import re
from functools import partial

from ..program.expression import Expression, concat, literal
from ..program.free_text import (
    UNBOUNDED_TEXT,
    TextBounds,
    bounded_text,
    overlap_free,
    text_before,
    text_until,
    utf8,
)
from ..program.rules import Body, Rules, alternatives, sequence

_BARE = r"｜\w{1,40}｜"
_MARK = re.compile(
    rf"\]<\]\w{{1,40}}\[>\[|{_BARE}(?!>)|<(?!/?{_BARE}[^>])[^<>\s=]{{1,64}}>|\[/?[A-Z][A-Z_]{{1,40}}\]"
)
"""The names of special tokens, by their look: `<think>`, `<|end|>`, `｜DSML｜`, `[ARGS]`, `]<]minimax[>[`."""

NO_STRINGS: frozenset[str] = frozenset()


class Marks:
    """The strings of one tag, as bodies of its rules."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._symbols: dict[str, int] = {}

    def text(self, text: str) -> Body:
        """A string."""
        parts: list[Body] = [
            self._mark(part) if is_mark else self._literal(part) for part, is_mark in split_marks(text)
        ]
        return parts[0] if len(parts) == 1 else sequence(*parts)

    def _literal(self, text: str) -> int:
        return self._rules.terminal("TEXT", literal(utf8(text)))

    def _mark(self, name: str) -> int:
        if name not in self._symbols:
            self._symbols[name] = self._rules.marker(name, literal(utf8(name)))
        return self._symbols[name]

    def opening(self, space: Expression, before: str, name: Expression, after: str = "") -> tuple[int, Body]:
        """The terminal that begins a member, white space first, and what follows up to `after`."""
        terminal = self._rules.terminal
        if has_mark(before) or has_mark(after):
            return terminal("SPACE", space), sequence(
                self.text(before), terminal("NAME", name), self.text(after)
            )
        whole = concat(space, literal(utf8(before)), name, literal(utf8(after)))
        return terminal("OPENING", whole), sequence()

    def any_of(self, texts: frozenset[str]) -> Body:
        """One of the strings; the empty text if there are none."""
        return alternatives(*map(self.text, sorted(texts))) if texts else sequence()

    def text_until(
        self,
        ends: frozenset[str],
        others: frozenset[str] = NO_STRINGS,
        excludes: frozenset[str] = NO_STRINGS,
        bounds: TextBounds = UNBOUNDED_TEXT,
    ) -> Body:
        """Any text up to and including the first of `ends`, if there are any; see `text.text_until`."""
        max_chars, budget = bounds
        terminal = partial(self._rules.terminal, "TEXT", budget=budget)
        if not ends:
            return terminal(bounded_text(excludes | others, max_chars))
        if not budget and not any(map(has_mark, ends)):
            return terminal(text_until(ends, others, excludes, max_chars))
        if overlap_free(ends | others):  # ends are apart: they are not counted, and may be tokens
            return sequence(terminal(bounded_text(excludes | others | ends, max_chars)), self.any_of(ends))
        before = ((text_before(end, ends | others, excludes, max_chars), end) for end in sorted(ends))
        return alternatives(*(sequence(terminal(text), self.text(end)) for text, end in before))


def split_marks(text: str) -> list[tuple[str, bool]]:
    """The parts of a string, and whether each may be the name of a special token."""
    parts, at = [], 0
    for found in _MARK.finditer(text):
        if found.start() > at:
            parts.append((text[at : found.start()], False))
        parts.append((found.group(), True))
        at = found.end()
    return [*parts, (text[at:], False)] if at < len(text) else parts


def has_mark(text: str) -> bool:
    """Whether a string contains what may be the name of a special token."""
    return _MARK.search(text) is not None
