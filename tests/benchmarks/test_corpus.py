"""Collections of schemas as they are published, and what their results come to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.grammar.corpus.collections import Task, read_tasks
from benchmarks.grammar.corpus.report import Summary, reason, tables

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
    first, second = read_tasks(tmp_path)
    assert first.group == second.group == "draft7"
    assert first.schema == {"$schema": "http://json-schema.org/draft-07/schema#", **SCHEMA}
    assert second.schema is True
    assert first.tests == [('"é"', False)]


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
        ("ValueError: Unknown format: byte", "ValueError: Unknown format: byte"),
    ],
    ids=["keyword", "limit", "other"],
)
def test_refusals_are_counted_by_keyword_or_message(error: str, text: str) -> None:
    assert reason(error) == text


def result(expected: list[bool], verdicts: list[Any], **rest: Any) -> dict[str, Any]:
    times = {"first": 2_000_000, "compile": 1_000_000, "masks": [1000, 3000], "peak": 1 << 20}
    return {"name": "x", "group": "", "expected": expected, "verdicts": verdicts, **times, **rest}


def test_a_summary_counts_wrong_verdicts_both_ways() -> None:
    results = [
        result([True, False], [True, False]),
        result([True, False], [False, False]),
        result([False], [True]),
        result([True], ["failed"]),
        {"name": "y", "group": "", "expected": [True], "error": "ValueError: no"},
    ]
    summary = Summary(results)
    assert (summary.schemas, summary.compiled, summary.passing) == (5, 4, 1)
    assert (summary.rejected, summary.accepted, summary.failed) == (1, 1, 1)
    assert dict(summary.refusals) == {"ValueError: no": 1}
    text = tables({"Small": {"ours": summary, "theirs": Summary([])}})
    assert "| passing: all instances judged rightly | 1 | 0 |" in text
    assert "| mask, µs: average | 2 | – |" in text
    assert "**ours** refuses 1: ValueError: no 1." in text
    assert "**theirs** refuses nothing." in text
