"""The arithmetic contract, against published answers, Python's integers and exact definitions."""

from __future__ import annotations

import decimal
import hashlib
import inspect
import math
import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine_sampler import arithmetic as a
from engine_sampler.arithmetic import integer_weights, scalars

from ..conftest import example_count
from ..reference import softmax

RNG = np.random.default_rng


def random_row(seed: int, m: int, spread: float) -> np.ndarray:
    return (RNG(seed).normal(size=m) * spread).astype(np.float32)


# --- weights -------------------------------------------------------------------------------------


def test_the_likeliest_token_has_weight_two_to_the_thirty() -> None:
    assert a.weights(np.zeros(3, np.float32)).tolist() == [a.ONE_WEIGHT] * 3


def test_whole_bits_have_powers_of_two_as_weights() -> None:
    y = -np.arange(31, dtype=np.float32)
    assert a.weights(y).tolist() == [2 ** (30 - i) for i in range(31)]


@pytest.mark.parametrize("size", [3, 1 << 15])
def test_logits_in_place_of_distances_are_refused_with_an_example(size: int) -> None:
    logits = random_row(1, size, 3.0)
    for wrong in (logits, logits.max() - logits):
        with pytest.raises(ValueError, match=r"at most 0, as in weights\(distances\(logits\)\)"):
            a.weights(wrong)
    assert a.weights(np.empty(0, np.float32)).size == 0


def test_a_token_more_than_thirty_one_bits_below_has_weight_zero() -> None:
    below = np.nextafter(a.LOWEST_BITS, np.float32(-np.inf))
    assert a.weights(np.array([below, -1e30, -np.inf], np.float32)).tolist() == [0, 0, 0]


def test_weights_are_within_two_parts_in_a_million_of_the_exponential() -> None:
    logits = np.linspace(-21.4, 0, 400_001, dtype=np.float32)
    w = a.weights(a.distances(logits[None]))[0]
    exact = 2.0**30 * np.exp(logits.astype(np.float64))
    assert (np.abs(w - exact) <= 0.5 + 2.1e-6 * exact).all()


def test_the_polynomial_is_within_its_stated_error() -> None:
    y = np.linspace(-1, 0, 400_001, dtype=np.float32)
    exact = 2.0 ** (30 + y.astype(np.float64))
    assert (np.abs(a.weights(y) / exact - 1) <= 2.2e-7).all()


def neighbours(y: float, count: int) -> np.ndarray:
    """`count` consecutive negative float32 numbers, descending, with `y` in the middle."""
    first = int(np.float32(y).view(np.uint32)) - count // 2
    return (np.arange(count, dtype=np.uint32) + np.uint32(first)).view(np.float32)


@pytest.mark.parametrize("y", [-0.01, -0.3, -0.5, -1.3, -1.5, -2.5, -9.5, -30.5])
def test_weights_of_neighbouring_logits_rise_by_at_most_one_float32_unit(y: float) -> None:
    w = a.weights(neighbours(y, 200_000)).astype(np.float32)
    assert (w[1:] <= np.nextafter(w[:-1], np.float32(np.inf))).all()


def test_weights_are_not_monotone_to_the_last_unit() -> None:
    w = a.weights(neighbours(-0.3, 200_000))
    assert (w[1:] > w[:-1]).any()


@given(st.integers(0, 2**32), st.integers(1, 200), st.integers(0, 50), st.sampled_from([1, 2, 3]))
@settings(max_examples=example_count(60), deadline=None)
def test_weights_of_a_slice_a_stride_or_a_batch_are_the_same(
    seed: int, m: int, start: int, stride: int
) -> None:
    y = -np.abs(random_row(seed, m, 12))
    whole = a.weights(y)
    assert np.array_equal(a.weights(y[start::stride]), whole[start::stride])
    assert np.array_equal(a.weights(np.tile(y, (3, 1)))[1], whole)
    assert [int(a.weights(y[i : i + 1])[0]) for i in range(m)] == whole.tolist()


def test_deleting_removed_columns_changes_no_distance() -> None:
    logits = random_row(1, 500, 4)
    logits[RNG(2).random(500) < 0.6] = -np.inf
    alive = logits > -np.inf
    assert np.array_equal(a.distances(logits[None])[:, alive], a.distances(logits[None, alive]))


@pytest.mark.parametrize(
    ("m", "spread"), [(10, 1), (1000, 0.1), (1000, 3), (4096, 1), (50_000, 2), (50_000, 8)]
)
def test_the_distribution_is_within_the_stated_total_variation(m: int, spread: float) -> None:
    logits = random_row(m, m, spread) + np.float32(7.3)
    w = a.weights(a.distances(logits[None]))[0]
    variation = 0.5 * np.abs(w / w.sum() - softmax(logits)).sum()
    assert variation <= m * 2.0**-31 + 1e-6


# --- entropy -------------------------------------------------------------------------------------


def test_information_is_weight_times_bits_to_float32_precision() -> None:
    y = -np.abs(random_row(3, 10_000, 10))
    w = a.weights(y)
    exact = np.where(w > 0, w * -y.astype(np.float64), 0)
    assert (np.abs(a.information(w, y) - exact) <= 0.5 + exact * 2.0**-23).all()


def test_a_token_without_weight_carries_no_information() -> None:
    y = np.array([-32, -1e38, -np.inf], np.float32)
    assert a.information(a.weights(y), y).tolist() == [0, 0, 0]


@pytest.mark.parametrize("spread", [0.01, 1, 5, 30])
def test_entropy_equals_its_definition(spread: float) -> None:
    logits = random_row(4, 3000, spread)
    p = softmax(logits)
    p = p[p > 0]
    exact = -(p * np.log2(p)).sum()
    assert a.entropy_bits(a.distances(logits[None]))[0] == pytest.approx(exact, abs=2e-5)


def test_the_entropy_of_equal_probabilities_is_the_logarithm_of_their_number() -> None:
    assert a.entropy_bits(np.zeros((1, 8), np.float32))[0] == 3.0


def test_the_mass_of_one_token_is_zero_bits() -> None:
    assert a.log2_mass(a.ONE_WEIGHT) == 0.0
    assert a.log2_mass(8 * a.ONE_WEIGHT) == 3.0


# --- thresholds ----------------------------------------------------------------------------------


@pytest.mark.parametrize("tokens", [2, 3, 7, 10, 1000])
def test_a_share_equal_to_a_prefix_sum_is_reached_by_that_prefix(tokens: int) -> None:
    total = np.array(tokens * a.ONE_WEIGHT)
    for k in range(1, tokens + 1):
        need = int(a.mass_reaching(np.array(k / tokens), total))
        assert (k - 1) * a.ONE_WEIGHT < need <= k * a.ONE_WEIGHT


@pytest.mark.parametrize("tokens", [2, 3, 7, 10, 1000])
def test_a_share_equal_to_a_prefix_sum_includes_that_prefix(tokens: int) -> None:
    total = np.array(tokens * a.ONE_WEIGHT)
    for k in range(tokens):
        room = int(a.mass_within(np.array(k / tokens), total))
        assert k * a.ONE_WEIGHT <= room < (k + 1) * a.ONE_WEIGHT


def test_a_share_just_above_a_prefix_sum_needs_one_more_token() -> None:
    total = np.array(4 * a.ONE_WEIGHT)
    assert a.mass_reaching(np.array(0.5 + 1.5 * 2.0**-20), total) > 2 * a.ONE_WEIGHT
    assert a.mass_reaching(np.array(0.5 + 0.5 * 2.0**-20), total) <= 2 * a.ONE_WEIGHT


def test_a_share_of_zero_still_needs_one_unit() -> None:
    assert a.mass_reaching(np.array([0.0, 2.0**-21]), np.array([10, 10])).tolist() == [1, 1]


@pytest.mark.parametrize("tokens", [2, 3, 7, 1000])
def test_a_token_with_exactly_the_required_probability_is_heavy_enough(tokens: int) -> None:
    total = np.array(tokens * a.ONE_WEIGHT)
    assert a.weight_of_share(np.array(1 / tokens), total) <= a.ONE_WEIGHT
    assert a.weight_of_share(np.array((1 + 2.0**-19) / tokens), total) > a.ONE_WEIGHT


def test_thresholds_are_whole_numbers_next_to_the_exact_product() -> None:
    rng = RNG(5)
    for p, total in zip(rng.random(500), rng.integers(a.ONE_WEIGHT, 2**47, 500), strict=True):
        exact = (Fraction(p) - Fraction(1, 2**20)) * int(total)
        assert abs(int(a.mass_reaching(p, total)) - max(1, exact)) <= 1 + total * 2.0**-52


# --- scalars -------------------------------------------------------------------------------------


def test_the_terms_of_exp2_are_the_taylor_coefficients_rounded() -> None:
    with decimal.localcontext(decimal.Context(prec=60)):
        ln2 = decimal.Decimal(2).ln()
        exact = [float(ln2**k / math.factorial(k)) for k in range(len(scalars.EXP2_TERMS))]
    assert list(scalars.EXP2_TERMS) == exact


def test_the_constants_are_rounded_from_their_definitions() -> None:
    with decimal.localcontext(decimal.Context(prec=60)):
        ln2 = decimal.Decimal(2).ln()
        assert float(ln2) == a.LN_2
        assert float(2 / ln2) == scalars.LOG2_TERMS[0]
        assert np.float32(float(1 / ln2)) == a.LOG2_E
        assert float(decimal.Decimal(1) / decimal.Decimal(2).sqrt()) == pytest.approx(
            scalars.SQRT_HALF, rel=2e-16
        )


def exact_log2(x: float) -> float:
    with decimal.localcontext(decimal.Context(prec=50)):
        return float(decimal.Decimal(x).ln() / decimal.Decimal(2).ln())


def test_log2_is_within_four_units_in_the_last_place() -> None:
    rng = RNG(6)
    values = [
        *(2.0 ** rng.uniform(-1000, 1000, 500)),
        *(1 + rng.normal(size=500) * 10.0 ** -rng.uniform(1, 15, 500)),
    ]
    for x in map(float, values):
        exact = exact_log2(x)
        assert abs(float(a.log2_64(x)) - exact) <= 4 * math.ulp(exact)


def test_log2_is_exact_at_powers_of_two() -> None:
    exponents = np.arange(-1022, 1024)
    assert np.array_equal(a.log2_64(np.ldexp(1.0, exponents)), exponents)


def test_exp2_is_within_four_units_in_the_last_place() -> None:
    values = [*RNG(7).uniform(-1021, 1021, 500), *RNG(8).uniform(-1, 1, 500)]
    with decimal.localcontext(decimal.Context(prec=50)):
        for x in map(float, values):
            exact = float(decimal.Decimal(2) ** decimal.Decimal(x))
            assert abs(float(a.exp2_64(x)) - exact) <= 4 * math.ulp(exact)


def test_exp2_is_exact_at_whole_numbers_and_clamps_beyond() -> None:
    whole = np.arange(-1022, 1023)
    assert np.array_equal(a.exp2_64(whole), np.ldexp(1.0, whole))
    assert a.exp2_64([-5000, 5000]).tolist() == [2.0**-1022, 2.0**1022]


@given(st.floats(1e-6, 1e6), st.floats(-20, 20))
@settings(deadline=None)
def test_power_equals_python_within_its_conditioning(x: float, exponent: float) -> None:
    margin = 1e-15 * (4 + 2 * abs(exponent * math.log2(x)))
    assert float(a.power(x, exponent)) == pytest.approx(x**exponent, rel=margin)


def test_powers_of_zero() -> None:
    assert a.power(0.0, np.array([0.0, 2.0, -1.0])).tolist() == [1.0, 0.0, 2.0**1022]


def test_scalars_are_the_same_alone_and_in_arrays() -> None:
    x = RNG(9).uniform(0.01, 50, 300)
    assert [float(a.log2_64(v)) for v in x] == a.log2_64(x).tolist()
    assert [float(a.exp2_64(v)) for v in x] == a.exp2_64(x).tolist()


# --- edits ---------------------------------------------------------------------------------------


def test_settle_clamps_overflow_to_the_greatest_float() -> None:
    values = np.array([np.inf, 1, -np.inf, -np.inf], np.float32)
    a.settle(values, np.array([True, True, True, False]))
    assert values.tolist() == [a.FLT_MAX, 1, -a.FLT_MAX, -np.inf]


def test_settle_without_a_mask_leaves_removed_tokens_removed() -> None:
    assert a.settle(np.array([np.inf, -np.inf], np.float32)).tolist() == [a.FLT_MAX, -np.inf]


def test_this_process_keeps_denormals() -> None:
    a.require_ieee()


# --- random numbers ------------------------------------------------------------------------------

PI = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)


@pytest.mark.parametrize(
    ("counter", "key", "answer"),
    [
        ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (PI, (0xA4093822, 0x299F31D0), (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
    ],
)
def test_philox_gives_the_published_answers(counter: tuple, key: tuple, answer: tuple) -> None:
    assert a.philox4x32(counter, key) == answer
    arrays = [np.array([word], np.uint64) for word in (*counter, *key)]
    assert tuple(int(word[0]) for word in a.philox4x32(tuple(arrays[:4]), tuple(arrays[4:]))) == answer


@pytest.mark.parametrize("n", [1, 7, 40])
def test_the_library_gives_the_bits_of_numpy(n: int) -> None:
    seeds = np.arange(n, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    positions = np.arange(n) * 2**33 + 5
    for stream, draw in ((0, 0), (2**32 - 1, 3)):
        in_numpy = a.philox._draw64(seeds, positions, stream, draw)
        assert np.array_equal(a.draw64(seeds, positions, stream, draw), in_numpy)
        assert np.array_equal(a.draw64(seeds[::-1], positions[::-1], stream, draw), in_numpy[::-1])


def test_few_rows_and_many_rows_get_the_same_bits() -> None:
    rng = RNG(10)
    seeds = rng.integers(0, 2**64, 40, np.uint64)
    positions = rng.integers(0, 2**40, 40)
    many = a.draw64(seeds, positions, 12345, 6)
    few = [a.draw64(seeds[i : i + 1], positions[i : i + 1], 12345, 6) for i in range(40)]
    assert np.array_equal(many, np.concatenate(few))


@pytest.mark.parametrize("n", [1, 3, 64, 1500])
def test_numbers_drawn_ahead_are_those_of_their_seeds_and_positions(n: int) -> None:
    rng = RNG(n)
    ahead, seeds, positions = a.DrawsAhead(9, 2), rng.integers(0, 2**64, n, np.uint64), rng.integers(0, 99, n)
    for number in range(80):
        chance = rng.random()
        if chance < 0.05:
            seeds = rng.integers(0, 2**64, n, np.uint64)
        elif chance < 0.15:
            positions = positions + rng.integers(-2, 5, n)
        found = ahead.at(seeds, positions)
        assert np.array_equal(found, a.draw64(seeds, positions, 9, 2)), number
        found.fill(0)  # the caller's
        positions = positions + 1


def test_few_numbers_are_drawn_ahead_for_requests_that_may_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []

    def counted(seed: np.ndarray, position: np.ndarray, *rest: int) -> np.ndarray:
        drawn.append(len(seed))
        return a.draw64(seed, position, *rest)

    monkeypatch.setattr(a.philox, "draw64", counted)
    for n, sizes in {64: [64, 128, 256, 512, 1024, 1024], 2000: [2000] * 20}.items():
        ahead, drawn[:] = a.DrawsAhead(0, 0), []
        for position in range(20 if n > 64 else 1 + 2 + 4 + 8 + 16 + 16):
            ahead.at(np.arange(n, dtype=np.uint64), np.full(n, position))
        assert drawn == sizes


def test_a_draw_is_the_first_two_words_at_its_counter() -> None:
    seed, position, stream, draw = 0x123456789ABCDEF0, 0x1_0000_0007, 99, 3
    x0, x1, _, _ = a.philox4x32((draw, stream, 7, 1), (0x9ABCDEF0, 0x12345678))
    assert a.draw64(np.array([seed], np.uint64), np.array([position]), stream, draw) == [x0 | x1 << 32]


def test_draws_differ_by_seed_position_stream_and_index() -> None:
    def draw(seed: int, position: int, stream: int, index: int) -> int:
        return int(a.draw64(np.array([seed], np.uint64), np.array([position]), stream, index)[0])

    base = (5, 6, 7, 8)
    assert draw(*base) == draw(*base)
    changed = [tuple(v + (i == j) for j, v in enumerate(base)) for i in range(4)]
    assert len({draw(*base), *(draw(*c) for c in changed)}) == 5


def test_the_first_sibling_keeps_the_seed_and_the_others_get_their_own() -> None:
    assert a.child_seed(2**64 - 1, 0) == 2**64 - 1
    x0, x1, _, _ = a.philox4x32((3, 0xFFFFFFFF, 0, 0), (42, 0))
    assert a.child_seed(42, 3) == x0 | x1 << 32
    assert len({a.child_seed(42, i) for i in range(100)}) == 100


def test_a_samplers_stream_is_derived_from_its_name() -> None:
    digest = hashlib.sha256(b"xtc").digest()
    assert a.stream_of("xtc") == int.from_bytes(digest[:4], "little")


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(1, 2**62)), min_size=1, max_size=12))
def test_scale_draw_is_the_upper_half_of_the_product(pairs: list[tuple[int, int]]) -> None:
    for many in (pairs, pairs * 40):
        r, total = np.array([p[0] for p in many], np.uint64), np.array([p[1] for p in many])
        assert a.scale_draw(r, total).tolist() == [x * s >> 64 for x, s in many]


def test_a_coin_shows_heads_as_often_as_it_should() -> None:
    r = a.draw64(np.arange(20_000, dtype=np.uint64), np.zeros(20_000, np.int64), 1)
    for q in (0.1, 0.5, 0.9):
        assert a.coin(r, np.array(q)).mean() == pytest.approx(q, abs=4 * math.sqrt(q * (1 - q) / 20_000))


def test_a_coin_with_probability_one_or_zero_is_certain() -> None:
    r = np.array([0, 2**63, 2**64 - 1], np.uint64)
    assert a.coin(r, np.array(1.0)).all()
    assert not a.coin(r, np.array(0.0)).any()


@pytest.mark.parametrize("m", [1, 2, 100, 1024, 1025, 2048, 5000])
def test_picking_by_weight_equals_a_plain_cumulative_search(m: int) -> None:
    rng = RNG(m)
    w = rng.integers(0, 2**30, (20, m))
    w[rng.random((20, m)) < 0.7] = 0
    w[:, m // 2] += 1
    r = rng.integers(0, 2**64, 20, np.uint64)
    r[:2] = 0, 2**64 - 1
    for row, bits, column in zip(w.tolist(), r.tolist(), a.pick_by_weight(w, r).tolist(), strict=True):
        target, below = bits * sum(row) >> 64, sum(row[:column])
        assert below <= target < below + row[column]


@pytest.mark.parametrize("m", [6, 3000])
def test_the_extremes_of_the_draw_are_the_first_and_last_token_with_weight(m: int) -> None:
    w = np.zeros((2, m), np.int64)
    w[:, [2, m - 2]] = 5
    assert a.pick_by_weight(w, np.array([0, 2**64 - 1], np.uint64)).tolist() == [2, m - 2]


def test_the_docstring_gives_the_coefficients_of_the_weights() -> None:
    text = inspect.getdoc(a) or ""
    found = {name: np.float32(value) for name, value in re.findall(r"(c\d) = ([\d.e-]*\d)", text)}
    assert found == {f"c{i}": term for i, term in enumerate(integer_weights.WEIGHT_TERMS)}
