"""The contract with compiled backends, cut from its C header: there is no second definition."""

from __future__ import annotations

import functools
import re
from typing import Any

from ...base.packaged import header_declarations, new_interface

HEADER = "engine_sampler.h"
_SYMBOL = "int32_t es_get_api(uint32_t host_abi, const es_api **api);"


@functools.cache
def contract() -> Any:
    """The `cffi.FFI` that knows the header's types."""
    return new_interface(header_declarations(HEADER) + _SYMBOL)


@functools.cache
def size_of(kind: str) -> int:
    """The bytes of a struct or type of the header."""
    return int(contract().sizeof(kind))


@functools.cache
def fields_since(kind: str, minor: int) -> tuple[str, ...]:
    """The fields of a struct that a library of this minor version does not know, in order: those behind the
    first comment "Since ABI" that names a later one."""
    _, *marked = re.split(r"/\* Since ABI \d+\.(\d+)\. \*/", _body_of(kind))
    for since, text in zip(marked[::2], marked[1::2], strict=True):
        if int(since) > minor:
            names = [name for name, _ in contract().typeof(kind).fields]
            declared = "".join(part.partition("/*")[0] for part in text.split("*/"))
            return tuple(names[names.index(re.findall(r"\w+", re.split("[;,]", declared)[0])[-1]) :])
    return ()


def _body_of(kind: str) -> str:
    declared = header_declarations(HEADER)
    return declared.split(f"typedef struct {kind} {{")[1].split(f"}} {kind};")[0]


def sized(kind: str, **fields: Any) -> Any:
    """A new struct with these fields and its size; the pointer owns it."""
    return contract().new(f"{kind} *", {"size": size_of(kind), **fields})


def sized_with_room(kind: str) -> Any:
    """Two new structs, the first with its size: one to be written, and room behind it, so that a library that
    writes too far does not write into the heap."""
    structs = contract().new(f"{kind}[2]")
    structs[0].size = size_of(kind)
    return structs


@functools.cache
def _numbers() -> dict[str, int]:
    numbers: dict[str, int] = {}
    for name in re.findall(r"^typedef enum (es_\w+)", header_declarations(HEADER), re.M):
        numbers |= contract().typeof(name).relements
    # cffi exposes the values of an unnamed enum through a loaded library only.
    versions = re.findall(r"ES_ABI_(\w+) = (\d+)", header_declarations(HEADER))
    version = {part: int(value) for part, value in versions}
    return {**numbers, "ES_ABI": version["MAJOR"] << 16 | version["MINOR"]}


def number(name: str) -> int:
    """The value of a constant of the header, such as `ES_OK`; KeyError for a name it lacks."""
    return _numbers()[name]


def named(kind: str, value: int) -> str:
    """The name of `value` in the enum `kind`, without its prefix: "BUSY"; or the number."""
    return str(contract().typeof(kind).elements.get(value, value)).removeprefix("ES_")


def words_of(kind: str, bits: int) -> list[str]:
    """The names of the bits of the enum `kind` that are set, in words: "row faults"."""
    values = sorted(contract().typeof(kind).elements)
    return [named(kind, value).lower().replace("_", " ") for value in values if bits & value]


def described(version: int) -> str:
    """An ABI version as text: 131072 is "2.0"."""
    return f"{version >> 16}.{version & 0xFFFF}"
