"""The packaged C library: where it is found, and the message if it cannot be used."""

from __future__ import annotations

import importlib.resources
import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine_sampler.backends import choose, native
from engine_sampler.backends.native import NativeBackend
from engine_sampler.backends.numpy import NumpyBackend
from engine_sampler.base.errors import warn_once
from engine_sampler.base.packaged import library_path
from engine_sampler.cli.listing import inventory
from engine_sampler.contract import Backend
from engine_sampler.registry import CORE_PARAMS, Registry, default_registry

VARIABLES = ("ENGINE_SAMPLER_BACKEND", "ENGINE_SAMPLER_ISA")


@pytest.fixture
def working(monkeypatch: pytest.MonkeyPatch) -> NativeBackend:
    """The packaged backend; skips the test if the package was built without a compiler."""
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    if library_path() is None:
        pytest.skip("the package was built without a C compiler")
    return NativeBackend()


@pytest.fixture
def without_library(monkeypatch: pytest.MonkeyPatch) -> Iterator[NativeBackend]:
    """The backend of a package that was built without a compiler; only NumPy's is registered with it."""
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(native, "library_path", lambda: None)
    backend = NativeBackend()
    backends: dict[str, Backend] = {"native": backend, "numpy": NumpyBackend()}
    catalogue = SimpleNamespace(backends=backends)
    registry = SimpleNamespace(catalogue=catalogue, is_built_in=lambda backend: True)
    monkeypatch.setattr(choose, "default_registry", lambda: registry)
    warn_once.cache_clear()
    yield backend
    warn_once.cache_clear()


def test_the_header_is_installed_next_to_the_library_for_authors_of_others() -> None:
    header = importlib.resources.files("engine_sampler") / "_native" / "engine_sampler.h"
    assert "es_get_api" in header.read_text(encoding="utf-8")


def test_it_is_registered_automatically() -> None:
    assert isinstance(default_registry().catalogue.backends["native"], NativeBackend)


def test_with_its_library_it_is_exact_and_better_than_numpy(working: NativeBackend) -> None:
    assert working.reason == ""
    assert working.exact
    assert working.score("cpu") > NumpyBackend().score("cpu")


def test_with_its_library_it_is_the_automatic_choice(
    working: NativeBackend, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "engine_sampler"):
        assert choose.best_backend("cpu").name == "native"
    assert caplog.text == ""


def test_a_library_named_by_the_environment_comes_before_the_packaged_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ENGINE_SAMPLER_NATIVE_LIBRARY", str(tmp_path / "other.so"))
    assert library_path() == tmp_path / "other.so"
    monkeypatch.setenv("ENGINE_SAMPLER_NATIVE_LIBRARY", "")
    assert library_path() != tmp_path / "other.so"


def test_a_named_library_that_does_not_exist_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ENGINE_SAMPLER_NATIVE_LIBRARY", str(tmp_path / "other.so"))
    backend = NativeBackend()
    assert "other.so" in backend.reason
    assert backend.score("cpu") == 0


def test_a_file_that_is_not_a_library_is_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "text.so").write_text("no library")
    monkeypatch.setenv("ENGINE_SAMPLER_NATIVE_LIBRARY", str(tmp_path / "text.so"))
    assert "text.so" in NativeBackend().reason


def test_an_instruction_set_may_be_forced(working: NativeBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINE_SAMPLER_ISA", working.target)
    assert NativeBackend().target == working.target


def test_an_unknown_instruction_set_is_refused_by_name(
    working: NativeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGINE_SAMPLER_ISA", "abacus")
    backend = NativeBackend()
    assert backend.reason == (
        "ENGINE_SAMPLER_ISA='abacus' is not allowed: one of baseline, avx2, avx512, neon, portable"
    )
    assert backend.score("cpu") == 0


@pytest.mark.parametrize("isa", ["abacus", "other"])
def test_an_instruction_set_that_cannot_be_used_is_an_error_as_a_backend_is(
    working: NativeBackend, monkeypatch: pytest.MonkeyPatch, isa: str
) -> None:
    other = "avx2" if working.target == "neon" else "neon"
    monkeypatch.setenv("ENGINE_SAMPLER_ISA", other if isa == "other" else isa)
    registry = Registry(CORE_PARAMS)
    with pytest.raises(ValueError, match=r"^ENGINE_SAMPLER_ISA='\w+' is not allowed: "):
        choose.named_choice("auto", registry)
    named = choose.named_choice("numpy", registry)
    assert named is not None
    assert named.backend.name == "numpy"
    variables = {entry["name"]: entry["effect"] for entry in inventory(registry)["environment"]}
    assert "is not allowed" in variables["ENGINE_SAMPLER_ISA"]


def test_without_kernels_an_instruction_set_is_not_asked_for(
    without_library: NativeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGINE_SAMPLER_ISA", "avx2")
    assert choose.named_backend("auto") is None


def test_without_a_library_auto_is_numpy_with_a_single_warning(
    without_library: NativeBackend, caplog: pytest.LogCaptureFixture
) -> None:
    assert without_library.score("cpu") == 0
    with caplog.at_level(logging.WARNING, "engine_sampler"):
        assert choose.best_backend("cpu").name == "numpy"
        choose.best_backend("cpu")
    assert len(caplog.records) == 1
    assert "sampling runs on NumPy, without the C kernels: " in caplog.text
    assert "install GCC or Clang" in caplog.text


@pytest.mark.parametrize("by_environment", [False, True])
def test_without_a_library_requesting_it_by_name_is_an_error(
    without_library: NativeBackend, monkeypatch: pytest.MonkeyPatch, by_environment: bool
) -> None:
    if by_environment:
        monkeypatch.setenv("ENGINE_SAMPLER_BACKEND", "native")
    with pytest.raises(ValueError, match="backend='native' cannot be used: the package was built"):
        choose.named_backend("auto" if by_environment else "native")


def test_without_a_library_the_list_of_plugins_gives_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "library_path", lambda: None)
    listed = inventory(Registry(CORE_PARAMS))["backends"]
    entry = next(entry for entry in listed if entry["name"] == "native")
    assert entry["state"] == "not usable here"
    assert entry["reason"].startswith("the package was built without a working C compiler")
