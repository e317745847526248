"""The counts of the laws: what they count, that faults are found, and that runs add up."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import pytest

from engine_sampler.messages import MessageParser

from . import batches
from .batches import check_batch
from .counts import Totals, batches_left


@pytest.fixture(autouse=True)
def few_mutations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "MUTATIONS", 6)


def test_a_batch_counts_its_answers_calls_and_mutated_texts() -> None:
    counts = check_batch("qwen_3", "0", 4)
    assert (counts.answers, counts.mutations, counts.faults) == (4, 6, [])
    assert counts.calls > 0


def _lose_events(method: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, pieces: [one for one in method(self, pieces) if "a" not in one.text]


def _forget_to_go_back(method: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, n: method(self, max(n - 1, 0))


@pytest.mark.parametrize(("name", "fault"), [("feed", _lose_events), ("rollback", _forget_to_go_back)])
def test_a_faulty_parser_is_found(
    monkeypatch: pytest.MonkeyPatch, name: str, fault: Callable[[Any], Any]
) -> None:
    monkeypatch.setattr(MessageParser, name, fault(getattr(MessageParser, name)))
    assert check_batch("qwen_3", "0", 4).faults


def _line(number: int, calls: int) -> dict[str, Any]:
    counts = {"answers": calls, "calls": calls, "mutations": 5, "faults": []}
    return {"seed": 0, "family": "qwen_3", "number": number, "seconds": 1.0, **counts}


def test_logs_of_several_runs_add_up_and_a_run_goes_on_where_they_end() -> None:
    totals = Totals()
    for line in (_line(0, 50), _line(2, 60), _line(0, 50)):
        totals.add(line)
    assert totals.of("qwen_3") == "110 calls in 110 answers, 10 mutated texts, 0 differ"
    wanted = argparse.Namespace(families=["qwen_3"], seed=0, calls=150, mutations=0)
    vars(wanted)["from"] = 0
    left = batches_left(wanted, totals)
    assert [next(left), next(left)] == [(0, "qwen_3", 1), (0, "qwen_3", 3)]
    totals.add(_line(1, 40))
    assert next(left, None) is None
