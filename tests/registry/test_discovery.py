"""Built-in plugins are found by the module that defines them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import engine_sampler
import engine_sampler.backends
import engine_sampler.samplers
import engine_sampler.stopping
from engine_sampler.contract import Backend, Sampler, Selector, StoppingCriteria
from engine_sampler.registry import objects_in

PACKAGE = "made_for_discovery"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty package that can be imported."""
    folder = tmp_path / PACKAGE
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


def found(package: Path) -> list[str]:
    return [s.name for s in objects_in(PACKAGE, [str(package)], Sampler)]


SAMPLER = "from engine_sampler.contract import Sampler\nclass {0}(Sampler):\n    name = '{0}'\n"


def test_every_class_of_every_module_is_found_in_order_of_the_modules(package: Path) -> None:
    (package / "b.py").write_text(SAMPLER.format("Two") + SAMPLER.format("Three"))
    (package / "a.py").write_text(SAMPLER.format("One"))
    assert found(package) == ["One", "Two", "Three"]


def test_imported_classes_bases_without_a_name_and_other_values_are_left_out(package: Path) -> None:
    (package / "a.py").write_text(SAMPLER.format("One"))
    (package / "b.py").write_text(
        "from engine_sampler.contract import Sampler, Selector\n"
        f"from {PACKAGE}.a import One\n"
        "class Base(Sampler):\n    pass\n"
        "class Other(Selector):\n    name = 'other'\n"
        "number = 3\n"
    )
    assert found(package) == ["One"]


def test_an_empty_package_has_nothing(package: Path) -> None:
    assert found(package) == []


@pytest.mark.parametrize(
    ("module", "base", "some"),
    [
        (engine_sampler.samplers, (Sampler, Selector), {"top_k", "penalties", "dist", "mirostat_v2"}),
        (engine_sampler.stopping, StoppingCriteria, {"eos", "max_tokens", "max_time", "stop_token_ids"}),
        (engine_sampler.backends, Backend, {"numpy"}),
    ],
)
def test_the_built_ins_are_found(module: object, base: type, some: set[str]) -> None:
    names = [part.name for part in objects_in(module.__name__, module.__path__, base)]
    assert some <= set(names)
    assert len(set(names)) == len(names)


NEW_SAMPLER = '''
import numpy as np
from ..contract import Param, Sampler

class Halve(Sampler):
    """Halve every logit."""
    name = "halve"
    params = (Param("halve", bool, neutral=False),)

    def apply(self, logits, rows):
        np.multiply(logits, np.float32(0.5), out=logits)
'''


def test_a_new_sampler_needs_only_a_new_file(tmp_path: Path) -> None:
    (tmp_path / "halve.py").write_text(NEW_SAMPLER)
    code = (
        f"import engine_sampler.samplers as samplers; samplers.__path__.append({str(tmp_path)!r});"
        "import numpy as np; from engine_sampler import SamplingParams, process_logits;"
        "print(process_logits(np.full((1, 2), 3, np.float32), SamplingParams(halve=True)).tolist())"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[[1.5, 1.5]]"
