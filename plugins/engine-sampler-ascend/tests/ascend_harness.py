"""The library's own table, called as the host calls it, on the simulated chip."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cffi
import numpy as np
from ascend_building import DEVICE, HEADER, SIMULATOR, cann_home, vendor_library

NPU = 12
RUNTIME = """
int32_t aclrtGetDevice(int32_t *);
int32_t aclrtSetDevice(int32_t);
int32_t aclrtCreateStream(void **);
int32_t aclrtDestroyStream(void *);
int32_t aclrtMalloc(void **, size_t, int32_t);
int32_t aclrtFree(void *);
int32_t aclrtMemcpyAsync(void *, size_t, const void *, size_t, int32_t, void *);
int32_t aclrtSynchronizeStream(void *);
"""
BFLOAT16 = "bfloat16"
FORMS = {"float32": (2, 32, np.float32), "float16": (2, 16, np.float16), BFLOAT16: (4, 16, np.uint16)}
"""By name: DLPack's type code and bits, and the dtype that holds the elements."""


def declarations(header: Path) -> str:
    text = header.read_text(encoding="utf-8")
    return text.split("/* cdef: begin */")[1].split("/* cdef: end */")[0]


def as_elements(logits: np.ndarray, form: str) -> np.ndarray:
    """`logits` in another type, rounded; bfloat16 as its 16 bits."""
    if form != BFLOAT16:
        return np.ascontiguousarray(logits, FORMS[form][2])
    bits = np.ascontiguousarray(logits, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def as_floats(elements: np.ndarray) -> np.ndarray:
    """The float32 values of what `as_elements` returns."""
    if elements.dtype != np.uint16:
        return elements.astype(np.float32)
    return (elements.astype(np.uint32) << 16).view(np.float32)


class Chip:
    """The simulated chip, and what is alive on it."""

    def __init__(self, *definitions: str) -> None:
        self.home = cann_home(*definitions)
        self.ffi = cffi.FFI()
        self.ffi.cdef(
            declarations(SIMULATOR / "cann_sim.h") + declarations(DEVICE / "sim_device.h") + RUNTIME
        )
        self.lib = self.ffi.dlopen(str(self.home / "lib64" / "libascendcl.so"))
        self.reset()

    def reset(self, soc: str = "Ascend910B3", *, initialised: bool = False) -> None:
        self.lib.sim_reset()
        self.lib.cann_sim_reset(soc.encode(), initialised)
        self.lib.aclrtSetDevice(0)
        self.lib.cann_sim_reset(soc.encode(), initialised)

    def fail(self, function: str, code: int, nth: int = 1) -> None:
        """Let call number `nth` of a function of CANN fail with `code`."""
        self.lib.cann_sim_fail(function.encode(), nth, code)

    def misbehave(self, *names: str) -> None:
        """Let operators do what these names of `cann_sim_fault` say, none for all sound."""
        values = self.ffi.typeof("cann_sim_fault").relements
        self.lib.cann_sim_set_faults(sum(values[name] for name in names))

    def calls(self, function: str) -> int:
        return int(self.lib.cann_sim_calls(function.encode()))

    def misuse(self) -> str:
        """What was done wrong last, if anything was."""
        return self.ffi.string(self.lib.cann_sim_misuse()).decode()

    def live(self) -> dict[str, int]:
        """What is alive: CANN's objects, and the device's."""
        objects, device = self.ffi.new("cann_sim_live *"), self.ffi.new("sim_counters *")
        self.lib.cann_sim_count(objects)
        self.lib.sim_count(device)
        names = ("tensors", "executors", "arrays")
        counts = {name: int(getattr(objects, name)) for name in names}
        return counts | {
            name: int(getattr(device, name)) for name in ("blocks", "pinned_blocks", "events", "queued")
        }

    def counters(self) -> Any:
        device = self.ffi.new("sim_counters *")
        self.lib.sim_count(device)
        return device

    @contextmanager
    def paused(self) -> Iterator[None]:
        """What a test does itself is neither counted nor fails."""
        self.lib.cann_sim_pause(1)
        try:
            yield
        finally:
            self.lib.cann_sim_pause(0)

    def allocate(self, size: int) -> int:
        out = self.ffi.new("void **")
        with self.paused():
            assert self.lib.aclrtMalloc(out, size, 0) == 0
        return int(self.ffi.cast("uintptr_t", out[0]))

    def free(self, address: int) -> None:
        with self.paused():
            assert self.lib.aclrtFree(self.ffi.cast("void *", address)) == 0

    def upload(self, array: np.ndarray) -> int:
        """The address of a copy on the device."""
        address = self.allocate(array.nbytes)
        self._copy(self.ffi.cast("void *", address), self.ffi.from_buffer(array), array.nbytes, 1)
        return address

    def download(self, address: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        out = np.empty(shape, dtype)
        self._copy(self.ffi.from_buffer(out), self.ffi.cast("void *", address), out.nbytes, 2)
        return out

    def new_stream(self) -> int:
        out = self.ffi.new("void **")
        assert self.lib.aclrtCreateStream(out) == 0
        return int(self.ffi.cast("uintptr_t", out[0]))

    def destroy_stream(self, stream: int) -> None:
        assert self.lib.aclrtDestroyStream(self.ffi.cast("void *", stream)) == 0

    def _copy(self, to: Any, source: Any, size: int, kind: int) -> None:
        null = self.ffi.NULL
        with self.paused():
            assert self.lib.aclrtMemcpyAsync(to, size, source, size, kind, null) == 0
            assert self.lib.aclrtSynchronizeStream(null) == 0


class VendorTable:
    """The library's table, and the header's types."""

    def __init__(self) -> None:
        self.ffi = cffi.FFI()
        self.ffi.cdef(
            declarations(HEADER / "engine_sampler.h")
            + "int32_t es_get_api(uint32_t host_abi, const es_api **api);"
        )
        out = self.ffi.new("const es_api **")
        self._loaded = self.ffi.dlopen(str(vendor_library()))
        self.abi = 2 << 16
        assert self._loaded.es_get_api(self.abi, out) == 0
        self.api = out[0]

    def number(self, name: str) -> int:
        for kind in (
            "es_code",
            "es_row_status",
            "es_op_kind",
            "es_promise",
            "es_ties",
            "es_random",
            "es_memory",
        ):
            found = self.ffi.typeof(kind).relements.get(name)
            if found is not None:
                return int(found)
        raise KeyError(name)

    def new(self, kind: str, **fields: Any) -> Any:
        return self.ffi.new(f"{kind} *", {"size": self.ffi.sizeof(kind), **fields})

    def open(
        self, isa: str | None = None, device: tuple[int, int] = (NPU, 0), why: Any = None
    ) -> tuple[int, Any]:
        """(code, context); `why` is a char[] for words."""
        name = self.ffi.NULL if isa is None else self.ffi.new("char[]", isa.encode())
        out = self.ffi.new("es_context **")
        options = self.new("es_options", isa=name, device=device)
        if why is not None:
            options.why, options.why_bytes = why, len(why)
        code = self.api.open(options, out)
        return code, out[0]

    def program(self, kinds: Sequence[str]) -> tuple[Any, Any]:
        """(an `es_program *`, what it must be kept alive with)."""
        ops = self.ffi.new("es_op[]", len(kinds))
        for op, kind in zip(ops, kinds, strict=True):
            op.size, op.kind = self.ffi.sizeof("es_op"), self.number(f"ES_OP_{kind.upper()}")
        return self.new("es_program", n_ops=len(kinds), ops=ops), ops


@functools.cache
def vendor_table() -> VendorTable:
    return VendorTable()


NEUTRAL = {
    "temperature": 1.0, "dynatemp_exponent": 1.0, "top_p": 1.0, "typical_p": 1.0, "tfs": 1.0,
    "repetition_penalty": 1.0,
}  # fmt: skip


@dataclass
class Outcome:
    """What a run has left: by row of the batch."""

    code: int
    tokens: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    status: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))
    survivors: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    processed: np.ndarray | None = None


class Host:
    """A host of the library with one context: it gives memory, keeps it alive, and frees it."""

    def __init__(self, chip: Chip, isa: str | None = None) -> None:
        self.chip = chip
        self.table = vendor_table()
        self.ffi, self.api = self.table.ffi, self.table.api
        code, self.context = self.table.open(isa)
        assert code == 0, code

    def close(self) -> None:
        self.api.close(self.context)

    def error(self) -> str:
        return self.ffi.string(self.api.error(self.context)).decode()

    def query(
        self, kinds: Sequence[str] | None, form: str = "float32", vocab_size: int = 1000
    ) -> tuple[int, Any]:
        program, held = (self.ffi.NULL, None) if kinds is None else self.table.program(kinds)
        code, bits, _ = FORMS[form]
        request = self.table.new(
            "es_query", program=program, vocab_size=vocab_size, rows=1, code=code, bits=bits
        )
        answer = self.table.new("es_answer")
        answered = self.api.query(self.context, request, answer)
        del held
        return answered, answer

    def compile(self, kinds: Sequence[str]) -> int:
        program, held = self.table.program(kinds)
        out = self.ffi.new("uint32_t *")
        assert self.api.compile(self.context, program, out) == 0, self.error()
        del held
        return int(out[0])

    def step(self, logits: np.ndarray, kinds: Sequence[str], **options: Any) -> Outcome:
        """Upload `logits`, and run one program for all rows, or those given."""
        step = Step(self, logits, [kinds], **options)
        try:
            return step.finish(step.run())
        finally:
            step.free()


class Step:
    """A batch with everything that it points to.

    params     a dict for each entry, or one for all; `rows` which rows of the logits, all by default.
    programs   lists of kinds; `which` says which of them each entry runs.
    allowed    bool [rows, vocab], the tokens that masks allow; None without masks.
    """

    def __init__(
        self,
        host: Host,
        logits: np.ndarray,
        programs: Sequence[Sequence[str]],
        *,
        params: Any = None,
        rows: Sequence[int] | None = None,
        which: Sequence[int] | None = None,
        vocab_size: int | None = None,
        stream: int = 0,
        ready: int = 0,
        noise: np.ndarray | None = None,
        processed: bool = False,
        on_device: bool = False,
        plan_rows: int | None = None,
        misaligned: int = 0,
        allowed: np.ndarray | None = None,
    ) -> None:
        self.host, ffi, table = host, host.ffi, host.table
        form = {np.dtype(np.uint16): BFLOAT16}.get(logits.dtype, str(logits.dtype))
        code, bits, _ = FORMS[form]
        count, width = logits.shape
        self.vocab_size = vocab_size or width
        self.rows = np.array(range(count) if rows is None else rows, np.int64)
        n = len(self.rows)
        numbers = np.array([host.compile(kinds) for kinds in programs], np.uint32)
        padded = np.concatenate([np.zeros(misaligned, np.uint8), np.frombuffer(logits.tobytes(), np.uint8)])
        self._logits = host.chip.upload(padded)
        self._blocks = [self._logits]
        each = params if isinstance(params, list) else [params or {}] * n
        self._params = ffi.new("es_params[]", n)
        for struct, given in zip(self._params, each, strict=True):
            struct.size = ffi.sizeof("es_params")
            for name, value in {**NEUTRAL, **given}.items():
                setattr(struct, name, value)
        self._table = table.new("es_table", capacity=n, params=self._params)
        self.tokens, self.notes = np.full(count, -7, np.int64), np.zeros(count)
        self.status = np.full(n, 77, np.int32)
        most = min(1024, self.vocab_size)
        self.counts = np.full(n, -7, np.int64)
        self.ids, self.left = np.full((n, most), -7, np.int64), np.zeros((n, most), np.float32)
        arrays = (self.counts, self.ids, self.left)
        kinds = ("int64_t[]", "int64_t[]", "float[]")
        counts, ids, left = (ffi.from_buffer(kind, array) for kind, array in zip(kinds, arrays, strict=True))
        self._survivors = table.new("es_survivors", width=most, counts=counts, token_ids=ids, logits=left)
        batch = self.batch = table.new("es_batch", n=n, vocab_size=self.vocab_size, table=self._table)
        tensor = batch.logits
        self._shape, self._strides = ffi.new("int64_t[]", [count, width]), ffi.new("int64_t[]", [width, 1])
        tensor.data, tensor.byte_offset = ffi.cast("void *", self._logits), misaligned
        tensor.device_type, tensor.device_id, tensor.ndim = NPU, 0, 2
        tensor.code, tensor.bits, tensor.lanes = code, bits, 1
        tensor.shape, tensor.strides = self._shape, self._strides
        self._slots = np.arange(n, dtype=np.int32)
        self._programs = numbers[np.zeros(n, int) if which is None else which]
        batch.rows, batch.slots = self._pointer("int64_t", self.rows), self._pointer("int32_t", self._slots)
        batch.programs, batch.status = (
            self._pointer("uint32_t", self._programs),
            self._pointer("int32_t", self.status),
        )
        batch.token_ids, batch.notes = (
            self._pointer("int64_t", self.tokens),
            self._pointer("double", self.notes),
        )
        batch.survivors = self._survivors
        batch.stream, batch.ready = ffi.cast("void *", stream), ffi.cast("void *", ready)
        self.processed = np.full((n, self.vocab_size), 9, np.float32) if processed else None
        if processed:
            self._rows_out = ffi.new("float *[]", [ffi.from_buffer("float[]", row) for row in self.processed])
            batch.processed = self._rows_out
        if allowed is not None:
            self._mask(allowed)
        if noise is not None:
            self.noise = np.ascontiguousarray(noise, np.float32)
            batch.random = ffi.from_buffer(self.noise)
        if on_device:
            self.tokens_on_device = host.chip.upload(np.full(count, -9, np.int64))
            self._blocks.append(self.tokens_on_device)
            batch.token_ids_on_device = ffi.cast("int64_t *", self.tokens_on_device)
        self._programs_used = numbers
        self._shape_struct = table.new(
            "es_shape", rows=plan_rows or n, vocab_size=self.vocab_size, stride=width, code=code, bits=bits,
            programs=self._pointer("uint32_t", numbers), n_programs=len(numbers), masked=allowed is not None,
        )  # fmt: skip
        self.plan = table.new("es_plan")
        self._memory: list[tuple[int, Any]] = []

    def _mask(self, allowed: np.ndarray) -> None:
        """Forbid tokens: bool [rows, vocab]. Rows that allow all have no mask."""
        padded = np.pad(allowed, ((0, 0), (0, -allowed.shape[1] % 32)))
        self._words = np.packbits(padded, axis=1, bitorder="little").view(np.int32)
        self._masked = (~allowed[self.rows].all(axis=1)).astype(np.uint8)
        self.batch.masked, self.batch.bitmask = (
            self._pointer("uint8_t", self._masked),
            self._pointer("int32_t", self._words),
        )
        self.batch.bitmask_stride = self._words.shape[1]

    def _pointer(self, kind: str, array: np.ndarray) -> Any:
        return self.host.ffi.from_buffer(f"{kind}[]", array)

    def prepare(self) -> int:
        """Plan the step, and give it its memory."""
        host, table = self.host, self.host.table
        code = host.api.prepare(host.context, self._shape_struct, self.plan)
        if code:
            return int(code)
        self.batch.plan = self.plan.number
        sizes = (("DEVICE", self.plan.workspace_bytes), ("PINNED", self.plan.pinned_bytes))
        for name, size in sizes:
            out, memory = host.ffi.new("void **"), table.number(f"ES_MEMORY_{name}")
            code = host.api.allocate(host.context, memory, size, out)
            if code:
                return int(code)
            self._memory.append((memory, out[0]))
        self.batch.workspace, self.batch.pinned = (pointer for _, pointer in self._memory)
        return 0

    def run(self) -> int:
        """Prepare if need be, and queue the step."""
        code = 0 if self._memory else self.prepare()
        return code or int(self.host.api.run(self.host.context, self.batch))

    def finish(self, code: int = 0) -> Outcome:
        """Wait for it; what it has left."""
        if code == 0 and self.batch.ticket:
            code = int(self.host.api.wait(self.host.context, self.batch.ticket))
        return self.outcome(code)

    def outcome(self, code: int) -> Outcome:
        if code:
            return Outcome(code)
        survivors = [(self.ids[i, :n], self.left[i, :n]) for i, n in enumerate(np.maximum(self.counts, 0))]
        return Outcome(0, self.tokens[self.rows], self.status.copy(), survivors, self.processed)

    def free(self) -> None:
        """Everything that the host has given."""
        if self.batch.plan:
            self.host.api.release(self.host.context, self.batch.plan)
        for memory, pointer in self._memory:
            assert self.host.api.deallocate(self.host.context, memory, pointer) == 0
        for block in self._blocks:
            self.host.chip.free(block)
        self._memory, self._blocks, self.batch.plan = [], [], 0


@contextmanager
def nothing_left(chip: Chip) -> Iterator[None]:
    """Nothing is alive afterwards that was not alive before, and nothing was done wrong."""
    before = chip.live()
    yield
    live = chip.live()
    assert live == before
    assert chip.misuse() == ""
