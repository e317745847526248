"""The resources that a grammar may use: grammars come from clients, and some clients are hostile."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds on compiling and matching; exceeding one raises `GrammarLimitError`, which names it.

    memory         bytes of one grammar's parser tables; when a long text reaches it, they are rebuilt
    shared_memory  bytes of the tables that all grammars of a tokenizer share
    work           steps of one call, each a few nanoseconds
    text           characters of a grammar, a schema or a pattern
    reading        steps of reading one grammar before it is compiled, each about a microsecond
    """

    memory: int = 128 << 20
    shared_memory: int = 512 << 20
    work: int = 12_000_000
    text: int = 2 << 20
    reading: int = 800_000


LIMITS = Limits()
"""The default limits."""
