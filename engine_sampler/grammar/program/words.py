"""Long lists of words as expressions in which common prefixes occur once, so that derivatives are fast."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from ..work import sort, spend
from .expression import EPSILON, Expression, concat, literal, union

_MAX_PREFIXES = 100
"""The most prefixes that are factored out of one word, one after the other."""

_FEW = 4
"""So many words are not factored."""

Word: TypeAlias = "Sequence[int]"


def any_of(words: Iterable[bytes]) -> Expression:
    """Any one of the words."""
    return _Factoring(literal).expression(sort(set(words)))


def any_sequence_of(words: Iterable[Sequence[Expression]]) -> Expression:
    """Any one of the words, each a sequence of expressions of characters."""
    numbers: dict[Expression, int] = {}
    spelled = {tuple(numbers.setdefault(one, len(numbers)) for one in word) for word in words}
    characters = list(numbers)
    factoring = _Factoring(lambda piece: concat(*(characters[number] for number in piece)))
    return factoring.expression(sort(spelled))


class _Factoring:
    """`joined` makes the expression of a piece of a word."""

    def __init__(self, joined: Callable[[Any], Expression]) -> None:
        self._joined = joined

    def expression(self, words: Sequence[Word]) -> Expression:
        """Any one of the words, which are sorted."""
        return self._any(words, 0, len(words), 0, 0)

    def _any(self, words: Sequence[Word], low: int, high: int, at: int, depth: int) -> Expression:
        """Any one of words[low:high], which share their first `at` characters, without these."""
        if high - low <= _FEW or depth == _MAX_PREFIXES:
            spend(5 * (high - low))
            return union(*[self._spelled(word[at:]) for word in words[low:high]])
        parts = []
        while low < high:
            if len(words[low]) == at:
                parts.append(EPSILON)
                low += 1
                continue
            end = low
            while end < high and words[end][at] == words[low][at]:
                end += 1
            shared, first, last = at + 1, words[low], words[end - 1]
            while shared < len(first) and first[shared : shared + 1] == last[shared : shared + 1]:
                shared += 1  # all words between the two share this prefix, since they are sorted
            spend(1 + (end - low) // 4 + (shared - at) // 8)
            rest = self._any(words, low, end, shared, depth + 1)
            parts.append(concat(self._spelled(words[low][at:shared]), rest))
            low = end
        return union(*parts)

    def _spelled(self, piece: Any) -> Expression:
        spend(len(piece) // 8)
        return self._joined(piece)
