"""Libraries that decline and fail: the host takes over, with the same tokens, and nothing leaks."""

from __future__ import annotations

import gc
import logging
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from engine_sampler import Scheduler
from engine_sampler.backends.library import LibraryBackend, LibraryError
from engine_sampler.backends.library.header import number
from engine_sampler.backends.library.outputs import ProcessedOutput, TokensOutput
from engine_sampler.contract import Backend

from ...engines import observed
from .building import FaultyToy, faulty_toy, toy, variant
from .running import PLAIN, STATEFUL, generate, generate_on_numpy, logits_of, scheduler_of

CALLS = ("open", "query", "compile", "run")
DECLINED = ("ES_UNSUPPORTED", "ES_NO_MEMORY", "ES_DEVICE", "ES_BUSY")


@pytest.fixture
def vendor() -> FaultyToy:
    return faulty_toy()


def processed(backend: str | Backend) -> np.ndarray:
    """Rows after the chains of all settings, some of them faulty."""
    logits = logits_of(0, len(PLAIN + STATEFUL))
    logits[2], logits[5, 3] = -np.inf, np.nan
    return np.asarray(scheduler_of(PLAIN + STATEFUL, backend).process(logits))


def explained(scheduler: Scheduler) -> str:
    return " | ".join(map(str, scheduler.explain()))


@pytest.mark.parametrize("settings", [PLAIN, STATEFUL, PLAIN + STATEFUL], ids=["plain", "stateful", "both"])
def test_a_library_gives_the_tokens_of_numpy(settings: tuple[dict[str, object], ...]) -> None:
    assert np.array_equal(generate(settings, LibraryBackend(toy())), generate_on_numpy(settings))


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("code", DECLINED)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("skip", [0, 1, 2])
def test_the_host_takes_over_when_any_call_fails(vendor: FaultyToy, call: str, code: str, skip: int) -> None:
    backend = LibraryBackend(vendor.path)
    vendor.fail(call, number(code), skip=skip)
    assert np.array_equal(generate(PLAIN + STATEFUL, backend), generate_on_numpy(PLAIN + STATEFUL))


@pytest.mark.parametrize("code", DECLINED)
@pytest.mark.parametrize("call", CALLS)
def test_the_host_takes_over_when_every_call_fails(vendor: FaultyToy, call: str, code: str) -> None:
    backend = LibraryBackend(vendor.path)
    vendor.fail(call, number(code), times=10**6)
    assert np.array_equal(generate(PLAIN, backend), generate_on_numpy(PLAIN))


@pytest.mark.parametrize("code", ["ES_INVALID", 77])
@pytest.mark.parametrize("call", CALLS)
def test_a_breach_of_the_contract_raises_with_the_librarys_message(
    vendor: FaultyToy, call: str, code: str | int
) -> None:
    backend = LibraryBackend(vendor.path)
    scheduler = scheduler_of(PLAIN, backend)
    vendor.fail(call, code if isinstance(code, int) else number(code))
    named = code if isinstance(code, int) else code.removeprefix("ES_")
    words = "" if call == "open" else ": toy: as requested"
    with pytest.raises(LibraryError, match=f"{call} returned {named}{words}$"):
        scheduler.step(logits_of(0, len(PLAIN)))


@pytest.mark.parametrize("call", ["open", "query"])
@pytest.mark.parametrize("code", ["ES_INVALID", *DECLINED])
def test_a_library_that_fails_when_it_is_loaded_is_refused(vendor: FaultyToy, call: str, code: str) -> None:
    vendor.fail(call, number(code))
    with pytest.raises(LibraryError, match=f"{call} returned {code.removeprefix('ES_')}"):
        LibraryBackend(vendor.path)
    gc.collect()
    assert vendor.live == 0


def test_an_unsupported_program_is_not_tried_again_and_is_explained_as_run_by_the_host(
    vendor: FaultyToy,
) -> None:
    scheduler = scheduler_of([{"temperature": 0.0}], LibraryBackend(vendor.path))
    vendor.fail("run", number("ES_UNSUPPORTED"))
    scheduler.step(logits_of(0, 1))
    vendor.fail("run", number("ES_INVALID"), times=10**6)
    scheduler.step(logits_of(1, 1))
    assert "greedy (numpy)" in explained(scheduler)


def test_only_the_unsupported_one_of_several_programs_runs_on_the_host(vendor: FaultyToy) -> None:
    scheduler = scheduler_of([{"temperature": 0.0}, {"top_k": 4}], LibraryBackend(vendor.path))
    vendor.fail("run", number("ES_UNSUPPORTED"), times=2)  # both together, then the first
    scheduler.step(logits_of(0, 2))
    assert "greedy (numpy)" in explained(scheduler)
    assert "top_k (toy) → dist (toy)" in explained(scheduler)


def test_a_busy_library_is_called_again_in_the_next_step(vendor: FaultyToy) -> None:
    scheduler = scheduler_of(PLAIN, LibraryBackend(vendor.path))
    vendor.fail("run", number("ES_BUSY"))
    scheduler.step(logits_of(0, len(PLAIN)))
    vendor.fail("run", number("ES_INVALID"))
    with pytest.raises(LibraryError):
        scheduler.step(logits_of(1, len(scheduler.request_ids)))


@pytest.mark.parametrize("failures", [1, 2, 3, 10**6])
def test_a_batch_without_memory_is_halved_down_to_single_rows(vendor: FaultyToy, failures: int) -> None:
    def starve(step: int) -> None:
        vendor.fail("run", number("ES_NO_MEMORY"), times=failures)

    backend = LibraryBackend(vendor.path)
    assert np.array_equal(generate(PLAIN, backend, before=starve), generate_on_numpy(PLAIN))


@pytest.mark.parametrize("most", [1, 2, 3])
def test_no_more_rows_are_given_than_the_library_takes_at_once(most: int) -> None:
    backend = LibraryBackend(variant(f"MAX_ROWS={most}"))
    assert np.array_equal(generate(PLAIN, backend), generate_on_numpy(PLAIN))


# --- a device that is lost -----------------------------------------------------------------------


def lose_at(vendor: FaultyToy, when: int):
    def before(step: int) -> None:
        if step == when:
            vendor.fail("run", number("ES_DEVICE"))
        elif step > when:
            vendor.fail("run", number("ES_INVALID"), times=10**6)

    return before


@pytest.mark.parametrize("when", [0, 1, 7])
def test_a_device_lost_in_mid_generation_changes_no_token(vendor: FaultyToy, when: int) -> None:
    settings = PLAIN + STATEFUL
    tokens = generate(settings, LibraryBackend(vendor.path), before=lose_at(vendor, when))
    assert np.array_equal(tokens, generate_on_numpy(settings))


def test_a_lost_device_is_logged_once_and_never_called_again(
    vendor: FaultyToy, caplog: pytest.LogCaptureFixture
) -> None:
    backend = LibraryBackend(vendor.path)
    with caplog.at_level(logging.WARNING, "engine_sampler"):
        generate(PLAIN, backend, before=lose_at(vendor, 1))
        generate(PLAIN, backend)
    assert [record.getMessage() for record in caplog.records] == [
        f"backend toy is no longer used: {vendor.path}: run returned DEVICE: toy: as requested"
    ]
    assert backend.score("cpu") == 0
    assert "toy" not in explained(scheduler_of(PLAIN, backend))


# --- leaks ----------------------------------------------------------------------------------------


def test_nothing_leaks(vendor: FaultyToy) -> None:
    gc.collect()
    assert vendor.live == 0
    backend = LibraryBackend(vendor.path)
    schedulers = [scheduler_of(PLAIN + STATEFUL, backend) for _ in range(3)]
    for scheduler in schedulers:
        scheduler.step(logits_of(0, len(PLAIN + STATEFUL)))
    assert vendor.live == 4  # one for queries
    del schedulers[0], scheduler
    gc.collect()
    assert vendor.live == 3
    del schedulers, backend
    gc.collect()
    assert vendor.live == 0


@pytest.mark.parametrize("name", ["point_to", "all_exist", "hand_out"])
def test_the_host_takes_over_where_pythons_part_of_a_call_lacks_memory(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    right, done, calls = generate_on_numpy(PLAIN + STATEFUL), getattr(TokensOutput, name), count()

    def without_memory(*args: object) -> object:
        done(*args)
        if next(calls) % 3 == 1:
            raise MemoryError
        return done(*args)

    monkeypatch.setattr(TokensOutput, name, without_memory)
    backend = LibraryBackend(toy(), timeout=60)
    assert np.array_equal(generate(PLAIN + STATEFUL, backend), right)
    assert next(calls) > 3


def test_processed_rows_are_those_of_numpy(caplog: pytest.LogCaptureFixture) -> None:
    """Also where a library runs some samplers of a chain and the host the others."""
    expected = processed("numpy")
    for backend in ("native", LibraryBackend(toy()), LibraryBackend(toy(), timeout=60)):
        assert np.array_equal(processed(backend), expected, equal_nan=True)
    assert "failed" not in caplog.text


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_the_host_takes_over_from_a_library_that_leaves_an_impossible_row(
    monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    """The library's output is spoilt before it is checked."""
    backend, looked = LibraryBackend(toy()), ProcessedOutput.impossible

    def spoil(output: ProcessedOutput) -> np.ndarray:
        output._out[output._index[0]] = value
        return looked(output)

    monkeypatch.setattr(ProcessedOutput, "impossible", spoil)
    assert np.array_equal(processed(backend), processed("numpy"), equal_nan=True)
    assert backend.lost


@pytest.mark.parametrize("call", ["query", "compile", "run"])
@pytest.mark.parametrize("code", ["ES_INVALID", *DECLINED])
def test_nothing_leaks_when_calls_fail(vendor: FaultyToy, call: str, code: str) -> None:
    backend = LibraryBackend(vendor.path)
    vendor.fail(call, number(code))
    scheduler = scheduler_of(PLAIN, backend)
    try:
        scheduler.step(logits_of(0, len(PLAIN)))
    except LibraryError:
        assert code == "ES_INVALID"
    del scheduler, backend
    gc.collect()
    assert vendor.live == 0


# --- results that cannot be used ------------------------------------------------------------------


@pytest.mark.parametrize("status", ["ES_ROW_EMPTY", "ES_ROW_DECLINED"])
def test_a_declined_row_is_run_by_the_host_although_no_fault_is_counted(status: str) -> None:
    backend = LibraryBackend(variant(f"STATUS={status}"))
    assert np.array_equal(generate(PLAIN, backend), generate_on_numpy(PLAIN))


@pytest.mark.parametrize("status", [6, 77, -1])
def test_a_status_that_the_header_does_not_know_ends_its_row_and_no_other(status: int) -> None:
    scheduler = scheduler_of(PLAIN, LibraryBackend(variant(f"STATUS={status}")))
    result = scheduler.step(logits_of(0, len(PLAIN)))
    assert result.finish_reasons[0] == "error"
    assert f"toy gave the row an unknown status: {status}" in result.errors[0]
    assert np.array_equal(result.token_ids[1:], generate_on_numpy(PLAIN, steps=1)[0, 1:])


def test_an_unknown_status_ends_its_row_in_the_middle_of_a_chain_too() -> None:
    settings = ({"top_k": 5, "min_p": 0.01, "temperature": 0.7},) * 4  # min_p is the host's
    scheduler = scheduler_of(settings, LibraryBackend(variant("STATUS=77")))
    result = scheduler.step(logits_of(0, len(PLAIN)))
    assert "unknown status: 77" in result.errors[0]
    others = [row for row, error in enumerate(result.errors) if error is None]
    assert len(others) == 2  # of two calls, each ends its first row
    assert np.array_equal(result.token_ids[others], generate_on_numpy(settings, steps=1)[0, others])


@pytest.mark.parametrize("token", [-1, -7, 60, 10**12])
def test_the_host_takes_over_from_a_library_that_draws_a_token_that_does_not_exist(token: int) -> None:
    backend = LibraryBackend(variant(f"TOKEN={token}"))
    assert np.array_equal(generate(PLAIN, backend), generate_on_numpy(PLAIN))
    assert backend.lost


# --- what libraries may leave out ----------------------------------------------------------------

ALL = (1 << 8) - 1


@pytest.mark.parametrize("name", ["READS_ONLY", "ANY_STRIDE", "ROW_FAULTS", "MASKS", "PROCESSED"])
def test_the_host_provides_what_is_not_promised(name: str) -> None:
    backend = LibraryBackend(variant(f"PROMISES={ALL & ~number(f'ES_{name}')}"))
    settings = (*PLAIN, {"top_k": 4, "logprobs": 2, "logprobs_mode": "processed"})
    assert np.array_equal(generate(settings, backend), generate_on_numpy(settings))


def test_the_host_reports_logprobs_in_place_of_impossible_ones() -> None:
    promised = f"PROMISES={ALL | number('ES_LOGPROBS')}"
    settings = tuple({**given, "logprobs": 2, "logprobs_mode": ("raw", "processed")} for given in PLAIN)
    backend = LibraryBackend(variant("IMPOSSIBLE_LOGPROBS", promised))
    result, expected = (
        scheduler_of(settings, each).step(logits_of(0, len(PLAIN))) for each in (backend, "numpy")
    )
    assert backend.lost
    np.testing.assert_array_equal(result.token_ids, expected.token_ids)
    for kind, table in expected.logprobs.by_mode.items():
        np.testing.assert_array_equal(result.logprobs.by_mode[kind].token_ids, table.token_ids)
        np.testing.assert_array_equal(result.logprobs.by_mode[kind].logprobs, table.logprobs)


def test_a_library_that_declares_that_it_writes_gets_copies() -> None:
    backend = LibraryBackend(variant("WRITES", f"PROMISES={ALL & ~number('ES_READS_ONLY')}"))
    scheduler, logits = scheduler_of(PLAIN, backend), logits_of(0, len(PLAIN))
    logits.flags.writeable = False
    before = logits.copy()
    tokens = scheduler.step(logits).token_ids
    assert np.array_equal(logits, before)
    assert np.array_equal(tokens, generate_on_numpy(PLAIN, steps=1)[0])


def test_an_inexact_library_is_never_chosen_automatically() -> None:
    backend = LibraryBackend(variant(f"PROMISES={ALL & ~number('ES_EXACT')}"))
    assert not backend.exact
    assert backend.score("cpu") == 0


@pytest.mark.parametrize("code", ["ES_OK", "ES_BUSY", "ES_DEVICE"])
def test_a_library_that_works_in_the_background_is_waited_for(code: str) -> None:
    backend = LibraryBackend(variant(f"WAIT={code}"))
    assert np.array_equal(generate(PLAIN, backend), generate_on_numpy(PLAIN))


def test_the_packaged_kernels_run_like_any_library(packaged: Path) -> None:
    settings = PLAIN + STATEFUL
    assert np.array_equal(generate(settings, LibraryBackend(packaged)), generate_on_numpy(settings))


# --- what observers are told ---------------------------------------------------------------------


def test_observers_are_told_of_rows_that_a_library_declines_until_it_is_lost(vendor: FaultyToy) -> None:
    scheduler = scheduler_of(PLAIN, LibraryBackend(vendor.path))
    rows = []
    with observed("rows_on_host") as seen:
        for code in ("ES_BUSY", "ES_DEVICE", "ES_DEVICE"):
            vendor.fail("run", number(code))
            rows.append(len(scheduler.request_ids))
            scheduler.step(logits_of(0, rows[-1]))
    reasons = ("declined", "declined", "lost")
    assert seen == [("toy", count, reason) for count, reason in zip(rows, reasons, strict=True)]


def test_observers_are_told_once_a_step_of_the_rows_whose_chains_the_library_cannot_run_alone() -> None:
    settings = (*PLAIN, {"top_n_sigma": 1.5, "temperature": 0.7}, {"min_p": 0.1, "top_k": 5})
    scheduler = scheduler_of(settings, LibraryBackend(toy()))
    with observed("rows_on_host") as seen:
        scheduler.step(logits_of(0, len(settings)))
    assert seen == [("toy", 2, "unsupported")]


@pytest.mark.parametrize("declines", [False, True])
def test_a_faulty_row_is_no_fallback(vendor: FaultyToy, declines: bool) -> None:
    settings = (*PLAIN, {"top_n_sigma": 1.5, "temperature": 0.7}, {"min_p": 0.1, "top_n_sigma": 2.0})
    scheduler = scheduler_of(settings, LibraryBackend(vendor.path))
    logits = logits_of(0, len(settings))
    logits[[0, -1]] = np.nan
    if declines:
        vendor.fail("run", number("ES_BUSY"))
    with observed("rows_on_host") as seen:
        result = scheduler.step(logits)
    assert [row for row, error in enumerate(result.errors) if error] == [0, len(settings) - 1]
    declined = [("toy", len(PLAIN) - 1, "declined")] if declines else []
    assert sorted(seen) == [("toy", 1, "unsupported"), *declined]
