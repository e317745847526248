"""Collections of schemas as they are published, and what their results come to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.grammar.corpus.collections import Task, read_tasks
from benchmarks.grammar.corpus.report import Selection, report
from benchmarks.grammar.corpus.summary import Summary, reason

SCHEMA = {"type": "integer"}


def write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), "utf-8")


def test_schemas_are_read_with_their_instances(tmp_path: Path) -> None:
    write(tmp_path / "a" / "one.json", {"schema": SCHEMA, "tests": [{"data": 1, "valid": True}]})
    write(tmp_path / "b.json", SCHEMA)
    write(tmp_path / "c.json", "no JSON")
    assert list(read_tasks(tmp_path)) == [
        Task("a/one", "", SCHEMA, [("1", True)]),
        Task("b", "", SCHEMA, []),
    ]


def test_the_official_suite_is_read_by_draft(tmp_path: Path) -> None:
    case = {"description": "d", "schema": SCHEMA, "tests": [{"data": "é", "valid": False}]}
    write(tmp_path / "draft7" / "type.json", [case, {**case, "schema": True}])
    write(tmp_path / "remotes" / "other.json", SCHEMA)
    write(tmp_path / "draft3" / "type.json", [case])
    first, second = read_tasks(tmp_path)
    assert first.group == second.group == "draft7"
    assert first.schema == {"$schema": "http://json-schema.org/draft-07/schema#", **SCHEMA}
    assert second.schema is True
    assert first.tests == [('"é"', False)]
    assert first.options == {"numbers": "any", "formats": "annotate"}


def test_the_official_suite_is_read_with_the_documents_it_refers_to(tmp_path: Path) -> None:
    remotes = {"draft7/a.json": True, "b.json": SCHEMA}
    for name, value in remotes.items():
        write(tmp_path / "remotes" / name, value)
    case = {"description": "d", "schema": {"$ref": "http://localhost:1234/b.json"}, "tests": []}
    write(tmp_path / "tests" / "draft7" / "optional" / "format" / "ref.json", [case])
    (task,) = read_tasks(tmp_path / "tests")
    assert task.group == "draft7 optional"
    assert task.options == {
        "numbers": "any",
        "formats": "assert",
        "resources": {"http://localhost:1234/draft7/a.json": True, "http://localhost:1234/b.json": SCHEMA},
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, r"none\.jsonl is neither a folder nor a file"),
        ('{"id": "x"}', r"none\.jsonl, line 1, is not a task: KeyError\('tests'\)"),
        ("{", r"none\.jsonl, line 1, is not a task: JSONDecodeError"),
    ],
    ids=["nothing", "keys", "no JSON"],
)
def test_what_is_no_collection_is_refused(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "none.jsonl"
    if text is not None:
        write(path, text)
    with pytest.raises(ValueError, match=message):
        list(read_tasks(path))


def test_lines_of_tasks_are_read(tmp_path: Path) -> None:
    line = {"id": "x", "kind": "json_schema", "grammar": SCHEMA, "tests": [{"text": "1", "valid": True}]}
    write(tmp_path / "dev.jsonl", json.dumps(line) + "\n" + json.dumps(line))
    assert list(read_tasks(tmp_path / "dev.jsonl")) == [Task("x", "dev", SCHEMA, [("1", True)])] * 2


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ("UnsupportedKeywordError: uniqueItems is not supported here: why (#/a/uniqueItems)", "uniqueItems"),
        (
            "GrammarLimitError: more than 512 of 'x' (#/a, line 1, column 4)\n  excerpt",
            "GrammarLimitError: more than N of …",
        ),
        ('ValueError: Unimplemented keys: ["not", "uniqueItems"]', "not, uniqueItems"),
        ("RuntimeError: [09:54:34] /cpp/schema.cc:49: no field in #/a\n", "RuntimeError: no field in #/a"),
        ("ValueError: Unknown format: byte", "ValueError: Unknown format: byte"),
    ],
    ids=["keyword", "limit", "keywords", "line of C++", "other"],
)
def test_refusals_are_counted_by_keyword_or_message(error: str, text: str) -> None:
    assert reason(error) == text


def result(expected: list[bool], verdicts: list[Any], name: str = "x", **rest: Any) -> dict[str, Any]:
    times = {"first": 2_000_000, "compile": 1_000_000, "masks": [1000, 3000], "peak": 1 << 20}
    return {"name": name, "group": "", "expected": expected, "verdicts": verdicts, **times, **rest}


def ended(name: str, how: str) -> dict[str, Any]:
    return {"name": name, "group": "", "expected": [True], "ended": how}


RESULTS = [
    result([True, False], [True, False], "a"),
    result([True, False], [False, False], "b"),
    result([False], [True], "c"),
    result([True], ["failed"], "d"),
    {"name": "e", "group": "", "expected": [True], "error": "ValueError: no"},
    ended("f", "timed out"),
    ended("g", "crashed"),
]


def test_a_summary_counts_wrong_verdicts_both_ways() -> None:
    summary = Summary(RESULTS)
    assert (summary.schemas, summary.compiled, summary.passing) == (7, ["a", "b", "c", "d"], 1)
    assert (summary.rejected, summary.accepted, summary.failed) == (1, 1, 1)
    assert dict(summary.refusals) == {"ValueError: no": 1}
    assert summary.ended == {"timed out": ["f"], "out of memory": [], "crashed": ["g"]}


def selection(path: Path, results: list[dict[str, Any]], names: str) -> Selection:
    path.write_text("".join(json.dumps(one) + "\n" for one in results), "utf-8")
    return Selection(path, "1.2", set(names))


def test_a_report_has_a_table_for_each_size_of_samples(tmp_path: Path) -> None:
    whole = selection(tmp_path / "ours", RESULTS, "abcdefg")
    sample = selection(tmp_path / "theirs", [ended("b", "timed out"), *RESULTS[2:4]], "bcd")
    text = report("Small", {"ours": whole, "theirs": sample}, "On a machine.")
    first, second = text.split("|  | ours | theirs |")[0], text.split("|  | ours | theirs |")[1]
    assert text.startswith("### Small\n\nOn a machine. ours 1.2, theirs 1.2.")
    assert "\n\n7 schemas:\n\n|  | ours |\n" in first
    assert "| passing: all instances judged rightly | 1 |\n" in first
    assert "| mask, µs: average | 2 |\n" in first
    assert (
        "**ours** refuses 1, most often for:\n\n| reason | schemas |\n| --- | ---: |\n| ValueError: no | 1 |"
        in first
    )
    assert "**ours**, timed out, 1: f." in first
    assert first.endswith("\n\n3 schemas:\n\n")
    assert "| compiled | 3 | 2 |" in second
    assert "| timed out | 0 | 1 |" in second
    assert "**theirs** refuses nothing." in text
    assert "**theirs**, timed out, 1: b." in text
    assert "Of those that all of them compile:" in second
    assert "| schemas | 2 | 2 |" in text


def test_a_report_has_a_line_for_each_group(tmp_path: Path) -> None:
    results = [result([True], [True], "a", group="draft7"), result([False], [True], "b", group="draft6")]
    both = selection(tmp_path / "ours", results, "ab")
    text = report("Suite", {"ours": both, "theirs": both}, "")
    assert "|  | schemas | ours: compiled | passing |" in text
    assert "| draft6 | 1 | 1 | 0 | 0 | 1 | 1 | 0 | 0 | 1 |\n" in text
    assert "| draft7 | 1 | 1 | 1 | 0 | 0 | 1 | 1 | 0 | 0 |" in text
