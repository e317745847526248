"""How errors quote values: as repr does, but never long, slow, or with an error of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError
from engine_sampler.base.calling import guarded
from engine_sampler.base.errors import close_matches, quoted

from ..params.hostile_values import ALL, nested


@pytest.mark.parametrize(
    "value", [1, -2.5, True, None, "a'b", b"x", [], (), {}, set(), (1,), [1, "a"], {"a": [1, {"b": 2}]}, {3}]
)
def test_a_short_value_is_quoted_in_full(value: Any) -> None:
    assert quoted(value) == repr(value)


def test_long_texts_and_collections_are_cut() -> None:
    assert quoted("a" * 1000) == repr("a" * 80) + "…"
    assert quoted(list(range(1000))) == "[0, 1, 2, 3, 4, 5, 6, 7, …]"
    assert quoted(nested(5_000)) == "[[[[[…]]]]]"
    assert quoted(10**5_000) == "an integer of 16610 bits"


def test_every_hostile_value_can_be_quoted() -> None:
    for i, value in enumerate(ALL):
        assert len(quoted(value)) <= 241, i
        assert len(quoted([value] * 1000)) <= 241, i


def test_an_object_whose_repr_fails_is_described() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RecursionError

    assert quoted(Broken()) == "a Broken"
    assert len(quoted(np.zeros(10_000))) <= 81


@pytest.mark.parametrize(
    ("error", "message"),
    [(RecursionError, "it is nested too deeply"), (OverflowError, "it contains a number that is too large")],
)
def test_what_only_a_hostile_value_raises_becomes_a_parameter_error(error: type, message: str) -> None:
    def read() -> None:
        raise error

    with pytest.raises(ParameterError, match=message):
        guarded(read, "it")
    assert guarded(lambda: 3, "it") == 3


def test_no_matches_are_sought_for_a_long_name() -> None:
    assert close_matches("temprature", ["temperature"]) == ["temperature"]
    assert close_matches("temperature" * 1000, ["temperature"]) == []
