"""Elements within elements."""

from __future__ import annotations

import pytest

from .reading import M3, arguments_of, properties


def test_a_name_may_begin_as_an_end_does() -> None:
    text = '<cofl:value name="/a" type="raw">x</cofl:value>'
    assert arguments_of("cohere_xml", text) == {"/a": "x"}


@pytest.mark.parametrize(("text", "value"), [("null", [None]), ("x", ["x"]), ("[1]", ["[1]"]), ("", [""])])
def test_items_are_read_by_their_schemas(text: str, value: list[object]) -> None:
    schema = properties(a={"type": "array", "items": {"type": ["string", "null"]}})
    written = f"{M3}<a>{M3}<item>{text}{M3}</item>{M3}</a>"
    assert arguments_of("minimax_m3_xml", written, schema) == {"a": value}


def test_an_object_within_an_element_may_be_json() -> None:
    schema = properties(a={"type": "object", "additionalProperties": {"type": "integer"}})
    assert arguments_of("minimax_m3_xml", f'{M3}<a>{{"x": 1}}{M3}</a>', schema) == {"a": {"x": 1}}
