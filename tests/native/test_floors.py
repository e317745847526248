"""The C sources stand on floors: an include points down or stays in its folder, never in a circle, and names
say which house they belong to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.native.building import NATIVE

HOUSES: Mapping[str, Sequence[str]] = {
    "backend": (
        "fuzz",
        "src/api.c",
        "src/dispatch.c src/threads.c",
        "src/kernels",
        "src/internal.h",
        "src/operations.h",
        "src/tables",
        "src/cpu.h",
        "include",
    ),
    "grammar engine": (
        "src/grammar/masks",
        "src/grammar/parser",
        "src/grammar/expression",
        "src/grammar/base",
        "include",
    ),
    "histories": ("src/histories.c", "include"),
    "arrays": ("src/arrays.c", "include"),
    "probabilities": ("src/probabilities", "include"),
}
"""The floors of each house, from the top; those on one floor do not include each other. No house includes
another one."""

SOURCES = sorted(path for path in NATIVE.rglob("*.[ch]"))
PREFIXES = {
    "backend": ("es_", "ES_", "fz_", "FZ_"),
    "grammar engine": ("eg_", "EG_", "es_"),
    "histories": ("es_",),
    "arrays": ("es_",),
    "probabilities": ("es_",),
}


def name_of(path: Path) -> str:
    return path.relative_to(NATIVE).as_posix()


def place_of(path: Path) -> dict[str, tuple[int, str]]:
    """The houses that a file is part of; in each, its floor, counted from the top, and its room there."""
    places = {}
    for house, floors in HOUSES.items():
        for number, floor in enumerate(floors):
            for room in floor.split():
                if name_of(path) == room or name_of(path).startswith(f"{room}/"):
                    places[house] = number, room
    return places


def includes(path: Path) -> Iterator[Path]:
    """The files of the project that a file includes."""
    for name in re.findall(r'^#include "(.*)"', path.read_text("utf-8"), re.MULTILINE):
        folders = (path.parent, NATIVE / "src", NATIVE / "include")
        yield next(folder / name for folder in folders if (folder / name).exists())


def module_of(path: Path) -> str:
    """A header and its source are one module."""
    return name_of(path.with_suffix(""))


def is_allowed(path: Path, included: Path) -> bool:
    """Whether the included file is in the same room, or further down in a house of both."""
    here, there = place_of(path), place_of(included)
    return any(
        here[house][1] == there[house][1] or here[house][0] < there[house][0]
        for house in here.keys() & there.keys()
    )


def test_every_file_has_a_place() -> None:
    assert not [name_of(path) for path in SOURCES if not place_of(path)]


def test_an_include_points_down_or_stays_in_its_room() -> None:
    wrong = [
        f"{name_of(path)} includes {name_of(included)}"
        for path in SOURCES
        for included in includes(path)
        if not is_allowed(path, included)
    ]
    assert not wrong


def test_no_includes_form_a_circle() -> None:
    needed: dict[str, set[str]] = {}
    for path in SOURCES:
        others = {module_of(included) for included in includes(path)} - {module_of(path)}
        needed.setdefault(module_of(path), set()).update(others)
    try:
        TopologicalSorter(needed).prepare()
    except CycleError as error:
        pytest.fail(f"includes in a circle: {' → '.join(error.args[1])}")


DEFINED = re.compile(r"^(?!static|typedef|return|ES_INLINE)(?:\w+ )+\**(\w+)\([^;]*\{$", re.MULTILINE)
"""A function that other files can call."""


@pytest.mark.parametrize("house", HOUSES)
def test_names_that_other_files_see_begin_with_the_prefix_of_their_house(house: str) -> None:
    named = 0
    for path in SOURCES:
        if house not in place_of(path) or path.suffix != ".c":
            continue
        for name in DEFINED.findall(path.read_text("utf-8")):
            assert name.startswith(PREFIXES[house]) or name == "main", f"{name} in {name_of(path)}"
            named += 1
    assert named
