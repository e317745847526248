"""Our samplers compared with llama.cpp's own, on the same random rows.

Where the two may differ, and why (the samplers' docstrings say the same):

- llama.cpp sums float32 probabilities one after another, ours are integers. A row whose threshold is
  that close to a token (`IN_DOUBT`) may be cut one token further; such rows are few.
- Among equal logits llama.cpp's partial sorts keep an unspecified choice, ours keep the lowest ids:
  rows with ties are compared by the logits that are kept, not by the ids.
- Tokens that logit_bias and top_n_sigma remove stay in llama.cpp's array at −inf. There they make
  typical_p's entropy NaN, count for min_keep and for the greatest entropy of a dynamic temperature,
  and xtc may keep such a token alone. Here removed tokens are not passed to it.
- typical_p's entropy is also NaN in llama.cpp if float32 rounds a probability to 0 (`IN_DOUBT`).
- A dynamic temperature depends on a float32 entropy in llama.cpp: logits differ by up to 3e-4, and by
  more in rows with hardly any entropy (`IN_DOUBT`). Here it is at least 1e-4.
- A window of −1 tokens is the whole history for us and off for llama.cpp: windows are given as numbers.
- Frequency and presence penalties count the prompt in llama.cpp: our penalty_scope is "all".
- mirostat 1 is estimated in float32 in llama.cpp: k may differ by one in several thousand, and a k that
  does not fit an int keeps one token there, all tokens here. Both versions ignore penalties and DRY, which
  our chain keeps.
- adaptive_p is computed in float32 in llama.cpp: new logits differ by up to 5e-4.
- Random numbers differ, so drawn tokens are not compared, only the rows they are drawn from.

Not compared: infill and grammar, which need a vocabulary and therefore a model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llama_cpp")

from engine_sampler_llama_cpp.token_data import candidates

from engine_sampler.params import SamplingParams, build_chain
from engine_sampler.registry import default_registry
from engine_sampler.samplers.adaptive_p import AdaptiveP, _reshape
from engine_sampler.testing import apply_sampler, select

from ..reference import NEG_INF, order, softmax
from ..samplers.mirostat_reference import kept, reference_k
from . import llama

SAMPLERS = default_registry().catalogue.samplers
SELECTORS = default_registry().catalogue.selectors
Random = np.random.Generator

ROWS = 60
"""Rows of each kind for each sampler."""
DOUBTFUL = 0.08
"""The maximum share of rows that may differ for a reason in `IN_DOUBT`."""


# --- rows and parameters -------------------------------------------------------------------------

KINDS: Mapping[str, Callable[[Random, int], np.ndarray]] = {
    "peaked": lambda random, m: random.normal(size=m) * 6,
    "plain": lambda random, m: random.normal(size=m) * 2 - 30,
    "flat": lambda random, m: random.normal(size=m) * 0.3,
    "zipf": lambda random, m: random.permutation(-1.2 * np.log(np.arange(1, m + 1))),
    "tied": lambda random, m: np.round(random.normal(size=m) * 2),
    "holes": lambda random, m: np.where(random.random(m) < 0.7, NEG_INF, random.normal(size=m) * 4),
    "lonely": lambda random, m: np.where(np.arange(m) == random.integers(m), 1.5, NEG_INF),
}


def make_row(kind: str, random: Random) -> np.ndarray:
    row = KINDS[kind](random, int(random.choice([3, 30, 400, 1500, 6000]))).astype(np.float32)
    if row.max() == NEG_INF:
        row[random.integers(len(row))] = 0.25
    return row


def make_history(random: Random, vocab_size: int) -> list[int]:
    """Up to 80 tokens, mostly from a small set, so that n-grams repeat."""
    frequent = random.integers(0, vocab_size, 4)
    length = int(random.integers(0, 80))
    return np.where(
        random.random(length) < 0.85, random.choice(frequent, length), random.integers(0, vocab_size, length)
    ).tolist()


def random_bias(random: Random, vocab_size: int) -> dict[int, float]:
    ids = random.choice(vocab_size, min(3, vocab_size - 1), replace=False)
    return {int(i): float(b) for i, b in zip(ids, (random.normal() * 5, -20.0, -np.inf), strict=False)}


PARAMETERS: Mapping[str, Callable[[Random, int], dict[str, Any]]] = {
    "logit_bias": lambda random, m: {"logit_bias": random_bias(random, m)},
    "penalties": lambda random, m: {
        "repetition_penalty": random.choice([0.8, 1.1, 1.7]),
        "frequency_penalty": random.choice([-0.5, 0.0, 0.7]),
        "presence_penalty": random.choice([0.0, 1.2]),
        "penalty_last_n": random.choice([1, 16, 64, 1000]),
        "penalty_scope": "all",
    },
    "dry": lambda random, m: {
        "dry_multiplier": random.choice([0.5, 2.0]),
        "dry_base": random.choice([1.2, 1.75, 3.0]),
        "dry_allowed_length": random.integers(1, 4),
        "dry_penalty_last_n": random.choice([10, 64, 1000]),
        "dry_sequence_breakers": [int(random.integers(m)), random.integers(0, m, 2).tolist()],
    },
    "top_n_sigma": lambda random, m: {"top_n_sigma": random.uniform(0.2, 3)},
    "top_k": lambda random, m: {"top_k": random.choice([1, 2, 40, 200, 9000])},
    "typical_p": lambda random, m: {"typical_p": random.uniform(0.1, 0.99), **random_min_keep(random)},
    "top_p": lambda random, m: {"top_p": random.uniform(0.1, 0.99), **random_min_keep(random)},
    "min_p": lambda random, m: {"min_p": random.uniform(0.001, 1), **random_min_keep(random)},
    "xtc": lambda random, m: {
        "xtc_probability": 1.0,
        "xtc_threshold": random.choice([0.005, 0.05, 0.1, 0.3, 0.5]),
        **random_min_keep(random),
    },
    "temperature": lambda random, m: {"temperature": random.choice([0.0, 0.3, 0.8, 2.5])},
    "dynamic temperature": lambda random, m: {
        "temperature": random.choice([0.6, 1.0, 1.4]),
        "dynatemp_range": random.choice([0.3, 1.0, 2.0]),
        "dynatemp_exponent": random.choice([0.5, 1.0, 2.0]),
    },
}


def random_min_keep(random: Random) -> dict[str, int]:
    return {"min_keep": int(random.choice([0, 1, 3, 500], p=[0.4, 0.2, 0.2, 0.2]))}


# --- rows that float32 cannot decide -------------------------------------------------------------

CLOSE = 1e-4


def _near(values: np.ndarray, threshold: float) -> bool:
    return bool(np.abs(values - threshold).min() <= CLOSE)


def _top_p_in_doubt(row: np.ndarray, params: Mapping[str, Any]) -> bool:
    return _near(softmax(row)[order(row)].cumsum(), params["top_p"])


def _typical_in_doubt(row: np.ndarray, params: Mapping[str, Any]) -> bool:
    """The threshold coincides with a token, or the last kept token is hardly more typical than the next, or
    a probability is 0 in float32."""
    p = softmax(row)[order(row)]
    if p[-1] < 1e-38:
        return True
    information = -np.log(np.maximum(p, 1e-300))
    score = np.abs(information - (p * information).sum())
    by_score = np.argsort(score, kind="stable")
    mass = p[by_score].cumsum()
    count = max(int((mass < params["typical_p"]).sum()) + 1, params["min_keep"])
    return (
        _near(mass, params["typical_p"])
        or np.diff(score[by_score][count - 1 : count + 1]).min(initial=1) < CLOSE
    )


def _min_p_in_doubt(row: np.ndarray, params: Mapping[str, Any]) -> bool:
    return _near(row.astype(np.float64), float(row.max()) + np.log(params["min_p"]))


def _top_n_sigma_in_doubt(row: np.ndarray, params: Mapping[str, Any]) -> bool:
    survivors = row[row > NEG_INF].astype(np.float64)
    return _near(survivors, survivors.max() - params["top_n_sigma"] * survivors.std())


def _xtc_in_doubt(row: np.ndarray, params: Mapping[str, Any]) -> bool:
    return _near(softmax(row), params["xtc_threshold"])


def _entropy_in_doubt(row: np.ndarray, params: Mapping[str, Any]) -> bool:
    p = softmax(row[row > NEG_INF])
    entropy = -(p * np.log(np.maximum(p, 1e-300))).sum()
    return bool(params["dynatemp_range"] > 0 and entropy < 1e-2 * np.log(len(p)))


IN_DOUBT = {
    "top_p": _top_p_in_doubt,
    "typical_p": _typical_in_doubt,
    "min_p": _min_p_in_doubt,
    "top_n_sigma": _top_n_sigma_in_doubt,
    "xtc": _xtc_in_doubt,
    "temperature": _entropy_in_doubt,
}

BY_RANK = ("top_k", "top_p", "min_p", "typical_p", "xtc")
"""Samplers that may choose among equal logits (min_p where min_keep decides)."""


def agree(ours: np.ndarray, theirs: np.ndarray, params: SamplingParams, by_value: bool = False) -> bool:
    """Whether two rows keep the same tokens with the same logits; `by_value` compares ties by logit only."""
    if by_value:
        ours, theirs = np.sort(ours), np.sort(theirs)
    relative = 3e-4 if params.dynatemp_range else 1e-5
    return np.allclose(ours, theirs, rtol=relative, atol=1e-5)


# --- single samplers -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("setting", PARAMETERS)
def test_a_sampler_agrees_with_llama_cpp(setting: str, kind: str) -> None:
    name = "temperature" if setting == "dynamic temperature" else setting
    random = np.random.default_rng([list(PARAMETERS).index(setting), list(KINDS).index(kind)])
    doubtful = 0
    for _ in range(ROWS):
        row = make_row(kind, random)
        history = make_history(random, len(row))
        split = len(history) // 2
        params = SamplingParams(**PARAMETERS[setting](random, len(row)))
        ours = apply_sampler(
            SAMPLERS[name], row, params, prompts=[history[:split]], outputs=[history[split:]]
        )
        with llama.opened(name, params, len(row)) as sampler:
            sampler.accept(history)
            theirs = sampler.apply(row).row(len(row))
        if not agree(ours, theirs, params, by_value=kind == "tied" and name in BY_RANK):
            assert name in IN_DOUBT, f"{params} differs"
            assert IN_DOUBT[name](row, params), f"{params} differs"
            doubtful += 1
    assert doubtful <= DOUBTFUL * ROWS


# --- the whole chain -----------------------------------------------------------------------------

CHAIN = (
    "logit_bias",
    "penalties",
    "dry",
    "top_n_sigma",
    "top_k",
    "typical_p",
    "top_p",
    "min_p",
    "xtc",
    "temperature",
)


def random_parameters(random: Random, vocab_size: int, leave_out: Sequence[str]) -> SamplingParams:
    """Parameters for about half of all samplers."""
    given: dict[str, Any] = {"dry_sequence_breakers": [0]}
    for setting, draw in PARAMETERS.items():
        if setting not in leave_out and random.random() < 0.6:
            given |= draw(random, vocab_size)
    return SamplingParams(**given)


def as_one_chain(
    names: Sequence[str], params: SamplingParams, row: np.ndarray, history: Sequence[int]
) -> np.ndarray:
    """The row after one llama.cpp chain of these samplers."""
    with llama.chain(names, params, len(row)) as sampler:
        sampler.accept(history)
        return sampler.apply(row).row(len(row))


def step_by_step(
    names: Sequence[str], params: SamplingParams, row: np.ndarray, history: Sequence[int]
) -> np.ndarray:
    """The row after llama.cpp's samplers one by one, each without the tokens removed so far."""
    for name in names:
        row = as_one_chain([name], params, row, history)
    return row


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "tied"])
@pytest.mark.parametrize(
    ("run", "leave_out"),
    [(as_one_chain, ("logit_bias", "top_n_sigma")), (step_by_step, ())],
    ids=["whole", "step by step"],
)
def test_the_default_chain_agrees_with_llama_cpps(kind: str, run: Any, leave_out: Sequence[str]) -> None:
    random = np.random.default_rng(list(KINDS).index(kind))
    doubtful = 0
    for _ in range(4 * ROWS):
        row = make_row(kind, random)
        history = make_history(random, len(row))
        params = random_parameters(random, len(row), leave_out)
        ours, in_doubt = row, False
        for sampler in build_chain(params).samplers:
            in_doubt |= sampler.name in IN_DOUBT and IN_DOUBT[sampler.name](ours, params)
            ours = apply_sampler(sampler, ours, params, outputs=[history])
        if ours.max() == NEG_INF:
            continue  # biases of −inf may leave nothing
        theirs = run([name for name in CHAIN if SAMPLERS[name].is_active(params)], params, row, history)
        if not agree(ours, theirs, params):
            assert in_doubt, f"{params} differs"
            doubtful += 1
    assert doubtful <= DOUBTFUL * 4 * ROWS


TWICE = (
    "penalties",
    "top_p",
    "temperature",
    "dry",
    "top_p",
    "min_p",
    "penalties",
    "temperature",
    "dry",
    "min_p",
)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "tied"])
def test_samplers_that_a_chain_names_twice_run_twice(kind: str) -> None:
    random = np.random.default_rng(list(KINDS).index(kind))
    doubtful = repeated = 0
    for _ in range(ROWS):
        row = make_row(kind, random)
        history = make_history(random, len(row))
        given = random_parameters(random, len(row), set(PARAMETERS) - set(TWICE)).given
        temperature = given.get("temperature", 1.0) or 0.7  # nothing runs after a temperature of 0 here
        params = SamplingParams(**{**given, "order": TWICE, "temperature": temperature})
        ours, in_doubt = row, False
        for sampler in build_chain(params).samplers:
            in_doubt |= sampler.name in IN_DOUBT and IN_DOUBT[sampler.name](ours, params)
            ours = apply_sampler(sampler, ours, params, outputs=[history])
        names = [name for name in TWICE if SAMPLERS[name].is_active(params)]
        repeated += len(names) > len(set(names))
        if not agree(ours, as_one_chain(names, params, row, history), params):
            assert in_doubt, f"{params} differs"
            doubtful += 1
    assert repeated > ROWS // 2
    assert doubtful <= 2 * DOUBTFUL * ROWS


# --- selectors -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_chooses_the_same_token(kind: str) -> None:
    random = np.random.default_rng(1)
    for _ in range(ROWS):
        row = make_row(kind, random)
        with llama.opened("greedy", {}, len(row)) as sampler:
            theirs = sampler.apply(row)
        assert select(SELECTORS["greedy"], row, {}).columns == theirs.ids[theirs.selected]


@pytest.mark.parametrize("kind", KINDS)
def test_dist_leaves_the_candidates_with_our_probabilities(kind: str) -> None:
    random = np.random.default_rng(2)
    for _ in range(ROWS):
        row = make_row(kind, random)
        with llama.opened("dist", {}, len(row)) as sampler:
            theirs = sampler.apply(row)
        ours = candidates(row, selected_token_id=int(theirs.ids[theirs.selected]))
        assert np.array_equal(ours.ids, theirs.ids)
        assert np.array_equal(ours.logits, theirs.logits)
        assert np.allclose(ours.p, theirs.p, rtol=1e-5, atol=1e-30)
        assert ours.selected == theirs.selected


def k_overflows(row: np.ndarray, mu: float) -> bool:
    p = np.sort(softmax(row))[::-1]
    return bool(p[0] == p[min(len(p), 100) - 1] or reference_k(p, mu, len(row)) >= 2**31)


@pytest.mark.parametrize("kind", KINDS)
def test_mirostat_keeps_the_same_number_of_tokens(kind: str) -> None:
    random = np.random.default_rng(3)
    for _ in range(ROWS):
        row = make_row(kind, random)
        given = {"mirostat": 1, "mirostat_tau": random.uniform(0.5, 8), "mirostat_eta": 0.1}
        with llama.opened("mirostat", given, len(row)) as sampler:
            theirs = len(sampler.apply(row).ids)
        ours = kept(SELECTORS["mirostat"], row[None], given).sum()
        if theirs == 1 < ours and len(row) > 2:
            assert k_overflows(row, 2 * given["mirostat_tau"])
        else:
            assert abs(ours - theirs) <= (ours > 1) + 3e-4 * ours


@pytest.mark.parametrize("kind", KINDS)
def test_mirostat_v2_keeps_the_same_tokens(kind: str) -> None:
    random = np.random.default_rng(4)
    for _ in range(ROWS):
        row = make_row(kind, random)
        given = {"mirostat": 2, "mirostat_tau": random.uniform(0.5, 8), "mirostat_eta": 0.1}
        with llama.opened("mirostat_v2", given, len(row)) as sampler:
            theirs = np.sort(sampler.apply(row).logits)
        ours = np.sort(row[kept(SELECTORS["mirostat_v2"], row[None], given)[0]])
        surprise = -np.log2(np.maximum(softmax(row), 1e-300))
        assert np.array_equal(ours, theirs) or _near(surprise, 2 * given["mirostat_tau"])


@pytest.mark.parametrize("kind", KINDS)
def test_adaptive_p_reshapes_and_adapts_alike(kind: str) -> None:
    random = np.random.default_rng(5)
    ours = AdaptiveP()
    for _ in range(ROWS):
        row = make_row(kind, random)
        p = softmax(row)
        given = {"adaptive_target": random.uniform(0, 1), "adaptive_decay": random.uniform(0, 0.99)}
        state = ours.new_state(given, np.array([]))
        with llama.opened("adaptive_p", given, len(row)) as sampler:
            for _ in range(3):
                theirs = sampler.apply(row)
                target = np.clip(2 * given["adaptive_target"] - state.now, 0, 1)
                assert np.allclose(_reshape(p[theirs.ids], target), theirs.logits, rtol=1e-5, atol=5e-4)
                chosen = int(theirs.ids[theirs.selected])
                sampler.accept([chosen])
                ours.accept(state, [chosen], [p[chosen]])
