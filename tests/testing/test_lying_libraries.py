"""Every law of the header has a library that breaks it alone, and `engine-sampler check` names it.

A quick run tries a sample of these libraries; ENGINE_SAMPLER_TEST_ROUNDS=2 tries them all.
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from engine_sampler.base.packaged import library_path
from engine_sampler.testing.library import FAILED, MEMORY, check_apart, check_library

from ..backends.library.building import library

HERE = Path(__file__).resolve().parent
SOURCE, FORWARDER = HERE / "lying_library.c", HERE / "lying_forwarder.c"

THOROUGH = int(os.environ.get("ENGINE_SAMPLER_TEST_ROUNDS", "1")) > 1
SEED, SHARE = 2, 0.2
"""Of the libraries that a quick run tries, and which share of them that is."""

LIES = {
    # the rows of a batch
    "token_at_entry": ("rows", "the token of entry i goes to row rows[i]"),
    "logits_at_entry": ("rows", "entry i reads row rows[i]"),
    "program_of_first": ("rows", "entry i runs program programs[i]"),
    "note_at_entry": ("rows", "the note of entry i goes to row rows[i]"),
    "note_is_zero": ("rows", "a selector without notes writes NaN"),
    "clears_all_tokens": ("rows", "only the rows of the batch get a token"),
    "writes_beyond_tokens": ("rows", "nothing is written outside of the outputs"),
    "no_status": ("rows", "every entry gets a status"),
    "sets_n": ("rows", "of the batch, only faults is written"),
    "sorts_rows": ("rows", "row numbers are inputs"),
    "second_draw": ("rows", "the random bits of a token are those of its seed and position"),
    "every_fifth_call": ("rows", "every call counts"),
    "batch_dependent": ("rows", "a row's token does not depend on the batch"),
    "top_k_plus_one": ("rows", "top_k keeps k tokens"),
    "processed_unscaled": ("rows", "processed logits are those after the last sampler"),
    # positions and seeds
    "position_16": ("positions and seeds", "a position has 64 bits, not 16"),
    "position_32": ("positions and seeds", "a position has 64 bits, not 32"),
    "seed_32": ("positions and seeds", "a seed has 64 bits"),
    "position_below_4096": ("positions and seeds", "positions do not end at 4,096"),
    "advances_positions": ("positions and seeds", "positions are inputs"),
    # logits at the limits
    "no_lower_limit": ("limits", "logits below −2^100 are removed"),
    "no_upper_limit": ("limits", "a logit above 2^100 is a fault"),
    "accepts_nan": ("limits", "NaN is a fault"),
    "accepts_infinity": ("limits", "+inf is a fault"),
    "flushes_denormals": ("limits", "denormal logits are logits"),
    "zeros_differ": ("limits", "both zeros are equal"),
    "no_faults": ("limits", "faults counts the rows that have one"),
    "unknown_status": ("limits", "a status is one of the header's"),
    "never_empty": ("limits", "a row without a token is a fault"),
    # arithmetic
    "float_inverse": ("temperatures", "a temperature scales by (float)(1.0 / T)"),
    "divides": ("temperatures", "a temperature multiplies"),
    "no_greedy_temperature": ("temperatures", "below 1e-4 only the best token stays"),
    "writes_parameters": ("temperatures", "parameters are inputs"),
    "truncated_weights": ("boundaries", "weights are rounded"),
    "cut_at_30": ("boundaries", "weights end 31 bits below the peak"),
    "float_draw": ("boundaries", "a draw has 64 bits"),
    "float_sum": ("boundaries", "the sum of the weights is an integer"),
    # masks
    "ignores_masked": ("masks among others", "only entries that are masked have a mask"),
    "ignores_masks": ("masks among others", "masks are applied"),
    "mask_of_entry": ("masks among others", "the mask of entry i is in row rows[i]"),
    "ignores_mask_stride": ("masks among others", "masks are bitmask_stride words apart"),
    "small_masks_wrong": ("masks among others", "a mask may leave fewer than eight tokens"),
    "writes_masks": ("masks among others", "masks are inputs"),
    "no_processed_if_masked": ("masks among others", "masked rows have processed logits too"),
    # sizes
    "big_vocabulary": ("sizes", "vocabularies are larger than 2,100 tokens"),
    "wide_ids_16": ("sizes", "token ids have more than 16 bits"),
    "ignores_stride": ("sizes", "rows are a stride apart"),
    "last_of_ties": ("sizes", "ties go to the lower id"),
    "many_rows": ("batches", "a batch may have more than 64 rows"),
    "high_slots": ("batches", "slots do not end at 200"),
    "slot_as_byte": ("batches", "a slot has more than 8 bits"),
    "writes_histories": ("histories", "histories are inputs"),
    "N_history_4096": ("histories", "histories do not end at 4,096 tokens"),
    # contexts
    "static_buffer": ("contexts", "contexts run side by side"),
    "static_programs": ("contexts", "a context has its own programs"),
    # other results
    "N_log_sums_garbage": ("log_sums", "log_sums are sums"),
    "N_log_sums_float": ("log_sums", "log_sums are float64"),
    "N_maxima_unordered": ("maxima", "maxima are those of rows[i]"),
    "N_logprobs_function": ("logprobs", "the last of all logprobs counts"),
    "N_logprobs_garbage": ("logprobs of steps", "logprobs are exact"),
    "N_logprobs_at_entry": ("logprobs of steps", "the first token listed is the row's own"),
    "N_rank_off": ("logprobs of steps", "ranks begin at 1"),
    "N_lists_one_more": ("logprobs of steps", "entries that a row does not have are left as they are"),
    "N_penalized_is_raw": ("logprobs of steps", "penalized logprobs come from the program of edits"),
}
"""The check that must fail, and the law."""

FATAL = {
    "crashes_at_129": ("batches", "SIGABRT", "any number of rows"),
    "writes_logits_for_a_while": (MEMORY, "SIGSEGV", "logits are never written, not even for a moment"),
    "reads_beyond": (MEMORY, "SIGSEGV", "nothing behind the last row is read"),
}
"""The check at which the process must end, how, and the law."""


FORWARDED = {
    # what a function of the host is told
    "function_dropped": ("random programs", "", "functions are called"),
    "function_values_of_slot_0": (
        "random programs",
        "another row of parameters",
        "values are those of the slot",
    ),
    "function_without_state": ("random programs", "another state", "a function gets its state"),
    "function_stream_0": ("random programs", "another random stream", "a function has the stream of its op"),
    "function_failure_ignored": ("random programs", "has failed", "a row whose function fails has no token"),
    "function_without_ids": ("random programs", "not ascending tokens", "ids name the tokens that are left"),
    "function_without_output": ("random programs", "another history", "a function sees prompt and output"),
    "function_without_user": ("random programs", "`user`", "a function gets the `user` of its op"),
    "function_position_32": ("random programs", "another position", "a function sees 64 bits of a position"),
    "function_row_of_entry": ("random programs", "given row 0", "a function is told the row of the logits"),
    "function_twice": ("random programs", "", "a function runs once for each op"),
    # programs
    "repeat_runs_once": ("random programs", "", "a sampler that stands in a program twice runs twice"),
    "xtc_stream_0": ("random requests", "", "the random bits of an op are those of its stream"),
    "program_not_copied": ("random programs", "", "a program is copied"),
    "writes_into_program": ("programs of one op", "writes into the program", "a program is an input"),
    "number_of_last": ("programs of one op", "its number is that of", "every program has its number"),
    # parameters
    "penalizes_exempt": ("random programs", "", "tokens that are exempt have no penalty"),
    "penalty_decay_ignored": ("random programs", "", "a library of 2.1 reads penalty_decay_range"),
    "adaptive_decay_default": ("random boundaries", "", "adaptive_decay is a parameter"),
    "mirostat_eta_float": ("random boundaries", "mirostat", "mirostat_eta is a float64"),
    "dynatemp_to_3": ("random programs", "", "dynatemp_range counts at any temperature"),
    "slot_swapped_params": ("random programs", "", "entry 41 has parameters of its own"),
    "min_keep_ignored": ("random programs", "", "min_keep is a parameter"),
    "biases_of_first": ("random programs", "", "biases are those of the slot"),
    "breakers_ignored": ("random programs", "", "no repeat extends across a breaker"),
    "seed_of_neighbour": ("random programs", "", "slot 30 has a seed of its own"),
    # histories
    "notes_16": ("random programs", "", "all notes of a request count"),
    "notes_nan_as_zero": ("random programs", "", "tokens without a note change no state"),
    "position_of_length": ("random programs", "", "a position need not be the length"),
    "prompt_as_output": ("random programs", "", "a prompt may be longer than 100 tokens"),
    "capacity_of_first": ("random programs", "", "the table grows"),
    # logits
    "bfloat16_flushed": ("random programs", "", "denormals of bfloat16 are logits"),
    "zeros_differ_in_halves": ("random programs", "", "both zeros are equal in every type"),
    "byte_offset_ignored": ("random programs", "", "logits begin at byte_offset"),
    "ties_overflow": ("ties", "eta_cutoff", "sums have room for tens of thousands of equal logits"),
    # around a call
    "changes_folder": ("rows", "the current folder", "the current folder stays"),
    "changes_locale": ("rows", "the locale", "the locale stays"),
    "flushes_to_zero": ("rows", "the floating-point modes", "the floating-point modes stay"),
    "changes_rounding": ("rows", "the floating-point modes", "rounding stays"),
    "sets_variable": ("rows", "the environment", "the environment stays"),
    "handles_signal": ("rows", "the handlers of signals", "signals stay"),
    "changes_mode_mask": ("rows", "the file mode mask", "the file mode mask stays"),
    "lowers_priority": ("rows", "the priority", "the priority stays"),
    "seeds_rand": ("rows", "the state of C's rand", "rand goes on"),
    "names_thread": ("rows", "the name of the thread", "the name of the thread stays"),
    "closes_input": ("rows", "standard input", "standard input stays open"),
    "leaks_files": ("leaks", "files more are open", "files are closed"),
    "leaks_memory": ("leaks", "it has grown by", "memory is given back"),
    # sizes
    "top_k_16": ("sizes", "", "top_k may be above 65,535"),
    "vocabulary_200000": ("sizes", "", "vocabularies may be above 200,000"),
    "wide_rows": ("sizes", "padded rows", "rows may be far apart"),
    "row_500": ("batches", "", "rows may be above 500"),
    "rows_257": ("batches", "257 rows", "any number of rows is served"),
    "history_32768": ("histories", "", "histories may be longer than 32,768 tokens"),
    # other results
    "log_sums_of_halves": ("log_sums", "float16", "log_sums are float64 for every type"),
    "maxima_by_width": ("maxima", "", "maxima heed strides"),
    "logprobs_of_ties": ("logprobs", "", "ranks are exact"),
    # the table
    "max_rows_negative": ("answers", "max_rows is -1", "max_rows is 0 or more"),
    "name_null": ("names", "name is NULL", "the name is a text"),
    "error_shared": ("errors", "a context without an error", "an error belongs to its context"),
    "answers_vary": ("answers", "not the same", "an answer stays the same"),
    "accepts_doubles": ("answers", "64 bits", "unknown types are refused"),
    "writes_behind_answer": ("answers", "behind the answer", "an answer has the size it says"),
    "refuses_later_hosts": ("versions", "gets another table, or none", "later minor versions are served"),
    "error_null": ("errors", "NULL", "an error is a text"),
}
"""Lies about what the toy vendor lacks, or about nothing that a row shows: the check that must fail, a part
of its words, and the law."""

FORWARDED_FATAL = {
    "ops_by_own_size": ("programs of one op", "SIGSEGV", "ops are as far apart as their size says"),
    "params_by_own_size": ("random programs", "seed", "parameters are as far apart as their size says"),
    "stale_tables": ("random requests", "seed", "tables of a history end with its epoch"),
    "epochs_32": ("random requests", "seed", "an epoch has 64 bits"),  # as above, now and then
    # It reads where the cells were: what is there now, if anything, is another thing each time.
    "function_values_moved": ("random programs", "seed", "cells are read at every call"),
}
"""The check at which the process may end, a part of its words, and the law."""


OF_PASSES = ("maxima", "log_sums", "logprobs", "logprobs of steps")
"""What the check "passes" reports."""


def some(lies: Mapping[str, Any]) -> list[Any]:
    """What a quick run tries of `lies`, as parameters of a test."""
    names = sorted(lies)
    if not THOROUGH:
        names = random.Random(SEED).sample(names, max(1, round(SHARE * len(names))))
    return [pytest.param(name, *lies[name], id=name) for name in names]


@pytest.fixture
def liar(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """The library that tells the lie of the test's parameter; compiled once."""
    monkeypatch.setenv("LIE", request.param)
    monkeypatch.setattr("engine_sampler.testing.library.random_programs.BUDGET", 12.0)
    forwards = (
        request.param in FORWARDED
        or request.param in FORWARDED_FATAL
        or "honest forwarder" in request.node.name
    )
    if request.param.startswith("N_") or forwards:
        packaged = library_path()
        if packaged is None:
            pytest.skip("the package was built without a C compiler")
        monkeypatch.setenv("LIE_NATIVE", str(packaged))
    return library(FORWARDER if forwards else SOURCE, optimized=True)


def listed(source: Path) -> set[str]:
    """The lies that a source can tell."""
    return set(
        re.findall(r"X\((\w+)\)", source.read_text().split("#define LIES(X)")[1].split("clang-format on")[0])
    )


def test_every_lie_of_the_sources_has_its_law() -> None:
    assert listed(SOURCE) == LIES.keys() | FATAL.keys()
    assert listed(FORWARDER) == FORWARDED.keys() | FORWARDED_FATAL.keys()


@pytest.mark.quick_share(3)
@pytest.mark.parametrize(("liar", "check", "law"), some(LIES), indirect=["liar"])
def test_a_library_that_breaks_a_law_fails_the_check_that_tries_it(liar: Path, check: str, law: str) -> None:
    only = ["passes" if check in OF_PASSES else check]
    failed = {each.name: each.detail for each in check_library(liar, only=only) if each.outcome == FAILED}
    assert failed.keys() == {check}, law


@pytest.mark.quick_share(3)
@pytest.mark.parametrize(("liar", "check", "words", "law"), some(FORWARDED), indirect=["liar"])
def test_a_library_that_changes_what_it_forwards_fails_a_check(
    liar: Path, check: str, words: str, law: str
) -> None:
    only = ["passes" if check in OF_PASSES else check]
    failed = [each for each in check_library(liar, only=only) if each.outcome == FAILED]
    assert [each.name for each in failed[:1]] == [check], (law, failed)
    assert words in failed[0].detail


@pytest.mark.parametrize("outcome", ["failed", "passed"])
def test_a_crash_behind_a_check_that_has_failed_belongs_to_that_failure(
    outcome: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [{"begins": "exact", "trying": ""}, {"name": "exact", "outcome": outcome, "detail": "seed 7"}]
    commands = [*(f"echo '{json.dumps(line)}'" for line in lines), "kill -9 $$"]
    ends = tmp_path / "ends"
    ends.write_text("\n".join(["#!/bin/sh", *commands]))
    ends.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(ends))
    results = [(one.name, one.outcome) for one in check_apart("library.so")]
    assert results == [("exact", outcome)] + [("exact", FAILED)] * (outcome == "passed")


@pytest.mark.parametrize(
    ("liar", "check", "words", "law"), some({**FATAL, **FORWARDED_FATAL}), indirect=["liar"]
)
def test_a_library_that_ends_the_process_fails_the_check_at_which_it_does(
    liar: Path, check: str, words: str, law: str
) -> None:
    results = list(check_apart(liar, only=[check]))
    assert [(each.name, each.outcome) for each in results] == [(check, FAILED)], law
    assert words in results[0].detail


OF_THE_FORWARDER = ("names", "versions", "errors", "answers", "programs of one op", "passes")
DRAWN = ("random programs", "random requests", "random boundaries")


@pytest.mark.parametrize("liar", [""], indirect=True, ids=["honest"])
def test_the_honest_one_passes(liar: Path) -> None:
    results = check_library(liar, seconds=0.5)
    assert not [each for each in results if each.outcome == FAILED]
    assert {*DRAWN} <= {each.name for each in results}


@pytest.mark.parametrize("liar", [""], indirect=True, ids=["honest forwarder"])
def test_the_honest_forwarder_passes_what_is_said_of_forwarders(liar: Path) -> None:
    results = check_library(liar, seconds=0.5, only=[*OF_THE_FORWARDER, *DRAWN])
    assert not [each for each in results if each.outcome == FAILED]
