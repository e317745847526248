"""Whole schedulers on the simulated device: tokens equal NumPy's, whatever the device can do."""

from __future__ import annotations

from threading import Thread
from typing import Any

import numpy as np
import pytest
from sim_twins import VOCAB, Twins

from engine_sampler import SamplingParams
from engine_sampler.for_backends import LibraryBackend
from tests.random_chains import ROUNDS, random_settings

FEW = (
    {},
    {"temperature": 0.7, "top_k": 9},
    {"top_p": 0.8, "min_p": 0.02},
    {"temperature": 0.0, "repetition_penalty": 1.3},
    {"frequency_penalty": 0.4, "top_k": 30, "logit_bias": {3: 2.0, 7: -np.inf}},
    {"dry_multiplier": 1.5, "dry_allowed_length": 1, "ignore_eos": True},
    {"mirostat": 2, "mirostat_tau": 3.0, "mirostat_eta": 0.5},
    {"no_repeat_ngram_size": 2, "bad_words": [[4], [5, 6]], "xtc_probability": 0.5, "xtc_threshold": 0.05},
)
"""Some chains of every kind."""

# Programs of the device, by the names of its settings: the numbers of ES_OP_TOP_K and ES_OP_MIN_P, say.
TOP_K, MIN_P, TEMPERATURE = 1 << 10, 1 << 15, 1 << 21


def settings_of(seed: int, n: int = 6) -> list[dict[str, Any]]:
    random = np.random.default_rng(seed)
    return [random_settings(random, VOCAB) for _ in range(n)]


@pytest.mark.parametrize("seed", range(12 * ROUNDS))
def test_random_chains_draw_the_tokens_of_the_reference(device: Any, seed: int) -> None:
    twins = Twins(device, settings_of(seed), dtype=("float32", "float16", "bfloat16")[seed % 3])
    twins.run(5)
    assert not twins.backend.lost


KINDS: dict[str, dict[str, Any]] = {
    "everything": {},
    "synchronous": {"synchronous": 1},
    "no selectors": {"selectors": 0},
    "no samplers": {"samplers": 0},
    "nothing": {"samplers": 0, "selectors": 0},
    "a fused cut": {"samplers": TOP_K | TEMPERATURE, "selectors": 0},
    "cuts that keep ties": {"ties": 1},
    "few survivors": {"selectors": 0, "max_survivors": 8},
    "random bits": {"random": 1},
    "few rows": {"max_rows": 3},
    "small top_k": {"max_top_k": 10},
    "few programs": {"most_programs": 2},
    "float16 alone": {"types": 2},
    "alignment": {"alignment": 256},
    "no poll, no masks": {"without": 1 | 8},
    "no memory, no rows": {"without": 2 | 16},
    "no hook for threads": {"without": 4 | 32},
    "no row faults": {"promises": 0xFFFF & ~32},
    "tokens on the host": {"promises": 0xFFFF & ~1024},
    "no masks, no logprobs": {"promises": 0xFFFF & ~(64 | 256)},
}


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_device_draws_the_tokens_of_the_reference(device: Any, kind: str) -> None:
    device.configure(**KINDS[kind])
    twins = Twins(device, FEW, dtype="float16" if kind == "float16 alone" else "float32")
    for _ in range(4):
        twins.step()
    assert not twins.backend.lost


def test_a_library_is_its_own_pool_where_the_engine_has_none(device: Any) -> None:
    twins = Twins(device, FEW, pool=False)
    twins.run(3)
    with device.counted() as changes:
        twins.step()
    assert changes["allocations_in_steps"] == 0


@pytest.mark.parametrize("width", [VOCAB, VOCAB + 4, 128])
def test_rows_may_be_padded(device: Any, width: int) -> None:
    device.configure(alignment=512 if width == 128 else 0)
    twins = Twins(device, FEW[:3])
    for _ in range(3):
        values = twins.logits(3)
        array = device.array(values, width=width)
        twins.results = twins.own.step(array), twins.reference.step(values)
        twins.compare()


def test_bad_rows_end_their_own_requests_alone(device: Any) -> None:
    twins = Twins(device, FEW)
    values = twins.logits(len(FEW))
    values[1], values[3, 5], values[6] = -np.inf, np.nan, np.inf
    twins.step(values)
    assert [error is not None for error in twins.results[0].errors] == [
        i in (1, 3, 6) for i in range(len(FEW))
    ]
    twins.run(3)


def test_requests_come_and_go(device: Any) -> None:
    random = np.random.default_rng(3)
    twins = Twins(device, FEW)
    for seed in range(20):
        twins.step()
        ids = twins.own.request_ids
        if ids and random.random() < 0.5:
            gone = ids[int(random.integers(len(ids)))]
            for scheduler in (twins.own, twins.reference):
                scheduler.remove(gone)
        twins.add(FEW[int(random.integers(len(FEW)))], 100 + seed)


def test_tokens_that_were_chosen_elsewhere_join_the_histories(device: Any) -> None:
    twins = Twins(device, FEW)
    for _ in range(3):
        twins.step()
        for scheduler in (twins.own, twins.reference):
            for request in scheduler.request_ids[::2]:
                scheduler.accept(request, [4, 5])


def test_grammars_mask_the_rows(device: Any) -> None:
    chosen = ({"regex": r"(ab?|\n)*"}, {}, {"choice": ["ab", "abba", "b"], "temperature": 0.5}, {"top_k": 5})
    twins = Twins(device, chosen)
    for _ in range(6):
        for scheduler in (twins.own, twins.reference):
            scheduler.prepare()
        if twins.own.request_ids:
            twins.step()


def test_drafts_are_verified(device: Any) -> None:
    twins = Twins(device, FEW[:5])
    random = np.random.default_rng(4)
    for _ in range(5):
        ids = twins.own.request_ids
        drafts = [random.integers(0, VOCAB, 2).tolist() for _ in ids]
        values = np.repeat(twins.logits(len(ids)), 3, axis=0)
        array = device.array(values)
        results = (
            twins.own.step(array, draft_token_ids=drafts),
            twins.reference.step(values, draft_token_ids=drafts),
        )
        twins.results = results
        twins.compare()


def test_logprobs_equal_those_of_the_reference(device: Any) -> None:
    modes = ("raw", "penalized", "processed", ("raw", "processed"))
    chosen = [{**FEW[i], "logprobs": i, "logprobs_mode": mode} for i, mode in enumerate(modes)]
    twins = Twins(device, chosen)
    for _ in range(3):
        twins.step()
        own, reference = (result.logprobs for result in twins.results)
        assert str(own) == str(reference)


def test_siblings_and_beams_keep_their_histories_apart(device: Any) -> None:
    siblings = SamplingParams(n=3, repetition_penalty=1.5, seed=1)
    beams = SamplingParams(use_beam_search=True, beam_width=3, max_tokens=6, frequency_penalty=0.3, seed=2)
    twins = Twins(device, ())
    twins.on_both(lambda scheduler: scheduler.add_group(siblings, [1, 2, 3]))
    twins.on_both(lambda scheduler: scheduler.add_group(beams, [1, 2, 3]))
    twins.run(6)


def test_a_watched_step_runs_in_a_thread_that_has_entered_the_device(device: Any) -> None:
    backend = LibraryBackend(device.path, allocate=device.pool, timeout=60)
    twins = Twins(device, FEW, backend=backend)
    with device.counted() as changes:
        twins.run(3)
    assert not backend.lost
    assert changes["copies_up"] > len(FEW), "the device did the work"


def test_schedulers_in_two_threads_do_not_meet(device: Any) -> None:
    backend = LibraryBackend(device.path, allocate=device.pool)
    errors: list[BaseException] = []

    def live(settings: Any) -> None:
        try:
            device.enter()
            Twins(device, settings, backend=backend).run(6)
        except BaseException as error:
            errors.append(error)

    threads = [Thread(target=live, args=(FEW[i : i + 4],)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


@pytest.mark.quick_share(3)
@pytest.mark.parametrize(
    ("random", "width"), [(2, 0), (3, 0), (3, 6)], ids=["uniform", "exponential", "exponential by rank"]
)
def test_numbers_of_the_host_draw_from_the_distribution(device: Any, random: int, width: int) -> None:
    device.configure(random=random, random_width=width)
    backend = LibraryBackend(device.path, allocate=device.pool)
    assert not backend.exact
    values = np.log(np.array([[0.5, 0.3, 0.15, 0.05]], np.float32))
    logits = np.full((400, VOCAB), -np.inf, np.float32)
    logits[:, 1:5] = values
    twins = Twins(device, [{} for _ in range(400)], backend=backend)
    result = twins.own.step(device.array(logits))
    shares = np.bincount(result.token_ids, minlength=VOCAB)[1:5] / 400
    assert result.errors == [None] * 400
    assert np.allclose(shares, np.exp(values[0]), atol=0.08)


def test_a_row_with_more_tokens_than_numbers_is_left_to_the_host(device: Any) -> None:
    device.configure(random=3, random_width=6)
    backend = LibraryBackend(device.path, allocate=device.pool)
    twins = Twins(device, ({"top_k": 7},), backend=backend)
    with device.counted() as changes:
        twins.step()
    assert changes["copies_down"] == 2, "the result, and the row for the host"
