"""Every law of the header has a library that breaks it alone, and `engine-sampler check` names it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine_sampler.base.packaged import library_path
from engine_sampler.testing.library import FAILED, MEMORY, check_apart, check_library

from ..backends.library.building import library

SOURCE = Path(__file__).resolve().parent / "lying_library.c"

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


@pytest.fixture
def liar(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """The library that tells the lie of the test's parameter; compiled once."""
    monkeypatch.setenv("LIE", request.param)
    if request.param.startswith("N_"):
        packaged = library_path()
        if packaged is None:
            pytest.skip("the package was built without a C compiler")
        monkeypatch.setenv("LIE_NATIVE", str(packaged))
    return library(SOURCE, optimized=True)


def test_every_lie_of_the_source_has_its_law() -> None:
    listed = re.findall(r"X\((\w+)\)", SOURCE.read_text().split("#define LIES(X)")[1].split("enum {")[0])
    assert set(listed) == LIES.keys() | FATAL.keys()
    assert len(listed) >= 40


@pytest.mark.parametrize(
    ("liar", "check", "law"), [(lie, *found) for lie, found in LIES.items()], indirect=["liar"], ids=LIES
)
def test_a_library_that_breaks_a_law_fails_the_check_that_tries_it(liar: Path, check: str, law: str) -> None:
    only = ["passes"] if check in ("maxima", "log_sums", "logprobs", "logprobs of steps") else [check]
    failed = {found.name: found.detail for found in check_library(liar, only=only) if found.outcome == FAILED}
    assert failed.keys() == {check}, law


@pytest.mark.parametrize(
    ("liar", "check", "signal", "law"),
    [(lie, *found) for lie, found in FATAL.items()],
    indirect=["liar"],
    ids=FATAL,
)
def test_a_library_that_ends_the_process_fails_the_check_at_which_it_does(
    liar: Path, check: str, signal: str, law: str
) -> None:
    found = list(check_apart(liar, only=[check]))
    assert [(each.name, each.outcome) for each in found] == [(check, FAILED)], law
    assert signal in found[0].detail


@pytest.mark.parametrize("liar", [""], indirect=True, ids=["honest"])
def test_the_honest_one_passes(liar: Path) -> None:
    found = check_library(liar, seconds=0.5)
    assert not [check for check in found if check.outcome == FAILED]
    assert "random programs" in {check.name for check in found}
