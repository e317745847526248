"""The resources that a grammar may use: grammars come from clients, and some clients are hostile."""

from __future__ import annotations

from dataclasses import dataclass, fields

MOST = 2**62
"""The largest limit."""


@dataclass(frozen=True)
class Limits:
    """Bounds on reading, compiling and matching; exceeding one raises `GrammarLimitError`, which names it.

    memory         bytes of one grammar's parser tables; when a long text reaches it, they are rebuilt
    shared_memory  bytes of the tables that all grammars of a tokenizer share
    grammar_memory  bytes of the parser tables of all grammars of a tokenizer: beyond it, the largest are
                   dropped, and rebuilt when they are needed. Its first grammar decides this and shared_memory
    work           steps of one call, each a few nanoseconds
    carried        steps of all the calls for one text that did not finish in the step of a scheduler: they
                   are continued in the next ones
    text           characters of a grammar, a schema or a pattern
    reading        steps of reading one grammar before it is compiled, each about a microsecond

    Raises ValueError for anything but a whole number from 1: what equals one, such as True and 1.0, would
    find what was compiled under it.
    """

    memory: int = 128 << 20
    shared_memory: int = 512 << 20
    grammar_memory: int = 1 << 30
    work: int = 100_000_000
    carried: int = 400_000_000
    text: int = 2 << 20
    reading: int = 1_200_000

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST:
                raise ValueError(
                    f"Limits.{field.name}={value!r} is not allowed: a whole number from 1 to 2**62"
                )


LIMITS = Limits()
"""The default limits."""

CAPTURE_STEPS = 1_000_000
"""The most steps in which the captures of a text are found by default, each a microsecond or two."""

_LEAST_CAPTURE_STEPS, _CAPTURE_STEPS_PER_UNIT = 100_000, 40


def capture_steps(units: int) -> int:
    """The default bound on the steps in which the captures of a text of so many bytes and special tokens are
    found: 100,000, and 40 for each, up to `CAPTURE_STEPS`. Most grammars take 4 to 10 for each."""
    return min(CAPTURE_STEPS, _LEAST_CAPTURE_STEPS + _CAPTURE_STEPS_PER_UNIT * units)
