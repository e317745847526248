"""Collections are run to their end, whatever an engine does, and from where an earlier run ended."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("resource")

from benchmarks.grammar.corpus.collections import Task, read_tasks
from benchmarks.grammar.corpus.kept import Results, SettingsError, read_results, read_settings
from benchmarks.grammar.corpus.running import Bounds, StartError, Worker, run
from benchmarks.grammar.corpus.summary import Summary

from ..conftest import shared_data

COMMAND = (sys.executable, "-m", "tests.benchmarks.faulty_engine")
BOUNDS = Bounds("thread_time_ns", seconds=0.1, memory=4 << 30, patience=30)
SETTINGS = {"version": "1"}


def worker(bounds: Bounds = BOUNDS, *options: str) -> Worker:
    return Worker("faulty", bounds, [*COMMAND, *options])


def task(does: str, name: str = "") -> Task:
    return Task(name or does, "", {"does": does}, [("1", True), ("[2]", False)])


def test_an_engine_that_spins_eats_memory_or_crashes_is_started_again(tmp_path: Path) -> None:
    faults = ["spin", "eat", "crash", "exit", "refuse"]
    tasks = [one for fault in faults for one in (task(fault), task("", f"after {fault}"))]
    with Results(tmp_path / "x.jsonl", SETTINGS) as results:
        run(tasks, worker(), results)
    by_name = {one["name"]: one for one in read_results(tmp_path / "x.jsonl")}
    assert [by_name[f"after {fault}"]["verdicts"] for fault in faults] == [[True, True]] * len(faults)
    assert {fault: by_name[fault].get("ended") for fault in faults} == {
        "spin": "timed out",
        "eat": "out of memory",
        "crash": "crashed",
        "exit": "crashed",
        "refuse": None,
    }
    assert [by_name["crash"]["how"], by_name["exit"]["how"]] == ["SIGKILL", "status 3"]
    assert by_name["refuse"]["error"] == "ValueError: no"
    summary = Summary(by_name.values())
    assert (len(summary.compiled), summary.refusals.total()) == (5, 1)
    assert summary.ended == {"timed out": ["spin"], "out of memory": ["eat"], "crashed": ["crash", "exit"]}


def test_an_engine_that_waits_uses_no_time_but_is_killed() -> None:
    one = worker(BOUNDS._replace(patience=0.2))
    assert one.ask(task("wait")) == {"ended": "timed out", "how": "it waits"}
    one.close()


def test_an_engine_that_does_not_start_says_why() -> None:
    with pytest.raises(StartError, match="faulty does not start: RuntimeError: no vocabulary"):
        worker(BOUNDS, "--broken").ask(task(""))


def test_a_part_of_maskbench_is_run_beside_faults_in_two_parts(tmp_path: Path) -> None:
    tasks = list(read_tasks(shared_data("maskbench_dev.jsonl")))[:40]
    for number, fault in ((3, "spin"), (7, "eat"), (20, "crash")):
        tasks[number] = tasks[number]._replace(schema={"does": fault})
    path = tmp_path / "x.jsonl"
    bounds = BOUNDS._replace(seconds=1)  # real schemas take a tenth of that where the machine is slow
    for end in (10, 40):
        with Results(path, SETTINGS) as results:
            run(tasks[:end], worker(bounds), results)
    found = list(read_results(path))
    assert [one["name"] for one in found] == [one.name for one in tasks]
    summary = Summary(found)
    assert (summary.schemas, len(summary.compiled)) == (40, 37)
    assert [len(names) for names in summary.ended.values()] == [1, 1, 1]
    wrong = sum(
        not valid for number in range(40) if number not in (3, 7, 20) for _, valid in tasks[number].tests
    )
    assert (summary.accepted, summary.rejected) == (wrong, 0)


def result(name: str) -> dict[str, Any]:
    return {"name": name, "group": "", "expected": [], "error": "ValueError: no"}


def test_results_that_were_cut_off_are_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    with Results(path, SETTINGS) as results:
        results.add(result("a"))
    with path.open("a", encoding="utf-8") as file:
        file.write('{"name": "b", "gro')
    with Results(path, SETTINGS) as results:
        assert results.done == {"a"}
        results.add(result("b"))
    assert [one["name"] for one in read_results(path)] == ["a", "b"]
    assert read_settings(path) == SETTINGS


@pytest.mark.parametrize(
    ("line", "text"),
    [({"settings": {"version": "0"}}, "version 0"), (result("a"), "unknown settings")],
    ids=["other settings", "none"],
)
def test_results_of_other_settings_are_not_mixed_in(tmp_path: Path, line: Any, text: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps(line) + "\n", "utf-8")
    with pytest.raises(SettingsError, match=rf"x\.jsonl was measured with {text}, not with version 1"):
        Results(path, SETTINGS)
    assert path.read_text("utf-8") == json.dumps(line) + "\n"
