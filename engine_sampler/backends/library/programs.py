"""Chains as programs of a compiled backend."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ...contract import Sampler, Selector
from ...registry import default_registry
from .header import contract, number, size_of, sized

Part = Sampler | Selector

FUNCTION = "ES_OP_FUNCTION"


def kind_of(part: Part) -> int | None:
    """The `es_op_kind` of a sampler or selector; None for a selector that the contract lacks."""
    if default_registry().is_built_in(part):
        try:
            return number(f"ES_OP_{part.name.upper()}")
        except KeyError:
            pass  # newer than the header
    return number(FUNCTION) if isinstance(part, Sampler) else None


Fill = Callable[[Any, Sampler], None]
"""Completes the `es_op` of a third-party sampler."""


class LibraryProgram:
    """An `es_program` of `parts`, in order; `fill` completes the ops of third-party samplers.

    pointer  the `es_program *`; valid as long as this object.
    """

    def __init__(self, parts: Sequence[Part], fill: Fill) -> None:
        ffi = contract()
        self._names = [ffi.new("char[]", part.name.encode()) for part in parts]
        self._ops = ffi.new("es_op[]", len(parts))
        for op, part, name in zip(self._ops, parts, self._names, strict=True):
            kind = kind_of(part)
            assert kind is not None, part.name
            op.size, op.kind, op.name = size_of("es_op"), kind, name
            op.stream = part.stream
            if isinstance(part, Sampler) and kind == number(FUNCTION):
                fill(op, part)
        self.pointer = sized("es_program", n_ops=len(parts), ops=self._ops)


def fill_for_query(op: Any, sampler: Sampler) -> None:
    """Complete an op of a program that is only queried, never run."""
    op.function = _stand_in()


@functools.cache
def _stand_in() -> Any:
    return contract().callback("es_row_function", lambda row, logits, ids, n, state: 1)
