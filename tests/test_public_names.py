"""The public names of the package: present, documented, and cheap to import."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

import engine_sampler
from engine_sampler import contract

INTERNAL = {"PLUGIN_API", "Role", "State", "failure", "padded"}
INTERNAL |= {
    "INTERRUPTIONS",
    "array_from",
    "begin_step",
    "end_step",
    "give_way",
    "in_slices",
    "unhurried",
    "PluginFault",
    "call_for_add",
    "call_plugin",
    "described",
    "fork_safe",
    "quoted",
    "check_hashable",
    "close_matches",
    "guarded",
}
"""Names of the contract that plugins do not need."""
OPTIONAL = ("rich", "tokenizers", "matplotlib", "torch", "transformers")
HEAVY = (*OPTIONAL, "lark", "cffi", "pytest", "engine_sampler.testing", "engine_sampler.demo")


def modules() -> Iterator[str]:
    """Every module that needs no optional dependency."""
    for module in pkgutil.walk_packages(engine_sampler.__path__, "engine_sampler."):
        if not module.name.startswith("engine_sampler.demo") and not module.name.endswith("__main__"):
            yield module.name


MODULES = sorted(modules())


def test_each_public_name_exists_and_is_listed_once() -> None:
    names = engine_sampler.__all__
    assert len(set(names)) == len(names)
    for name in names:
        assert hasattr(engine_sampler, name), name


def test_plugins_find_the_whole_contract_here() -> None:
    names = set(contract.__all__) - INTERNAL
    assert all(getattr(engine_sampler, name, None) is getattr(contract, name) for name in names)
    assert names <= set(engine_sampler.__all__)


def test_a_star_import_gives_exactly_the_public_names() -> None:
    namespace: dict[str, object] = {}
    exec("from engine_sampler import *", namespace)
    assert set(namespace) - {"__builtins__"} == set(engine_sampler.__all__)


@pytest.mark.parametrize("name", MODULES)
def test_every_module_has_a_docstring(name: str) -> None:
    assert (importlib.import_module(name).__doc__ or "").strip(), f"{name} has no docstring"


@pytest.mark.parametrize("name", MODULES)
def test_every_public_class_and_function_has_a_docstring(name: str) -> None:
    module = importlib.import_module(name)
    for attribute, value in vars(module).items():
        own = getattr(value, "__module__", None) == name
        if own and not attribute.startswith("_") and (inspect.isclass(value) or inspect.isfunction(value)):
            if attribute.startswith("register_"):  # documented by the specification of its hook
                continue
            assert vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__, (
                f"{name}.{attribute}"
            )


@pytest.mark.parametrize("name", engine_sampler.__all__)
def test_every_public_method_of_a_public_class_has_a_docstring(name: str) -> None:
    value = getattr(engine_sampler, name)
    assert value.__doc__
    if inspect.isclass(value):
        for attribute, method in vars(value).items():
            if inspect.isfunction(method) and not attribute.startswith("_"):
                assert inspect.getdoc(getattr(value, attribute)), f"{name}.{attribute}"


def imported_by(statement: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after `statement`."""
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stderr == ""
    return set(run.stdout.split())


def test_importing_the_package_loads_no_optional_and_no_heavy_module() -> None:
    assert imported_by("import engine_sampler").isdisjoint(HEAVY)


def test_importing_the_package_loads_what_reads_schemas_so_that_no_request_waits_for_it() -> None:
    assert "engine_sampler.grammar.schema.compiling" in imported_by("import engine_sampler")


def test_sampling_loads_no_optional_module() -> None:
    statement = (
        "import numpy as np, engine_sampler as es\n"
        "params = es.SamplingParams(top_k=3, seed=1, logprobs=2)\n"
        "es.sample(np.zeros((2, 9), np.float32), params)"
    )
    assert imported_by(statement).isdisjoint(OPTIONAL)
