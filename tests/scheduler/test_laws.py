"""The laws of the whole pipeline, over random rows, parameters, orders, histories and batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from engine_sampler import SamplingParams, Scheduler, StepResult, Tokenizer, process_logits, sample
from engine_sampler.arithmetic import distances, weights
from engine_sampler.contract import Rows
from engine_sampler.registry import CORE_PARAMS, Registry
from tests.chi_square import assert_drawn_from
from tests.random_chains import (
    ROUNDS,
    SAMPLERS,
    SELECTORS,
    TAKES_AWAY,
    Random,
    expect_fused_equals_plain,
    random_history,
    random_logits,
    random_rows,
    random_settings,
    run_fused,
    run_plainly,
    tokenizer,
)
from tests.reference import softmax

VOCAB_SIZES = (1, 2, 31, 33, 257)

ROWS = {
    "nothing is resurrected or emptied": 12_500,
    "fused equals plain": 20_000,
    "batches do not matter": 6_400,
    "draws follow the softmax": 52_000,
    "low temperature is greedy": 10_000,
}
"""The number of random rows on which a law is tested in one round."""


PARTS = 4
in_parts = pytest.mark.parametrize("part", range(PARTS))


def chunks(law: str, n: int, part: int) -> Iterator[tuple[Random, int]]:
    """(random numbers, vocabulary size) for batches of n rows, as many as this part of a test needs."""
    for number in range(part, ROUNDS * ROWS[law] // n, PARTS):
        yield np.random.default_rng([number, n]), VOCAB_SIZES[number % len(VOCAB_SIZES)]


def test_all_parts_together_try_a_hundred_thousand_rows() -> None:
    for law, rows in ROWS.items():
        assert sum(50 for part in range(PARTS) for _ in chunks(law, 50, part)) == ROUNDS * rows
    assert sum(ROWS.values()) >= 100_000


def test_every_built_in_sampler_and_selector_takes_part() -> None:
    catalogue = Registry(CORE_PARAMS).catalogue
    assert set(catalogue.samplers) == set(SAMPLERS)
    assert set(catalogue.selectors) == set(SELECTORS)


# --- 1: nothing is resurrected, nothing is emptied, neutral is nothing ---------------------------


@pytest.mark.quick_share(4)
@in_parts
def test_a_chain_never_resurrects_a_token_and_never_removes_the_last_one(part: int) -> None:
    for random, size in chunks("nothing is resurrected or emptied", 100, part):
        params = SamplingParams(**random_settings(random, size, without=TAKES_AWAY))
        chain, rows = random_rows(random, params, 50, size, rows_each=2)
        logits = random_logits(random, 100, size)
        processed, token_ids, _ = run_plainly(chain, rows, logits)
        assert not (processed > -np.inf)[logits == -np.inf].any(), chain
        assert (token_ids >= 0).all(), chain
        assert not np.isnan(processed).any(), chain
        assert (processed < np.inf).all(), chain


def test_a_bias_does_not_bring_a_removed_token_back() -> None:
    logits = np.array([[1.0, -np.inf, 2.0]], np.float32)
    left = process_logits(logits, SamplingParams(logit_bias={1: 100.0}))
    np.testing.assert_array_equal(left, logits)


@pytest.mark.parametrize("size", VOCAB_SIZES)
def test_neutral_parameters_leave_every_bit(size: int) -> None:
    logits = random_logits(np.random.default_rng(size), 40, size)
    logits[logits < -(2.0**100)] = -np.inf
    left = process_logits(logits, SamplingParams())
    np.testing.assert_array_equal(left.view(np.int32), logits.view(np.int32))


# --- 2 and 3: a row depends on itself only, however it is run -------------------------------------


@pytest.mark.quick_share(4)
@in_parts
def test_the_fused_run_equals_the_samplers_one_by_one(part: int) -> None:
    for random, size in chunks("fused equals plain", 50, part):
        params = SamplingParams(**random_settings(random, size))
        chain, rows = random_rows(random, params, 25, size, rows_each=2)
        logits = random_logits(random, 50, size)
        expect_fused_equals_plain(chain, rows, logits)


class RandomRequests:
    """Random requests that can be run in any combination."""

    def __init__(self, random: Random, n: int, size: int, **kept_out: Any) -> None:
        self.size = size
        self.params = [
            SamplingParams(**random_settings(random, size, **kept_out), seed=int(random.integers(2**40)))
            for _ in range(n)
        ]
        self.prompts = [random_history(random, size) for _ in range(n)]

    def join(self, which: Sequence[int]) -> Scheduler:
        """A scheduler with some of the requests, added in the order of `which`."""
        scheduler = Scheduler(self.size, tokenizer(self.size))
        for i in which:
            scheduler.add(self.params[i], self.prompts[i], request_id=i)
        return scheduler

    def run_steps(self, which: Sequence[int], logits: np.ndarray) -> np.ndarray:
        """Token ids [steps, n] of the requests `which` run together over `logits` [steps, n, vocab];
        −1 where a request has ended or is not included."""
        scheduler = self.join(which)
        token_ids = np.full(logits.shape[:2], -1, np.int64)
        for step, rows in enumerate(logits):
            live = [i for i in which if i in set(scheduler.request_ids)]
            if live:
                token_ids[step, live] = scheduler.step(rows[live], live).token_ids
        return token_ids


@pytest.mark.quick_share(4)
@in_parts
def test_batch_order_and_other_requests_do_not_matter(part: int) -> None:
    steps, n = 8, 20
    for random, size in chunks("batches do not matter", steps * n, part):
        requests = RandomRequests(random, n, size)
        logits = np.stack([random_logits(random, n, size) for _ in range(steps)])
        together = requests.run_steps(range(n), logits)
        np.testing.assert_array_equal(requests.run_steps(random.permutation(n).tolist(), logits), together)
        alone = np.max([requests.run_steps([i], logits) for i in range(n)], axis=0)
        np.testing.assert_array_equal(alone, together)


def test_the_same_seed_twice_in_a_batch_gives_the_same_tokens() -> None:
    random = np.random.default_rng(5)
    for _ in range(40 * ROUNDS):
        params = SamplingParams(**random_settings(random, 257, without=TAKES_AWAY), seed=3)
        row = random_logits(random, 1, 257)
        others = [SamplingParams(seed=i) for i in range(8)]
        token_ids = sample(
            np.repeat(row, 10, axis=0), [params, *others, params], tokenizer=tokenizer(257)
        ).token_ids
        assert token_ids[0] == token_ids[-1]


# --- 4: accept, rollback, fork --------------------------------------------------------------------


def lasting_requests(random: Random, n: int, size: int) -> RandomRequests:
    """Requests that end neither on their own nor by a fault."""
    requests = RandomRequests(random, n, size, without=(*TAKES_AWAY, "infill"))
    requests.params = [params.replace(ignore_eos=True) for params in requests.params]
    return requests


def step_times(scheduler: Scheduler, logits: np.ndarray) -> list[StepResult]:
    return [scheduler.step(rows) for rows in logits]


def token_table(results: Sequence[StepResult]) -> list[list[int]]:
    return [result.token_ids.tolist() for result in results]


@pytest.mark.parametrize("size", [2, 33, 257])
def test_rollback_undoes_steps_and_accepted_tokens(size: int) -> None:
    random = np.random.default_rng(size)
    for _ in range(6 * ROUNDS):
        scheduler = lasting_requests(random, 12, size).join(range(12))
        logits = np.stack([random_logits(random, 12, size) for _ in range(6)])
        step_times(scheduler, logits[:2])
        before = [scheduler.record(i) for i in range(12)]
        first = token_table(step_times(scheduler, logits[2:]))
        for i in range(12):
            scheduler.rollback(i, 4)
            scheduler.accept(i, random.integers(0, size, 5).tolist())
            scheduler.rollback(i, 0)
            scheduler.rollback(i, 5)
        assert [scheduler.record(i) for i in range(12)] == before
        assert token_table(step_times(scheduler, logits[2:])) == first


@pytest.mark.parametrize("size", [2, 33, 257])
def test_a_fork_never_changes_its_parent(size: int) -> None:
    random = np.random.default_rng(size + 1)
    for _ in range(6 * ROUNDS):
        requests = lasting_requests(random, 12, size)
        parents, twins = (requests.join(range(12)) for _ in range(2))
        logits = np.stack([random_logits(random, 12, size) for _ in range(6)])
        step_times(parents, logits[:2])
        step_times(twins, logits[:2])
        children = [parents.fork(i, seed=i) for i in range(12)]
        for child in children:
            parents.accept(child, random.integers(0, size, 3).tolist())
        for rows in logits[2:]:
            parents.step(rows[::-1], children)
            expected = twins.step(rows).token_ids
            np.testing.assert_array_equal(parents.step(rows, range(12)).token_ids, expected)
        assert [parents.record(i) for i in range(12)] == [twins.record(i) for i in range(12)]


def test_a_fork_with_its_parents_seed_continues_alike() -> None:
    random = np.random.default_rng(8)
    scheduler = lasting_requests(random, 30, 33).join(range(30))
    logits = np.stack([random_logits(random, 30, 33) for _ in range(6)])
    step_times(scheduler, logits[:3])
    children = [scheduler.fork(i) for i in range(30)]
    for rows in logits[3:]:
        copies = scheduler.step(rows, children).token_ids
        np.testing.assert_array_equal(scheduler.step(rows, range(30)).token_ids, copies)


# --- 5: the caller's logits -----------------------------------------------------------------------


@pytest.mark.quick_share(2)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("size", [1, 33, 257, 3000])
def test_logits_have_the_same_bits_after_every_call(size: int, dtype: Any) -> None:
    random = np.random.default_rng(size)
    for _ in range(10 * ROUNDS):
        requests = RandomRequests(random, 8, size)
        logits = random.normal(0, 3, (8, size)).astype(dtype)
        before = logits.tobytes()
        scheduler = requests.join(range(8))
        scheduler.process(logits)
        scheduler.step(logits)
        sample(logits, requests.params, tokenizer=tokenizer(size))
        process_logits(logits, requests.params, tokenizer=tokenizer(size))
        assert logits.tobytes() == before


def test_overlapping_read_only_rows_are_accepted() -> None:
    row = np.random.default_rng(0).normal(0, 3, 2000).astype(np.float32)
    overlapping = np.lib.stride_tricks.sliding_window_view(row, 1500)[:50]
    params = [SamplingParams(top_k=40, top_p=0.9, temperature=0.8, seed=i) for i in range(50)]
    expected = sample(overlapping.copy(), params).token_ids
    np.testing.assert_array_equal(sample(overlapping, params).token_ids, expected)


# --- 6: text --------------------------------------------------------------------------------------


@pytest.mark.parametrize("skip", [True, False])
def test_streamed_text_joins_to_the_text_of_the_tokens(skip: bool) -> None:
    pieces = [bytes([b]) for b in range(256)] + ["🐈".encode()[:2], "🐈".encode()[2:], "né".encode()]
    bytewise = Tokenizer([*pieces, b"</s>", b"<i>"], [259], [260])
    random = np.random.default_rng(1)
    for number in range(25 * ROUNDS):
        scheduler = Scheduler(len(bytewise), bytewise)
        settings = random_settings(random, 33, without=(*TAKES_AWAY, "infill", "dry"))
        params = SamplingParams(**settings, max_tokens=15, skip_special_tokens=skip, seed=number)
        for _ in range(4):
            scheduler.add(params)
        text = dict.fromkeys(scheduler.request_ids, "")
        while scheduler.request_ids:
            logits = random.normal(0, 1, (len(scheduler.request_ids), len(bytewise))).astype(np.float32)
            logits[:, 128:259] += 2
            result = scheduler.step(logits)
            for request_id, delta in zip(result.request_ids, result.text, strict=True):
                assert delta is not None
                text[request_id] += delta
        for request_id, streamed in text.items():
            record = scheduler.record(request_id)
            assert streamed == bytewise.decode(record.token_ids, skip_special_tokens=skip) == record.text


# --- 7: draws follow the softmax ------------------------------------------------------------------


@pytest.mark.quick_share(4)
@in_parts
def test_the_weights_are_within_the_bound_of_the_softmax(part: int) -> None:
    for random, size in chunks("draws follow the softmax", 200, part):
        logits = random_logits(random, 200, size)
        w = weights(distances(logits))
        exact = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
        exact /= exact.sum(axis=1, keepdims=True)
        variation = np.abs(w / w.sum(axis=1, keepdims=True) - exact).sum(axis=1) / 2
        assert (variation <= size * 2.0**-31 + 1e-6).all()


DRAWS = 2000
STATISTICS_LEAVE_OUT = (*TAKES_AWAY, "xtc", "xtc_protected")
"""xtc draws a random number of its own, so its draws come from several distributions."""


class SameRow:
    """One random chain and row that leaves several tokens, drawn from many times."""

    def __init__(self, number: int) -> None:
        random = np.random.default_rng([number, 7])
        self.probabilities = np.zeros(33)
        while np.count_nonzero(self.probabilities > 0.02) < 3:
            settings = random_settings(random, 33, without=STATISTICS_LEAVE_OUT, selector="dist")
            self.chain, self.rows = random_rows(random, SamplingParams(**settings), 1, 33)
            self.logits = random.normal(0, 1.5, (1, 33)).astype(np.float32)
            self.probabilities = softmax(run_plainly(self.chain, self.rows, self.logits)[0][0])

    def draw(self, seeds: Sequence[int], positions: Sequence[int]) -> np.ndarray:
        """One token for each seed and position."""
        rows = reseeded(self.rows, seeds, positions)
        return run_fused(self.chain, rows, np.broadcast_to(self.logits, (len(rows), 33))).token_ids


def reseeded(rows: Rows, seeds: Sequence[int], positions: Sequence[int]) -> Rows:
    """Copies of the first request, each with a seed and a position of its own."""
    slots, first = rows._slots, rows._index[0]
    copies = [
        slots.put(slots.entries[first].fork(), slots.given(first), seed, position)
        for seed, position in zip(seeds, positions, strict=True)
    ]
    return Rows(slots, np.array(copies, np.int64))


@pytest.mark.quick_share(3)
@pytest.mark.parametrize("number", range(5 * ROUNDS))
def test_draws_under_many_seeds_follow_the_processed_row(number: int) -> None:
    same = SameRow(number)
    assert_drawn_from(same.probabilities, same.draw(range(DRAWS), [9] * DRAWS))


@pytest.mark.quick_share(3)
@pytest.mark.parametrize("number", range(5 * ROUNDS))
def test_draws_at_many_positions_of_one_seed_follow_the_processed_row(number: int) -> None:
    same = SameRow(number)
    assert_drawn_from(same.probabilities, same.draw([11] * DRAWS, range(DRAWS)))


@pytest.mark.quick_share(4)
@in_parts
def test_temperatures_towards_zero_become_greedy(part: int) -> None:
    coldest = 1e-4
    # Below this distance from the best logit a token still has weight at the coldest temperature.
    reach = 31 * np.log(2) * coldest * 1.01
    requests = {
        (size, temperature): random_rows(
            np.random.default_rng(size), SamplingParams(temperature=temperature), 200, size
        )
        for size in VOCAB_SIZES
        for temperature in (coldest, coldest / 2)
    }
    for random, size in chunks("low temperature is greedy", 200, part):
        logits = random_logits(random, 200, size)
        for temperature in (coldest, coldest / 2):
            token_ids = run_plainly(*requests[size, temperature], logits)[1]
            chosen = logits[np.arange(200), token_ids].astype(np.float64)
            within = reach * (temperature == coldest)
            assert (logits.max(axis=1) - chosen <= within).all()
        np.testing.assert_array_equal(token_ids, logits.argmax(axis=1))


@pytest.mark.parametrize("size", VOCAB_SIZES)
def test_temperature_zero_takes_the_best_token_of_the_processed_row(size: int) -> None:
    random = np.random.default_rng(size + 20)
    params = [
        SamplingParams(**random_settings(random, size, without=TAKES_AWAY, selector="greedy"), seed=seed)
        for seed in range(60)
    ]
    logits = random_logits(random, 60, size)
    history = [random_history(random, size) for _ in range(60)]
    given = {"prompt_token_ids": history, "tokenizer": tokenizer(size)}
    processed = process_logits(logits, params, **given)
    assert ((processed > -np.inf).sum(axis=1) == 1).all()
    np.testing.assert_array_equal(sample(logits, params, **given).token_ids, processed.argmax(axis=1))


# --- 8: faults stay in their requests -------------------------------------------------------------


class Broken:
    """A constraint that fails in one of its methods."""

    def __init__(self, at: str) -> None:
        self._at = at

    def _fail(self, method: str) -> None:
        if method == self._at:
            raise RuntimeError("broken")

    def fill_bitmask(self, bitmask: np.ndarray, row: int) -> None:
        self._fail("fill_bitmask")
        bitmask[row] = 0 if self._at == "nothing" else -1

    def accept(self, token_id: int) -> bool:
        self._fail("accept")
        return self._at != "refuse"

    def is_terminated(self) -> bool:
        self._fail("is_terminated")
        return False


ROW_FAULTS = {
    "nan": (np.nan, "the row's greatest logit is nan"),
    "infinite": (np.inf, "the row's greatest logit is inf"),
    "too great": (2.0**101, "the row's greatest logit is"),
    "empty": (-np.inf, "every logit of the row is -inf"),
}
GRAMMAR_FAULTS = {
    "fill_bitmask": "the grammar failed: RuntimeError: broken",
    "accept": "the grammar failed: RuntimeError: broken",
    "refuse": "the grammar refuses token",
    "nothing": "the grammar leaves no token",
    "is_terminated": "failed: RuntimeError: broken",
}


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("size", [1, 33, 257, 2000])
@pytest.mark.parametrize("fault", [*ROW_FAULTS, *GRAMMAR_FAULTS])
def test_a_fault_ends_one_request_and_changes_no_other(size: int, fault: str) -> None:
    random = np.random.default_rng([size, len(fault)])
    requests = lasting_requests(random, 10, size)
    logits = np.stack([random_logits(random, 11, size) for _ in range(3)])
    whole, without = requests.join(range(10)), requests.join(range(10))
    whole.add(SamplingParams(seed=1, ignore_eos=True), request_id="guilty", grammar=Broken(fault))
    expected_error = GRAMMAR_FAULTS.get(fault)
    if fault in ROW_FAULTS:
        value, expected_error = ROW_FAULTS[fault]
        logits[0, 10, :] = value if fault == "empty" else logits[0, 10]
        logits[0, 10, random.integers(size)] = value
    first = whole.step(logits[0])
    assert first.finish_reasons == [None] * 10 + ["error"]
    assert first.errors[:10] == [None] * 10
    assert expected_error in first.errors[10]
    assert first.tokens(10) == whole.record("guilty").token_ids
    assert (first.token_ids[10] == -1) == (fault != "is_terminated")
    np.testing.assert_array_equal(first.token_ids[:10], without.step(logits[0, :10]).token_ids)
    for rows in logits[1:, :10]:
        np.testing.assert_array_equal(whole.step(rows).token_ids, without.step(rows).token_ids)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (np.zeros((3, 33)), TypeError),
        (np.zeros((3, 33), np.int32), TypeError),
        (np.zeros((2, 33), np.float32), ValueError),
        (np.zeros((3, 32), np.float32), ValueError),
        (np.zeros(33, np.float32), ValueError),
        (None, TypeError),
    ],
)
def test_a_wrong_array_raises_before_anything_changes(wrong: Any, error: type[Exception]) -> None:
    random = np.random.default_rng(2)
    scheduler = lasting_requests(random, 3, 33).join(range(3))
    scheduler.step(random_logits(random, 3, 33))
    before = [scheduler.record(i) for i in range(3)]
    for call in (scheduler.step, scheduler.process):
        with pytest.raises(error, match="logits"):
            call(wrong)
    assert [scheduler.record(i) for i in range(3)] == before
    assert scheduler.request_ids == [0, 1, 2]
