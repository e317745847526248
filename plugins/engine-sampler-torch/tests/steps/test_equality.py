"""Every step and selector equals the core's bit for bit, on whole rows and on subsets of their tokens."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from engine_sampler_torch.steps import selector_of, step_of
from torch_chains import HOST_ONLY, apply_step, block_of, select, whole_rows

from engine_sampler import Tokenizer
from engine_sampler.arithmetic import FLT_MAX
from engine_sampler.arithmetic import MASS_SLACK as SLACK
from engine_sampler.contract import Rows
from engine_sampler.for_backends import default_registry
from engine_sampler.testing import Case, make_case, make_rows, times
from tests.random_chains import SAMPLERS, SELECTORS, tokenizer

CATALOGUE = default_registry().catalogue
STEPS = [sampler for sampler in CATALOGUE.samplers.values() if sampler.name not in HOST_ONLY]
CHOOSERS = [selector for selector in CATALOGUE.selectors.values() if selector.name not in HOST_ONLY]
SIZES = (1, 2, 3, 33, 300, 1500)

Settings = Mapping[str, Any]

EDGES: Mapping[str, Sequence[Settings]] = {
    "logit_bias": ({"logit_bias": {0: float(FLT_MAX)}}, {"logit_bias": {0: -float(FLT_MAX)}}),
    "penalties": (
        {"repetition_penalty": 1e-38, "frequency_penalty": -1e38},
        {"repetition_penalty": 1e300, "presence_penalty": 1e300, "penalty_scope": "all"},
        {"frequency_penalty": 1e308, "presence_penalty": 1e308},
        {"repetition_penalty": 1.5, "repetition_penalty_range": 1, "repetition_penalty_slope": 9.0},
        {"repetition_penalty": 1e300, "presence_penalty": 1.0, "penalty_last_n": 0, "penalty_decay_range": 5},
        {"repetition_penalty": 1e-45, "penalty_last_n": 2, "penalty_decay_range": 2**31 - 1},
    ),
    "dry": ({"dry_multiplier": 1e308, "dry_base": 1e30, "dry_allowed_length": 0},),
    "no_repeat_ngram": ({"no_repeat_ngram_size": 9},),
    "top_n_sigma": ({"top_n_sigma": 1e-9}, {"top_n_sigma": 1e300}),
    "top_k": ({"top_k": 2**31 - 1}, {"top_k": 300}, {"top_k": 1024}, {"top_k": 1025}),
    "top_a": ({"top_a": 1e308}, {"top_a": 1e-300}),
    "tfs": (
        {"tfs": 0.0},
        {"tfs": 0.0, "tfs_cut": "koboldai"},
        {"tfs": 0.5, "min_keep": 40},
        {"tfs": 0.999, "tfs_cut": "koboldai", "min_keep": 7},
    ),
    "typical_p": ({"typical_p": 0.0}, {"typical_p": 0.5 + SLACK}, {"typical_p": 0.5, "min_keep": 1400}),
    "top_p": (
        {"top_p": 0.0},
        {"top_p": 0.25},
        {"top_p": 0.5 + SLACK},
        {"top_p": 0.5 - SLACK, "top_p_cut": "exceed"},
        {"top_p": 0.5 - SLACK, "top_p_cut": "below"},
        {"top_p": 0.5, "min_keep": 1200},
        {"top_p": 0.0, "top_p_cut": "below", "min_keep": 2},
        {"top_p": 0.999999, "top_p_cut": "below"},
        {"top_p": 0.0, "top_p_cut": "exceed"},
    ),
    "min_p": (
        {"min_p": math.exp(SLACK / 2 - 1)},
        {"min_p": 1e-300},
        {"min_p": 1.0, "min_keep": 1100},
        {"min_p": 0.5, "min_keep": 2},
    ),
    "p_less": ({"p_less": True, "p_less_norm": True},),
    "min_k": (
        {"min_k": True, "min_k_tau": 0.0},
        {"min_k": True, "min_k_tau": 1e300},
        {"min_k": True, "min_k_tau": 1e-6},
    ),
    "epsilon_cutoff": (
        {"epsilon_cutoff": 1.0},
        {"epsilon_cutoff": 1e-300},
        {"epsilon_cutoff": 0.5 * (1 + SLACK)},
    ),
    "eta_cutoff": ({"eta_cutoff": 1.0}, {"eta_cutoff": 1e-300}),
    "top_h": ({"top_h": 1.0}, {"top_h": 1e-300}, {"top_h": 0.5}),
    "xtc": (
        {"xtc_probability": 1.0, "xtc_threshold": 0.0},
        {"xtc_probability": 1.0, "xtc_threshold": 0.0, "min_keep": 3},
        {"xtc_probability": 1.0, "xtc_threshold": 0.5},
    ),
    "smoothing": ({"smoothing_factor": 1e6, "smoothing_curve": 1e6}, {"smoothing_factor": 1e-6}),
    "temperature": (
        {"temperature": 0.0},
        {"temperature": 1e-4},
        {"temperature": 1e6},
        {"temperature": 0.0, "dynatemp_range": 2.0},
        {"temperature": 1.0, "dynatemp_range": 1.0, "dynatemp_exponent": -100.0},
        {"temperature": 1.0, "dynatemp_range": 1.0, "dynatemp_exponent": 0.0},
        {"temperature": 1e6, "dynatemp_range": 1e6, "dynatemp_exponent": 3.0},
    ),
    "mirostat": ({"mirostat": 1, "mirostat_tau": 0.0}, {"mirostat": 1, "mirostat_tau": 1e6}),
    "mirostat_v2": ({"mirostat": 2, "mirostat_tau": 0.0}, {"mirostat": 2, "mirostat_tau": 1e6}),
    "adaptive_p": ({"adaptive_target": 0.0}, {"adaptive_target": 1.0, "adaptive_decay": 0.99}),
}
"""Settings at the limits, beside those of random chains. Where a slack is added or taken away, a row of equal
tokens meets the threshold exactly."""


def settings_of(name: str, random: np.random.Generator, size: int) -> list[Settings]:
    usual = [SAMPLERS[name](random, size) for _ in range(3)] if name in SAMPLERS else [SELECTORS[name]]
    fitting = (s for s in EDGES.get(name, ()) if max(dict(s.get("logit_bias", {0: 0}))) < size)
    return [*usual, *fitting]


def cases_of(part: Any) -> Iterator[tuple[Case, Rows]]:
    """Batches of every kind of row, with the requests that they belong to."""
    for size in SIZES:
        for number in range(times(1)):
            random = np.random.default_rng([size, number])
            case = make_case(settings_of(part.name, random, size), size, random)
            yield case, rows_of(part, case)


def rows_of(part: Any, case: Case) -> Rows:
    return make_rows(
        part,
        case.params,
        case.vocab_size,
        prompts=case.prompts,
        outputs=case.outputs,
        seeds=case.seeds,
        eos_token_ids=[0],
        tokenizer=tokenizer(case.vocab_size),
    )


def some_columns(case: Case, random: np.random.Generator) -> np.ndarray:
    """bool [n, vocab]: all tokens that remain, and some of the others."""
    return case.alive | (random.random(case.logits.shape) < 0.3)


@pytest.mark.parametrize("sampler", STEPS, ids=lambda sampler: sampler.name)
def test_a_step_equals_its_sampler_on_whole_rows(sampler: Any) -> None:
    for case, rows in cases_of(sampler):
        expected = case.logits.copy()
        with np.errstate(all="ignore"):
            sampler.apply(expected, rows)
        block = block_of(case.logits, case.vocab_size)
        before = case.logits.copy()
        apply_step(sampler, block, rows)
        case.expect_equal(whole_rows(block), expected, "from that of the sampler")
        np.testing.assert_array_equal(case.logits, before, err_msg="the caller's logits were written to")


@pytest.mark.parametrize("sampler", STEPS, ids=lambda sampler: sampler.name)
def test_a_step_equals_its_sampler_on_a_subset_of_the_tokens(sampler: Any) -> None:
    for case, rows in cases_of(sampler):
        random = np.random.default_rng(case.vocab_size)
        half = case.thinned()
        logits, ids = half.compact(some_columns(half, random), padding=3)
        expected = logits.copy()
        with np.errstate(all="ignore"):
            sampler.apply(expected, rows.take(slice(None), ids).bind(sampler))
        block = block_of(logits, case.vocab_size, ids)
        apply_step(sampler, block, rows)
        narrow = block_of(expected, case.vocab_size, ids)
        case.expect_equal(
            whole_rows(block), whole_rows(narrow), "from that of the sampler on the same columns"
        )


@pytest.mark.parametrize("sampler", STEPS, ids=lambda sampler: sampler.name)
def test_a_step_uses_what_is_known_of_a_block_that_was_cut(sampler: Any) -> None:
    """Order, distances and weights from before a cut are still right after it."""
    for case, rows in cases_of(sampler):
        block = block_of(case.logits, case.vocab_size)
        assert block.weights.shape == block.order().shape
        counts = np.random.default_rng(7).integers(1, case.vocab_size + 1, len(case))
        block.keep_leading(block.faults.new_tensor(counts))
        expected = block.values.numpy().copy()
        with np.errstate(all="ignore"):
            sampler.apply(expected, rows)
        apply_step(sampler, block, rows)
        case.expect_equal(whole_rows(block), expected, "from that of the sampler after a cut")


@pytest.mark.parametrize("selector", CHOOSERS, ids=lambda selector: selector.name)
def test_a_selector_equals_that_of_the_core(selector: Any) -> None:
    for case, rows in cases_of(selector):
        half = case.thinned()
        for alive in (case, half):
            expected = chosen_by_core(selector, alive.logits, rows)
            expect_choice(select(selector, block_of(alive.logits, case.vocab_size), rows), expected)
        logits, ids = half.compact(some_columns(half, np.random.default_rng(1)), padding=2)
        expected = chosen_by_core(selector, logits, rows.take(slice(None), ids).bind(selector))
        expect_choice(select(selector, block_of(logits, case.vocab_size, ids), rows), expected)


def chosen_by_core(selector: Any, logits: np.ndarray, rows: Rows) -> tuple[np.ndarray, np.ndarray | None]:
    with np.errstate(all="ignore"):
        selection = selector.select(logits, rows)
    return rows.token_ids_at(selection.columns), selection.notes


def expect_choice(found: tuple[np.ndarray, Any], expected: tuple[np.ndarray, Any]) -> None:
    np.testing.assert_array_equal(found[0], expected[0])
    assert (found[1] is None) == (expected[1] is None)
    if expected[1] is not None:
        np.testing.assert_array_equal(found[1], expected[1])


@pytest.mark.parametrize("sampler", STEPS, ids=lambda sampler: sampler.name)
def test_the_examples_of_the_documentation_hold(sampler: Any) -> None:
    for example in sampler.examples:
        logits = np.array([example.logits], np.float32)
        rows = make_rows(
            sampler,
            [example.params],
            logits.shape[1],
            prompts=[example.prompt_token_ids],
            outputs=[example.output_token_ids],
            eos_token_ids=example.eos_token_ids,
            tokenizer=tokenizer_of(example),
        )
        block = block_of(logits, logits.shape[1])
        apply_step(sampler, block, rows)
        np.testing.assert_allclose(whole_rows(block)[0], np.array(example.expect, np.float32), rtol=1e-5)


def tokenizer_of(example: Any) -> Any:
    return Tokenizer(list(example.token_bytes), eos_token_ids=[]) if example.token_bytes else None


def test_what_has_no_form_in_torch_runs_on_the_host() -> None:
    without = {s.name for s in CATALOGUE.samplers.values() if step_of(s) is None}
    without |= {s.name for s in CATALOGUE.selectors.values() if selector_of(s) is None}
    assert without == HOST_ONLY
