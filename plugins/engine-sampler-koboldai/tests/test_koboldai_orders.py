"""Whole orders as KoboldAI runs them: what each warper keeps of a row that others have cut before."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
from engine_sampler_koboldai import from_request

from engine_sampler import SamplingParams, process_logits
from engine_sampler.for_backends import default_registry
from tests.reference import kept, softmax

TOP_K, TOP_A, TOP_P, TFS, TYPICAL, TEMPERATURE, PENALTIES = range(7)

BODY = {"top_k": 40, "top_a": 0.05, "top_p": 0.95, "tfs": 0.9, "typical": 0.9, "temperature": 0.7}

KOBOLDAI = {"order": "koboldai"}


@pytest.fixture(params=["numpy", "native"])
def backend(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if default_registry().catalogue.backends[name].reason:
        pytest.skip("this backend cannot be used here")
    return name


# --- the warpers, as functions from probabilities in order to the ranks that go -------------------


def top_k(p: np.ndarray, k: float) -> np.ndarray:
    return np.arange(len(p)) >= k


def top_a(p: np.ndarray, share: float) -> np.ndarray:
    return p < share * p[0] ** 2


def top_p(p: np.ndarray, share: float) -> np.ndarray:
    gone = p.cumsum() > share
    gone[0] = False
    return gone


def tfs(p: np.ndarray, share: float) -> np.ndarray:
    bends = np.abs(np.diff(np.diff(p)))
    return np.concatenate([[False], (bends / bends.sum()).cumsum() > share, [True]])


def typical(p: np.ndarray, share: float) -> np.ndarray:
    logs = np.log(p, out=np.full(len(p), -np.inf), where=p > 0)
    entropy = -float((p * np.where(p > 0, logs, 0)).sum())
    order = np.argsort(np.abs(entropy + logs), kind="stable")
    gone = np.zeros(len(p), bool)
    gone[order[1:]] = p[order].cumsum()[:-1] >= share
    return gone


WARPERS: Mapping[int, tuple[str, Callable[[np.ndarray, float], np.ndarray]]] = {
    TOP_K: ("top_k", top_k),
    TOP_A: ("top_a", top_a),
    TOP_P: ("top_p", top_p),
    TFS: ("tfs", tfs),
    TYPICAL: ("typical", typical),
}


def warped(row: np.ndarray, order: Sequence[int], body: Mapping[str, float]) -> set[int]:
    """What KoboldAI keeps: every warper sorts the whole row, in which removed tokens have probability 0."""
    scores = row.astype(np.float64)
    for number in order:
        if number == TEMPERATURE:
            scores = scores / body["temperature"]
        elif number in WARPERS:
            name, warper = WARPERS[number]
            ranked = np.argsort(-scores, kind="stable")
            scores[ranked[warper(softmax(scores[ranked]), body[name])]] = -np.inf
    return kept(scores)


def rows(count: int, size: int) -> np.ndarray:
    random = np.random.default_rng(size)
    return (random.normal(0, 1, (count, size)) * random.uniform(0.5, 4, (count, 1))).astype(np.float32)


@functools.cache
def expected(count: int, size: int, order: tuple[int, ...], tfs: float = BODY["tfs"]) -> list[set[int]]:
    """What KoboldAI keeps of `rows`; the same for every backend."""
    return [warped(row, order, {**BODY, "tfs": tfs}) for row in rows(count, size)]


def left(logits: np.ndarray, params: SamplingParams, backend: str) -> list[set[int]]:
    return [kept(row) for row in process_logits(logits, params, backend=backend)]


# --- whole orders --------------------------------------------------------------------------------

ORDERS = [
    [6, 0, 1, 2, 3, 4, 5],  # KoboldAI's default
    [6, 5, 4, 3, 2, 1, 0],
    *([6, *order, 5] for order in itertools.permutations([TOP_A, TOP_P, TFS, TYPICAL, TOP_K])),
]


@pytest.mark.quick_share(3)
@pytest.mark.parametrize(("size", "count"), [(7, 10), (300, 10), (5000, 4)])
def test_whole_orders_keep_what_the_published_warpers_keep(backend: str, size: int, count: int) -> None:
    logits = rows(count, size)
    for order in ORDERS:
        found = left(logits, from_request({**BODY, "sampler_order": order}), backend)
        assert found == expected(count, size, tuple(order)), order


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("tail", [0.05, 0.5, 0.95, 0.999])
def test_tfs_after_top_k_bends_towards_the_removed_tokens(backend: str, tail: float) -> None:
    found = left(rows(60, 32_000), SamplingParams(top_k=40, tfs=tail, **KOBOLDAI), backend)
    assert found == expected(60, 32_000, (TOP_K, TFS), tail)


def test_tfs_after_top_k_keeps_all_five_of_five(backend: str) -> None:
    row = np.arange(3, -3, -0.5, dtype=np.float32)
    (found,) = left(row[None], SamplingParams(top_k=5, tfs=0.95, **KOBOLDAI), backend)
    assert found == {0, 1, 2, 3, 4}


@pytest.mark.parametrize(("tail", "expected"), [(0.95, {0, 1}), (0.3, {0})])
def test_the_second_of_two_tokens_goes_if_the_bend_before_it_is_great_enough(
    backend: str, tail: float, expected: set[int]
) -> None:
    row = np.log(np.array([[0.6, 0.4, 0.0, 0.0, 0.0]]) + 1e-30).astype(np.float32)  # bends 0.2, 0.4
    (found,) = left(row, SamplingParams(top_k=2, tfs=tail, **KOBOLDAI), backend)
    assert found == expected


def test_the_second_token_of_a_vocabulary_of_two_goes(backend: str) -> None:
    assert left(np.float32([[1.0, 2.0]]), SamplingParams(tfs=0.9, **KOBOLDAI), backend) == [{1}]


def test_tokens_that_were_removed_before_sampling_count_as_well(backend: str) -> None:
    logits = rows(60, 300)
    logits[:, 1:] = np.where(np.random.default_rng(2).random((60, 299)) < 0.95, -np.inf, logits[:, 1:])
    found = left(logits, SamplingParams(tfs=0.95, **KOBOLDAI), backend)
    assert found == [warped(row, [TFS], {"tfs": 0.95}) for row in logits]
