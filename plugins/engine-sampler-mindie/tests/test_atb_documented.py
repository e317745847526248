"""ATB's operator as documented, compared with plain float64 definitions and with the library's own draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from atb_operators import (
    EXPONENTIAL,
    EXPONENTIAL_LOGPROBS,
    FOUR,
    INPUTS,
    MULTINOMIAL,
    MULTINOMIAL_LOGPROBS,
    SINGLE,
    WIDE,
    bfloat16_values,
    column,
    order,
    probabilities,
)
from engine_sampler_mindie import atb as atb
from engine_sampler_mindie.atb import (
    REMOVED,
    TopkToppLogprobsSamplingParam,
    TopkToppSampling,
    TopkToppSamplingParam,
)
from engine_sampler_mindie.atb.leading import leading_tokens
from engine_sampler_mindie.atb.rows import half_float_table

from engine_sampler import SamplingParams, process_logits, sample
from tests.chi_square import assert_drawn_from
from tests.random_chains import ROUNDS

SLACK = 3e-6
"""The distance of a float64 sum to topp below which the mode's slack of 2^-20 may decide."""


def nucleus(p: np.ndarray, k: int, topp: float) -> np.ndarray:
    """The documented set in order: the fewest of the first k tokens whose float64 sum reaches topp."""
    ids = order(p)[:k]
    sums = p[ids].astype(np.float64).cumsum()
    ids = ids[: int((sums < topp).sum()) + 1] if topp < 1 else ids
    return ids[p[ids] > 0]


def is_clear(p: np.ndarray, k: int, topp: float) -> bool:
    """Whether no sum of the row is so near to topp that the slack decides."""
    return topp >= 1 or bool(np.abs(p[order(p)[:k]].astype(np.float64).cumsum() - topp).min() > SLACK)


Draw = Callable[[np.ndarray, np.ndarray, np.ndarray, np.random.Generator], tuple[Any, ...]]


def by_seed(probs: np.ndarray, topk: np.ndarray, topp: np.ndarray, random: np.random.Generator) -> Any:
    param = TopkToppLogprobsSamplingParam(
        MULTINOMIAL, randSeeds=random.integers(2**32, size=len(probs)).tolist()
    )
    return TopkToppSampling(param)(probs, topp, topk)


def by_one_seed(probs: np.ndarray, topk: np.ndarray, topp: np.ndarray, random: np.random.Generator) -> Any:
    param = TopkToppLogprobsSamplingParam(topk=int(topk[0, 0]), randSeed=int(random.integers(2**32)))
    return TopkToppSampling(param)(probs, topp)


def by_given_number(
    probs: np.ndarray, topk: np.ndarray, topp: np.ndarray, random: np.random.Generator
) -> Any:
    rand = random.random((len(probs), 1), np.float32)
    return TopkToppSampling(TopkToppLogprobsSamplingParam(MULTINOMIAL_LOGPROBS))(probs, topp, topk, rand=rand)


def by_race(probs: np.ndarray, topk: np.ndarray, topp: np.ndarray, random: np.random.Generator) -> Any:
    exp = random.exponential(size=probs.shape).astype(np.float16)
    return TopkToppSampling(TopkToppLogprobsSamplingParam(EXPONENTIAL))(probs, topp, topk, exp=exp)


@pytest.mark.parametrize("draw", [by_seed, by_one_seed, by_given_number, by_race])
@pytest.mark.parametrize(
    ("p", "k", "topp"),
    [
        (FOUR, 4, 0.81),
        (FOUR, 3, 1.0),
        ((0.25, 0.25, 0.25, 0.125, 0.125), 4, 0.74),
    ],
)
def test_every_way_of_drawing_follows_the_documented_distribution(
    draw: Draw, p: tuple[float, ...], k: int, topp: float
) -> None:
    random, rows = np.random.default_rng(7), 512
    probs = np.tile(np.float16(p), (rows, 1))
    kept = nucleus(probs[0], k, float(np.float16(topp)))
    shares = np.zeros(len(p))
    shares[kept] = probs[0, kept].astype(np.float64)
    tokens = draw(probs, column([k] * rows, np.int32), column([topp] * rows, np.float16), random)[0]
    assert_drawn_from(shares / shares.sum(), tokens.ravel())


@pytest.mark.parametrize("topp", [0.0, 0.3, 0.75, 0.9, 1.0])
def test_a_sum_that_equals_topp_is_enough_and_ties_go_to_the_lower_id(topp: float) -> None:
    probs = np.float16([[0.125, 0.25, 0.25, 0.25, 0.125]])
    kept = nucleus(probs[0], 5, float(np.float16(topp)))
    operator = TopkToppSampling(TopkToppLogprobsSamplingParam(MULTINOMIAL_LOGPROBS, logProbsSize=5))
    given = (column([topp], np.float16), column([5], np.int32))
    points = (np.arange(16) + 0.5) / 16
    tokens = {int(operator(probs, *given, rand=column([u], np.float32))[0][0, 0]) for u in points}
    assert tokens == set(kept.tolist())
    logprobs = operator(probs, *given, rand=column([0], np.float32))[2][0]
    assert (logprobs > REMOVED).sum() == len(kept)


def test_a_given_number_is_a_point_in_the_sorted_cumulative_distribution() -> None:
    probs = np.float16([[0.125, 0.5, 0.25, 0.125]])
    operator = TopkToppSampling(TopkToppLogprobsSamplingParam(MULTINOMIAL_LOGPROBS))
    points = {0: 1, 0.49: 1, 0.5: 2, 0.74: 2, 0.75: 0, 0.87: 0, 0.875: 3, 1: 3}
    for u, token in points.items():
        given = column([1.0], np.float16), column([4], np.int32)
        assert operator(probs, *given, rand=column([u], np.float32))[0].tolist() == [[token]]


def test_exponential_noise_is_indexed_by_token_id() -> None:
    probs, exp = np.float16([[0.125, 0.5, 0.375]]), np.float16([[0.0625, 4, 1]])
    operator = TopkToppSampling(TopkToppLogprobsSamplingParam(EXPONENTIAL))
    given = column([1.0], np.float16)
    assert operator(probs, given, column([3], np.int32), exp)[0].tolist() == [[0]]
    assert operator(probs, given, column([2], np.int32), exp)[0].tolist() == [[2]]
    exp[0, 1] = 0
    assert operator(probs, given, column([3], np.int32), exp)[0].tolist() == [[1]]


def test_logprobs_are_those_of_the_kept_tokens_and_add_up_to_one() -> None:
    random = np.random.default_rng(3)
    probs = probabilities(random, 6, 50)
    topk, topp = column([50, 10, 10, 3, 1, 20], np.int32), column([0.6, 1, 0.8, 0.9, 0.9, 0.97], np.float16)
    operator = TopkToppSampling(TopkToppLogprobsSamplingParam(EXPONENTIAL_LOGPROBS, logProbsSize=20))
    logprobs = operator(probs, topp, topk, random.exponential(size=probs.shape).astype(np.float16))[2]
    for i, row in enumerate(logprobs):
        kept = nucleus(probs[i], int(topk[i, 0]), float(topp[i, 0]))[:20]
        shares = probs[i, kept].astype(np.float64)
        np.testing.assert_allclose(row[: len(kept)], np.log(shares / shares.sum()), rtol=1e-5)
        assert (row[len(kept) :] == REMOVED).all()


def test_a_row_with_its_own_seed_draws_the_same_in_any_batch() -> None:
    random = np.random.default_rng(9)
    probs, seeds = probabilities(random, 12, 300, 0.5), random.integers(2**32, size=12).tolist()
    topk, topp = column([200] * 12, np.int32), column([1] * 12, np.float16)

    def tokens(rows: list[int]) -> list[int]:
        param = TopkToppLogprobsSamplingParam(MULTINOMIAL, randSeeds=[seeds[i] for i in rows])
        return TopkToppSampling(param)(probs[rows], topp[rows], topk[rows])[0].ravel().tolist()

    together = tokens(list(range(12)))
    assert [tokens([i])[0] for i in range(12)] == together
    assert tokens(list(range(11, -1, -1))) == together[::-1]


@pytest.mark.parametrize("topk", [1, 40, 3000])
def test_seeded_draws_are_those_of_the_library(topk: int) -> None:
    random = np.random.default_rng(topk)
    probs, seeds = probabilities(random, 40, 3000, 1.5), random.integers(2**32, size=40).tolist()
    logits = half_float_table(False).logits[probs.view(np.uint16)]
    params = [SamplingParams(top_k=topk, seed=seed) for seed in seeds]
    operator = TopkToppSampling(TopkToppSamplingParam(MULTINOMIAL, randSeeds=seeds))
    tokens = operator(probs, column([1] * 40, np.float16), column([topk] * 40, np.int32))[0]
    assert tokens.ravel().tolist() == sample(logits, params, positions=[0] * 40).token_ids.tolist()
    operator.param = TopkToppSamplingParam(randSeed=7, topk=topk)
    params = [SamplingParams(top_k=topk, seed=7)] * 40
    tokens = operator(probs, column([1], np.float16))[0]
    assert tokens.ravel().tolist() == sample(logits, params, positions=range(40)).token_ids.tolist()


@pytest.mark.parametrize(("k", "topp"), [(2, 0.66), (3, 0.66), (3, 0.97), (1, 0.9), (4, 1.0), (40, 0.8)])
def test_top_p_before_top_k_keeps_the_same_tokens(k: int, topp: float) -> None:
    random = np.random.default_rng(k)
    shares = np.round(random.dirichlet(np.ones(60), 20) * 1024) / 1024
    shares[:, 0] += 1 - shares.sum(axis=1)  # exact in float16, and in sum
    probs = np.vstack([np.pad([0.5, 0.25, 0.125, 0.125], (0, 56)), np.abs(shares)]).astype(np.float16)
    params = SamplingParams(top_k=k, top_p=float(np.float16(topp)), order=("top_p", "top_k"))
    logits = half_float_table(False).logits[probs.view(np.uint16)]
    kept = np.isfinite(process_logits(logits, params))
    for row, mask in zip(probs, kept, strict=True):
        if is_clear(row, k, float(np.float16(topp))):
            expected = nucleus(row, k, float(np.float16(topp)))
            assert sorted(expected.tolist()) == np.flatnonzero(mask).tolist()
    assert k != 2 or np.flatnonzero(kept[0]).tolist() == [0, 1]


def test_topp_refers_to_the_probabilities_as_given() -> None:
    short = np.float16([[0.25, 0.125, 0.0625, 0.0625]])  # they add up to one half
    operator = TopkToppSampling(TopkToppLogprobsSamplingParam(EXPONENTIAL_LOGPROBS, logProbsSize=4))
    for topp, count in ((0.25, 1), (0.3, 2), (0.5, 4), (0.9, 4)):
        logprobs = operator(short, column([topp], np.float16), column([4], np.int32), np.ones_like(short))[2]
        assert (logprobs > REMOVED).sum() == count


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(("vocab", "levels"), [(1, 3), (50, 4), (9000, 30), (9000, 60_000), (40_000, 5000)])
def test_leading_tokens_are_those_of_a_full_sort(vocab: int, levels: int, ties: bool) -> None:
    random = np.random.default_rng(levels)
    counts = random.integers(1, min(vocab, 300) + 1, 12)
    bits = random.integers(0, levels, (12, vocab)).astype(np.uint16)
    bits[:, 0] = np.maximum(bits[:, 0], 1)
    bits[3, 5:] = 0
    leading = leading_tokens(bits, counts, ties)
    for row, count in enumerate(counts.tolist()):
        expected = np.lexsort((np.arange(vocab), -bits[row].astype(int)))
        expected = expected[bits[row, expected] > 0]
        if ties and count <= len(expected):
            last = bits[row, expected[count - 1]]
            count = int((bits[row] >= last).sum())
        size = int(leading.counts[row])
        assert leading.ids[row, :size].tolist() == expected[:count].tolist()
        assert leading.bits[row, :size].tolist() == bits[row, expected[:count]].tolist()
        assert not leading.bits[row, size:].any()
        in_order = leading.by_id()
        assert in_order.ids[row, :size].tolist() == sorted(expected[:count].tolist())


@pytest.mark.parametrize(("topp", "kept"), [(0.5, 1), (0.75, 2), (0.875, 3), (1.0, 4)])
def test_a_sum_that_is_exactly_topp_ends_the_head(topp: float, kept: int) -> None:
    probs = np.float16([[0.5, 0.25, 0.125, 0.125]])
    operator = TopkToppSampling(TopkToppLogprobsSamplingParam(EXPONENTIAL_LOGPROBS, logProbsSize=4))
    logprobs = operator(probs, column([topp], np.float16), column([4], np.int32), np.ones_like(probs))[2]
    assert (logprobs > REMOVED).sum() == kept


EXAMPLES = [
    (SINGLE, 8, 1024, 100), (SINGLE, 8, 1024, 200), (SINGLE, 1, 100, 1), (SINGLE, 1, 1000, 100),
    (EXPONENTIAL, 1, 100, 50), (MULTINOMIAL, 512, 1000, 661), (MULTINOMIAL, 512, 1000, 150),
    (MULTINOMIAL_LOGPROBS, 64, 1024, 500), (EXPONENTIAL_LOGPROBS, 1, 512, 511),
]  # fmt: skip


def check_documented(kind: Any, probs: np.ndarray, k: int, topp: float, size: int = 0) -> None:
    """Every token is in the reference's set; the race's winner and logprobs equal the reference's."""
    probs = np.stack([p for p in probs if is_clear(p, k, float(np.float16(topp)))])
    rows, random = len(probs), np.random.default_rng(k)
    exp = np.maximum(random.exponential(size=probs.shape), 1e-3).astype(np.float16)
    rand = random.random((rows, 1), np.float32)
    given = {
        "probs": probs, "topk": column([k] * rows, np.int32), "topp": column([topp] * rows, np.float16),
        "exp": exp, "rand": rand,
    }  # fmt: skip
    param = TopkToppLogprobsSamplingParam(kind, range(rows), 3, k, size)
    tokens, chosen, *logprobs = TopkToppSampling(param)(**{name: given[name] for name in INPUTS[kind]})
    np.testing.assert_array_equal(chosen, np.take_along_axis(probs, tokens.astype(np.int64), 1))
    for i in range(rows):
        kept = np.sort(nucleus(probs[i], k, float(np.float16(topp))))
        assert tokens[i, 0] in kept
        if "exp" in INPUTS[kind]:
            ratios = probs[i, kept].astype(np.float64) / exp[i, kept].astype(np.float64)
            assert tokens[i, 0] == kept[ratios.argmax()]
        if logprobs:
            shares = np.sort(probs[i, kept].astype(np.float64))[::-1]
            row = logprobs[0][i]
            np.testing.assert_allclose(row[: len(kept)], np.log(shares / shares.sum())[:size], rtol=1e-3)
            assert (row[len(kept) :] == REMOVED).all()


@pytest.mark.parametrize(("kind", "rows", "vocab", "k"), EXAMPLES)
def test_the_vendors_examples_agree_with_a_plain_reference(kind: Any, rows: int, vocab: int, k: int) -> None:
    topp = 0.2 if k == 1 else 0.9
    probs = probabilities(np.random.default_rng(vocab + k), rows, vocab)
    check_documented(kind, probs, k, topp, {64: 500, 1: 512}[rows] if kind >= MULTINOMIAL_LOGPROBS else 0)


@pytest.mark.quick_share(4)
@pytest.mark.parametrize(("kind", "vocab"), WIDE)
def test_wide_vocabularies_agree_with_a_plain_reference(kind: Any, vocab: int) -> None:
    probs = probabilities(np.random.default_rng(vocab), ROUNDS, vocab, 3.0)
    check_documented(kind, probs, 1000, 0.5)


@pytest.mark.parametrize("vocab", [512, 32_000, 128_000])
def test_bfloat16_rows_agree_with_a_plain_reference(vocab: int) -> None:
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(vocab)
    probs = bfloat16_values(probabilities(random, 6, vocab, 3.0))
    exp = bfloat16_values(np.maximum(random.exponential(size=probs.shape), 1e-3).astype(np.float32))
    topp = np.float32(0.59765625)  # a bfloat16
    operator = TopkToppSampling(TopkToppLogprobsSamplingParam(EXPONENTIAL))
    tokens, chosen = operator(
        *(torch.tensor(array).bfloat16() for array in (probs, column([topp] * 6, np.float32))),
        torch.full((6, 1), 500, dtype=torch.int32),
        torch.tensor(exp).bfloat16(),
    )
    assert sum(is_clear(p, 500, float(topp)) for p in probs) >= 4
    for i, p in enumerate(probs):
        if is_clear(p, 500, float(topp)):
            kept = np.sort(nucleus(p, 500, float(topp)))
            token = kept[(p[kept].astype(np.float64) / exp[i, kept]).argmax()]
            assert (int(tokens[i, 0]), float(chosen[i, 0])) == (token, p[token])
