"""ATB's operator as observed, compared with a scalar model and with the C library's rand()."""

from __future__ import annotations

import ctypes
import platform
from itertools import islice
from typing import Any

import numpy as np
import pytest
from atb_operators import (
    EXPONENTIAL,
    FOUR,
    INPUTS,
    MULTINOMIAL,
    MULTINOMIAL_LOGPROBS,
    SINGLE,
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
)
from engine_sampler_mindie.atb.numbers import RAND_MAX, glibc_rand
from engine_sampler_mindie.atb.observed import running_sums

from tests.chi_square import assert_drawn_from


def libc() -> Any:
    if platform.libc_ver()[0] != "glibc":
        pytest.skip("rand() of glibc is not available")
    return ctypes.CDLL(None)


@pytest.mark.parametrize("seed", [0, 1, 2, 12345, 127773, 2**31 - 1, 2**31, 2**31 + 5, 2**32 - 1])
def test_rand_returns_the_numbers_of_glibc(seed: int) -> None:
    library = libc()
    library.srand(ctypes.c_uint(seed))
    assert list(islice(glibc_rand(seed), 400)) == [library.rand() for _ in range(400)]


def test_the_first_number_after_the_seeds_0_and_1_is_the_known_one() -> None:
    assert f"{next(glibc_rand(1)) / RAND_MAX:.6f}" == "0.840188"
    assert list(islice(glibc_rand(0), 9)) == list(islice(glibc_rand(1), 9))


def observed_reference(
    p: np.ndarray, k: int, topp: float, u: float | None, exp: np.ndarray | None, exactly_k: bool
) -> int:
    """The token, computed step by step over the whole zero-filled row with float16 scalars."""
    ids = order(p)
    values = p[ids].copy()
    if exactly_k:
        values[k:] = 0
    else:
        values[values < values[k]] = 0
    sums, total = [], np.float16(0)
    for value in values:
        total = np.float16(total + value)
        sums.append(float(total))
    if u is None:
        best, token = 0.0, int(ids[0])
        for rank, value in enumerate(values):
            if sums[rank] <= topp and float(value) / float(exp[rank]) > best:
                best, token = float(value) / float(exp[rank]), int(ids[rank])
        return token
    below = sum(s < topp for s in sums)
    cut = np.float32(sums[max(below - 1, 0)]) * np.float32(u)
    return int(ids[sum(s <= cut for s in sums)])


@pytest.mark.parametrize("vocab", [1, 2, 7, 300])
def test_observed_tokens_match_the_scalar_model(vocab: int) -> None:
    random, rows = np.random.default_rng(vocab), 24
    probs = probabilities(random, rows, vocab)
    probs[::3] = np.round(probs[::3].astype(np.float32) * 64) / 64 + np.float16(1 / 512)  # ties
    probs = np.minimum(probs, np.float16(1))
    topp = column(random.uniform(0, 1, rows), np.float16)
    topk = column(random.integers(0, vocab, rows), np.int32)
    exp = random.exponential(size=probs.shape).astype(np.float16) + np.float16(0.01)
    rand = column(random.random(rows), np.float32)
    seeds = random.integers(2**32, size=rows).tolist()
    numbers = glibc_rand(seeds[0])
    shares = {
        SINGLE: [next(numbers) / RAND_MAX for _ in range(rows)],
        MULTINOMIAL: [next(glibc_rand(seed)) / RAND_MAX for seed in seeds],
        MULTINOMIAL_LOGPROBS: rand[:, 0].tolist(),
    }
    for kind, names in INPUTS.items():
        param = TopkToppLogprobsSamplingParam(kind, seeds, seeds[0], topk=(vocab + 1) // 2)
        all_given = {"probs": probs, "topk": topk, "topp": topp, "exp": exp, "rand": rand}
        tokens = TopkToppSampling(param, "observed")(**{name: all_given[name] for name in names})[0]
        for i, token in enumerate(tokens.ravel().tolist()):
            k = param.topk if kind == SINGLE else int(topk[i, 0])
            u = shares[kind][i] if kind in shares else None
            assert token == observed_reference(probs[i], k, float(topp[i, 0]), u, exp[i], kind == SINGLE)


def test_observed_draws_match_the_known_examples() -> None:
    rows = 128
    probs = np.tile(np.float16(FOUR), (rows, 1))

    def drawn(kind: Any, mode: str, topp: float, topk: int) -> set[int]:
        given = {"topp": column([topp] * rows, np.float16), "topk": column([topk] * rows, np.int32)}
        if kind == EXPONENTIAL:
            exp = np.random.default_rng(1).exponential(size=probs.shape).astype(np.float16)
            given["exp"] = np.maximum(exp, np.float16(0.001))
        operator = TopkToppSampling(TopkToppLogprobsSamplingParam(kind, randSeeds=range(rows)), mode)
        return set(operator(probs, **given)[0].ravel().tolist())

    assert drawn(MULTINOMIAL, "observed", 0.81, 3) == {0, 1}
    assert drawn(MULTINOMIAL, "documented", 0.81, 3) == {0, 1, 2}
    assert drawn(MULTINOMIAL, "observed", 1.0, 1) == {0, 1}
    assert drawn(MULTINOMIAL, "documented", 1.0, 1) == {0}
    assert drawn(EXPONENTIAL, "observed", 0.79, 3) == {0}
    assert drawn(EXPONENTIAL, "documented", 0.79, 3) == {0, 1}


def test_observed_seeds_0_and_1_draw_alike() -> None:
    random = np.random.default_rng(2)
    probs, topp = probabilities(random, 64, 900, 0.3), column([1] * 64, np.float16)
    tokens = [
        TopkToppSampling(TopkToppLogprobsSamplingParam(topk=800, randSeed=seed), "observed")(probs, topp)[
            0
        ].tolist()
        for seed in (0, 1, 2)
    ]
    assert tokens[0] == tokens[1] != tokens[2]


def test_observed_multinomial_draws_follow_the_head_below_topp() -> None:
    """rand() is not a strong generator, but good enough for this many numbers of one stream."""
    probs, topp = np.tile(np.float16(FOUR), (512, 1)), column([0.96] * 512, np.float16)
    operator = TopkToppSampling(TopkToppLogprobsSamplingParam(topk=4, randSeed=5), "observed")
    p = probs[0, :3].astype(np.float64)
    assert_drawn_from(np.append(p / p.sum(), 0), operator(probs, topp)[0].ravel())


def test_observed_logprobs_are_divided_by_the_rounded_sum_of_the_head() -> None:
    probs = np.float16([FOUR])
    operator = TopkToppSampling(
        TopkToppLogprobsSamplingParam(MULTINOMIAL_LOGPROBS, logProbsSize=4), "observed"
    )
    given = column([0.96], np.float16), column([3], np.int32)
    logprobs = operator(probs, *given, rand=column([0.3], np.float32))[2][0]
    p = probs[0].astype(np.float64)
    base = float(np.float16(np.float16(probs[0, 0] + probs[0, 1]) + probs[0, 2]))
    np.testing.assert_allclose(logprobs, [*np.log(p[:3] / base), REMOVED], rtol=1e-6)
    alone = operator(probs, column([0.1], np.float16), given[1], rand=column([0.3], np.float32))[2][0]
    np.testing.assert_allclose(alone, [0, REMOVED, REMOVED, REMOVED])


def test_observed_sums_stop_growing_in_a_long_tail() -> None:
    tail = np.full(60_000, 1 / 60_000, np.float16)
    assert running_sums(tail.astype(np.float32)[None], bfloat16=False)[0, -1] < 0.1
    random = np.random.default_rng(6)
    values = bfloat16_values(np.sort(probabilities(random, 1, 400)[0])[::-1])
    total, expected = np.float32(0), []
    for value in values:
        low, high = bfloat16_values(np.float32([total + value]))[0], None
        high = (np.float32([low]).view(np.uint32) + np.uint32(0x10000)).view(np.float32)[0]
        exact, middle = float(total) + float(value), (float(low) + float(high)) / 2
        even = np.float32([low]).view(np.uint32)[0] >> 16 & 1 == 0
        total = low if exact < middle or (exact == middle and even) else high
        expected.append(float(total))
    assert running_sums(values[None], bfloat16=True)[0].tolist() == expected
