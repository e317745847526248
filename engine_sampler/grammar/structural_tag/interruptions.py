"""Text that tags interrupt, at strings or at tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from ..errors import GrammarLimitError
from ..program.free_text import free_text, overlap_free
from ..program.rules import Body, Rules, alternatives, repeated, sequence
from .marks import Marks

MAX_WATCHED = 20_000
"""Maximum number of characters of overlapping triggers, times the number of these triggers."""

Ends: TypeAlias = "frozenset[str]"
"""Strings, one of which must follow a format; empty if none has to."""


class Interruption(NamedTuple):
    """A string that may interrupt a text, and the body that must follow it."""

    begin: str
    rest: Body


class InterruptedText:
    """The texts of one structural tag that others interrupt."""

    def __init__(self, rules: Rules, marks: Marks) -> None:
        self._rules, self._marks = rules, marks
        self._watched = 0

    def at_strings(
        self,
        interruptions: Sequence[Interruption],
        triggers: Ends,
        excludes: Ends,
        ends: Ends,
        loop: bool,
        heads: Sequence[Body] | None,
    ) -> Body:
        """Text with interruptions at `triggers`; `heads`: one of these must come first, unless None."""
        stops = triggers | ends
        by_begin: dict[str, list[Body]] = {}
        for interruption in interruptions:
            by_begin.setdefault(interruption.begin, []).append(interruption.rest)
        terminal = self._rules.terminal
        interrupted: list[Body]
        if overlap_free(stops):
            text = terminal("TEXT", free_text(stops, excludes))
            after = [
                sequence(self._marks.text(begin), alternatives(*rests)) for begin, rests in by_begin.items()
            ]
            interrupted = [sequence(text, alternatives(*after))]
            last = sequence(text, self._marks.any_of(ends))
        else:
            interrupted = [
                sequence(self._until(begin, stops, excludes), alternatives(*rests))
                for begin, rests in by_begin.items()
            ]
            last = self._marks.text_until(ends, stops, excludes)
        end = self._marks.any_of(ends)
        if heads is not None:
            first = alternatives(*heads)
            return (
                sequence(first, repeated(alternatives(*interrupted)), last) if loop else sequence(first, end)
            )
        if loop:
            return sequence(repeated(alternatives(*interrupted)), last)
        return alternatives(sequence(alternatives(*interrupted), end), last)

    def _until(self, trigger: str, stops: Ends, excludes: Ends) -> Body:
        """Text up to a trigger that overlaps others: each such trigger needs its own automaton."""
        self._watched += sum(map(len, stops))
        if self._watched > MAX_WATCHED:
            raise GrammarLimitError(
                f"overlapping triggers have more than {MAX_WATCHED} characters, counted once for each trigger"
            )
        return self._marks.text_until(frozenset((trigger,)), stops, excludes)

    def at_tokens(self, free: Body, interruption: int, ends: Ends, loop: bool, first: bool) -> Body:
        """Free text that `interruption` may interrupt (if `loop`, often; if `first`, at its beginning)."""
        end = self._marks.any_of(ends)
        if first:
            return (
                sequence(interruption, repeated(sequence(free, interruption)), free, end)
                if loop
                else sequence(interruption, end)
            )
        last = sequence(free, end)
        if loop:
            return sequence(repeated(sequence(free, interruption)), last)
        return alternatives(sequence(free, interruption, end), last)
