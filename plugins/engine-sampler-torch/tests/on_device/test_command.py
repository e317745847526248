"""The command that verifies a device, tried on the host with few rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from engine_sampler_torch import backend
from on_device import __main__ as command
from on_device import equality
from on_device.markdown import markdown

from engine_sampler.contract import Batch


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equality, "SIZES", (65, 300))
    monkeypatch.setattr(equality, "REQUESTS", 60)


@pytest.mark.usefixtures("small")
def test_it_compares_rows_and_writes_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "report.json"
    assert command.main(["--device", "cpu", "--rows", "2000", "--workers", "1", "--json", str(path)]) == 0
    report = json.loads(path.read_text("utf-8"))
    assert report["passed"]
    assert report["equality"]["rows"] >= 2000
    assert sum(report["equality"]["by_size"].values()) == report["equality"]["rows"]
    assert "rows beside the host: equal" in capsys.readouterr().out


@pytest.mark.usefixtures("small")
def test_it_finds_a_token_that_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    run = backend.TorchBackend.run

    def wrong(self: Any, batch: Batch) -> None:
        run(self, batch)
        batch.token_ids[3] ^= 1

    monkeypatch.setattr(backend.TorchBackend, "run", wrong)
    report = command.run("cpu", 2000, 60)
    assert not report["passed"]
    assert "row 3 gives token" in report["equality"]["difference"]
    assert "NOT EQUAL" in command.summary(report)


@pytest.mark.usefixtures("small")
def test_it_finds_logprobs_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    run = backend.TorchBackend.run

    def wrong(self: Any, batch: Batch) -> None:
        run(self, batch)
        if batch.logprobs is not None and batch.logprobs.out[0] is not None:
            batch.logprobs.out[0].ranks[0] += 1

    monkeypatch.setattr(backend.TorchBackend, "run", wrong)
    assert "the ranks of" in str(command.run("cpu", 2000, 60)["equality"]["difference"])


@pytest.mark.usefixtures("small")
def test_it_stops_when_its_time_is_over_and_does_not_pass() -> None:
    report = command.run("cpu", 10**9, 0.5)
    assert report["equality"]["rows"] < 10**6
    assert not report["passed"]
    assert "too few: at least 20,000 are needed" in command.summary(report)


@pytest.mark.usefixtures("small")
def test_it_passes_by_what_was_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "LEAST_ROWS", 300)
    report = command.run("cpu", 10**9, 2)
    assert report["passed"]
    assert 300 <= report["equality"]["rows"] < 10**6


def test_processes_compare_the_same_rows_as_one() -> None:
    here, elsewhere = (equality.compare("cpu", 2000, 60, workers=workers) for workers in (1, 2))
    assert elsewhere.difference is None
    assert set(elsewhere.by_size) == set(here.by_size)
    assert elsewhere.rows >= here.rows


@pytest.mark.parametrize("device", ["foo", "npu:0", "xpu", "cuda:99"])
def test_a_device_that_is_not_there_is_said_in_one_line(
    device: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "report.json"
    assert command.main(["--device", device, "--json", str(path)]) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"no device '{device}' here (")
    assert "--device cpu --rows 2000" in line
    report = json.loads(path.read_text("utf-8"))
    assert (report["passed"], report["absent"]) == (False, line)


def test_a_device_that_does_not_compute_exactly_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "shortcoming", lambda device: "float64 is missing")
    report = command.run("cpu", 2000, 60)
    assert not report["passed"]
    assert "not exact here: float64 is missing" in command.summary(report)


def test_the_table_is_markdown() -> None:
    rows = [{"case": "default chain, 64 rows", "µs": 24.5}, {"case": "one row", "µs": 11.0}]
    assert markdown(rows)[1:] == [
        "| case | µs |",
        "| --- | --- |",
        "| default chain, 64 rows | 24.5 |",
        "| one row | 11.0 |",
    ]
