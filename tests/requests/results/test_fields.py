"""A field that somebody adds to the result of a step survives whatever handles results."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from types import SimpleNamespace
from typing import Any

import numpy as np

from engine_sampler import StepResult
from engine_sampler.requests.results.fields import (
    copied,
    entries_of,
    entries_said,
    per_request,
    per_row,
    put_entry,
    tell_end,
    with_left,
)


@dataclass(eq=False)
class Longer(StepResult):
    """A result with a field of every kind."""

    moods: list[Any] = field(
        metadata=per_request("calm", attribute="mood", removed="gone"), default_factory=list
    )
    friends: list[Any] = field(metadata=per_request(is_id=True), default_factory=list)
    weights: list[float] = field(metadata=per_row(0.0), default_factory=list)
    weather: dict[str, int] = field(default_factory=dict)


def longer(request_ids: list[Any], **more: Any) -> Longer:
    n = len(request_ids)
    nothing: list[Any] = [None] * n
    parts = {name: nothing.copy() for name in ("text", "finish_reasons", "stop_reasons", "errors")}
    return Longer(
        token_ids=np.full(n, -1),
        first_rows=np.arange(n),
        request_ids=request_ids,
        seeds=[0] * n,
        parent_ids=request_ids.copy(),
        **parts,
        **more,
    )


def request(**attributes: Any) -> Any:
    return SimpleNamespace(finish_reason="stop", stop_reason=7, error=None, seed=9, **attributes)


def test_all_lists_and_arrays_of_a_result_say_what_they_hold() -> None:
    of_the_step = {
        "first_rows",
        "skipped",
        "token_ids_on_device",
        "logprobs",
        "sampling_mask",
        "given_logprobs",
    }
    assert {f.name for f in fields(StepResult)} == {*entries_of(StepResult), *of_the_step}


def test_requests_that_had_left_get_the_entries_of_their_ends_in_every_field() -> None:
    result = longer(["b"], moods=["glad"], friends=["b"], weather={"rain": 3})
    whole = with_left(result, ["a", "b", "c"], [(0, request(mood="cross")), (2, None)])
    assert type(whole) is Longer
    assert (whole.request_ids, whole.parent_ids, whole.friends) == (["a", "b", "c"],) * 3
    assert whole.moods == ["cross", "glad", "gone"]
    assert whole.finish_reasons == ["stop", None, "abort"]
    assert (whole.stop_reasons, whole.seeds) == ([7, None, None], [9, 0, 0])
    assert (whole.weather, list(whole.skipped)) == ({"rain": 3}, [0, 2])


def test_fields_in_which_a_step_says_nothing_stay_empty() -> None:
    whole = with_left(longer([]), ["a"], [(0, None)])
    assert (whole.moods, whole.phase_tokens, whole.deltas) == ([], [], None)


def test_a_request_that_has_ended_tells_every_field_that_asks_it() -> None:
    result = longer(["a", "b"], moods=["calm", "calm"])
    tell_end(result, 1, request(mood="cross"))
    assert (result.moods, result.seeds, result.stop_reasons) == (["calm", "cross"], [0, 9], [None, 7])


def test_a_copy_has_the_fields_that_were_added_and_can_be_changed() -> None:
    result = longer(["a"], moods=["glad"], weights=[0.5], weather={"rain": 3})
    copy = copied(result)
    copy.moods[0], copy.weights[0], copy.weather["rain"] = "sad", 1.0, 4
    assert type(copy) is Longer
    assert (result.moods, result.weights, result.weather) == (["glad"], [0.5], {"rain": 3})


def test_what_a_result_says_is_what_another_that_knows_nothing_does_not() -> None:
    result, blank = longer(["a", "b"]), longer(["a", "b"])
    assert entries_said(result, blank) == {}
    put_entry(result, "moods", 1, "glad")
    put_entry(result, "weights", 0, 0.5)
    put_entry(result, "friends", 0, "b")
    result.token_ids[1] = 4
    assert entries_said(result, blank) == {
        "token_ids": {1: 4},
        "moods": {1: "glad"},
        "friends": {0: "b"},
        "weights": {0: 0.5},
    }
