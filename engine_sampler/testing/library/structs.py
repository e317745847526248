"""Structs and tables as a library is given them: copies, also as long as those of a later host."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...backends.library.header import contract, size_of
from ...backends.library.request_table import TABLE_ARRAYS
from ...backends.library.session import LibrarySession
from ...contract import SlotTable
from .memory import Memory

_MORE, _RUBBISH = 24, 0x5B5B5B5B5B5B5B5B
"""Bytes by which the structs of a later host are longer, and what they hold there."""


def larger(kind: str, newer: bool) -> tuple[Any, Any]:
    """A struct of the header, and its memory, which is longer if the host is `newer`."""
    size = size_of(kind) + (_MORE if newer else 0)
    whole = contract().new("char[]", size)
    struct = contract().cast(f"{kind} *", whole)
    contract().memmove(whole + size_of(kind), b"\x5b" * _MORE, size - size_of(kind))
    struct.size = size
    return struct, whole


class TableCopy:
    """A copy of an `es_table` and its arrays, in `memory`.

    pointer  the `es_table *`.
    """

    def __init__(
        self,
        session: LibrarySession,
        slots: SlotTable,
        memory: Memory,
        newer: bool = False,
        whole: Sequence[int] = (),
    ) -> None:
        """`whole`: the slots whose parameters do not share their lists of tokens with the original."""
        self._memory = memory
        self._held: list[Any] = []
        session.table.refresh()
        self.pointer, held = larger("es_table", newer)
        size = self.pointer.size
        contract().memmove(self.pointer, session.table.pointer, size_of("es_table"))
        self.pointer.size = size
        self._held.append(held)
        for name, kind in TABLE_ARRAYS.items():
            array = memory.put(f"the table's {name}", getattr(slots, name))
            setattr(self.pointer, name, contract().from_buffer(kind, array))
            self._held.append(array)
        self._copy_params(newer)
        self._lists = [array for slot in whole for array in self._copy_lists(slot)]
        if whole:
            memory.replace(_PARAMS, self._params)

    def spoil(self) -> None:
        """Overwrite everything with other values that are allowed."""
        for name, spoil in _SPOILERS.items():
            array = self._memory.array(f"the table's {name}")
            self._memory.replace(f"the table's {name}", spoil(array))
        blank = self._params.copy()
        blank[:, 1:] = 0
        self._memory.replace(_PARAMS, blank)
        for array in self._lists:
            array[:] = 0

    def _copy_params(self, newer: bool) -> None:
        words, table = size_of("es_params") // 8, self.pointer
        given = np.frombuffer(contract().buffer(table.params, table.capacity * 8 * words), np.uint64)
        params = given.reshape(table.capacity, words)
        if newer:
            params = np.pad(params, ((0, 0), (0, _MORE // 8)), constant_values=_RUBBISH)
            params.view(np.uint32)[:, 0] = 8 * params.shape[1]
        self._params = self._memory.put(_PARAMS, np.ascontiguousarray(params))
        table.params = contract().cast("es_params *", contract().from_buffer(self._params))

    def _copy_lists(self, slot: int) -> Iterator[np.ndarray]:
        """Let the parameters of a slot point to copies of their lists."""
        row = contract().from_buffer(self._params[slot : slot + 1])
        params = contract().cast("es_params *", row)
        for name in _IDS:
            ids = getattr(params, name)
            yield from _copy_list(ids, "ids", "int64_t", ids.n)
        yield from _copy_list(params, "biases", "float", params.biased_token_ids.n)
        for name in ("bad_words", "breakers"):
            words = getattr(params, name)
            if words.n:
                yield from _copy_list(words, "tokens", "int64_t", words.ends[words.n - 1])
                yield from _copy_list(words, "ends", "int64_t", words.n)


_PARAMS = "the parameters"
_IDS = ("penalty_exempt", "allowed_token_ids", "eos_token_ids", "ending_token_ids", "biased_token_ids")

_SPOILERS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "seeds": np.invert,
    "positions": lambda positions: positions ^ 1,
    "offsets": np.zeros_like,
    "lengths": np.zeros_like,
    "prompt_lengths": np.zeros_like,
    "epochs": lambda epochs: epochs + np.uint64(1 << 40),
    "tokens": np.zeros_like,
    "notes": lambda notes: np.full_like(notes, 0.25),
}
"""Other values for the arrays of a table."""


def _copy_list(owner: Any, field: str, kind: str, n: int) -> Iterator[np.ndarray]:
    ffi = contract()
    pointer = getattr(owner, field)
    if n and pointer:
        size = ffi.sizeof(kind)
        copy = np.frombuffer(
            ffi.buffer(pointer, n * size), f"<{'f' if kind == 'float' else 'i'}{size}"
        ).copy()
        setattr(owner, field, ffi.from_buffer(f"{kind}[]", copy))
        yield copy
