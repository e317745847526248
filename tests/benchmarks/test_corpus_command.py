"""`python -m benchmarks.grammar.corpus` as people use it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("resource")

from benchmarks.grammar.corpus import __main__ as command
from benchmarks.grammar.corpus.kept import read_results


class Accepting:
    """Stands for a worker: every text is accepted at once."""

    asked: list[tuple[str, str]] = []

    def __init__(self, engine: str, bounds: Any) -> None:
        self.engine = engine

    def ask(self, task: Any) -> dict[str, Any]:
        self.asked.append((self.engine, task.name))
        return {"first": 1, "compile": 1, "masks": [1], "peak": 1, "verdicts": [True] * len(task.tests)}

    def close(self) -> None:
        pass


@pytest.fixture
def schemas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of ten schemas; all engines are installed."""
    folder = tmp_path / "schemas"
    folder.mkdir()
    for number in range(10):
        text = json.dumps({"schema": {}, "tests": [{"data": number, "valid": True}]})
        (folder / f"{number}.json").write_text(text, "utf-8")
    monkeypatch.setattr(command, "Worker", Accepting)
    monkeypatch.setattr(Accepting, "asked", [])
    monkeypatch.setattr(command, "missing", lambda engine: [])
    monkeypatch.setattr(command, "version", lambda engine: "1")
    return folder


def run(schemas: Path, *options: str) -> Path:
    out = schemas.parent / "out"
    command.main([str(schemas), "--out", str(out), *options])
    return out


def refused(arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as error:
        command.main(arguments)
    assert error.value.code == 2
    return capsys.readouterr().err


def test_a_run_goes_on_where_it_ended_and_writes_its_tables(
    schemas: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = run(schemas, "--sample", "4")
    run(schemas, "--sample", "xgrammar=4")
    assert [
        len(list(read_results(out / f"schemas.{name}.jsonl"))) for name in ("llguidance", "xgrammar")
    ] == [
        10,
        4,
    ]
    assert len(Accepting.asked) == len(set(Accepting.asked)) == 24
    text = (out / "schemas.md").read_text("utf-8")
    assert capsys.readouterr().out.endswith(text)
    assert "| passing: all instances judged rightly | 10 | 10 |\n" in text
    assert "| passing: all instances judged rightly | 4 | 4 | 4 |\n" in text


def test_a_run_can_begin_anew(schemas: Path) -> None:
    run(schemas, "--engines", "llguidance")
    run(schemas, "--engines", "llguidance", "--again")
    assert len(Accepting.asked) == 20


def test_other_settings_are_refused(schemas: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run(schemas, "--seconds", "10")
    text = refused([str(schemas), "--out", str(out), "--seconds", "20"], capsys)
    assert "was measured with version 1, clock perf_counter_ns, seconds 10.0, memory 16, not with" in text
    assert "--again" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sample", "0"], "--sample is N or ENGINE=N, with N schemas, at least 1, not '0'"),
        (
            ["--sample", "outlines=3"],
            "--sample is N or ENGINE=N, with N schemas, at least 1, not 'outlines=3'",
        ),
        (["--seconds", "0"], "argument --seconds: more than 0, at most 86,400, not 0"),
        (["--seconds", "x"], "argument --seconds: more than 0, at most 86,400, not x"),
        (["--memory", "0"], "argument --memory: at least 1, not 0"),
        (["--engines", "none"], "argument --engines: invalid choice: 'none'"),
    ],
    ids=["sample", "engine", "seconds", "no number", "memory", "unknown engine"],
)
def test_wrong_options_are_named(
    schemas: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert message in refused([str(schemas), *options], capsys)


def test_what_cannot_be_run_is_said_in_a_line(schemas: Path, capsys: pytest.CaptureFixture[str]) -> None:
    absent, empty = schemas / "absent", schemas / "empty"
    empty.mkdir()
    prefix = "python -m benchmarks.grammar.corpus: "
    assert refused([str(absent)], capsys) == f"{prefix}{absent} is neither a folder nor a file\n"
    assert refused([str(empty)], capsys) == (
        f"{prefix}{empty} has no schemas, which are *.json and *.jsonl in any folder of it\n"
    )
    text = refused([str(schemas), str(empty / ".." / ".." / "schemas")], capsys)
    assert text == f"{prefix}two paths end in schemas: give them in two runs with an --out each\n"


def test_engines_that_are_not_installed_are_left_out(
    schemas: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "missing", lambda engine: ["torch"] if engine == "xgrammar" else [])
    run(schemas)
    assert capsys.readouterr().err == "xgrammar is left out: torch not installed\n"
    assert {engine for engine, _ in Accepting.asked} == {"engine-sampler", "llguidance"}
    text = refused([str(schemas), "--engines", "xgrammar"], capsys)
    assert text.endswith("python -m benchmarks.grammar.corpus: none of the engines can run\n")
