"""The shim through ctypes, as a program in C sees it; and a host that stands in for llama.cpp."""

from __future__ import annotations

import ctypes
import importlib.resources
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from ctypes import POINTER, byref, c_bool, c_char_p, c_int32, c_int64, c_size_t, c_uint32, c_void_p
from pathlib import Path
from typing import Any

import numpy as np

SOURCES = Path(__file__).resolve().parents[1] / "src"

TOKEN_DATA = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])

PARAMS_BYTES = 8192
"""More than es_llama_params has."""

BYTES_OF = re.compile(r"this library's have (\d+)")


class Candidates(ctypes.Structure):
    """llama_token_data_array."""

    _fields_ = [("data", c_void_p), ("size", c_size_t), ("selected", c_int64), ("sorted", c_bool)]


class Interface(ctypes.Structure):
    """llama_sampler_i, with the last function of the release that the tests know."""

    _fields_ = [
        ("name", ctypes.CFUNCTYPE(c_char_p, c_void_p)),
        ("accept", ctypes.CFUNCTYPE(None, c_void_p, c_int32)),
        ("apply", ctypes.CFUNCTYPE(None, c_void_p, POINTER(Candidates))),
        ("reset", ctypes.CFUNCTYPE(None, c_void_p)),
        ("clone", ctypes.CFUNCTYPE(c_void_p, c_void_p)),
        ("free", ctypes.CFUNCTYPE(None, c_void_p)),
        ("backend", c_void_p * 5),
        ("copy_state", ctypes.CFUNCTYPE(None, c_void_p, c_void_p)),
        ("later", c_void_p * 20),
    ]


class SamplerObject(ctypes.Structure):
    """llama_sampler."""

    _fields_ = [("iface", POINTER(Interface)), ("ctx", c_void_p)]


Create = ctypes.CFUNCTYPE(c_void_p, POINTER(Interface), c_void_p)


class Host(ctypes.Structure):
    """es_llama_host."""

    _fields_ = [
        ("size", c_uint32),
        ("sampler_bytes", c_uint32),
        ("interface_bytes", c_uint32),
        ("token_bytes", c_uint32),
        ("array_bytes", c_uint32),
        ("create", Create),
    ]


def kernels() -> Path:
    """The packaged kernels, or those that ENGINE_SAMPLER_NATIVE_LIBRARY names in their place."""
    suffix = ".dylib" if sys.platform == "darwin" else ".so"
    named = os.environ.get("ENGINE_SAMPLER_NATIVE_LIBRARY")
    return Path(named).resolve() if named else _packaged() / f"libengine_sampler{suffix}"


def _packaged() -> Path:
    return Path(str(importlib.resources.files("engine_sampler") / "_native"))


def compile_shim(out: Path) -> Path:
    """Compile the shim to `out`, with the flags of LLAMA_SHIM_FLAGS."""
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    flags = ["-std=gnu11", "-fPIC", "-shared", "-fvisibility=hidden", f"-I{_packaged()}", *warnings]
    flags += os.environ.get("LLAMA_SHIM_FLAGS", "-O1").split()
    library = kernels()
    command = [*shlex.split(os.environ.get("CC", "cc")), *flags, *map(str, sorted(SOURCES.glob("*.c")))]
    command += [str(library), f"-Wl,-rpath,{library.parent}", "-lm", "-o", str(out)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


def token_data(logits: np.ndarray, token_ids: Sequence[int] | None = None) -> np.ndarray:
    """The candidates of a row: all tokens in order, or those of `token_ids`, in that order."""
    ids = np.arange(len(logits)) if token_ids is None else np.asarray(token_ids)
    data = np.zeros(len(ids), TOKEN_DATA)
    data["id"], data["logit"] = ids, logits[ids]
    return data


def candidates_of(data: np.ndarray) -> Candidates:
    return Candidates(data.ctypes.data if len(data) else None, len(data), -1, False)


class Shim:
    """The compiled library, with a host that keeps count of its samplers."""

    def __init__(self, path: Path) -> None:
        self.library = ctypes.CDLL(str(path))
        self.library.es_llama_new.restype = c_void_p
        self.library.es_llama_seed.restype = ctypes.c_uint64
        self.library.es_llama_error.restype = c_char_p
        self._live: dict[int, SamplerObject] = {}
        self._create = Create(self._new_object)
        self.params_bytes = self._bytes_of_params()

    def _bytes_of_params(self) -> int:
        """What the library says of parameters of another size."""
        params, why = ctypes.create_string_buffer(PARAMS_BYTES), ctypes.create_string_buffer(300)
        self.library.es_llama_begin(params, c_uint32(16), c_int32(1))
        assert self.library.es_llama_new(byref(self.host()), params, why, c_int64(len(why))) is None
        found = BYTES_OF.search(why.value.decode())
        assert found is not None, why.value
        return int(found[1])

    def _new_object(self, interface: Any, context: int | None) -> int:
        made = SamplerObject(interface, context)
        self._live[ctypes.addressof(made)] = made
        return ctypes.addressof(made)

    def host(self, **changes: Any) -> Host:
        """What a program states that was compiled with the llama.h of the tests."""
        facts = {"size": ctypes.sizeof(Host), "sampler_bytes": 16, "interface_bytes": 96,
                 "token_bytes": 12, "array_bytes": 32, "create": self._create, **changes}  # fmt: skip
        return Host(**facts)

    def read(self, text: str, vocab_size: int) -> tuple[Any, str]:
        """(es_llama_params, what the reader says against the text)."""
        params, why = ctypes.create_string_buffer(PARAMS_BYTES), ctypes.create_string_buffer(300)
        self.library.es_llama_begin(params, c_uint32(self.params_bytes), c_int32(vocab_size))
        code = self.library.es_llama_read(params, text.encode(), why, c_int64(len(why)))
        assert (code == 0) == (not why.value)
        return params, why.value.decode()

    def new(self, text: str, vocab_size: int, host: Host | None = None) -> int:
        """The address of a new sampler. Raises ValueError with the shim's words."""
        params, said = self.read(text, vocab_size)
        why = ctypes.create_string_buffer(300)
        address = None
        if not said:
            given = host or self.host()
            address = self.library.es_llama_new(byref(given), params, why, c_int64(len(why)))
        if address is None:
            raise ValueError(said or why.value.decode())
        return int(address)

    def seed(self, address: int) -> int:
        return int(self.library.es_llama_seed(c_void_p(address)))

    def error(self, address: int) -> str:
        return str(self.library.es_llama_error(c_void_p(address)).decode())

    def sampler(self, text: str, vocab_size: int, host: Host | None = None) -> ShimSampler:
        """A new sampler of the host that stands in for llama.cpp."""
        return ShimSampler(self, self.new(text, vocab_size, host))


class ShimSampler:
    """A sampler, called through its interface as llama.cpp calls it."""

    def __init__(self, shim: Shim, address: int) -> None:
        self.shim, self.address = shim, address

    @property
    def interface(self) -> Interface:
        return self.shim._live[self.address].iface.contents  # type: ignore[no-any-return]

    def draw(self, data: np.ndarray) -> int:
        """Apply the sampler to candidates of `token_data`; the index that it selects."""
        candidates = candidates_of(data)
        self.interface.apply(self.address, byref(candidates))
        return int(candidates.selected)

    def draw_token(self, logits: np.ndarray, token_ids: Sequence[int] | None = None) -> int:
        data = token_data(logits, token_ids)
        return int(data["id"][self.draw(data)])

    def accept(self, *token_ids: int) -> None:
        for token in token_ids:
            self.interface.accept(self.address, token)

    def follow(self, rows: np.ndarray) -> list[int]:
        """One token of each row, accepted."""
        tokens = []
        for row in rows:
            tokens.append(self.draw_token(row))
            self.accept(tokens[-1])
        return tokens

    def reset(self) -> None:
        self.interface.reset(self.address)

    def clone(self) -> ShimSampler:
        return ShimSampler(self.shim, self.interface.clone(self.address))

    def copy_to(self, other: ShimSampler) -> None:
        self.interface.copy_state(self.address, other.address)

    def free(self) -> None:
        self.interface.free(self.address)
        del self.shim._live[self.address]

    @property
    def error(self) -> str:
        return self.shim.error(self.address)


def text_of(settings: Mapping[str, Any]) -> str:
    """Parameters of `SamplingParams` as the shim reads them."""
    return " ".join(f"{name}={_value(name, value)}" for name, value in settings.items())


def _value(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if name == "order" and not isinstance(value, str):
        return ",".join(value)
    if name == "dry_sequence_breakers":
        return ";".join(",".join(map(str, [entry] if isinstance(entry, int) else entry)) for entry in value)
    return repr(value) if isinstance(value, float) else str(value)
