"""The public names of the package: present, documented, and cheap to import."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import engine_sampler
from engine_sampler import contract, stateless

OPTIONAL = ("rich", "tokenizers", "matplotlib", "torch", "transformers")
HEAVY = (*OPTIONAL, "lark", "cffi", "pytest", "engine_sampler.testing", "engine_sampler.demo")


def modules() -> Iterator[str]:
    """Every module that needs no optional dependency."""
    for module in pkgutil.walk_packages(engine_sampler.__path__, "engine_sampler."):
        needs_more = module.name.startswith(("engine_sampler.demo", "engine_sampler.cli.serve.asgi"))
        if not needs_more and not module.name.endswith("__main__"):
            yield module.name


MODULES = sorted(modules())
DOORS = (engine_sampler, contract, stateless)


def test_each_public_name_exists_and_is_listed_once() -> None:
    for module in DOORS:
        assert len(set(module.__all__)) == len(module.__all__)
        assert [name for name in module.__all__ if not hasattr(module, name)] == []


def test_an_engine_holds_few_names() -> None:
    assert len(engine_sampler.__all__) <= 25


def test_what_plugins_subclass_is_in_the_contract_alone_but_for_the_errors_that_engines_catch() -> None:
    assert set(engine_sampler.__all__) & set(contract.__all__) == {
        *("BackendError", "ParameterError", "UnfinishedError")
    }


def test_a_star_import_gives_exactly_the_public_names() -> None:
    namespace: dict[str, object] = {}
    exec("from engine_sampler import *", namespace)
    assert set(namespace) - {"__builtins__"} == set(engine_sampler.__all__)


def test_every_module_has_a_docstring() -> None:
    assert [name for name in MODULES if not (importlib.import_module(name).__doc__ or "").strip()] == []


def public_parts() -> Iterator[tuple[str, Any]]:
    """The public classes and functions of every module, with their full names."""
    for name in MODULES:
        for attribute, value in vars(importlib.import_module(name)).items():
            own = getattr(value, "__module__", None) == name and not attribute.startswith("_")
            if own and (inspect.isclass(value) or inspect.isfunction(value)):
                yield f"{name}.{attribute}", value


def test_every_public_class_and_function_has_a_docstring() -> None:
    parts = dict(public_parts())
    assert len(parts) > 1000
    bare = [name for name, value in parts.items() if not vars(value).get("__doc__", value.__doc__)]
    # Those that register are documented by the specification of their hook.
    assert [name for name in bare if ".register_" not in name] == []


def test_every_public_name_and_every_public_method_of_a_public_class_has_a_docstring() -> None:
    for value, name in ((getattr(door, name), name) for door in DOORS for name in door.__all__):
        assert value.__doc__, name
        methods = vars(value).items() if inspect.isclass(value) else ()
        for attribute, method in methods:
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


FRONT_ENDS = [
    f"engine_sampler.grammar.{name}" for name in ("lark", "schema.compiling", "regex", "structural_tag")
]


def test_importing_the_package_loads_no_front_end_of_grammars() -> None:
    assert imported_by("import engine_sampler").isdisjoint(FRONT_ENDS)


def test_preparing_a_tokenizer_loads_what_reads_schemas_so_that_no_request_waits_for_it() -> None:
    statement = (
        "import engine_sampler as es\nfrom engine_sampler.grammar import prepare\n"
        "prepare(es.Tokenizer([bytes([i]) for i in range(256)]))"
    )
    loaded = imported_by(statement)
    from engine_sampler.grammar.engines import native

    assert ("engine_sampler.grammar.schema.compiling" in loaded) == (native.load_library() is not None)


def test_sampling_loads_no_optional_module() -> None:
    statement = (
        "import numpy as np, engine_sampler as es\n"
        "params = es.SamplingParams(top_k=3, seed=1, logprobs=2)\n"
        "es.sample(np.zeros((2, 9), np.float32), params)"
    )
    assert imported_by(statement).isdisjoint(OPTIONAL)
