"""What plugins import of this package: the surface that is declared for them, and no inner module."""

from __future__ import annotations

import ast
import functools
import importlib
from collections.abc import Iterator
from pathlib import Path

from engine_sampler import for_backends, for_bridges

PLUGINS = Path(__file__).resolve().parents[2] / "plugins"
FILES = sorted(path for path in PLUGINS.rglob("*.py") if "build" not in path.relative_to(PLUGINS).parts)

SURFACE = (
    "engine_sampler",
    "engine_sampler.arithmetic",
    "engine_sampler.contract",
    "engine_sampler.demo",
    "engine_sampler.explain",
    "engine_sampler.for_backends",
    "engine_sampler.for_bridges",
    "engine_sampler.stateless",
)
FOR_TESTS = (*SURFACE, "engine_sampler.testing")
"""docs/plugins.md says so."""

SERVERS = {f"engine_sampler.cli.serve.{name}" for name in ("command", "engine", "replies")}

FURTHER = {
    "engine-sampler-llama-cpp/tests/test_llama_grammars.py": {
        "engine_sampler.grammar.lark.gbnf",
    },
    "engine-sampler-llama-cpp/tests/test_llama_parity.py": {
        "engine_sampler.params",
    },
    "engine-sampler-llama-cpp/tests/test_llama_requests.py": {
        "engine_sampler.grammar",
        "engine_sampler.messages",
        "engine_sampler.params",
    },
    "engine-sampler-llama-cpp/tests/test_llama_serve.py": SERVERS,
    "engine-sampler-transformers/tests/test_transformers_serve.py": SERVERS,
    "engine-sampler-vllm/tests/test_vllm_processor.py": {
        "engine_sampler.registry",
    },
    "engine-sampler-torch/benchmarks/on_device/equality.py": {"engine_sampler.testing"},
    "engine-sampler-torch/benchmarks/on_device/step_times.py": {"engine_sampler.testing"},
    "engine-sampler-torch/example.py": {
        "engine_sampler.demo.configurations",
        "engine_sampler.demo.engine",
    },
    "engine-sampler-torch/tests/steps/test_formulas.py": {
        "engine_sampler.samplers",
        "engine_sampler.samplers.top_n_sigma",
    },
    "engine-sampler-transformers/tests/test_transformers_stopping.py": {"engine_sampler.stopping"},
}
"""The files that import more: what compares this package on another device, or beside its demo."""


@functools.cache
def imports_of(path: Path) -> set[tuple[str, str]]:
    """(module, name) of everything that a file imports from this package; the name is "" for modules."""
    return {pair for pair in _imports(path) if pair[0].split(".")[0] == "engine_sampler"}


def _imports(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            module = node.module or ""
            for alias in node.names:
                inner = f"{module}.{alias.name}"
                yield (inner, "") if inner in SURFACE else (module, alias.name)


def is_test(path: Path) -> bool:
    return path.name.startswith("test_") or "tests" in path.relative_to(PLUGINS).parts


def is_declared(module: str, name: str) -> bool:
    return not name or name in importlib.import_module(module).__all__


def test_plugins_import_no_inner_modules() -> None:
    inner: dict[str, set[str]] = {}
    for path in FILES:
        surface = FOR_TESTS if is_test(path) else SURFACE
        if further := {module for module, _ in imports_of(path) if module not in surface}:
            inner[str(path.relative_to(PLUGINS))] = further
    assert inner == FURTHER


def test_plugins_import_only_names_that_are_declared() -> None:
    pairs = {pair for path in FILES for pair in imports_of(path) if pair[0] in FOR_TESTS}
    assert not [pair for pair in pairs if not is_declared(*pair)]


def test_what_is_declared_for_backends_and_bridges_is_what_some_of_them_import() -> None:
    pairs = {pair for path in FILES for pair in imports_of(path)}
    for declared in (for_backends, for_bridges):
        imported = {name for module, name in pairs if module == declared.__name__}
        assert imported == set(declared.__all__) - {"Signatures"}
