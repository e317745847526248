"""Special tokens of grammars that are read before there is a vocabulary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


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
