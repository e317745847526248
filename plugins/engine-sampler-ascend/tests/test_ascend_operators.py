"""Contexts with CANN's own sampling operators: what is drawn follows from the noise, and cuts are those of
the operators."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from ascend_harness import FORMS, Chip, Host, Outcome, Step, as_elements, as_floats, nothing_left

OK, BAD, EMPTY, DECLINED = 0, 1, 2, 5
ALL = ["temperature", "top_k", "top_p", "min_p", "dist"]


def random_logits(rows: int, vocab_size: int = 512, seed: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 2, (rows, vocab_size)).astype(np.float32)


def noise_for(logits: np.ndarray, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).exponential(size=logits.shape).astype(np.float32)


def ranked(row: np.ndarray) -> np.ndarray:
    """Token ids in (logit descending, id ascending) order."""
    return np.argsort(-row.astype(np.float64), kind="stable")


def drawn(row: np.ndarray, noise: np.ndarray, params: dict[str, float]) -> int:
    """The token that the operator draws, in float64: a cut at top_k, at top_p and min_p, then the exponential
    race, whose numbers belong to ranks."""
    temperature = params.get("temperature", 1.0)
    greedy = temperature < 1e-4
    ids = ranked(row)
    scaled = row[ids].astype(np.float64) * (1 if greedy else float(np.float32(1 / temperature)))
    k = 1 if greedy else params.get("top_k", 0)
    kept = scaled[: k if 0 < k < len(ids) else len(ids)]
    weights = np.exp(kept - kept[0])
    weights /= weights.sum()
    before = np.cumsum(weights) - weights
    keep = (before < np.float32(params.get("top_p", 1.0))) | (params.get("top_p", 1.0) >= 1)
    keep &= weights >= np.float32(params.get("min_p", 0.0)) * weights[0]
    keep[0] = True
    return int(ids[np.argmax(np.where(keep, weights, 0) / (noise[: len(kept)].astype(np.float64) + 1e-8))])


def step(host: Host, elements: np.ndarray, params, kinds=ALL, seed: int = 3, **options) -> Outcome:
    return host.step(elements, kinds, params=params, noise=noise_for(elements, seed), **options)


SETTINGS = [
    {"top_k": 40},
    {"top_k": 5, "temperature": 0.5},
    {"top_p": 0.8},
    {"top_p": 0.9, "min_p": 0.1, "temperature": 1.4},
    {"top_k": 20, "top_p": 0.7, "min_p": 0.05, "temperature": 0.9},
    {"temperature": 0.0},
    {},
]


@pytest.mark.parametrize("params", SETTINGS, ids=str)
def test_draws_are_those_of_the_formula(operators: Host, params: dict[str, float]) -> None:
    logits = random_logits(6)
    outcome = step(operators, logits, params)
    noise = noise_for(logits)
    assert outcome.status.tolist() == [OK] * 6, operators.error()
    assert outcome.tokens.tolist() == [drawn(*pair, params) for pair in zip(logits, noise, strict=True)]


def test_rows_of_one_step_have_their_own_settings(operators: Host) -> None:
    logits = random_logits(len(SETTINGS))
    outcome = step(operators, logits, SETTINGS)
    rows = zip(logits, noise_for(logits), SETTINGS, strict=True)
    assert outcome.tokens.tolist() == [drawn(*row) for row in rows]


@pytest.mark.parametrize("form", ["float16", "bfloat16"])
def test_draws_from_16_bits(operators: Host, form: str) -> None:
    elements = as_elements(random_logits(5), form)
    params = {"top_k": 30, "temperature": 0.8}
    outcome = step(operators, elements, params)
    rows = zip(as_floats(elements), noise_for(elements), strict=True)
    assert outcome.tokens.tolist() == [drawn(*row, params) for row in rows]


def test_the_same_numbers_give_the_same_tokens_and_others_give_others(operators: Host) -> None:
    logits = random_logits(30)
    first, again, other = (step(operators, logits, {"top_k": 100}, seed=seed) for seed in (3, 3, 4))
    assert first.tokens.tolist() == again.tokens.tolist() != other.tokens.tolist()


def test_draws_follow_the_distribution(operators: Host) -> None:
    row = np.log(np.array([0.5, 0.25, 0.15, 0.1], np.float32))
    row = np.concatenate([row, np.full(60, -np.inf, np.float32)])
    logits = np.tile(row, (4000, 1))
    outcome = step(operators, logits, {"top_k": 8}, kinds=["top_k", "dist"])
    counts = np.bincount(outcome.tokens, minlength=4)
    expected = 4000 * np.array([0.5, 0.25, 0.15, 0.1])
    assert len(counts) == 4
    assert ((counts - expected) ** 2 / expected).sum() < 20  # 3 degrees of freedom


def test_only_the_numbers_that_top_k_leaves_are_copied(operators: Host, chip: Chip) -> None:
    logits = random_logits(4)
    counters = []
    for params in ({"top_k": 8}, {}):
        before = chip.counters().bytes_up
        step(operators, logits, params)
        counters.append(chip.counters().bytes_up - before - logits.nbytes)
    assert counters[0] < 4 * 8 * 4 + 1024
    assert counters[1] > 4 * 512 * 4


def test_with_top_k_a_row_is_given_as_many_numbers_as_that_may_keep(operators: Host) -> None:
    logits = random_logits(3, 2048)
    noise = noise_for(logits[:, :1024])
    params = [{"top_k": 9}, {"top_k": 1000}, {}]
    outcome = operators.step(logits, ["top_k", "dist"], params=params, noise=noise)
    assert outcome.status.tolist() == [OK, OK, DECLINED]
    for row in (0, 1):
        assert outcome.tokens[row] == drawn(logits[row], noise[row], params[row])
    widths = [
        operators.query(kinds, vocab_size=2048)[1].random_width for kinds in (["top_k", "dist"], ["dist"])
    ]
    assert widths == [1024, 2048]


def test_rows_that_are_given_other_numbers_than_the_first_are_declined(operators: Host) -> None:
    logits = random_logits(2, 2048)
    batch = Step(operators, logits, [["top_k", "dist"], ["dist"]], which=[0, 1], params={"top_k": 4},
                 noise=noise_for(logits[:, :1024]))  # fmt: skip
    assert batch.finish(batch.run()).status.tolist() == [OK, DECLINED]
    batch.free()


@pytest.mark.parametrize("form", FORMS)
def test_the_best_token(operators: Host, form: str) -> None:
    elements = as_elements(random_logits(5), form)
    outcome = operators.step(elements, ["greedy"], on_device=True)
    values = as_floats(elements)
    assert values[np.arange(5), outcome.tokens].tolist() == values.max(axis=1).tolist()


def filtered(row: np.ndarray, top_k: int, top_p: float) -> np.ndarray:
    """What ApplyTopKTopP leaves, in float64: all ties with the k-th token; then, from the last one up, tokens
    go while they weigh no more than 1 - p together."""
    ids = ranked(row)
    values = row[ids].astype(np.float64)
    if 0 < top_k < len(ids):
        ids, values = ids[values >= values[top_k - 1]], values[values >= values[top_k - 1]]
    weights = np.exp(values - values[0])
    weights /= weights.sum()
    behind = np.cumsum(weights[::-1])[::-1]
    keep = behind > 1 - np.float64(np.float32(top_p))
    keep[0] = True
    return np.sort(ids[keep])


@pytest.mark.parametrize(("top_k", "top_p"), [(0, 0.8), (20, 0.9), (1, 1.0), (200, 0.5)])
def test_what_a_filter_leaves_travels_to_the_host(operators: Host, top_k: int, top_p: float) -> None:
    logits = random_logits(4)
    params = {"top_k": top_k, "top_p": top_p}
    outcome = operators.step(logits, ["top_k", "top_p"], params=params, processed=True)
    assert outcome.status.tolist() == [OK] * 4, operators.error()
    for row, (ids, left), whole in zip(logits, outcome.survivors, outcome.processed, strict=True):
        expected = filtered(row, top_k, top_p)
        np.testing.assert_array_equal(ids, expected)
        np.testing.assert_array_equal(left, row[expected])
        np.testing.assert_array_equal(np.flatnonzero(whole > -np.inf), expected)


def test_a_filter_keeps_all_ties_with_the_last_one(operators: Host) -> None:
    logits = np.zeros((1, 64), np.float32)
    logits[0, 10:16] = 5
    outcome = operators.step(logits, ["top_k", "top_p"], params={"top_k": 2, "top_p": 1.0})
    assert outcome.survivors[0][0].tolist() == list(range(10, 16))


def test_a_row_with_more_survivors_than_travel_is_declined(operators: Host) -> None:
    logits = random_logits(2, 2048)
    logits[1] /= 100
    outcome = operators.step(logits, ["top_p"], params={"top_p": 0.9})
    assert outcome.status.tolist() == [OK, DECLINED]


def test_bad_rows_among_good_ones(operators: Host) -> None:
    logits = random_logits(5)
    logits[0, 3], logits[1, 9] = np.nan, np.inf
    logits[2] = -np.inf
    logits[3, 5] = 2.0**101
    for kinds in (["greedy"], ALL):
        assert step(operators, logits, {}, kinds).status.tolist() == [BAD, BAD, EMPTY, BAD, OK]


@pytest.mark.parametrize(
    "params",
    [{"top_k": 1025}, {"min_keep": 2}, {"top_p_cut": 1}, {"dynatemp_range": 0.5}],
    ids=lambda params: next(iter(params)),
)
def test_what_the_operators_do_otherwise_is_declined(operators: Host, params: dict[str, float]) -> None:
    outcome = step(operators, random_logits(2, 2048), [{"top_k": 3}, {"top_k": 3, **params}])
    assert outcome.status.tolist() == [OK, DECLINED]


def test_tokens_stay_on_the_device_in_the_order_of_the_stream(operators: Host, chip: Chip) -> None:
    logits = random_logits(5)
    batch = Step(operators, logits, [["greedy"], ["top_k", "dist"], ["top_k"]], which=[0, 1, 0, 2, 1],
                 params={"top_k": 4}, noise=noise_for(logits), on_device=True)  # fmt: skip
    outcome = batch.finish(batch.run())
    on_device = chip.download(batch.tokens_on_device, (5,), np.int64)
    batch.free()
    assert on_device.tolist() == outcome.tokens.tolist()
    assert on_device[3] == -1


# --- an older CANN -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def older_chip() -> Chip:
    return Chip("NO_V2")


@pytest.fixture
def older(older_chip: Chip, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    monkeypatch.setenv("ASCEND_HOME_PATH", str(older_chip.home))
    older_chip.reset()
    with nothing_left(older_chip):
        host = Host(older_chip, "operators")
        yield host
        host.close()


@pytest.mark.parametrize("form", ["float16", "bfloat16"])
def test_the_first_version_draws_from_16_bits(older: Host, form: str) -> None:
    elements = as_elements(random_logits(6), form)
    settings = [
        {"top_k": 30},
        {},
        {"temperature": 0.0},
        {"top_k": 9},
        {"top_p": 0.5},
        {"top_p": 0.25, "top_k": 70},
    ]
    outcome = step(older, elements, settings, kinds=["temperature", "top_k", "top_p", "dist"])
    rows = zip(as_floats(elements), noise_for(elements), settings, strict=True)
    assert outcome.tokens.tolist() == [drawn(*row) for row in rows]


def test_the_first_version_has_no_min_p_and_no_float32(older: Host) -> None:
    assert older.query(ALL, "float16")[0] == 1
    assert older.query(["top_k", "dist"], "float16")[0] == 0
    assert older.query(["top_k", "dist"], "float32")[0] == 1
