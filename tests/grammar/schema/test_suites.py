"""The grammars of two collections of schemas with instances, judged."""

from __future__ import annotations

import json
from typing import Any

from engine_sampler.grammar.errors import GrammarError, UnsupportedKeywordError

from ...conftest import shared_data
from .judging import Judge


def judged(file: str, **options: Any) -> tuple[int, int, list[str], set[str]]:
    """How many schemas there are, how many are judged rightly; wrong accepts; which are refused."""
    lines = shared_data(file).read_text(encoding="utf-8").splitlines()
    right, wrong, refused = 0, [], set()
    for case in map(json.loads, lines):
        try:
            judge = Judge(case["grammar"], **options)
        except UnsupportedKeywordError:
            refused.add(case["id"])
            continue
        except GrammarError:  # no value is valid
            right += not any(test["valid"] for test in case["tests"])
            continue
        verdicts = [(judge.accepts(test["text"]), test["valid"]) for test in case["tests"]]
        right += all(found == wanted for found, wanted in verdicts)
        wrong += [case["id"] for found, wanted in verdicts if found and not wanted]
    return len(lines), right, wrong, refused


def test_real_schemas_are_judged_rightly_but_for_unique_items_of_any_string() -> None:
    count, right, wrong, refused = judged("maskbench_dev.jsonl")
    assert wrong == []
    assert len(refused) == 6
    assert right == count - 6 == 333


def test_the_required_part_of_the_test_suite_is_judged_rightly_or_refused() -> None:
    count, right, wrong, refused = judged("json_schema_test_suite_2020-12.jsonl", formats="annotate")
    assert wrong == []
    assert count == 383
    assert right >= 357
    assert right + len(refused) >= count - 1  # the one: an unknown metaschema without validation
