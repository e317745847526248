"""Two collections of schemas with instances, compared with the verdicts of their grammars."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine_sampler.grammar.errors import GrammarError, UnsupportedKeywordError

from ...conftest import shared_data
from .judging import Judge


def judged(file: str, **options: Any) -> tuple[int, int, list[str], set[str]]:
    """The number of schemas, the number judged correctly, wrongly accepted instances, rejected schemas."""
    lines = shared_data(file).read_text(encoding="utf-8").splitlines()
    correct, wrong, rejected = 0, [], set()
    for case in map(json.loads, lines):
        try:
            judge = Judge(case["grammar"], **options)
        except UnsupportedKeywordError:
            rejected.add(case["id"])
            continue
        except GrammarError:  # no value is valid
            correct += not any(test["valid"] for test in case["tests"])
            continue
        verdicts = [(judge.accepts(test["text"]), test["valid"]) for test in case["tests"]]
        correct += all(found == expected for found, expected in verdicts)
        wrong += [case["id"] for found, expected in verdicts if found and not expected]
    return len(lines), correct, wrong, rejected


@pytest.mark.filterwarnings("ignore:'additonalProperties' in the JSON Schema")
@pytest.mark.filterwarnings("ignore")  # of their formats
def test_real_schemas_are_judged_correctly() -> None:
    count, correct, wrong, rejected = judged("maskbench_dev.jsonl")
    assert wrong == []
    assert not rejected
    assert correct == count == 339


def test_the_required_part_of_the_test_suite_is_judged_correctly_or_rejected() -> None:
    count, correct, wrong, rejected = judged(
        "json_schema_test_suite_2020-12.jsonl", formats="annotate", numbers="any"
    )
    assert wrong == []
    assert count == 383
    assert correct >= 357
    assert correct + len(rejected) >= count - 1  # the exception: an unknown metaschema without validation
