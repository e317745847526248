"""mlx-lm's samplers and processors: its rules with NumPy, and compared with mlx-lm itself if installed."""

from __future__ import annotations

import doctest
from typing import Any

import numpy as np
import pytest
from engine_sampler_mlx import sampling as mlx
from engine_sampler_mlx.sampling import make_logits_processors, make_sampler

from engine_sampler import ParameterError
from tests.chi_square import assert_drawn_from
from tests.reference import kept, order, softmax

ROW = np.random.default_rng(0).normal(0, 2, 40).astype(np.float32)
ROWS = np.random.default_rng(1).normal(0, 2, (6, 40)).astype(np.float32)
SPREAD = 1e4
"""A temperature at which all tokens that the filters leave are about equally likely."""


def drawn_set(sampler: Any, row: Any, calls: int = 4) -> set[int]:
    """The tokens seen in many draws from one row: at a high temperature, all that are left."""
    many = np.broadcast_to(row, (32, len(row)))
    return {int(token) for _ in range(calls) for token in sampler(many)}


def expected(row: np.ndarray, top_p: float, min_p: float, keep: int, top_k: int) -> set[int]:
    """The tokens of a row without ties that mlx-lm's chain leaves, in float64."""
    ids, p = order(row), np.sort(softmax(row))[::-1]
    count = len(row)
    if top_p:
        count = min(count, int((np.cumsum(p) - p < top_p).sum()))
    if min_p:
        count = min(count, max(int((p >= min_p * p[0]).sum()), keep))
    if top_k:
        count = min(count, top_k)
    return set(ids[:count].tolist())


def test_the_examples_of_the_docstring_run() -> None:
    assert doctest.testmod(mlx) == (0, 7)


# --- samplers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("others", [{}, {"top_k": 3, "xtc_probability": 1.0, "min_p": 0.5}])
def test_temp_zero_chooses_the_best_token_whatever_else_is_set(others: dict[str, Any]) -> None:
    np.testing.assert_array_equal(make_sampler(temp=0, **others)(ROWS), ROWS.argmax(axis=1))


@pytest.mark.parametrize(
    ("top_p", "min_p", "keep", "top_k"),
    [(0.6, 0, 1, 0), (0, 0.2, 1, 0), (0, 0, 1, 4), (0.8, 0.3, 1, 5), (0.3, 0.9, 6, 0), (0.9, 0.9, 6, 4)],
)
def test_the_filters_leave_the_tokens_that_mlx_lm_leaves(
    top_p: float, min_p: float, keep: int, top_k: int
) -> None:
    sampler = make_sampler(SPREAD, top_p, min_p, keep, top_k, seed=5)
    for row in ROWS[:3]:
        assert drawn_set(sampler, row) == expected(row, top_p, min_p, keep, top_k)


def test_draws_follow_the_tempered_distribution_of_the_tokens_left_by_untempered_filters() -> None:
    sampler = make_sampler(temp=0.5, top_p=0.9, seed=11)
    drawn = np.concatenate([sampler(np.tile(ROW, (50, 1))) for _ in range(40)])
    left = expected(ROW, 0.9, 0, 1, 0)
    tempered = np.where(np.isin(np.arange(40), list(left)), ROW / 0.5, -np.inf)
    assert_drawn_from(softmax(tempered), drawn)


def test_a_seed_repeats_the_draws_and_every_call_draws_afresh() -> None:
    first, second = make_sampler(temp=1.0, seed=3), make_sampler(temp=1.0, seed=3)
    tokens = [first(ROWS).tolist() for _ in range(20)]
    assert [second(ROWS).tolist() for _ in range(20)] == tokens
    assert len({tuple(t) for t in tokens}) > 10
    assert (first.seed, first.calls) == (3, 20)
    first.calls = 0
    assert [first(ROWS).tolist() for _ in range(20)] == tokens


def test_rows_draw_independently_and_the_first_does_not_depend_on_the_others() -> None:
    alone, together = make_sampler(temp=1.0, seed=3), make_sampler(temp=1.0, seed=3)
    pairs = np.array([together(np.tile(ROW, (2, 1))) for _ in range(40)])
    assert pairs[:, 0].tolist() == [int(alone(ROW[None])[0]) for _ in range(40)]
    assert (pairs[:, 0] != pairs[:, 1]).any()


def test_an_unseeded_sampler_has_a_random_seed_of_its_own() -> None:
    assert make_sampler(temp=1.0).seed != make_sampler(temp=1.0).seed
    assert make_sampler(temp=1.0, seed=0).seed == 0


def test_xtc_removes_the_top_choices_but_the_last_and_spares_special_tokens() -> None:
    row = np.log(np.array([0.4, 0.3, 0.2, 0.06, 0.04], np.float32))
    plain = make_sampler(SPREAD, xtc_probability=1.0, xtc_threshold=0.1, seed=1)
    assert drawn_set(plain, row) == {2, 3, 4}
    sparing = make_sampler(SPREAD, xtc_probability=1.0, xtc_threshold=0.1, xtc_special_tokens=[0, 4], seed=1)
    assert drawn_set(sparing, row) == {0, 2, 3, 4}


def test_xtc_with_spared_tokens_follows_the_distribution_at_the_given_probability() -> None:
    p = np.array([0.4, 0.3, 0.2, 0.1])
    sampler = make_sampler(1.0, xtc_probability=0.5, xtc_threshold=0.15, xtc_special_tokens=[0], seed=2)
    drawn = np.concatenate([sampler(np.tile(np.log(p).astype(np.float32), (50, 1))) for _ in range(24)])
    without = np.array([0.4, 0, 0.2, 0.1]) / 0.7
    assert_drawn_from(p / 2 + without / 2, drawn)


def test_min_tokens_to_keep_applies_to_min_p_only() -> None:
    sampler = make_sampler(SPREAD, top_p=0.3, min_p=0.01, min_tokens_to_keep=20, seed=1)
    assert drawn_set(sampler, ROW) == expected(ROW, 0.3, 0.01, 20, 0)
    assert len(expected(ROW, 0.3, 0.01, 20, 0)) < 20


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_tokens_are_uint32_for_rows_for_one_row_and_for_stacks_of_rows(dtype: Any) -> None:
    sampler = make_sampler()
    logprobs = ROWS.astype(dtype)
    best = logprobs.argmax(axis=1)
    assert sampler(logprobs).dtype == np.uint32
    assert int(sampler(logprobs[0])) == best[0]
    np.testing.assert_array_equal(sampler(logprobs.reshape(2, 3, 40)), best.reshape(2, 3))


@pytest.mark.parametrize(
    ("keywords", "error"),
    [
        ({"temp": -1.0}, r"temp=-1\.0 is not allowed"),
        ({"top_p": 1.5}, r"top_p=1\.5 is not allowed"),
        ({"min_p": -0.1}, r"min_p=-0\.1 is not allowed"),
        ({"min_tokens_to_keep": 0}, "min_tokens_to_keep=0 is not allowed"),
        ({"top_k": 2.5}, r"top_k=2\.5 is not allowed"),
        ({"xtc_probability": 2}, "xtc_probability=2 is not allowed"),
        ({"xtc_threshold": 0.6}, r"xtc_threshold=0\.6 is not allowed"),
        ({"xtc_special_tokens": [-1]}, "xtc_special_tokens=-1 is not allowed"),
        ({"seed": 2**64}, r"seed=\d+ is not allowed"),
    ],
)
def test_parameters_out_of_range_are_refused(keywords: dict[str, Any], error: str) -> None:
    with pytest.raises(ParameterError, match=error):
        make_sampler(**keywords)


def test_a_faulty_row_raises_and_is_not_counted_as_a_call() -> None:
    rows = ROWS.copy()
    rows[1, 3] = np.nan
    sampler = make_sampler(temp=1.0, seed=1)
    with pytest.raises(ValueError, match="row 1 of logprobs: the row's greatest logit is nan"):
        sampler(rows)
    assert sampler.calls == 0


def test_a_special_token_beyond_the_row_is_refused() -> None:
    sampler = make_sampler(1.0, xtc_probability=1.0, xtc_special_tokens=[40])
    with pytest.raises(ParameterError, match="xtc_special_tokens names token 40; the row has 40"):
        sampler(ROWS)


# --- processors -----------------------------------------------------------------------------------

TOKENS = [7, 1, 1, 5, 1, 9]


def apply(tokens: Any, logits: Any, **keywords: Any) -> Any:
    for processor in make_logits_processors(**keywords):
        logits = processor(tokens, logits)
    return logits


def test_each_penalty_considers_its_own_number_of_last_tokens() -> None:
    logits = np.full((1, 10), 2.0, np.float32)
    logits[0, 5] = -2.0
    left = apply(
        TOKENS, logits,
        repetition_penalty=2.0, repetition_context_size=3,
        presence_penalty=0.5, presence_context_size=1,
        frequency_penalty=0.25, frequency_context_size=5,
    )  # fmt: skip
    expected_row = np.full(10, 2.0)
    expected_row[[5, 1, 9]] = [-4.0, 1.0, 1.0]
    expected_row[9] -= 0.5
    expected_row[[1, 5, 9]] -= np.array([3, 1, 1]) * 0.25
    np.testing.assert_array_equal(left[0], expected_row.astype(np.float32))


@pytest.mark.parametrize("size", [0, None])
def test_a_context_size_of_zero_or_none_is_the_whole_text(size: int | None) -> None:
    left = apply(TOKENS, np.zeros((1, 10), np.float32), presence_penalty=1.0, presence_context_size=size)
    assert np.flatnonzero(left[0]).tolist() == [1, 5, 7, 9]


def test_biases_are_added_and_removed_tokens_stay_removed() -> None:
    logits = np.array([[1.0, 2.0, -np.inf]], np.float32)
    left = apply([], logits, logit_bias={0: 0.5, 1: -np.inf, 2: 100.0})
    np.testing.assert_array_equal(left, [[1.5, -np.inf, -np.inf]])
    np.testing.assert_array_equal(logits, [[1.0, 2.0, -np.inf]])


def test_parameters_that_are_off_add_no_processor() -> None:
    assert make_logits_processors() == []
    assert make_logits_processors({}, 0.0, 20, 0.0, 20, None) == []


def test_without_tokens_nothing_is_penalised() -> None:
    logits = ROWS[:1].astype(np.float16)
    left = apply([], logits, repetition_penalty=3.0, frequency_penalty=1.0)
    assert left.dtype == np.float16
    np.testing.assert_array_equal(left, logits)


def test_every_row_is_penalised_alike() -> None:
    left = apply(TOKENS, np.zeros((3, 10), np.float32), presence_penalty=1.0)
    assert {tuple(row) for row in left.tolist()} == {(0, -1, 0, 0, 0, -1, 0, -1, 0, -1)}


@pytest.mark.parametrize(
    ("keywords", "error"),
    [
        ({"repetition_penalty": -1.0}, r"repetition_penalty=-1\.0 is not allowed"),
        ({"presence_penalty": float("nan")}, "presence_penalty=nan is not allowed"),
        ({"presence_penalty": 1.0, "presence_context_size": -1}, "context_size=-1 is not allowed"),
        ({"logit_bias": {-1: 1.0}}, "logit_bias"),
    ],
)
def test_penalties_out_of_range_are_refused(keywords: dict[str, Any], error: str) -> None:
    with pytest.raises(ParameterError, match=error):
        make_logits_processors(**keywords)


# --- torch ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_torch_tensors_come_back_as_torch_tensors(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    logits = torch.tensor(ROWS).to(getattr(torch, dtype))
    tokens = make_sampler()(logits)
    assert (tokens.dtype, tokens.tolist()) == (torch.uint32, logits.argmax(dim=1).tolist())
    (penalty,) = make_logits_processors(presence_penalty=0.5)
    left = penalty(torch.tensor(TOKENS), logits)
    assert left.dtype == logits.dtype
    assert (left - logits).float()[0].nonzero().flatten().tolist() == sorted(set(TOKENS))


# --- mlx-lm itself --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mx() -> Any:
    """mlx without its compiler, which would run again for every parameter."""
    core = pytest.importorskip("mlx.core")
    core.disable_compile()
    yield core
    core.enable_compile()


@pytest.fixture(scope="module")
def theirs(mx: Any) -> Any:
    return pytest.importorskip("mlx_lm.sample_utils")


def normalised(mx: Any, rows: np.ndarray) -> Any:
    logits = mx.array(rows)
    return logits - mx.logsumexp(logits, axis=-1, keepdims=True)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_greedy_equals_mlx_lm(mx: Any, theirs: Any, dtype: str) -> None:
    logprobs = normalised(mx, ROWS).astype(getattr(mx, dtype))
    tokens = make_sampler()(logprobs)
    assert tokens.dtype == mx.uint32
    assert mx.array_equal(tokens, theirs.make_sampler()(logprobs))


@pytest.mark.parametrize("trial", range(6))
def test_the_tokens_left_are_those_that_mlx_lm_leaves(mx: Any, theirs: Any, trial: int) -> None:
    random = np.random.default_rng(trial)
    logprobs = normalised(mx, random.normal(0, 2, (1, 30)).astype(np.float32))
    top_p, min_p = float(random.uniform(0.05, 0.99)), float(random.uniform(0.001, 0.5))
    keep, top_k = int(random.integers(1, 20)), int(random.integers(1, 29))
    left = theirs.apply_min_p(theirs.apply_top_p(logprobs, top_p), min_p, keep)
    left = theirs.apply_xtc(left, 1.0, 0.05, [0, 1, 2])
    left = np.array(theirs.apply_top_k(left, top_k))[0]
    sampler = make_sampler(SPREAD, top_p, min_p, keep, top_k, 1.0, 0.05, [0, 1, 2], seed=trial)
    assert drawn_set(sampler, np.array(logprobs)[0]) == kept(left)


def test_draws_of_both_follow_the_same_distribution(mx: Any, theirs: Any) -> None:
    settings = {"temp": 0.8, "top_p": 0.9, "min_p": 0.02, "top_k": 12}
    row = np.where(np.isin(np.arange(40), list(expected(ROW, 0.9, 0.02, 1, 12))), ROW / 0.8, -np.inf)
    logprobs = normalised(mx, np.tile(ROW, (1500, 1)))
    mx.random.seed(1)
    for sampler in (theirs.make_sampler(**settings), make_sampler(**settings, seed=1)):
        assert_drawn_from(softmax(row), np.array(sampler(logprobs)))


@pytest.mark.parametrize(
    "keywords",
    [
        {"logit_bias": {3: 2.5, 5: -1.0}},
        {"repetition_penalty": 1.3},
        {"repetition_penalty": 1.1, "repetition_context_size": 0},
        {"presence_penalty": 0.7, "presence_context_size": 5},
        {"frequency_penalty": 0.3},
        {
            "logit_bias": {1: 1.0},
            "repetition_penalty": 1.2,
            "presence_penalty": 0.1,
            "frequency_penalty": 0.2,
        },
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_processed_logits_equal_those_of_mlx_lm(
    mx: Any, theirs: Any, dtype: str, keywords: dict[str, Any]
) -> None:
    random = np.random.default_rng(3)
    tokens = mx.array(random.integers(0, 40, 60))
    logits = mx.array(ROWS[:1]).astype(getattr(mx, dtype))
    ours = apply(tokens, logits, **keywords)
    assert mx.array_equal(logits, mx.array(ROWS[:1]).astype(getattr(mx, dtype)))
    left = logits + 0
    for processor in theirs.make_logits_processors(**keywords):
        left = processor(tokens, left)
    assert ours.dtype == left.dtype
    tolerance = {"float32": 1e-5, "float16": 1e-2, "bfloat16": 1e-1}[dtype]  # mlx-lm computes in the dtype
    ours, left = (np.array(array.astype(mx.float32)) for array in (ours, left))
    np.testing.assert_allclose(ours, left, atol=tolerance)


@pytest.fixture(scope="module")
def model(mx: Any) -> Any:
    """A Llama with two tiny layers of random weights."""
    llama = pytest.importorskip("mlx_lm.models.llama")
    mx.random.seed(0)
    return llama.Model(
        llama.ModelArgs(
            model_type="llama", hidden_size=32, num_hidden_layers=2, intermediate_size=64,
            num_attention_heads=2, rms_norm_eps=1e-5, vocab_size=50, num_key_value_heads=2,
        )
    )  # fmt: skip


def generated(mx: Any, model: Any, **keywords: Any) -> list[int]:
    generate = pytest.importorskip("mlx_lm.generate")
    steps = generate.generate_step(mx.array([3, 1, 4, 1, 5]), model, max_tokens=24, **keywords)
    return [int(token) for token, _ in steps]


def test_a_real_model_generates_the_same_text_with_either(mx: Any, theirs: Any, model: Any) -> None:
    settings = {"logit_bias": {7: 0.2}, "repetition_penalty": 1.3, "frequency_penalty": 0.1}
    ours = generated(mx, model, sampler=make_sampler(), logits_processors=make_logits_processors(**settings))
    assert ours == generated(
        mx, model, sampler=theirs.make_sampler(), logits_processors=theirs.make_logits_processors(**settings)
    )
    assert len(set(ours)) > 1


def test_a_real_model_generates_the_same_sampled_text_from_the_same_seed(mx: Any, model: Any) -> None:
    texts = [generated(mx, model, sampler=make_sampler(1.0, top_k=20, seed=seed)) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]
