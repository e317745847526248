"""The layout of the package: CONTRIBUTING describes the layers contract, folders and modules stay small, and
names are unambiguous."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "engine_sampler"
MODULES = sorted(PACKAGE.rglob("*.py"))

DEMO = {"lark", "matplotlib", "rich", "tokenizers"}
"""What the README's test command installs: all other libraries are there in `.ci/peers` alone."""

MAX_LINES = 500
MAX_MODULES = 20

PEERS_NAMES = {"Sampler", "Session", "StoppingCriteria"}
"""Names of peers' classes that adapters repeat."""


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


def test_the_layers_contain_every_top_level_module() -> None:
    modules = {
        path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert modules - {"__init__", "__main__"} == set().union(*layers())


@pytest.mark.parametrize("folder", [PACKAGE, PACKAGE / "grammar"], ids=lambda path: path.name)
def test_a_folder_has_few_modules(folder: Path) -> None:
    modules = [path for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    assert len(modules) <= MAX_MODULES


def test_no_module_is_long() -> None:
    long = {str(path): n for path in MODULES if (n := len(path.read_text("utf-8").splitlines())) > MAX_LINES}
    assert not long


def names_of(path: Path, kind: type[ast.ClassDef] | type[ast.FunctionDef]) -> Iterator[str]:
    """The public classes or functions that a module defines."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return (node.name for node in tree.body if isinstance(node, kind) and not node.name.startswith("_"))


def test_no_two_public_classes_share_a_name() -> None:
    paths_by_name: defaultdict[str, list[str]] = defaultdict(list)
    for path in MODULES:
        for name in names_of(path, ast.ClassDef):
            paths_by_name[name].append(str(path.relative_to(PACKAGE)))
    repeated = {name: paths for name, paths in paths_by_name.items() if len(paths) > 1}
    assert set(repeated) <= PEERS_NAMES
    for paths in repeated.values():
        assert sum(not path.startswith("adapters") for path in paths) == 1


def test_no_package_exports_a_name_that_is_also_a_module() -> None:
    for init in PACKAGE.rglob("__init__.py"):
        tree = ast.parse(init.read_text(encoding="utf-8"))
        exported = {
            alias.asname or alias.name
            for node in tree.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        } | set(names_of(init, ast.FunctionDef))
        modules = {path.stem for path in init.parent.iterdir() if path.suffix == ".py" or path.is_dir()}
        assert not exported & modules, init


def test_the_stage_with_peers_runs_every_test_that_needs_one() -> None:
    script = (ROOT / ".ci" / "peers").read_text(encoding="utf-8")
    listed = re.search(r"^tests=\((.*?)\)", script, re.DOTALL | re.MULTILINE)
    assert listed is not None
    stage = [ROOT / name for name in listed.group(1).split()]
    assert all(path.exists() for path in stage)
    asking = {
        path
        for path in (ROOT / "tests").rglob("*.py")
        for name in re.findall(r"importorskip\(\"?([\w.]+)", path.read_text(encoding="utf-8"))
        if name not in DEMO
    }
    assert asking
    assert not [path for path in asking if not any(path.is_relative_to(place) for place in stage)]
