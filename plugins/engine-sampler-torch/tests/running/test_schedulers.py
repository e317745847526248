"""Whole generations on a device equal those on the host: drafts, forks, faults, grammars, padded heads, beam
searches, requests that come and go."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from counting_device import CountingDevice, OnDevice

from engine_sampler import SamplingParams, Scheduler, StepResult
from tests.engines import CONFIGURATIONS, EOS, TOKENIZER, VOCAB

pytestmark = pytest.mark.usefixtures("device")


class Pair:
    """One scheduler on the device, one on the host, which get the same calls; their results are compared."""

    def __init__(self, vocab_size: int = VOCAB, **options: Any) -> None:
        options = {"tokenizer": TOKENIZER, "eos_token_ids": [EOS], **options}
        self.there = Scheduler(vocab_size, backend="torch", **options)
        self.host = Scheduler(vocab_size, backend="numpy", **options)
        self.random = np.random.default_rng(vocab_size)

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            found, right = (getattr(s, name)(*arguments, **options) for s in (self.there, self.host))
            assert str(found) == str(right)
            return right

        return call

    def add_all(self, **more: Any) -> None:
        for seed, settings in enumerate(CONFIGURATIONS):
            self.add(SamplingParams(**settings, seed=seed, **more), [1, 2, 3, seed])

    def logits(self, rows: int, width: int = VOCAB) -> np.ndarray:
        return self.random.normal(0, 3, (rows, width)).astype(np.float32)

    def step(self, logits: np.ndarray | torch.Tensor, *arguments: Any, **options: Any) -> StepResult:
        there = OnDevice(torch.as_tensor(logits).clone())
        result = self.there.step(there, *arguments, **options)
        right = self.host.step(logits, *arguments, **options)
        assert as_plain(result) == as_plain(right)
        on_device = result.token_ids_on_device
        if on_device is not None:
            assert on_device.data_there.tolist() == right.token_ids.tolist()
        return result


def as_plain(result: StepResult) -> Any:
    tables = {"": None} if result.logprobs is None else result.logprobs.by_mode
    return (
        result.token_ids.tolist(),
        result.text,
        result.finish_reasons,
        result.stop_reasons,
        result.errors,
        [
            (mode, table.token_ids.tolist(), np.nan_to_num(table.logprobs).tolist(), table.ranks.tolist())
            for mode, table in tables.items()
            if table is not None
        ],
    )


def test_every_configuration_in_one_batch() -> None:
    pair = Pair()
    pair.add_all(max_tokens=12)
    while ids := pair.host.request_ids:
        pair.prepare()
        pair.step(pair.logits(len(ids)))


def test_requests_come_fork_roll_back_and_leave() -> None:
    pair = Pair()
    pair.add_all()
    for step in range(8):
        ids = pair.host.request_ids
        pair.step(pair.logits(len(ids)))
        live = pair.host.request_ids
        pair.rollback(live[step % len(live)], 1)
        pair.fork(live[(3 * step) % len(live)], new_request_id=f"fork {step}", seed=step)
        pair.remove(live[-1])


def test_the_same_requests_go_on_with_other_logits_and_positions() -> None:
    pair = Pair()
    pair.add_all()
    for step in range(12):
        ids = pair.host.request_ids
        logits = pair.logits(len(ids))
        if step % 4 == 3:
            logits = torch.from_numpy(logits).to(torch.bfloat16 if step % 8 == 3 else torch.float16)
        pair.prepare()
        pair.step(logits, ids[::-1] if step % 5 == 4 else ids)
        if step % 3 == 2:
            pair.rollback(ids[step], 2)


def test_drafts_are_verified() -> None:
    pair = Pair()
    pair.add_all(max_tokens=30)
    for _ in range(6):
        ids = pair.host.request_ids
        drafts = [pair.random.integers(0, 9, pair.random.integers(0, 4)).tolist() for _ in ids]
        rows = sum(1 + len(draft) for draft in drafts)
        logits = pair.logits(rows)
        first = np.cumsum([0, *(1 + len(draft) for draft in drafts)])[:-1]
        for row, draft in zip(first.tolist(), drafts, strict=True):
            for j, token in enumerate(draft):
                if pair.random.random() < 0.7:
                    logits[row + j, token] = 30
        pair.step(logits, draft_token_ids=drafts)


def test_draft_trees_are_verified() -> None:
    pair = Pair()
    pair.add_all(max_tokens=30)
    for _ in range(6):
        ids, trees, likely = pair.host.request_ids, [], list[int]()
        for _ in ids:
            count = int(pair.random.integers(0, 6))
            tokens = pair.random.integers(0, 9, count).tolist()
            parents = [int(pair.random.integers(-1, i)) for i in range(count)]
            trees.append((tokens, parents))
            children = [
                [t for t, p in zip(tokens, parents, strict=True) if p == i - 1] for i in range(1 + count)
            ]
            likely += [int(pair.random.choice(some)) if some else -1 for some in children]
        logits = pair.logits(len(likely))
        for row, token in enumerate(likely):
            if token >= 0 and pair.random.random() < 0.7:
                logits[row, token] = 30
        pair.step(logits, draft_trees=trees)


def test_faulty_rows_end_alone() -> None:
    pair = Pair()
    pair.add_all()
    for fault in (np.nan, np.inf, 2.0**101, -np.inf):
        ids = pair.host.request_ids
        logits = pair.logits(len(ids))
        logits[0] = fault
        logits[2, 5] = fault
        result = pair.step(logits)
        assert result.errors[0] is not None


def test_padded_heads_and_halves() -> None:
    pair = Pair()
    pair.add_all()
    for _ in range(3):
        logits = pair.logits(len(pair.host.request_ids), VOCAB + 9)
        logits[:, VOCAB:] = 50
        pair.step(logits)


def test_grammars_that_are_prepared_late_and_in_time() -> None:
    pair = Pair()
    for seed in range(6):
        pair.add(SamplingParams(regex="[a-c ]*(de)?", seed=seed, top_k=20), [1])
        pair.add(SamplingParams(seed=seed, min_p=0.1), [1])
    for step in range(6):
        ids = pair.host.request_ids
        if not ids:
            break
        if step % 2:
            pair.prepare()
        if step % 3 == 2:
            pair.accept(ids[-1], [2])
        pair.step(pair.logits(len(ids)))


def test_a_beam_search_beside_other_requests() -> None:
    pair = Pair()
    pair.add_all(max_tokens=5)
    pair.add_group(SamplingParams(use_beam_search=True, beam_width=3, max_tokens=4), [1, 2])
    for _ in range(4):
        pair.step(pair.logits(len(pair.host.request_ids)))


def test_skipped_requests_leave_a_gap() -> None:
    pair = Pair()
    pair.add_all()
    ids = pair.host.request_ids
    pair.remove(ids[1])
    result = pair.step(pair.logits(len(ids)), ids)
    assert result.token_ids[1] == -1


def test_process_equals_the_host() -> None:
    pair = Pair()
    pair.add_all()
    logits = pair.logits(len(pair.host.request_ids))
    logits[3] = np.nan
    for before_choice in (False, True):
        found = pair.there.process(
            OnDevice(torch.from_numpy(logits)), before_choice=before_choice, on_device=True
        )
        right = pair.host.process(logits, before_choice=before_choice)
        found = found.data_there.numpy() if isinstance(found, OnDevice) else found
        np.testing.assert_array_equal(found, right)


def test_a_whole_step_may_have_no_requests() -> None:
    pair = Pair()
    assert pair.step(np.zeros((0, VOCAB), np.float32)).token_ids.tolist() == []


def test_a_step_in_two_halves_waits_in_the_second_alone() -> None:
    logits = torch.from_numpy(np.random.default_rng(0).normal(0, 3, (4, 300)).astype(np.float32))
    tokens = []
    with CountingDevice() as device:
        for backend, halves in (("torch", True), ("numpy", False)):
            scheduler = Scheduler(300, backend=backend)
            for seed in range(4):
                scheduler.add(SamplingParams(seed=seed, top_k=20, temperature=0.8), [1, 2])
            for _ in range(3):
                if halves:
                    device.reset()
                    begun = scheduler.begin(device.place(logits))
                    there = begun.token_ids_on_device
                    assert device.synchronisations == 0
                    result = begun.finish()
                    assert device.synchronisations == 1
                    assert there.cpu().tolist() == result.token_ids.tolist()
                else:
                    result = scheduler.step(logits.numpy())
                tokens.append(result.token_ids.tolist())
    assert tokens[:3] == tokens[3:]
