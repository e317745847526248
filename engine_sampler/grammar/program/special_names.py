"""Special tokens of grammars that are read before there is a vocabulary, and what one makes of terminals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

MAX_TOKEN_SETS = 16
"""Maximum number of different sets of excluded tokens: each costs four bytes per token of a vocabulary."""


class SpecialNames(Mapping[str, int]):
    """Negative numbers for the names of special tokens, whose ids are only known at compilation.

    It contains every name: looking one up assigns it the next number.
    """

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def __getitem__(self, name: str) -> int:
        return self.known.setdefault(name, -1 - len(self.known))

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(self.known)

    def __len__(self) -> int:
        return len(self.known)


class Binding(NamedTuple):
    """What a vocabulary makes of a terminal, by `kind`:

    marker           the special token `name` if there is one
    token_except     any token but those given as its special tokens
    ordinary_except  any ordinary token but those; nothing if all of them are special
    text             its expression if all of them are special; else nothing
    """

    symbol: int
    kind: str
    name: str = ""
