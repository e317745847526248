"""The live requests as a compiled backend sees them: an `es_table` over the arrays of a `SlotTable`."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...contract import Sampler, SlotTable
from ...samplers.dry import Breakers
from ...tokenizer import Tokenizer
from .header import contract, size_of, sized

_CHOICES = {
    "top_p_cut": {"reach": 0, "exceed": 1, "below": 2},
    "tfs_cut": {"llama.cpp": 0, "koboldai": 1},
}
"""The header's numbers for parameters whose values are names."""

TABLE_ARRAYS = {
    "seeds": "uint64_t[]",
    "positions": "int64_t[]",
    "offsets": "int64_t[]",
    "lengths": "int64_t[]",
    "prompt_lengths": "int64_t[]",
    "epochs": "uint64_t[]",
    "tokens": "int64_t[]",
    "notes": "double[]",
}
"""Attributes of `SlotTable` that the table points to, and their C types."""


class RequestTable:
    """An `es_table` that follows a `SlotTable`, without keeping it alive.

    pointer  the `es_table *`. Parameters are written when a slot gets a request; `refresh` brings
             the addresses of the arrays up to date, and must be called when `SlotTable.offsets`
             has been replaced: no other array is replaced without it.
    """

    def __init__(self, slots: SlotTable) -> None:
        self.pointer = sized("es_table")
        self._slots = weakref.ref(slots)
        self._neutral = _neutral_params(slots)
        self._params = _blank_params(len(slots.entries))
        self._is_left = False
        self._kept: dict[int, list[Any]] = {}
        """The arrays that the parameters of each slot point to."""
        self._cells: dict[str, FunctionCells] = {}
        for slot, entry in enumerate(slots.entries):
            if entry is not None:
                self.filled(slot)
        self.refresh()
        slots.observers.add(self)

    def refresh(self) -> None:
        """Point to the current arrays of the slots."""
        slots, table = self._alive(), self.pointer
        self._arrays = [
            contract().from_buffer(kind, getattr(slots, name)) for name, kind in TABLE_ARRAYS.items()
        ]
        for name, address in zip(TABLE_ARRAYS, self._arrays, strict=True):
            setattr(table, name, address)
        self._grow(len(slots.entries))
        table.params, table.capacity = self._params, len(self._params)

    def leave(self) -> None:
        """Stay as it is from now on, in memory of its own: a call that has not returned may still read it."""
        slots = self._slots()
        if self._is_left or slots is None:
            return
        self._is_left = True
        slots.observers.discard(self)
        copies = [np.array(getattr(slots, name)) for name in TABLE_ARRAYS]
        self._left = [self._arrays, copies]
        self._arrays = [
            contract().from_buffer(kind, copy)
            for kind, copy in zip(TABLE_ARRAYS.values(), copies, strict=True)
        ]
        for name, address in zip(TABLE_ARRAYS, self._arrays, strict=True):
            setattr(self.pointer, name, address)

    def cells(self, sampler: Sampler) -> FunctionCells:
        """The parameters and states of a third-party sampler, by slot; created at the first call."""
        cells = self._cells.get(sampler.name)
        if cells is None:
            slots = self._alive()
            cells = self._cells[sampler.name] = FunctionCells(sampler, len(slots.entries))
            for slot, entry in enumerate(slots.entries):
                if entry is not None:
                    cells.write(slots, slot)
        return cells

    def filled(self, slot: int) -> None:
        """Write the parameters of the request that has been given `slot`."""
        slots = self._alive()
        self._grow(len(slots.entries))
        params = self._params + slot
        contract().memmove(params, self._neutral, size_of("es_params"))
        _write_scalars(params, slots.given(slot))
        kept: list[Any] = []
        for name, data in slots.entries[slot].resolved.items():
            if data is not None and (write := _WRITERS.get(name)) is not None:
                write(params, data, kept, slots.vocabulary.size)
        self._kept[slot] = kept
        for cells in self._cells.values():
            cells.grow(len(slots.entries))
            cells.write(slots, slot)

    def uses(self, slot: int, fields: Sequence[str]) -> bool:
        """Whether one of these parameters of the request in `slot` is not neutral."""
        return any(
            _bytes_of(self._params[slot], name) != _bytes_of(self._neutral[0], name) for name in fields
        )

    def _alive(self) -> SlotTable:
        slots = self._slots()
        assert slots is not None
        return slots

    def _grow(self, capacity: int) -> None:
        ffi = contract()
        if capacity > len(self._params):
            grown = _blank_params(capacity)
            ffi.memmove(grown, self._params, ffi.sizeof(self._params))
            self._params = grown


class FunctionCells:
    """A third-party sampler as its C function sees it: `es_op.values` and `es_op.states`.

    values, states  the cells, which point to arrays by slot.
    """

    def __init__(self, sampler: Sampler, capacity: int) -> None:
        self._sampler = sampler
        self._names = [p.name for p in sampler.params if p.type in _NUMBERS and p.neutral is not None]
        self._width = len(self._names)
        self.values = contract().new("double *[1]")
        self.states = contract().new("void **[1]")
        self._values, self._states = np.zeros((0, self._width)), np.zeros(0, np.uintp)
        self.grow(capacity)

    @property
    def width(self) -> int:
        """How many numbers a request has."""
        return self._width

    def grow(self, capacity: int) -> None:
        more = capacity - len(self._states)
        if more > 0:
            self._values = np.concatenate([self._values, np.zeros((more, self._width))])
            self._states = np.concatenate([self._states, np.zeros(more, np.uintp)])
            self.values[0] = contract().from_buffer("double[]", self._values)
            self.states[0] = contract().cast("void **", contract().from_buffer(self._states))

    def write(self, slots: SlotTable, slot: int) -> None:
        """Write the values and state of the request in `slot`, if this sampler is in its chain."""
        entry = slots.entries[slot]
        if self._sampler in entry.chain.samplers:
            self._values[slot] = [slots.column(name)[slot] for name in self._names]
            self._states[slot] = entry.row_states[self._sampler.name]


_NUMBERS = (float, int, bool)


def _blank_params(capacity: int) -> Any:
    """`es_params` for `capacity` unused slots; each records its size, since a library may read any of
    them."""
    params = contract().new("es_params[]", capacity)
    size = size_of("es_params")
    for blank in params:
        blank.size = size
    return params


def _neutral_params(slots: SlotTable) -> Any:
    """An `es_params` with every parameter neutral."""
    params = sized("es_params")
    _write_scalars(params, {name: param.neutral for name, param in slots.params.items()})
    return params


def _bytes_of(params: Any, field: str) -> bytes:
    ffi = contract()
    return bytes(ffi.buffer(ffi.addressof(params, field)))


# --- plain numbers -------------------------------------------------------------------------------


@functools.cache
def _scalars() -> frozenset[str]:
    fields = contract().typeof("es_params").fields
    plain = (name for name, field in fields if field.type.kind == "primitive")
    return frozenset(plain) - {"size", "forced_end", *_CHOICES, *_OF_PENALTIES}


_OF_PENALTIES = ("repetition_reach", "counting_reach", "repetition_output_only", "counting_output_only")


def _write_scalars(params: Any, values: Mapping[str, Any]) -> None:
    plain = _scalars()
    for name, value in values.items():
        if name in plain:
            setattr(params, name, value)
        elif name in _CHOICES:
            setattr(params, name, _CHOICES[name][value])


# --- what samplers have resolved -----------------------------------------------------------------

_Write = Callable[[Any, Any, list[Any], int], None]


def _ids_of(field: str) -> _Write:
    """A writer for samplers that resolve to token ids, in any order."""

    def write(params: Any, token_ids: np.ndarray, kept: list[Any], vocab_size: int) -> None:
        _write_ids(getattr(params, field), np.unique(token_ids), kept)

    return write


def _write_ids(target: Any, token_ids: np.ndarray, kept: list[Any]) -> None:
    target.ids, target.n = _pointer("int64_t[]", token_ids, kept), len(token_ids)


def _write_biases(params: Any, data: Any, kept: list[Any], vocab_size: int) -> None:
    token_ids, biases = data
    _write_ids(params.biased_token_ids, token_ids, kept)
    params.biases = _pointer("float[]", biases, kept)


def _write_bad_words(params: Any, tables: Any, kept: list[Any], vocab_size: int) -> None:
    words = [np.column_stack(table) for table in tables]
    lengths = np.repeat([table.shape[1] for table in words], [len(table) for table in words])
    joined = np.concatenate([table.ravel() for table in words]) if words else np.empty(0, np.int64)
    _write_flat(params.bad_words, (joined, np.cumsum(lengths, dtype=np.int64)), kept)


def _write_penalties(params: Any, data: Any, kept: list[Any], vocab_size: int) -> None:
    settings, exempt = data
    params.repetition_penalty_slope = settings.slope
    params.repetition_reach, params.counting_reach = settings.repetition_reach, settings.reach
    params.repetition_output_only = settings.scope == "output"
    params.counting_output_only = settings.scope != "all"
    _write_ids(params.penalty_exempt, np.unique(exempt), kept)


def _write_breakers(params: Any, breakers: Breakers, kept: list[Any], vocab_size: int) -> None:
    if len(breakers.ends):
        _write_flat(params.breakers, (breakers.tokens, breakers.ends), kept)
        params.breaker_heads = _pointer("uint8_t[]", _shared(_BREAKER_HEADS, breakers, _breaker_heads), kept)


def _write_text(params: Any, text: Any, kept: list[Any], vocab_size: int) -> None:
    pieces = _shared(_TEXTS, text.tokenizer, lambda tokenizer: _text_arrays(tokenizer, vocab_size))
    if len(pieces[1]) != vocab_size:  # a tokenizer that is used with two vocabularies
        pieces = _text_arrays(text.tokenizer, vocab_size)
    params.text = _pointer("uint8_t[]", pieces[0], kept)
    params.text_ends = _pointer("int64_t[]", pieces[1], kept)
    _write_ids(params.text_end_token_ids, np.unique(text.ends), kept)
    params.forced_end = 0 if text.forced is None else text.forced + 1


_WRITERS: Mapping[str, _Write] = {
    "allowed_token_ids": _ids_of("allowed_token_ids"),
    "bad_words": _write_bad_words,
    "ignore_eos": _ids_of("eos_token_ids"),
    "min_tokens": _ids_of("ending_token_ids"),
    "logit_bias": _write_biases,
    "penalties": _write_penalties,
    "dry": _write_breakers,
    "infill": _write_text,
}

# --- arrays that many requests share ---------------------------------------------------------------

_BREAKER_HEADS: weakref.WeakKeyDictionary[Breakers, Any] = weakref.WeakKeyDictionary()
_TEXTS: weakref.WeakKeyDictionary[Tokenizer, Any] = weakref.WeakKeyDictionary()

_Flat = tuple[np.ndarray, np.ndarray]
"""Sequences joined end to end, and the end of each."""


def _shared(cache: Any, owner: Any, build: Callable[[Any], Any]) -> Any:
    arrays = cache.get(owner)
    if arrays is None:
        arrays = cache[owner] = build(owner)
    return arrays


def _breaker_heads(breakers: Breakers) -> np.ndarray:
    heads: np.ndarray = breakers.heads.astype(np.uint8) | breakers.single.astype(np.uint8) << 1
    return heads


def _text_arrays(tokenizer: Tokenizer, vocab_size: int) -> _Flat:
    """The bytes of all tokens, uint8, and the end of each, int64 [vocab]."""
    pieces = [tokenizer.text_bytes(token) for token in range(vocab_size)]
    return np.frombuffer(b"".join(pieces) or b"\0", np.uint8), np.cumsum([len(p) for p in pieces])


def _write_flat(target: Any, flat: _Flat, kept: list[Any]) -> None:
    tokens, ends = flat
    target.tokens, target.ends = _pointer("int64_t[]", tokens, kept), _pointer("int64_t[]", ends, kept)
    target.n = len(ends)


def _pointer(kind: str, array: np.ndarray, kept: list[Any]) -> Any:
    """The address of a contiguous array, which is kept alive."""
    pointer = contract().from_buffer(kind, array)
    kept.append(pointer)
    return pointer
