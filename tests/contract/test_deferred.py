"""`DeferredBackend`: a plugin's backend that is not imported before it is needed."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine_sampler import BackendError, SamplingParams, Scheduler
from engine_sampler.backends.choose import automatic_choice, named_choice
from engine_sampler.cli.listing import inventory
from engine_sampler.contract import Backend, DeferredBackend, hookimpl
from engine_sampler.registry import CORE_PARAMS, Registry
from engine_sampler.testing import BackendContract

MODULE = '''"""A backend that would cost much to import."""

from engine_sampler.for_backends import NumpyBackend


class Costly(NumpyBackend):
    """Slow to arrive. And then as NumPy."""

    name = "costly"
    target = "a device"

    def score(self, device):
        return 0.5 if device == "cpu" else 9.0

    def reads_from(self, device):
        return device == "npu:0"
'''


@pytest.fixture
def costly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the class is; its module has not been imported."""
    (tmp_path / "costly_backend.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "costly_backend", raising=False)
    return "costly_backend:Costly"


def registry_of(backend: Backend) -> Registry:
    class Plugin:
        __name__ = "toys"

        @hookimpl
        def register_backends(self, register: Any) -> None:
            register(backend)

    registry = Registry(CORE_PARAMS)
    registry.register(Plugin())
    return registry


class TestOnTheHost(BackendContract):
    backend = DeferredBackend("numpy", "engine_sampler.backends.numpy:NumpyBackend")
    vocab_sizes = (40,)
    chains = 3


def test_logits_on_the_host_do_not_import_it(costly: str) -> None:
    registry = registry_of(DeferredBackend("costly", costly))
    choice = automatic_choice("cpu", registry)
    assert choice.backend.name != "costly"
    assert "of a plugin" in choice.others["costly"]
    assert "costly_backend" not in sys.modules


def test_logits_on_a_device_that_it_reads_are_its(costly: str) -> None:
    choice = automatic_choice("npu:0", registry_of(DeferredBackend("costly", costly)))
    assert choice.backend.name == "costly"
    assert str(choice).startswith("backend costly (a device): the best of those that read logits on npu:0")


def test_the_listing_says_what_it_is(costly: str) -> None:
    listed = {
        entry["name"]: entry
        for entry in inventory(registry_of(DeferredBackend("costly", costly)))["backends"]
    }
    assert listed["costly"]["summary"] == "Slow to arrive."
    assert listed["costly"]["state"] == "usable"
    assert listed["costly"]["target"] == "a device"
    assert listed["costly"]["reason"] == ""


def test_a_scheduler_takes_it_by_name_and_draws_as_with_it(costly: str) -> None:
    choice = named_choice("costly", registry_of(DeferredBackend("costly", costly)))
    assert choice is not None
    logits = np.random.default_rng(3).normal(size=(1, 50)).astype(np.float32)
    tokens = []
    for backend in (choice.backend, "numpy"):
        scheduler = Scheduler(50, backend=backend)
        scheduler.add(SamplingParams(top_k=9, seed=5), [])
        tokens.append([scheduler.step(logits).token_ids.tolist() for _ in range(5)])
    assert tokens[0] == tokens[1]


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("no_such_module:Costly", "importing no_such_module:Costly failed: ModuleNotFoundError"),
        ("costly_backend:Cheap", "importing costly_backend:Cheap failed: AttributeError"),
        ("os:getpid", "os:getpid is not a Backend"),
        ("engine_sampler.backends.numpy:NumpyBackend", "has name='numpy'; its DeferredBackend has 'costly'"),
    ],
)
def test_what_cannot_be_loaded_says_why_and_reads_nothing(costly: str, place: str, reason: str) -> None:
    backend = DeferredBackend("costly", place)
    registry = registry_of(backend)
    assert reason in backend.reason
    with pytest.raises(BackendError, match=re.escape(reason)):
        backend.score("cpu")
    assert automatic_choice("npu:0", registry).backend.name != "costly"
    with pytest.raises(ValueError, match="backend='costly' cannot be used: "):
        named_choice("costly", registry)
    listed = {entry["name"]: entry for entry in inventory(registry)["backends"]}
    assert listed["costly"]["state"].startswith("failed: BackendError: ")
    assert reason in listed["costly"]["reason"]


def test_a_declaration_that_the_class_contradicts_is_a_fault(costly: str) -> None:
    assert DeferredBackend("costly", costly).reason == ""
    assert (
        "has exact=True; its DeferredBackend has False"
        in DeferredBackend("costly", costly, exact=False).reason
    )
