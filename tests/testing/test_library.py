"""`engine-sampler check`: libraries that keep their promises, and libraries that do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine_sampler.backends.library.header import number
from engine_sampler.base.packaged import library_path
from engine_sampler.testing.library import (
    FAILED,
    NOT_PROMISED,
    PASSED,
    PROMISES,
    SITUATIONS,
    CheckResult,
    LibraryContract,
    check_apart,
    check_library,
)

from ..backends.library.building import toy, variant
from ..cli.running import run, run_apart
from ..conftest import ROUNDS

ALL = (1 << 8) - 1
"""What the toy vendor promises: all but logprobs."""


@pytest.fixture(autouse=True)
def _little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine_sampler.testing.library.random_programs.BUDGET", 0.3)
    monkeypatch.setattr("engine_sampler.testing.trials.CHAINS", 10)
    if ROUNDS < 2:
        monkeypatch.setattr("engine_sampler.testing.trials.VOCAB_SIZES", (40,))


def outcomes(path: Path, *only: str) -> dict[str, CheckResult]:
    return {check.name: check for check in check_library(path, only=only)}


def test_the_toy_vendor_keeps_all_its_promises() -> None:
    checks = outcomes(toy())
    others = {name: check.outcome for name, check in checks.items() if check.outcome != PASSED}
    missing = ("LOGPROBS", "logprobs of steps", "SURVIVORS", "ON_DEVICE")
    assert others == dict.fromkeys(missing, NOT_PROMISED)
    assert set(SITUATIONS) <= set(checks)
    assert set(PROMISES) <= set(checks)
    assert checks["samplers and selectors"].detail == "4 of 29: temperature, top_k, dist, greedy"


def test_every_promise_of_the_header_is_tested() -> None:
    from engine_sampler.backends.library.header import contract

    assert {f"ES_{name}" for name in PROMISES} == set(contract().typeof("es_promise").relements)


def test_a_missing_promise_is_not_a_failure() -> None:
    checks = outcomes(variant(f"PROMISES={number('ES_EXACT')}"), "promises")
    assert checks["EXACT"].outcome == PASSED
    assert all(checks[name].outcome == NOT_PROMISED for name in PROMISES if name != "EXACT")


def test_logprobs_that_are_promised_but_not_written_are_found() -> None:
    checks = outcomes(variant(f"PROMISES={ALL | number('ES_LOGPROBS')}"), "promises")
    assert checks["LOGPROBS"].outcome == FAILED
    assert "other raw logprobs in row" in checks["LOGPROBS"].detail


def test_a_library_that_is_not_exact_must_still_draw_from_the_distribution() -> None:
    promised = f"PROMISES={ALL & ~number('ES_EXACT')}"
    checks = outcomes(variant(promised), "promises", "draws")
    assert checks["draws"].outcome == PASSED
    assert checks["EXACT"].outcome == NOT_PROMISED
    assert outcomes(variant(promised, "OFF_BY_ONE"), "draws")["draws"].outcome == FAILED


def test_wrong_tokens_are_found() -> None:
    checks = outcomes(variant("OFF_BY_ONE"), "promises")
    assert checks["EXACT"].outcome == FAILED
    assert "another result in" in checks["EXACT"].detail


def test_written_logits_are_found() -> None:
    checks = outcomes(variant("WRITES"), "promises")
    assert checks["READS_ONLY"].outcome == FAILED
    assert checks["READS_ONLY"].detail.endswith("the logits have changed")


@pytest.mark.parametrize(
    ("definition", "reason"),
    [("NO_SYMBOL", "it does not export es_get_api"), ("WITHOUT=run", "its table lacks the function run")],
)
def test_a_library_that_does_not_load_fails_one_check(definition: str, reason: str) -> None:
    path = variant(definition)
    assert check_library(path) == [CheckResult("loads", FAILED, f"{path}: {reason}")]


def test_a_table_that_ends_in_the_middle_of_a_field_fails() -> None:
    assert outcomes(variant("SIZE=sizeof(es_api) - 3"), "layout")["layout"].outcome == FAILED


def test_a_crash_ends_the_checks_as_a_failure() -> None:
    checks = list(check_apart(variant("CRASHES")))
    assert checks[-1].outcome == FAILED
    assert "SIGABRT" in checks[-1].detail
    assert [check.outcome for check in checks[:-1]] == [PASSED] * (len(checks) - 1)


def test_what_a_library_prints_does_not_disturb_its_checks() -> None:
    checks = list(check_apart(variant("PRINTS"), only=["rows"]))
    assert [(check.name, check.outcome) for check in checks] == [("rows", PASSED)]


def test_the_kit_fails_with_every_check_that_does() -> None:
    kit = type("Kit", (LibraryContract,), {"library": variant("NO_SYMBOL")})()
    with pytest.raises(AssertionError, match=r"loads: .* it does not export es_get_api"):
        kit.test_the_library_keeps_its_promises()


def test_a_failure_of_what_is_drawn_comes_first_with_its_seed() -> None:
    [drawn] = check_library(variant("OFF_BY_ONE"), only=["random programs"])
    assert drawn.outcome == FAILED
    seed = int(drawn.detail.split()[1].rstrip(","))
    [again] = check_library(variant("OFF_BY_ONE"), seed=seed, only=["random programs"])
    assert again.detail.startswith(f"seed {seed}, step ")
    assert again.detail.split(": ", 1)[1] == drawn.detail.split(": ", 1)[1]


# --- the command ---------------------------------------------------------------------------------


def test_the_command_prints_a_line_for_every_check() -> None:
    pytest.importorskip("rich")
    names = ["rows", "limits", "batches"]
    done = run_apart("check", toy(), *(option for name in names for option in ("--only", name)))
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert len(lines) == len(names)
    assert all(line.startswith((PASSED, NOT_PROMISED)) for line in lines)
    assert "\x1b" not in done.stdout


def test_a_library_in_the_current_folder_is_checked_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(toy().parent)
    done = run("check", toy().name, "--only", "rows")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(PASSED)


def test_the_command_exits_with_status_1_if_a_check_fails() -> None:
    done = run("check", variant("NO_SYMBOL"))
    assert done.returncode == 1
    assert done.stdout.split()[:2] == [FAILED, "loads"]
    assert "es_get_api" in done.stdout


def test_the_command_tries_one_check_alone_and_random_programs_for_the_time_it_is_given() -> None:
    done = run("check", toy(), "--only", "random programs", "--seconds", "0.3", "--seed", "5")
    assert done.returncode == 0
    (line,) = done.stdout.splitlines()
    assert "programs from seed 5 in 0.3 s" in line


def test_a_check_that_does_not_exist_is_named() -> None:
    done = run("check", toy(), "--only", "rwos")
    assert done.returncode == 1
    assert "there is no such check; there are layout, names, versions" in " ".join(done.stdout.split())


def test_a_check_that_does_not_end_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine_sampler.testing.library.checking.LONGEST", 3.0)
    checks = list(check_apart(variant("LATE"), only=["rows"]))
    assert checks == [CheckResult("rows", FAILED, "it does not end")]


def test_the_packaged_library_keeps_all_its_promises() -> None:
    path = library_path()
    if path is None:
        pytest.skip("the package was built without a C compiler")
    checks = outcomes(path, "promises", "passes", "contexts")
    others = {name: check.outcome for name, check in checks.items() if check.outcome != PASSED}
    assert others == dict.fromkeys(("SURVIVORS", "ON_DEVICE"), NOT_PROMISED)
    assert set(PROMISES) <= set(checks)
