"""Exact contexts: what survives, and the best token, are those of the arithmetic contract, whatever CANN does
with ties."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from ascend_harness import FORMS, Host, Step, as_elements, as_floats

from engine_sampler import SamplingParams, process_logits

OK, BAD, EMPTY, DECLINED = 0, 1, 2, 5


def random_logits(rows: int, vocab_size: int = 704, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 3, (rows, vocab_size)).astype(np.float32)


def reference(values: np.ndarray, params: dict[str, float], order: Sequence[str]) -> np.ndarray:
    """The row after its samplers, as the NumPy backend computes it."""
    return process_logits(values, SamplingParams(**params, order=list(order)), backend="numpy")


def expect_survivors(
    host: Host, elements: np.ndarray, params: dict[str, float], kinds: Sequence[str], **options
) -> None:
    """The library leaves what NumPy leaves, in both of its forms."""
    values = as_floats(elements)
    outcome = host.step(elements, kinds, params=params, processed=True, **options)
    assert outcome.code == 0, host.error()
    assert outcome.status.tolist() == [OK] * len(elements)
    expected = reference(values, params, kinds)
    np.testing.assert_array_equal(outcome.processed, expected)
    for row, (ids, left) in zip(expected, outcome.survivors, strict=True):
        np.testing.assert_array_equal(ids, np.flatnonzero(row > -np.inf))
        np.testing.assert_array_equal(left, row[ids])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("top_k", [1, 2, 16, 17, 40, 300])
def test_top_k_leaves_the_tokens_of_the_reference(host: Host, form: str, top_k: int) -> None:
    elements = as_elements(random_logits(5), form)
    expect_survivors(host, elements, {"top_k": top_k}, ["top_k"])


@pytest.mark.parametrize("form", FORMS)
def test_the_best_token_is_that_of_the_reference(host: Host, form: str) -> None:
    elements = as_elements(random_logits(7), form)
    outcome = host.step(elements, ["greedy"])
    assert outcome.tokens.tolist() == as_floats(elements).argmax(axis=1).tolist()


def test_ties_go_to_the_lowest_id_though_the_operator_lists_the_highest_first(host: Host) -> None:
    logits = random_logits(3)
    logits[:, [5, 90, 400]] = 20
    assert host.step(logits, ["greedy"]).tokens.tolist() == [5, 5, 5]
    expect_survivors(host, logits, {"top_k": 2}, ["top_k"])


def test_a_row_of_more_ties_than_are_fetched_is_declined(host: Host) -> None:
    logits = random_logits(3)
    logits[1, 100:160] = 20
    outcome = host.step(logits, ["top_k"], params={"top_k": 2})
    assert outcome.status.tolist() == [OK, DECLINED, OK]
    assert host.step(logits, ["greedy"]).status.tolist() == [OK, DECLINED, OK]


def test_ties_of_a_whole_vocabulary_are_all_fetched_if_it_is_small(host: Host) -> None:
    logits = np.zeros((2, 32), np.float32)
    assert host.step(logits, ["greedy"]).tokens.tolist() == [0, 0]
    expect_survivors(host, logits, {"top_k": 4}, ["top_k"])


@pytest.mark.parametrize("kinds", [["temperature", "top_k"], ["top_k", "temperature"]])
@pytest.mark.parametrize("temperature", [0.3, 1.7, 0.0])
def test_temperature_on_either_side_of_top_k(host: Host, kinds: list[str], temperature: float) -> None:
    expect_survivors(host, random_logits(4), {"top_k": 6, "temperature": temperature}, kinds)


def test_logits_that_become_equal_when_they_are_scaled_are_ties(host: Host) -> None:
    logits = np.full((1, 400), -5, np.float32)
    step = np.float32(1)
    for i in range(12):  # neighbours among the floats, ascending with the id
        logits[0, 20 + i], step = step, np.nextafter(step, np.float32(2))
    expect_survivors(host, logits, {"top_k": 5, "temperature": 1e5}, ["temperature", "top_k"])


def test_a_dynamic_temperature_is_declined(host: Host) -> None:
    params = [{"top_k": 4}, {"top_k": 4, "temperature": 0.7, "dynatemp_range": 0.5}]
    outcome = host.step(random_logits(2), ["top_k", "temperature"], params=params)
    assert outcome.status.tolist() == [OK, DECLINED]


@pytest.mark.parametrize("form", FORMS)
def test_bad_rows_among_good_ones(host: Host, form: str) -> None:
    logits = random_logits(6, 400)
    logits[1, 7] = np.nan
    logits[2, 399] = np.inf
    logits[3] = -np.inf
    logits[4, 3:] = -np.inf
    outcome = host.step(as_elements(logits, form), ["greedy"])
    assert outcome.status.tolist() == [OK, BAD, BAD, EMPTY, OK, OK]
    assert outcome.tokens[[1, 2, 3]].tolist() == [-1, -1, -1]


def test_logits_beyond_the_limits_are_faulty_or_removed(host: Host) -> None:
    logits = random_logits(4, 304)
    logits[0, 5] = 2.0**101
    logits[1, 5] = 2.0**100
    logits[2] = -(2.0**101)
    logits[3, 8:] = -3e38
    outcome = host.step(logits, ["greedy"])
    assert outcome.status.tolist() == [BAD, OK, EMPTY, OK]
    expect_survivors(host, logits[3:], {"top_k": 40}, ["top_k"])


def test_fewer_tokens_than_top_k_are_all_kept(host: Host) -> None:
    logits = np.full((2, 512), -np.inf, np.float32)
    logits[0, [3, 77]] = 1
    logits[1, 511] = -2
    expect_survivors(host, logits, {"top_k": 20}, ["top_k"])


def test_rows_in_any_order_and_with_gaps(host: Host) -> None:
    logits = random_logits(9)
    rows = [3, 4, 5, 1, 8, 7, 0]
    outcome = host.step(logits, ["greedy"], rows=rows)
    assert outcome.tokens.tolist() == logits.argmax(axis=1)[rows].tolist()


def test_rows_with_different_programs_and_parameters(host: Host) -> None:
    logits = random_logits(6)
    programs = [["greedy"], ["top_k"], ["top_k", "greedy"]]
    params = [{"top_k": k} for k in (0, 3, 500, 9, 0, 1)]
    outcome = host_step(host, logits, programs, which=[0, 1, 1, 2, 0, 1], params=params)
    assert outcome.tokens[[0, 3, 4]].tolist() == logits.argmax(axis=1)[[0, 3, 4]].tolist()
    for row, k in ((1, 3), (2, 500), (5, 1)):
        expected = np.sort(np.argsort(-logits[row])[:k])
        np.testing.assert_array_equal(outcome.survivors[row][0], expected)


def host_step(host: Host, logits: np.ndarray, programs: list[list[str]], **options):
    step = Step(host, logits, programs, **options)
    try:
        return step.finish(step.run())
    finally:
        step.free()


def allowed_tokens(rows: int, vocab_size: int, share: float) -> np.ndarray:
    allowed = np.random.default_rng(12).random((rows, vocab_size)) < share
    allowed[:, 33] = True
    return allowed


@pytest.mark.parametrize("share", [0.9, 0.3, 0.01])
@pytest.mark.parametrize("vocab_size", [704, 4096])
def test_masks_forbid_tokens(host: Host, share: float, vocab_size: int) -> None:
    logits, allowed = random_logits(5, vocab_size), allowed_tokens(5, vocab_size, share)
    allowed[2] = True
    masked = np.where(allowed, logits, -np.inf)
    outcome = host.step(logits, ["greedy"], allowed=allowed)
    assert outcome.tokens.tolist() == masked.argmax(axis=1).tolist()
    cut = host.step(logits, ["top_k"], params={"top_k": 2}, allowed=allowed, rows=[4, 2, 0])
    for row, status, (ids, _) in zip(masked[[4, 2, 0]], cut.status, cut.survivors, strict=True):
        assert status == OK
        assert ids.tolist() == sorted(np.argsort(-row)[:2].tolist())


def test_a_mask_that_forbids_all_known_tokens_is_declined_and_one_that_forbids_all_is_empty(
    host: Host,
) -> None:
    for vocab_size, expected in ((704, EMPTY), (4096, DECLINED)):
        logits, allowed = random_logits(3, vocab_size), allowed_tokens(3, vocab_size, 0.5)
        allowed[1] = False
        assert host.step(logits, ["greedy"], allowed=allowed).status.tolist() == [OK, expected, OK]


def test_a_bad_row_is_bad_whatever_its_mask_forbids(host: Host) -> None:
    logits, allowed = random_logits(3), allowed_tokens(3, 704, 0.5)
    allowed[:, 7] = False
    logits[0, 7], logits[1, 7], logits[2, 7] = np.nan, np.inf, 2.0**101
    assert host.step(logits, ["greedy"], allowed=allowed).status.tolist() == [BAD, BAD, BAD]


def test_logits_wider_than_the_vocabulary(host: Host) -> None:
    logits = random_logits(4, 512)
    logits[:, 500:] = 50
    outcome = host.step(logits, ["greedy"], vocab_size=500)
    assert outcome.tokens.tolist() == logits[:, :500].argmax(axis=1).tolist()


@pytest.mark.parametrize("direction", [0, -1])
def test_rows_that_overlap_or_run_backwards(host: Host, direction: int) -> None:
    logits = random_logits(4, 512)
    step = Step(host, logits, [["greedy"]], plan_rows=4)
    tensor = step.batch.logits
    step._strides[0] = 512 * direction
    tensor.byte_offset = 0 if direction == 0 else 3 * 512 * 4
    outcome = step.finish(step.run())
    step.free()
    expected = logits[[0, 0, 0, 0]] if direction == 0 else logits[::-1]
    assert outcome.tokens.tolist() == expected.argmax(axis=1).tolist()


@pytest.mark.parametrize(("form", "offset"), [("float32", 4), ("bfloat16", 2), ("float32", 16)])
def test_rows_that_are_not_aligned_are_declined(host: Host, form: str, offset: int) -> None:
    elements = as_elements(random_logits(3, 512), form)
    outcome = host.step(elements, ["greedy"], misaligned=offset)
    assert outcome.status.tolist() == [DECLINED] * 3


def test_of_rows_with_an_odd_length_those_run_that_are_aligned(host: Host) -> None:
    logits = random_logits(9, 501)
    outcome = host.step(logits, ["greedy"])
    assert outcome.status.tolist() == [OK, *[DECLINED] * 7, OK]
    assert outcome.tokens[[0, 8]].tolist() == logits.argmax(axis=1)[[0, 8]].tolist()


def test_a_row_does_not_depend_on_others(host: Host) -> None:
    logits = random_logits(8)
    params = [{"top_k": k} for k in (1, 300, 5, 40, 2, 77, 9, 1)]
    together = host.step(logits, ["top_k"], params=params)
    for i, given in enumerate(params):
        alone = host.step(logits[i : i + 1], ["top_k"], params=given)
        np.testing.assert_array_equal(alone.survivors[0], together.survivors[i])
