"""Parameters one after the other, with slips in their marks."""

from __future__ import annotations

from typing import Any

import pytest

from .reading import arguments_of, properties

SCHEMA = properties(a={"type": "string"}, b={"type": "integer"})
READ = [
    ("<parameter=a>\nx\n</parameter>\n</parameter>\n<parameter=b>5</parameter>", {"a": "x", "b": 5}),
    ("<parameter=a>\nx\n<parameter=b>\n5\n</parameter>", {"a": "x", "b": 5}),
    ("<parameter=b>5<parameter=a>x</parameter>", {"b": 5, "a": "x"}),
    ("<parameter=a>x <parameter=c> y</parameter>", {"a": "x <parameter=c> y"}),
    ("<parameter=a>x <parameter=a> y</parameter>", {"a": "x <parameter=a> y"}),
    ("<parameter=a>x <parameter= <parameter</parameter>", {"a": "x <parameter= <parameter"}),
    ("<parameter=a>x</parameter><parameter=a>y</parameter>", {"a": "y"}),
    ("<parameter=c>5</parameter>", {"c": "5"}),
    (" \n", {}),
]


@pytest.mark.parametrize(("text", "value"), READ)
def test_parameters_are_read(text: str, value: Any) -> None:
    assert arguments_of("qwen_xml", text, SCHEMA) == value


def test_without_a_schema_any_parameter_ends_a_value_whose_mark_is_missing() -> None:
    text = "<parameter=q>hello <parameter=limit>10</parameter>"
    assert arguments_of("qwen_xml", text) == {"q": "hello ", "limit": "10"}


def test_names_of_1024_characters_are_read() -> None:
    name = "n" * 1024
    assert arguments_of("qwen_xml", f"<parameter={name}>x</parameter>") == {name: "x"}


def test_more_parameters_than_are_remembered_are_read() -> None:
    text = "".join(f"<parameter=p{number}>x</parameter>" for number in range(600))
    assert len(arguments_of("qwen_xml", text)) == 600
