"""The header as the C compiler sees it, and as the host does: every size, offset and constant."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from engine_sampler.backends.library.header import HEADER, contract, number
from engine_sampler.base.packaged import header_declarations, header_text

from ...native.building import CONTRACT, INCLUDE
from .building import compile_c

STRUCTS = re.findall(r"typedef struct (es_\w+) {", header_declarations(HEADER))
ENUMS = re.findall(r"typedef enum (es_\w+)", header_declarations(HEADER))


@pytest.fixture(scope="module")
def probed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """The values that a C program prints for each name below."""
    folder: Path = tmp_path_factory.mktemp("probe")
    lines = [f'    printf("{name} %lld\\n", (long long)({value}));' for name, value in expressions().items()]
    source = folder / "probe.c"
    source.write_text(
        "\n".join(["#include <engine_sampler.h>", "#include <stdio.h>", "int main(void) {", *lines, "}"])
    )
    compile_c(source, folder / "probe", f"-I{INCLUDE}")
    output = subprocess.run([folder / "probe"], capture_output=True, text=True, check=True).stdout
    return {name: int(value) for name, value in (line.split() for line in output.splitlines())}


def expressions() -> dict[str, str]:
    """C expressions by the name under which they are compared."""
    named = {f"{struct}": f"sizeof({struct})" for struct in STRUCTS}
    for struct in STRUCTS:
        for field, _ in contract().typeof(struct).fields:
            named[f"{struct}.{field}"] = f"offsetof({struct}, {field})"
            named[f"{struct}.{field}.size"] = f"sizeof((({struct} *)0)->{field})"
    for enum in ENUMS:
        named |= {name: name for name in contract().typeof(enum).relements}
    return named | {"ES_ABI": "ES_ABI"}


def test_every_struct_of_the_header_is_compared() -> None:
    assert len(STRUCTS) == len(re.findall(r"^} es_\w+;$", header_declarations(HEADER), re.M)) - len(ENUMS)
    assert {"es_params", "es_table", "es_batch", "es_api"} <= set(STRUCTS)


@pytest.mark.parametrize("struct", STRUCTS)
def test_a_struct_has_the_same_size_and_offsets(struct: str, probed: dict[str, int]) -> None:
    ffi = contract()
    assert ffi.sizeof(struct) == probed[struct]
    for name, field in ffi.typeof(struct).fields:
        assert field.offset == probed[f"{struct}.{name}"], name
        assert ffi.sizeof(field.type) == probed[f"{struct}.{name}.size"], name


@pytest.mark.parametrize("enum", ENUMS)
def test_an_enum_has_the_same_values(enum: str, probed: dict[str, int]) -> None:
    for name, value in contract().typeof(enum).relements.items():
        assert value == number(name) == probed[name]


def test_the_version_is_the_same(probed: dict[str, int]) -> None:
    assert number("ES_ABI") == probed["ES_ABI"]


def test_a_tensor_has_the_layout_of_dlpack() -> None:
    ffi = contract()
    offsets = [field.offset for _, field in ffi.typeof("es_tensor").fields]
    assert offsets == [0, 8, 12, 16, 20, 21, 22, 24, 32, 40]
    assert ffi.sizeof("es_tensor") == 48


def test_the_installed_header_is_that_of_the_checkout() -> None:
    assert header_text(HEADER) == CONTRACT.read_text(encoding="utf-8")


def test_every_struct_of_the_interface_begins_with_its_size() -> None:
    without = {"es_tensor", "es_device", "es_ids", "es_sequences"}  # parts of others, and DLPack's own
    for struct in set(STRUCTS) - without:
        assert contract().typeof(struct).fields[0][0] == "size", struct
