"""The ways to draw that ATB's operator chooses from give the same results, in memory bounded by a row."""

from __future__ import annotations

import itertools
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from engine_sampler_mindie.atb import TopkToppLogprobsSamplingParam, TopkToppSampling
from engine_sampler_mindie.atb.drawing import HEADER, DrawingInC, DrawingInNumpy, new_drawing
from engine_sampler_mindie.atb.numbers import first_rands, glibc_rand
from engine_sampler_mindie.atb.rows import Decision, DrawingMethod, Draws, OperatorInputs, half_float_table

from engine_sampler.for_bridges import load_functions
from tests.random_chains import ROUNDS

ONE = {False: 0x3C00, True: 0x3F80}
SHAPES = ("ties", "zeros", "denormals", "softmax", "equal", "any")


def in_c() -> DrawingInC:
    loaded = load_functions(HEADER, "es_probabilities_sample")
    if loaded is None:
        pytest.skip("the C library is not installed")
    return DrawingInC(*loaded)


def random_bits(random: np.random.Generator, rows: int, vocab: int, shape: str, bfloat16: bool) -> np.ndarray:
    """uint16 [rows, vocab], bits of probabilities, none of a row's all 0."""
    bits_of_one = ONE[bfloat16]
    bits = random.integers(0, bits_of_one + 1, (rows, vocab))
    if shape == "ties":
        bits = bits_of_one - 900 * random.integers(0, 5, (rows, vocab))
    elif shape == "zeros":
        bits[random.random(bits.shape) < 0.9] = 0
    elif shape == "denormals":
        bits %= 0x90 if bfloat16 else 0x440
    elif shape == "equal":
        bits[:] = bits[:, :1]
    elif shape == "softmax":
        weights = np.exp(random.normal(0, 3, bits.shape))
        shares = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
        bits = shares.view(np.uint32) >> 16 if bfloat16 else shares.astype(np.float16).view(np.uint16)
    bits[bits.max(axis=1) == 0, vocab // 2] = bits_of_one // 2
    return bits.astype(np.uint16)


def random_case(
    random: np.random.Generator, way: DrawingMethod, shape: str
) -> tuple[OperatorInputs, np.ndarray, Decision]:
    """Inputs of several rows, those of them to draw for, and what decides them."""
    bfloat16, rows = bool(random.integers(2)), int(random.integers(1, 6))
    vocab = int(random.choice([1, 2, 63, 64, 65, 130, 700, 5000]))
    bits = random_bits(random, rows, vocab, shape, bfloat16)
    most = int(random.choice([vocab, max(1, vocab // 600), max(1, vocab // 10)]))
    topk = random.integers(1, most + 1, rows)
    topk[random.random(rows) < 0.2] = vocab
    topp = random.choice([0, 0.01, 0.5, 0.75, 0.9, 1, 1, 1], rows)
    exp = np.maximum(random.exponential(size=bits.shape), 1e-3).astype(np.float32)
    noise = exp.view(np.uint32) >> 16 if bfloat16 else exp.astype(np.float16).view(np.uint16)
    noise = np.where(random.random(bits.shape) < random.choice([0, 0.01]), 0, noise).astype(np.uint16)
    inputs = OperatorInputs(bits, bfloat16, topk, topp, noise, None)
    chosen = random.permutation(rows)[: random.integers(1, rows + 1)]
    numbers: np.ndarray | None = None
    if way in (DrawingMethod.BY_WEIGHT_OF_IDS, DrawingMethod.BY_WEIGHT_OF_RANKS):
        numbers = random.integers(0, 2**64, len(chosen), np.uint64)
        numbers[random.random(len(chosen)) < 0.2] = 2 ** int(random.integers(65)) - 1
    elif way == DrawingMethod.ROUNDED_SHARE:
        numbers = random.choice([0, 1, *random.random(6)], len(chosen)).astype(np.float32)
    ties = way in (DrawingMethod.ROUNDED_SHARE, DrawingMethod.ROUNDED_RACE) and bool(random.integers(2))
    return inputs, chosen, Decision(way, numbers, ties, int(random.choice([0, 1, 5, vocab])))


def assert_equal_draws(one: Draws, other: Draws, lists: int) -> None:
    assert one.tokens.tolist() == other.tokens.tolist()
    assert one.shares.tobytes() == other.shares.tobytes()
    if lists:  # nothing else is divided by them; sums of bfloat16 need not be exact
        np.testing.assert_allclose(one.masses, other.masses, rtol=1e-14)


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("way", DrawingMethod)
def test_the_library_draws_what_numpy_draws(way: DrawingMethod, shape: str) -> None:
    random, fast, plain = np.random.default_rng(SHAPES.index(shape)), in_c(), DrawingInNumpy()
    for _ in range(20 * ROUNDS):
        inputs, rows, decision = random_case(random, way, shape)
        one, other = fast.draw(inputs, rows, decision), plain.draw(inputs, rows, decision)
        assert_equal_draws(one, other, decision.lists)


@pytest.mark.parametrize("drawing", ["c", "numpy"])
def test_noise_of_minus_0_wins_as_0_does(drawing: str) -> None:
    operator = TopkToppSampling(TopkToppLogprobsSamplingParam(2))
    operator._drawing = in_c() if drawing == "c" else DrawingInNumpy()
    probs, topp, topk = np.full((1, 3), 0.25, np.float16), np.ones((1, 1), np.float16), np.int32([[3]])
    for exp, token in (([1, -0.0, 0.5], 1), ([-0.0, -0.0, -0.0], 0), ([1, 0.5, -0.0], 2)):
        assert operator(probs, topp, topk, np.float16([exp]))[0].tolist() == [[token]]


def test_numpy_draws_where_there_is_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine_sampler_mindie.atb.drawing.load_functions", lambda *_: None)
    assert isinstance(new_drawing(), DrawingInNumpy)


def test_rows_of_any_numbers_give_a_token_or_none() -> None:
    random, drawing = np.random.default_rng(5), in_c()
    for way in DrawingMethod:
        for _ in range(10):
            inputs, rows, decision = random_case(random, way, "any")
            inputs.bits[:] = random.integers(0, 2**16, inputs.bits.shape)
            assert inputs.exp is not None
            inputs.exp[:] = random.integers(0, 2**16, inputs.exp.shape)
            tokens = drawing.draw(inputs, rows, decision).tokens
            faulty = [inputs.fault_of(row) is not None for row in rows.tolist()]
            assert (tokens < 0).tolist() == faulty
            assert (tokens < inputs.bits.shape[1]).all()


@pytest.mark.parametrize("way", DrawingMethod)
def test_numbers_that_change_while_they_are_read_do_no_harm(way: DrawingMethod) -> None:
    random, drawing = np.random.default_rng(6), in_c()
    inputs, rows, decision = random_case(random, way, "softmax")
    garbage = random.integers(0, 2**16, (50, *inputs.bits.shape)).astype(np.uint16)
    over, sound = threading.Event(), inputs.bits.copy()

    def scribble() -> None:
        for bits in itertools.cycle(garbage):
            inputs.bits[:] = bits
            inputs.bits[:] = sound
            if over.is_set():
                return

    with ThreadPoolExecutor(1) as pool:
        scribbling = pool.submit(scribble)
        for _ in range(50):
            tokens = drawing.draw(inputs, rows, decision).tokens
            assert ((tokens >= -1) & (tokens < inputs.bits.shape[1])).all()
        over.set()
        scribbling.result()


def given_for(kind: int, probs: np.ndarray, random: np.random.Generator, topp: float) -> dict[str, Any]:
    rows, vocab = probs.shape
    inputs: dict[str, Any] = {"probs": probs, "topp": np.full((rows, 1), topp, np.float16)}
    if kind:
        inputs["topk"] = np.full((rows, 1), vocab - 1, np.int32)
    if kind in (2, 4):
        inputs["exp"] = np.maximum(random.exponential(size=probs.shape), 0.01).astype(np.float16)
    if kind == 3:
        inputs["rand"] = random.random((rows, 1), np.float32)
    return inputs


@pytest.mark.quick_share(3)
@pytest.mark.parametrize("topp", [0.9, 1.0])
@pytest.mark.parametrize("mode", ["documented", "observed"])
@pytest.mark.parametrize("drawing", ["c", "numpy"])
def test_a_call_takes_less_memory_than_its_probabilities(drawing: str, mode: str, topp: float) -> None:
    random = np.random.default_rng(1)
    weights = np.exp(random.normal(0, 2, (32, 20_000)))
    probs = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float16)
    half_float_table(False)
    for kind in range(5):
        operator = TopkToppSampling(TopkToppLogprobsSamplingParam(kind, range(32), 3, 19_999, 5), mode)
        operator._drawing = in_c() if drawing == "c" else DrawingInNumpy()
        given = given_for(kind, probs, random, topp)
        operator(**{name: tensor[:1] if kind != 1 else tensor for name, tensor in given.items()})
        tracemalloc.start()
        operator(**given)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < (0.1 if drawing == "c" else 2) * probs.nbytes


def test_first_numbers_of_many_seeds_are_those_of_each() -> None:
    random = np.random.default_rng(2)
    seeds = [0, 1, 2**31 - 1, 2**31, 2**32 - 1, *random.integers(2**32, size=20).tolist()]
    assert first_rands(np.array(seeds)).tolist() == [next(glibc_rand(seed)) for seed in seeds]
