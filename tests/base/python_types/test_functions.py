"""Functions and classes as tools."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Literal

import pytest

from engine_sampler.base.python_types import schema_of, tool_of


def google(city: str, days: int = 3, *, unit: Literal["c", "f"] = "c") -> str:
    """Tell the weather.

    Of one city.

    Args:
        city: its name,
            in English
        days (int): how many

        unit: of degrees

    Returns:
        a text
    """
    return f"{city}{days}{unit}"


def numpys(x: int, y=2) -> int:  # type: ignore[no-untyped-def]
    """Add.

    Parameters
    ----------
    x : int
        the first
        number
    y : float, optional
        the second

    Returns
    -------
    int
        the sum
    """
    return x + y


def sphinx(x: int, **rest: int) -> int:
    """Add.

    :param int x: the first
        number
    :returns: the sum
    """
    return x + sum(rest.values())


def test_a_function_is_a_tool() -> None:
    assert tool_of(google) == {
        "type": "function",
        "function": {
            "name": "google",
            "description": "Tell the weather.\n\nOf one city.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "its name, in English"},
                    "days": {"type": "integer", "description": "how many", "default": 3},
                    "unit": {**schema_of(Literal["c", "f"]), "description": "of degrees", "default": "c"},
                },
                "additionalProperties": False,
                "required": ["city"],
            },
        },
    }


def test_other_styles_of_docstrings_are_read() -> None:
    assert tool_of(numpys)["function"]["description"] == "Add."
    assert schema_of(numpys)["properties"] == {
        "x": {"type": "integer", "description": "the first number"},
        "y": {"description": "the second", "default": 2},
    }
    assert schema_of(sphinx)["properties"] == {"x": {"type": "integer", "description": "the first number"}}
    assert schema_of(sphinx)["additionalProperties"] == {"type": "integer"}


class Service:
    def find(self, query: str) -> str:
        """Find it."""
        return query


@functools.wraps(google)
def wrapped(*arguments: Any, **keywords: Any) -> str:
    return google(*arguments, **keywords)


def test_methods_and_wrapped_functions_have_their_own_arguments() -> None:
    assert list(schema_of(Service().find)["properties"]) == ["query"]
    assert tool_of(wrapped) == tool_of(google)


def test_a_class_is_a_tool() -> None:
    @dataclasses.dataclass
    class Search:
        """Search for something."""

        query: str

    @dataclasses.dataclass
    class Plain:
        query: str

    function = tool_of(Search)["function"]
    assert (function["name"], function["description"]) == ("Search", "Search for something.")
    assert function["parameters"]["required"] == ["query"]
    assert "description" not in tool_of(Plain)["function"]


def without_json(x: object = object()) -> None:
    """Has a default that is not JSON."""


def test_a_default_that_is_not_json_is_left_out() -> None:
    assert schema_of(without_json)["properties"] == {"x": {}}


def by_position(x: int, /) -> None:
    """Has a parameter without a name."""


def many(*values: int) -> None:
    """Takes any number."""


def unknown(x: Missing) -> None:  # type: ignore[name-defined]  # noqa: F821
    """Names a type that does not exist."""


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (by_position, "x by position"),
        (many, "values by position"),
        (unknown, "'Missing' is not defined"),
        (3, "neither a function"),
    ],
    ids=["position", "many", "unknown", "number"],
)
def test_what_cannot_be_called_by_names_is_refused(function: Any, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        tool_of(function)
