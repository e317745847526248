"""What captures are, written down plainly, for grammars whose terminals are literals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

Alternatives: TypeAlias = Sequence[Sequence[str]]
Span: TypeAlias = tuple[str, int, int]


class OpenChoiceError(Exception):
    """The documentation leaves open which of several readings counts."""


class NaiveCaptures:
    """A grammar: for each rule its alternatives, each a sequence of rules and of other texts, the literals.

    All rules are captured, under their own names; `start` is the first.
    """

    def __init__(self, rules: Mapping[str, Alternatives]) -> None:
        self._rules = rules
        self._literals = sorted(
            {symbol for some in rules.values() for one in some for symbol in one if symbol not in rules}
        )

    def lark(self) -> str:
        """The grammar in Lark's language."""
        lines = []
        for rule, alternatives in self._rules.items():
            written = (
                " ".join(symbol if symbol in self._rules else f'"{symbol}"' for symbol in one)
                for one in alternatives
            )
            lines.append(f"{rule}[capture]: " + " | ".join(written))
        return "\n".join(lines)

    def captures(self, text: str) -> list[Span] | None:
        """The rules in a text with their spans, those that begin first, and outer ones, first; None if the
        text is not in the language. Raises OpenChoiceError."""
        for words in self._splits(text):
            derivable = self._derivable(words)
            if ("start", 0, len(words)) in derivable:
                places = [0]
                for word in words:
                    places.append(places[-1] + len(word))
                spans = self._spans(derivable, words, "start", 0, len(words), ())
                found = [(rule, places[start], places[end]) for rule, start, end in spans]
                return sorted(found, key=lambda span: (span[1], -span[2]))
        return None

    def _splits(self, text: str) -> Iterator[list[str]]:
        """The ways to split a text into literals: the longest first ones come first."""
        if not text:
            yield []
        for literal in sorted(self._literals, key=len, reverse=True):
            if literal and text.startswith(literal):
                for rest in self._splits(text[len(literal) :]):
                    yield [literal, *rest]

    def _derivable(self, words: Sequence[str]) -> set[Span]:
        """Which rules derive which words."""
        spans: set[Span] = set()
        while True:
            before = len(spans)
            for rule in self._rules:
                for start in range(len(words) + 1):
                    for parts in self._parts(spans, words, rule, start):
                        spans.add((rule, start, parts[-1][2] if parts else start))
            if len(spans) == before:
                return spans

    def _parts(
        self, derivable: set[Span], words: Sequence[str], rule: str, start: int
    ) -> Iterator[tuple[Span, ...]]:
        """The ways in which a rule can begin at a word: the spans of its parts."""
        for alternative in self._rules[rule]:
            ways: list[tuple[Span, ...]] = [()]
            for symbol in alternative:
                longer = []
                for way in ways:
                    at = way[-1][2] if way else start
                    if symbol in self._rules:
                        ends = [end for end in range(at, len(words) + 1) if (symbol, at, end) in derivable]
                    else:
                        ends = [at + 1] if words[at : at + 1] == [symbol] else []
                    longer += [(*way, (symbol, at, end)) for end in ends]
                ways = longer
            yield from ways

    def _spans(
        self,
        derivable: set[Span],
        words: Sequence[str],
        rule: str,
        start: int,
        end: int,
        above: tuple[Span, ...],
    ) -> list[Span]:
        """The rules in a rule, itself first: of its ways, the one whose parts are the longest."""
        span = (rule, start, end)
        if span in above:
            raise OpenChoiceError
        every = {
            parts
            for parts in self._parts(derivable, words, rule, start)
            if (parts[-1][2] if parts else start) == end
        }
        if any(
            (part[1], part[2]) == (start, end) and part in (*above, span) for one in every for part in one
        ):
            raise OpenChoiceError

        def key(parts: tuple[Span, ...]) -> list[int]:
            return [*(part[2] for part in parts), len(words) + 1]

        best = max(map(key, every))
        chosen = [parts for parts in every if key(parts) == best]
        if len(chosen) > 1:
            raise OpenChoiceError
        found = [span]
        for part in chosen[0]:
            if part[0] in self._rules:
                found += self._spans(derivable, words, *part, (*above, span))
        return found
