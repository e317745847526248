"""The layout of the package: CONTRIBUTING describes the layers contract, folders and modules stay small, and
names are unambiguous."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from .conftest import quick_share

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "engine_sampler"
PLUGINS = ROOT / "plugins"
MODULES = sorted(PACKAGE.rglob("*.py"))
PLUGIN_MODULES = sorted(
    path
    for path in PLUGINS.rglob("*.py")
    if not {"tests", "build"} & set(path.relative_to(PLUGINS).parts) and not path.name.startswith("test_")
)
"""What plugins distribute."""

MAX_LINES = 500
MAX_MODULES = 20

LARGER_FOLDERS = {
    "benchmarks": 22,
    "engine_sampler": 22,  # one for each part of the line
    "engine_sampler/grammar/schema": 21,
    "engine_sampler/testing": 24,
    "native/src/grammar/expression": 23,
    "native/src/grammar/masks": 24,
    "tests": 42,
    "tests/grammar": 25,
    "tests/scheduler": 26,
}
"""The folders that hold more than MAX_MODULES, and how many. The numbers only fall: whoever divides a folder
lowers its number here, or removes it."""

ONE_FILE_EACH = {"engine_sampler/samplers", "engine_sampler/stopping", "tests/samplers", "tests/stopping"}
"""Folders with a file for each sampler and criterion: to add one is to add a file."""

SOURCES = {".py", ".c", ".h"}

VAGUE_NAMES = {"found", "given", "one"}
VAGUE = re.compile(r"\b(?:found|given|one)\b(?! [a-z])")
"""One of these that is not a word of a sentence: only files with one are parsed."""

VAGUE_LINES = 5
"""A variable may have such a name if all its uses are this close."""

PEERS_NAMES = {"Sampler", "Session", "StoppingCriteria"}
"""Names of peers' classes that integrations repeat."""


def layers() -> list[set[str]]:
    """The first layers contract of pyproject.toml, from the top."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    listed = re.search(r"^layers = \[\n(.*?)^\]", text, re.DOTALL | re.MULTILINE)
    assert listed is not None
    return [set(line.split(" | ")) for line in re.findall(r'"(.*?)"', listed.group(1))]


def documented_layers() -> list[set[str]]:
    """The table of layers in CONTRIBUTING.md, from the top."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (.*?) \|", text, re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(len(rows), 0, -1))
    return [set(re.findall(r"`(\w+)`", names)) for _, names in rows]


def test_contributing_lists_the_layers_of_the_contract() -> None:
    assert documented_layers() == layers()


def test_the_page_about_the_architecture_has_the_same_table() -> None:
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \d+ \|(.*)$", contributing, re.MULTILINE)
    assert "|" + "\n|".join(rows) in (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_the_layers_contain_every_top_level_module() -> None:
    modules = {
        path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert modules - {"__init__", "__main__"} == set().union(*layers())


def modules_by_folder() -> dict[str, set[str]]:
    """What a reader of each folder has to tell apart by name: its modules, and the folders that hold any."""
    modules: defaultdict[str, set[str]] = defaultdict(set)
    for top in ("benchmarks", "docs", "engine_sampler", "native", "plugins", "tests"):
        for path in (ROOT / top).rglob("*.*"):
            inside = path.relative_to(ROOT)
            if path.suffix not in SOURCES or {"build", "_native"} & set(inside.parts):
                continue
            if path.stem not in ("__init__", "__main__"):
                modules[str(inside.parent)].add(path.name)
            for folder in inside.parents[:-2]:
                modules[str(folder.parent)].add(folder.name)
    return modules


def test_a_folder_has_few_modules() -> None:
    sizes = {folder: len(modules) for folder, modules in modules_by_folder().items()}
    larger = {folder: n for folder, n in sizes.items() if n > MAX_MODULES and folder not in ONE_FILE_EACH}
    assert larger == LARGER_FOLDERS


def test_no_module_is_long() -> None:
    paths = [*MODULES, *PLUGIN_MODULES]
    assert not {
        str(path): n for path in paths if (n := len(path.read_text("utf-8").splitlines())) > MAX_LINES
    }


def names_of(path: Path, kind: type[ast.ClassDef] | type[ast.FunctionDef]) -> Iterator[str]:
    """The public classes or functions that a module defines."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return (node.name for node in tree.body if isinstance(node, kind) and not node.name.startswith("_"))


def test_no_two_public_classes_share_a_name() -> None:
    paths_by_name: defaultdict[str, list[str]] = defaultdict(list)
    for path in (*MODULES, *PLUGIN_MODULES):
        for name in names_of(path, ast.ClassDef):
            paths_by_name[name].append(str(path.relative_to(ROOT)))
    repeated = {name: paths for name, paths in paths_by_name.items() if len(paths) > 1}
    assert set(repeated) <= PEERS_NAMES
    for paths in repeated.values():
        assert sum(not path.startswith("plugins/") for path in paths) == 1


def test_no_package_exports_a_name_that_is_also_a_module() -> None:
    for init in (path for path in (*MODULES, *PLUGIN_MODULES) if path.name == "__init__.py"):
        tree = ast.parse(init.read_text(encoding="utf-8"))
        exported = {
            alias.asname or alias.name
            for node in tree.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        } | set(names_of(init, ast.FunctionDef))
        modules = {path.stem for path in init.parent.iterdir() if path.suffix == ".py" or path.is_dir()}
        assert not exported & modules, init


def uses_of_vague_names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, list[int]]:
    """The lines in which a function uses its variables and parameters of these names; functions within it
    have variables of their own."""
    lines: defaultdict[str, list[int]] = defaultdict(list)
    waiting: list[ast.AST] = list(ast.iter_child_nodes(function))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.Name | ast.arg):
            lines[node.id if isinstance(node, ast.Name) else node.arg].append(node.lineno)
        waiting += ast.iter_child_nodes(node)
    return {name: lines[name] for name in VAGUE_NAMES & lines.keys()}


def test_a_vague_name_is_used_within_few_lines() -> None:
    far = [
        f"{file.relative_to(ROOT)}:{min(lines)}-{max(lines)} {name}"
        for top in ("benchmarks", "docs", "engine_sampler", "plugins", "tests")
        for file in sorted((ROOT / top).rglob("*.py"))
        if VAGUE.search(text := file.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for name, lines in uses_of_vague_names(node).items()
        if max(lines) - min(lines) > VAGUE_LINES
    ]
    assert not far


def test_a_quick_share_has_every_law_every_class_and_every_value_that_are_few() -> None:
    class Item:
        def __init__(self, law: str, engine: int, seed: int) -> None:
            self.nodeid = f"test_some.py::TestIt::{law}[{engine}-{seed}]"
            self.cls, self.originalname = Item, law
            self.callspec = SimpleNamespace(indices={"engine": engine, "seed": seed})

    items: list[Any] = [Item(law, engine, seed) for law in "abc" for engine in (0, 1) for seed in range(50)]
    chosen = quick_share(items, 20)
    assert len(chosen) == 15
    assert {item.originalname for item in chosen} == {*"abc"}
    assert {item.callspec.indices["engine"] for item in chosen} == {0, 1}
    assert quick_share(items[::-1], 20) == chosen
    assert len(quick_share(items[:1], 20)) == 1
