"""The library's table called as a host calls it, without the host."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import cffi
import numpy as np

VOCAB = 100
TOP_K, DIST, GREEDY = "ES_OP_TOP_K", "ES_OP_DIST", "ES_OP_GREEDY"


@functools.cache
def contract() -> Any:
    """cffi's view of engine_sampler.h."""
    from sim_device.building import headers

    ffi, text = cffi.FFI(), (headers() / "engine_sampler.h").read_text(encoding="utf-8")
    ffi.cdef(re.split(r"/\* cdef: (?:begin|end) \*/", text)[1])
    ffi.cdef("int32_t es_get_api(uint32_t host_abi, const es_api **api);")
    return ffi


def number(name: str) -> int:
    """The value of a constant of the header."""
    kinds = ("es_code", "es_op_kind", "es_change", "es_memory")
    return int(next(n[name] for n in (contract().typeof(k).relements for k in kinds) if name in n))


def sized(kind: str, **fields: Any) -> Any:
    """A new struct with its size."""
    return contract().new(f"{kind} *", {"size": contract().sizeof(kind), **fields})


class Step(NamedTuple):
    """A batch with what its pointers point to."""

    batch: Any
    token_ids: np.ndarray
    status: np.ndarray
    held: list[Any]


class Host:
    """A context of the library, one table of requests, and the memory of plans."""

    def __init__(self, device: Any, capacity: int = 4) -> None:
        self.device, self.ffi = device, contract()
        self._loaded = self.ffi.dlopen(str(device.path))
        out = self.ffi.new("es_api **")
        version = self._loaded.ES_ABI_MAJOR << 16 | self._loaded.ES_ABI_MINOR
        assert self._loaded.es_get_api(version, self.ffi.cast("const es_api **", out)) == 0
        self.api = out[0]
        context = self.ffi.new("es_context **")
        assert self.api.open(sized("es_options", device=(12, 0)), context) == 0
        self.context = context[0]
        self.capacity = capacity
        self.arrays = {
            "seeds": np.arange(capacity, dtype=np.uint64),
            "positions": np.full(capacity, 3, np.int64),
            "offsets": np.arange(capacity, dtype=np.int64) * 16,
            "lengths": np.full(capacity, 3, np.int64),
            "prompt_lengths": np.full(capacity, 3, np.int64),
            "epochs": np.arange(1, capacity + 1, dtype=np.uint64),
            "tokens": np.ones(16 * capacity, np.int64),
            "notes": np.full(16 * capacity, np.nan),
        }
        self.params = self.ffi.new("es_params[]", capacity)
        for params in self.params:
            params.size = self.ffi.sizeof("es_params")
            params.temperature, params.top_p, params.typical_p, params.tfs = 1.0, 1.0, 1.0, 1.0
            params.repetition_penalty, params.top_k = 1.0, 5
        types = {"seeds": "uint64_t *", "epochs": "uint64_t *", "notes": "double *"}
        pointers = {
            name: self.ffi.cast(types.get(name, "int64_t *"), self.ffi.from_buffer(array))
            for name, array in self.arrays.items()
        }
        self.table = sized("es_table", capacity=capacity, params=self.params, **pointers)
        self._blocks: list[tuple[int, Any]] = []

    def error(self) -> str:
        return str(self.ffi.string(self.api.error(self.context)).decode())

    def compile(self, *kinds: str) -> int:
        """The number of a program; fails for one that the library does not run."""
        names = [self.ffi.new("char[]", b"step") for _ in kinds]
        size = self.ffi.sizeof("es_op")
        ops = self.ffi.new(
            "es_op[]",
            [{"size": size, "kind": number(k), "name": n} for k, n in zip(kinds, names, strict=True)],
        )
        program = sized("es_program", n_ops=len(kinds), ops=ops)
        out = self.ffi.new("uint32_t *")
        assert self.api.compile(self.context, program, out) == 0, self.error()
        return int(out[0])

    def tell(self, kind: str, slots: Sequence[int], befores: Sequence[int] = ()) -> int:
        """`update` with one kind of change for all slots."""
        changes = sized(
            "es_changes",
            n=len(slots),
            table=self.table,
            vocab_size=VOCAB,
            slots=(held_slots := self.ffi.new("int32_t[]", list(slots))),
            kinds=(held_kinds := self.ffi.new("int32_t[]", [number(kind)] * len(slots))),
            befores=(held_befores := self.ffi.new("int64_t[]", list(befores) or [0] * len(slots))),
        )
        code: int = self.api.update(self.context, changes)
        del held_slots, held_kinds, held_befores
        return code

    def prepare(self, rows: int, programs: Sequence[int], **fields: Any) -> dict[str, Any]:
        """A plan and its memory: the fields of an `es_batch`."""
        numbers = self.ffi.new("uint32_t[]", list(programs))
        shape = sized(
            "es_shape",
            rows=rows,
            vocab_size=VOCAB,
            stride=VOCAB,
            code=2,
            bits=32,
            programs=numbers,
            n_programs=len(programs),
            **fields,
        )
        plan = sized("es_plan")
        assert self.api.prepare(self.context, shape, plan) == 0, self.error()
        return {
            "plan": plan.number,
            "workspace": self.allocate("ES_MEMORY_DEVICE", plan.workspace_bytes),
            "pinned": self.allocate("ES_MEMORY_PINNED", plan.pinned_bytes),
        }

    def allocate(self, kind: str, n_bytes: int) -> Any:
        out = self.ffi.new("void **")
        assert self.api.allocate(self.context, number(kind), n_bytes, out) == 0, self.error()
        self._blocks.append((number(kind), out[0]))
        return out[0]

    def step(
        self, logits: Any, program: int, slots: Sequence[int], plan: dict[str, Any], **fields: Any
    ) -> Step:
        """A batch whose row i is that of slots[i]."""
        n, ffi = len(slots), self.ffi
        token_ids, notes = np.full(n, -7, np.int64), np.zeros(n)
        status = np.full(n, -7, np.int32)
        shape, strides = ffi.new("int64_t[2]", logits.shape), ffi.new("int64_t[2]", [logits.shape[1], 1])
        rows, numbers = ffi.new("int64_t[]", list(range(n))), ffi.new("uint32_t[]", [program] * n)
        own_slots = ffi.new("int32_t[]", list(slots))
        tensor = {
            "data": ffi.cast("void *", int(self.device.ffi.cast("uintptr_t", logits.row_pointer(0)))),
            "device_type": 12,
            "ndim": 2,
            "code": 2,
            "bits": 32,
            "lanes": 1,
            "shape": shape,
            "strides": strides,
        }
        batch = sized(
            "es_batch",
            n=n,
            logits=tensor,
            vocab_size=VOCAB,
            table=self.table,
            rows=rows,
            slots=own_slots,
            programs=numbers,
            token_ids=ffi.cast("int64_t *", ffi.from_buffer(token_ids)),
            notes=ffi.cast("double *", ffi.from_buffer(notes)),
            status=ffi.cast("int32_t *", ffi.from_buffer(status)),
            **plan,
            **fields,
        )
        return Step(batch, token_ids, status, [shape, strides, rows, numbers, own_slots, logits, notes])

    def run(self, step: Step) -> str:
        """The name of the code that `run` returns."""
        return self._name(self.api.run(self.context, step.batch))

    def wait(self, step: Step) -> str:
        return self._name(self.api.wait(self.context, step.batch.ticket))

    def poll(self, step: Step) -> str:
        return self._name(self.api.poll(self.context, step.batch.ticket))

    def _name(self, code: int) -> str:
        return str(self.ffi.typeof("es_code").elements[code]).removeprefix("ES_")

    def close(self) -> None:
        for kind, pointer in self._blocks:
            assert self.api.deallocate(self.context, kind, pointer) == 0
        self.api.close(self.context)
