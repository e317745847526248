"""Libraries that were compiled before the header grew get no rows whose parameters they do not know."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine_sampler import SamplingParams, Scheduler
from engine_sampler.backends.library import LibraryBackend
from engine_sampler.backends.library.header import contract, fields_since, number, size_of
from engine_sampler.base.packaged import library_path
from engine_sampler.registry import default_registry
from engine_sampler.testing.library import FAILED, check_library

from ...native.building import CONTRACT
from .building import HERE, library

SIZES = {0: 472, 1: 496}
"""The bytes of `es_params` in each minor version of ABI 2: a field more is a version more."""


def header_of(minor: int) -> str:
    """The header as it was in a minor version, as far as `es_params` goes."""
    text = CONTRACT.read_text(encoding="utf-8")
    later = rf" *(?=/\* Since ABI 2\.{minor + 1}\. \*/).*?(?=\n\}} es_params;)"
    older = re.sub(later, "", text, flags=re.S)
    return re.sub(r"ES_ABI_MINOR = \d+", f"ES_ABI_MINOR = {minor}", older)


@pytest.fixture
def older(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The packaged kernels behind a library that was compiled against ABI 2.0."""
    packaged = library_path()
    if packaged is None:
        pytest.skip("the package was built without a C compiler")
    monkeypatch.setenv("OLDER_KERNELS", str(packaged))
    header = tmp_path_factory.getbasetemp() / "engine_sampler_2_0.h"
    header.write_text(header_of(0), encoding="utf-8")
    return library(HERE / "older.c", f'OLDER="{header}"', optimized=True)


def tokens(backend: Any, requests: list[dict[str, Any]], **settings: Any) -> list[list[int]]:
    """What requests draw in twelve steps."""
    random = np.random.default_rng(5)
    scheduler = Scheduler(12, backend=backend)
    for seed, request in enumerate(requests):
        scheduler.add(SamplingParams(seed=seed, **settings, **request), [1, 2, 3, 1])
    return [
        scheduler.step(random.normal(0, 1, (len(requests), 12)).astype(np.float32)).token_ids.tolist()
        for _ in range(12)
    ]


PENALTIES = {"presence_penalty": 1.5, "repetition_penalty": 1.7, "penalty_last_n": 2, "temperature": 0.3}
FADING = {**PENALTIES, "penalty_decay_range": 6}


@pytest.mark.parametrize(
    "requests",
    [[FADING], [PENALTIES, FADING, PENALTIES, FADING], [{"p_less": True, "p_less_norm": True}, FADING]],
    ids=["alone", "among others", "beside an operation that is newer"],
)
@pytest.mark.parametrize("settings", [{}, {"logprobs": 2, "logprobs_mode": "penalized"}])
def test_an_older_library_draws_the_tokens_of_numpy(
    requests: list[dict[str, Any]], settings: dict[str, Any], older: Path
) -> None:
    assert tokens(LibraryBackend(older), requests, **settings) == tokens("numpy", requests, **settings)


def test_newer_parameters_change_tokens() -> None:
    assert tokens("numpy", [FADING]) != tokens("numpy", [PENALTIES])


def on_host(older: Path, monkeypatch: pytest.MonkeyPatch, request: dict[str, Any]) -> int:
    """How many rows the host runs of twelve."""
    rows: list[int] = []
    registry = default_registry()

    def notify(event: str, *told: Any, **_: Any) -> None:
        if event == "rows_on_host":
            rows.append(told[1])

    monkeypatch.setattr(registry, "notify", notify)
    tokens(LibraryBackend(older), [request])
    return sum(rows)


def test_an_older_library_keeps_the_rows_whose_parameters_it_knows(
    older: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert on_host(older, monkeypatch, PENALTIES) == 0
    assert on_host(older, monkeypatch, FADING) == 12
    unused = {"penalty_decay_range": 6, "top_k": 3}  # without penalties
    assert on_host(older, monkeypatch, unused) == 0


def test_an_older_library_passes_its_check(older: Path) -> None:
    only = ["rows", "random programs", "random requests"]
    results = check_library(older, seconds=0.5, only=only)
    assert not [result for result in results if result.outcome == FAILED]


def test_each_version_of_the_header_knows_its_parameters() -> None:
    offsets = {name: field.offset for name, field in contract().typeof("es_params").fields}
    later = {minor: [offsets[name] for name in fields_since("es_params", minor)] for minor in SIZES}
    assert {minor: min(found, default=size_of("es_params")) for minor, found in later.items()} == SIZES
    assert max(SIZES) == number("ES_ABI") & 0xFFFF
