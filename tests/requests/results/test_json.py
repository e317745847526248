"""Records, results of steps and logprobs as JSON and as pickles: what comes back is the same."""

from __future__ import annotations

import json
import pickle
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from engine_sampler import Logprobs, ParameterError, Record, SamplingParams, Scheduler, StepResult, Tokenizer
from engine_sampler.arithmetic import GivenLogprobs
from engine_sampler.messages import MessageParser

from ...engines import CONFIGURATIONS, make_scheduler, model_step
from ..test_captures_of_records import finished


def through_json(result: Any) -> Any:
    return type(result).from_dict(json.loads(json.dumps(result.to_dict(), allow_nan=False)))


def through_pickle(result: Any) -> Any:
    return pickle.loads(pickle.dumps(result))


WAYS = [through_json, through_pickle]


def expect_same(found: Any, right: Any) -> None:
    """All fields are equal, arrays in type and bits."""
    assert type(found) is type(right)
    for name in (field.name for field in fields(right) if field.name != "token_ids_on_device"):
        part, expected = getattr(found, name), getattr(right, name)
        if isinstance(expected, np.ndarray):
            assert (part.dtype, part.tobytes()) == (expected.dtype, expected.tobytes()), name
        elif hasattr(expected, "to_dict"):
            expect_same(part, expected)
        elif name == "modes":
            assert part.keys() == expected.keys()
            for mode, table in expected.items():
                expect_same(part[mode], table)
        elif name == "skipped":
            assert list(part) == list(expected)
        else:
            assert part == expected, name


@pytest.mark.parametrize("way", WAYS)
def test_results_of_steps_come_back(way: Any) -> None:
    scheduler = make_scheduler()
    extras: list[Any] = [
        {},
        {"return_sampling_mask": True},
        {"logprob_token_ids": [1, 2], "logprobs": 2, "logprobs_mode": ("processed", "raw")},
    ]
    for seed, settings in enumerate(CONFIGURATIONS):
        scheduler.add(
            SamplingParams(**{**settings, **extras[seed % 3]}, seed=2**63 + seed, max_tokens=3), [1, 2]
        )
    for _ in range(3):
        result = model_step(scheduler)
        assert result.sampling_mask is not None
        expect_same(way(result), result)
    missing = scheduler.request_ids or [scheduler.add(SamplingParams(max_tokens=1), request_id="x")]
    scheduler.remove(missing[0])
    skipped = scheduler.step(np.zeros((1, 40), np.float32), missing[:1])
    assert list(skipped.skipped) == [0]
    expect_same(way(skipped), skipped)


@pytest.mark.parametrize("way", WAYS)
def test_what_bans_take_back_and_withhold_comes_back(way: Any) -> None:
    scheduler = Scheduler(3, Tokenizer([b"a", b"b", b"c"]))
    scheduler.add(SamplingParams(banned_strings=["ab"], temperature=0))
    withheld, rewound = (scheduler.step(np.eye(3, dtype=np.float32)[[i]]) for i in range(2))
    assert (withheld.withheld, rewound.rewinds) == ([1], [1])
    for result in (withheld, rewound):
        expect_same(way(result), result)


@pytest.mark.parametrize("way", WAYS)
def test_records_come_back_read_or_not(way: Any) -> None:
    scheduler = make_scheduler()
    ids = scheduler.add_group(SamplingParams(n=2, best_of=3, seed=1, max_tokens=4), [7, 8])
    thinks = [{"name": "a", "tokens": 1, "force": [2], "then": 1}, {"name": "b"}]
    ids.append(scheduler.add(SamplingParams(phases=thinks), request_id="thinks"))
    for _ in range(2):
        model_step(scheduler)
        for request_id in ids:
            assert way(scheduler.record(request_id)) == scheduler.record(request_id)
            read = scheduler.record(request_id)
            assert read.token_ids
            assert way(read) == read


@pytest.mark.parametrize("way", WAYS)
def test_captures_come_back(way: Any) -> None:
    record = finished()
    assert any(record.captures.values())
    assert way(record) == record


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", [Logprobs, GivenLogprobs])
def test_tables_come_back_with_what_is_no_number(way: Any, kind: Any) -> None:
    values = np.array([-np.inf, np.nan, np.inf, -0.1, -1e-45], np.float32)
    ids, starts = np.array([4, -1, 2, 0, 1]), np.array([0, 2, 5])
    ranks = np.array([1, 0]) if kind is Logprobs else np.arange(5)
    arrays = (ids, values, starts, ranks) if kind is Logprobs else (ids, values, ranks, starts)
    table = kind(*arrays, modes={"raw": kind(*arrays)})
    expect_same(way(table), table)


def test_events_of_a_parser_come_back_as_tuples() -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(seed=1), parser=MessageParser(tokenizer=scheduler.vocabulary.tokenizer))
    result = model_step(scheduler)
    assert result.deltas is not None
    assert result.deltas[0]
    assert through_json(result).deltas == result.deltas


@pytest.mark.parametrize("deltas", ["abc", ["abc"], [["abc"]], {"a": []}])
def test_deltas_that_are_no_lists_of_events_are_refused(deltas: Any) -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(seed=1))
    with pytest.raises(ParameterError, match="is no list"):
        StepResult.from_dict({**model_step(scheduler).to_dict(), "deltas": deltas})


@pytest.mark.parametrize("request_id", [(1, 2), None, 1.5, b"a"])
def test_ids_that_json_would_change_are_refused(request_id: Any) -> None:
    scheduler = make_scheduler()
    given = scheduler.add(SamplingParams(seed=1), request_id=request_id)
    if given != request_id:
        return  # None is a number of the scheduler's own
    for result in (scheduler.record(given), model_step(scheduler)):
        with pytest.raises(ParameterError, match="cannot be written as JSON: an integer or a text"):
            result.to_dict()


@pytest.mark.parametrize("kind", [Record, StepResult, Logprobs, GivenLogprobs])
@pytest.mark.parametrize("state", [None, 5, [], {}, {"version": 1}, {"version": 2}])
def test_anything_else_is_refused(kind: Any, state: Any) -> None:
    with pytest.raises(ParameterError, match=rf"is not allowed: what {kind.__name__}\.to_dict has given"):
        kind.from_dict(state)


@pytest.mark.parametrize(
    "changes",
    [
        {"starts": [0, 9]},
        {"ranks": [1, 2]},
        {"starts": "a"},
        {"entry_logprobs": ["x"]},
        {"modes": 5},
        {"starts": []},
    ],
)
def test_a_table_whose_parts_do_not_fit_is_refused(changes: Any) -> None:
    table = Logprobs(np.array([1]), np.zeros(1, np.float32), np.array([0, 1]), np.array([1]))
    with pytest.raises(ParameterError, match=r"what Logprobs\.to_dict has given"):
        Logprobs.from_dict({**table.to_dict(), **changes})
