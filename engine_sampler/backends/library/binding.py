"""A compiled backend's library: loaded, checked, and its contexts."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...arithmetic import Logprobs
from ...contract import BackendError
from .header import contract, described, fields_since, named, number, size_of, sized, sized_with_room

REQUIRED = ("open", "close", "error", "query", "compile", "run")
"""Functions that no library may leave out."""

ANY_VOCABULARY = 1 << 17
"""The vocabulary size used in queries when none is known."""

ALL_PROGRAMS = 2**32 - 1
"""In place of the number of a program: all of them."""


_MOST_WORDS = 400
"""Room for why a library does not open."""


_THREAD = threading.local()
"""The contexts that each thread has entered. There is one such object, which is never freed: CPython 3.11
waits for ever if one is freed while it looks for the frames of threads, as `StepLock` has it do."""


class LibraryError(BackendError):
    """A library cannot be used, or breaks the contract; the text names it and gives the reason."""


class Refusal(Exception):
    """A library declined a call, temporarily or permanently: `code` is neither ES_OK nor a breach of
    contract."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Device(NamedTuple):
    """A device by DLPack's numbers."""

    type: int
    id: int


HOST = Device(1, 0)
"""The host's memory."""


class Answer(NamedTuple):
    """A library's answer about a program: `es_promise` bits and limits, as in `es_answer`."""

    promises: int
    max_rows: int
    max_top_k: int = 0
    alignment: int = 0
    max_survivors: int = 0
    random: int = 0
    ties: int = 0
    random_width: int = 0

    def promise(self, name: str) -> bool:
        """Whether it makes the promise `name`, such as "EXACT"."""
        return bool(self.promises & number(f"ES_{name}"))


def limits_of(answer: Answer) -> Iterator[str]:
    """The limits of an answer in words."""
    if answer.max_rows:
        yield f"at most {answer.max_rows:,} rows a call"
    if answer.max_top_k:
        yield f"top_k from 1 to {answer.max_top_k:,}"
    if answer.alignment:
        yield f"rows aligned to {answer.alignment} bytes"


class Layout(NamedTuple):
    """The memory layout of logits: DLPack's type code and bits, whether rows are contiguous, and where they
    lie."""

    code: int
    bits: int
    compact: bool
    device: Device = HOST


FLOATS = Layout(2, 32, True)


class Library:
    """A shared library that exports `es_get_api`; raises `LibraryError` if it cannot be used.

    table        the `es_api` it returned; its fields are read by `function` only.
    unread       the fields of `es_params` that are newer than its minor version.
    quarantined  why it must never be called again; "" while it may.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self.quarantined = ""
        self.table = self._table()
        self.unread = fields_since("es_params", self.table.abi & 0xFFFF)
        fields = [name for name, field in contract().typeof("es_api").fields if "(*)" in field.type.cname]
        self._functions = {name: self._slot(name) or None for name in fields}
        for name in REQUIRED:
            if self.function(name) is None:
                raise self.error(f"its table lacks the function {name}")
        self.name = _text(self._slot("name")) or Path(self.path).stem
        self.version = _text(self._slot("version"))

    def function(self, name: str) -> Any:
        """A function of the table; None if the library leaves it out."""
        return self._functions[name]

    def quarantine(self, reason: str) -> None:
        """Never call the library again: one of its calls may still be running."""
        self.quarantined = reason

    def error(self, reason: str) -> LibraryError:
        """The error that names this library."""
        return LibraryError(f"{self.path}: {reason}")

    def _table(self) -> Any:
        ffi = contract()
        if not Path(self.path).is_file():
            raise self.error("no such file")
        try:
            self._loaded = ffi.dlopen(self.path)
        except OSError as error:
            raise self.error(f"it cannot be loaded here: {error}") from None
        try:
            get_api = self._loaded.es_get_api
        except AttributeError:
            raise self.error("it does not export es_get_api") from None
        own, out = number("ES_ABI"), ffi.new("const es_api **")
        code = get_api(own, out)
        if code == number("ES_UNSUPPORTED"):
            raise self.error(f"it refuses a host of ABI {described(own)}")
        if code or not out[0]:
            raise self.error(f"es_get_api returned no table (code {named('es_code', code)})")
        if out[0].size < ffi.offsetof("es_api", "name"):
            raise self.error(f"its table has {out[0].size} bytes, too few for its version")
        if out[0].abi >> 16 != own >> 16:
            raise self.error(f"it has ABI {described(out[0].abi)}, this is ABI {described(own)}")
        return out[0]

    def _slot(self, name: str) -> Any:
        """A field of the table, or None where the table is shorter."""
        end = contract().offsetof("es_api", name) + size_of("void *")
        return getattr(self.table, name) if end <= self.table.size else None


class Context:
    """A context of a library, closed when it is no longer used; for one thread at a time.

    Its methods raise `Refusal` where the library declines, `LibraryError` for a breach of contract.
    """

    def __init__(
        self, library: Library, num_threads: int = 0, isa: str | None = None, device: Device = HOST
    ) -> None:
        ffi = contract()
        name = ffi.NULL if isa is None else ffi.new("char[]", isa.encode())
        why = ffi.new("char[]", _MOST_WORDS)
        options = sized("es_options", num_threads=num_threads, isa=name, device=device)
        options.why, options.why_bytes = why, _MOST_WORDS
        out = ffi.new("es_context **")
        self.library = library
        self.device = device
        self.pointer = ffi.NULL
        self.memory: dict[Any, int] = {}
        """What the library has allocated and not yet got back, and the `es_memory` of each."""
        self._enter = library.function("enter_thread")
        chosen = "" if isa is None else f" for the instruction set {isa}"
        code = library.function("open")(options, out)
        why[_MOST_WORDS - 1] = b"\0"
        self.check(f"open{chosen}", code, _text(why))
        if not out[0]:
            raise library.error("open returned no context")
        self.pointer = out[0]
        self.close = weakref.finalize(self, _close, library, self.pointer, self.memory)

    def enter(self) -> None:
        """Tell the library of this thread, if it wants to know; before any other call in it."""
        if self._enter is None:
            return
        entered = _THREAD.__dict__.setdefault("contexts", weakref.WeakSet())
        if self not in entered:
            self.check("enter_thread", self._enter(self.pointer))
            entered.add(self)

    def query(
        self,
        program: Any = None,
        *,
        layout: Layout = FLOATS,
        vocab_size: int = ANY_VOCABULARY,
        rows: int = 1,
        masked: bool = False,
    ) -> Answer:
        """The library's promises for `program` (an `es_program *`), or in general."""
        self.enter()
        query = sized("es_query", code=layout.code, bits=layout.bits)
        query.vocab_size, query.rows, query.masked = vocab_size, rows, masked
        query.program = contract().NULL if program is None else program
        answer = sized_with_room("es_answer")
        self.check("query", self.library.function("query")(self.pointer, query, answer))
        return Answer(*(getattr(answer[0], field) for field in Answer._fields))

    def compile(self, program: Any) -> int:
        """The number of `program` (an `es_program *`) for `es_batch.programs`."""
        self.enter()
        out = contract().new("uint32_t *")
        self.check("compile", self.library.function("compile")(self.pointer, program, out))
        return int(out[0])

    def logprobs(self, tensor: Any, vocab_size: int, token_ids: np.ndarray, top_n: int) -> Logprobs | None:
        """The logprobs of one token for each row of `tensor` (an `es_tensor *`); None if the library has no
        such function."""
        function = self.library.function("logprobs")
        if function is None:
            return None
        self.enter()
        out = Logprobs.empty(len(token_ids), vocab_size if top_n < 0 else min(top_n, vocab_size))
        out.entry_token_ids[out.starts[:-1]] = token_ids
        struct, _held = logprobs_struct([out])
        chosen = contract().from_buffer("int64_t[]", np.ascontiguousarray(token_ids, np.int64))
        self.check("logprobs", function(self.pointer, tensor, vocab_size, chosen, top_n, struct))
        return out.trimmed()

    def decisions(self, program: int) -> tuple[int, int]:
        """How many draws and cuts of a program, by its number, bounds of weights have decided, and how many
        they have left open; (0, 0) if the library does not count any."""
        function = self.library.function("decisions")
        if function is None:
            return 0, 0
        self.enter()
        out = sized_with_room("es_decisions")
        self.check("decisions", function(self.pointer, program, out))
        return out[0].certain, out[0].weighed

    def target(self) -> str:
        """The instruction set or device in use, if the library reports one."""
        target = self.library.function("target")
        return "" if target is None else _text(target(self.pointer))

    def check(self, call: str, code: int, why: str = "") -> None:
        """Raise for a `code` that is not ES_OK; `why` in words if the library has no context to say so."""
        if code == number("ES_OK"):
            return
        if self.library.quarantined:
            raise Refusal(number("ES_DEVICE"), f"{self.library.path}: {self.library.quarantined}")
        words = _text(self.library.function("error")(self.pointer)) if self.pointer else why
        text = f"{call} returned {named('es_code', code)}" + (f": {words}" if words else "")
        if code in map(number, ("ES_UNSUPPORTED", "ES_NO_MEMORY", "ES_DEVICE", "ES_BUSY")):
            raise Refusal(code, f"{self.library.path}: {text}")
        raise self.library.error(text)


def logprobs_struct(outs: Sequence[Logprobs | None]) -> tuple[Any, list[Any]]:
    """An `es_logprobs[]` that points to these tables, NULL for None, and what it must be kept alive with."""
    ffi = contract()
    structs, held = ffi.new("es_logprobs[]", len(outs)), []
    for struct, out in zip(structs, outs, strict=True):
        struct.size = size_of("es_logprobs")
        if out is not None:
            struct.starts = ffi.from_buffer("int64_t[]", out.starts)
            struct.token_ids = ffi.from_buffer("int64_t[]", out.entry_token_ids)
            struct.logprobs = ffi.from_buffer("float[]", out.entry_logprobs)
            struct.ranks = ffi.from_buffer("int64_t[]", out.ranks)
            held.append(out)
    return structs, held


def _close(library: Library, pointer: Any, memory: dict[Any, int]) -> None:
    """Close a context, once all its memory is given back."""
    if library.quarantined:
        return
    deallocate = library.function("deallocate")
    for address, kind in memory.items() if deallocate is not None else ():
        deallocate(pointer, kind, address)
    library.function("close")(pointer)


def _text(pointer: Any) -> str:
    """A C string; "" for NULL."""
    return str(contract().string(pointer).decode(errors="replace")) if pointer else ""
