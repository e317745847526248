"""Libraries that are refused when they are loaded, and the messages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine_sampler import SamplingParams, Scheduler
from engine_sampler.backends.choose import named_backend
from engine_sampler.backends.library import LibraryBackend, LibraryError
from engine_sampler.backends.library.binding import REQUIRED
from engine_sampler.contract import hookimpl
from tests.engines import registered_plugin

from .building import toy, variant


def refusal(path: Path) -> str:
    """Why the library is refused; the reason names it."""
    with pytest.raises(LibraryError) as error:
        LibraryBackend(path)
    named, _, reason = str(error.value).partition(": ")
    assert named == str(path)
    return reason


def test_a_library_reports_its_name_and_that_it_is_exact() -> None:
    backend = LibraryBackend(toy())
    assert (backend.name, backend.exact, backend.library.version) == ("toy", True, "1.0")
    assert backend.score("cpu") > 1


def test_a_library_may_be_given_another_name() -> None:
    assert LibraryBackend(toy(), name="vendor").name == "vendor"


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.so") == "no such file"


def test_a_file_that_is_not_a_library_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("no library")
    assert refusal(tmp_path / "text.so").startswith("it cannot be loaded here")


def test_a_library_without_the_symbol_is_refused() -> None:
    assert refusal(variant("NO_SYMBOL")) == "it does not export es_get_api"


def test_a_library_that_refuses_this_host_is_refused() -> None:
    assert refusal(variant("REFUSES")) == "it refuses a host of ABI 2.1"


def test_a_library_of_another_major_version_is_refused() -> None:
    assert refusal(variant("ABI=ES_ABI_OF(3, 3)")) == "it has ABI 3.3, this is ABI 2.1"


def test_a_library_of_a_later_minor_version_works() -> None:
    assert LibraryBackend(variant("ABI=ES_ABI_OF(2, 9)", "SIZE=sizeof(longer_api)")).exact


@pytest.mark.parametrize("name", REQUIRED)
def test_a_table_with_an_empty_slot_is_refused(name: str) -> None:
    assert refusal(variant(f"WITHOUT={name}")) == f"its table lacks the function {name}"


def test_a_table_that_ends_before_a_required_function_is_refused() -> None:
    assert refusal(variant("SIZE=offsetof(es_api, run)")) == "its table lacks the function run"


def test_a_table_that_ends_before_its_version_is_refused() -> None:
    assert refusal(variant("SIZE=4")) == "its table has 4 bytes, too few for its version"


def test_a_table_that_ends_after_the_required_functions_works() -> None:
    backend = LibraryBackend(variant("SIZE=offsetof(es_api, wait)"))
    assert backend.library.function("target") is None
    assert backend.target == ""


def test_a_library_is_chosen_by_its_path_and_loaded_once() -> None:
    backend = named_backend(f"library:{toy()}")
    assert backend is not None
    assert backend.name == "toy"
    assert named_backend(f"library:{toy()}") is backend


def test_a_library_that_a_plugin_brings_is_used_by_name_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Plugin:
        @hookimpl
        def register_backends(self, register: Callable[[Any], None]) -> None:
            register(LibraryBackend(toy(), name="a_library"))

    def used(backend: str = "auto") -> str:
        scheduler = Scheduler(5, backend=backend)
        scheduler.add(SamplingParams(seed=1))
        scheduler.step(np.zeros((1, 5), np.float32))
        assert scheduler.backend is not None
        return scheduler.backend.name

    monkeypatch.delenv("ENGINE_SAMPLER_BACKEND", raising=False)
    before = used()
    with registered_plugin(Plugin()):
        assert used() == before
        assert used("a_library") == "a_library"
        monkeypatch.setenv("ENGINE_SAMPLER_BACKEND", "a_library")
        assert used() == "a_library"


def test_the_environment_may_name_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINE_SAMPLER_BACKEND", f"library:{toy()}")
    scheduler = Scheduler(10)
    scheduler.add(SamplingParams(top_k=3))
    assert str(scheduler.explain()[0]).endswith("top_k (toy) → dist (toy)")


def test_a_path_that_cannot_be_loaded_raises_at_once(tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match="no such file"):
        Scheduler(10, backend=f"library:{tmp_path / 'none.so'}")
