"""What a grammar may use: grammars come from clients, and some clients are hostile."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds of compiling and matching; reaching one raises `GrammarLimitError`, which names it.

    memory         bytes of one grammar's parser tables; where a long text reaches it, they are made anew
    shared_memory  bytes that all grammars of a tokenizer share
    work           steps of one call, each some nanoseconds
    text           characters of a grammar, a schema or a pattern
    """

    memory: int = 128 << 20
    shared_memory: int = 512 << 20
    work: int = 12_000_000
    text: int = 2 << 20


LIMITS = Limits()
"""The limits that hold where no others are given."""
