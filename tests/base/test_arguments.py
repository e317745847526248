"""Checks of arguments: what they take, and that their errors name the argument."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine_sampler.base.arguments import (
    array_of,
    entries_of,
    file_of,
    instance_of,
    integer_of,
    integers_of,
    one_of,
    with_attributes,
)
from engine_sampler.base.errors import ParameterError


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([1, 2], [1, 2]),
        ((), []),
        (range(2), [0, 1]),
        (np.array([3]), [3]),
        ({4: 0}.keys(), [4]),
        (iter([5]), [5]),
    ],
)
def test_integers_may_be_in_anything_that_has_entries(value: Any, expected: list[int]) -> None:
    integers = integers_of("ids", value)
    assert integers == expected
    assert all(type(entry) is int for entry in integers)


def test_other_values_are_taken_as_they_are() -> None:
    assert integer_of("n", np.int64(3), 1) == 3
    assert one_of(("a", "b"), "mode", "b") == "b"
    assert instance_of((int, str), "x", "y", "a text") == "y"
    assert entries_of("parts", ("a", None), "a list") == ["a", None]
    assert array_of("row", [1.0], "f", 1, "floats").tolist() == [1.0]
    with_attributes(("real", "imag"), "z", 1.0, "a number")


@pytest.mark.parametrize(
    "check",
    [
        *(
            lambda v=v: integers_of("name", v)
            for v in (1, None, "12", b"12", {1: 2}, [True], [1.0], np.int64(1))
        ),
        *(lambda v=v: integer_of("name", v, 1) for v in (0, True, 1.0, "1", None, [1])),
        *(lambda v=v: one_of(("a",), "name", v) for v in ("b", None, np.array(["a"]), ["a"])),
        *(lambda v=v: array_of("name", v, "f", 1, "floats") for v in ([1], [[1.0]], [[1.0], []], "a", None)),
        lambda: instance_of(int, "name", "a", "an integer"),
        lambda: with_attributes(("a",), "name", 1, "an object with a"),
    ],
)
def test_an_error_names_the_argument(check: Callable[[], Any]) -> None:
    with pytest.raises(ParameterError, match=r"(?s)^name=.* is not allowed: "):
        check()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert file_of(Path(__file__)) == __file__
    with pytest.raises(FileNotFoundError, match="none"):
        file_of(tmp_path / "none")
