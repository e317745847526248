"""Elements within elements."""

from __future__ import annotations

import pytest

from engine_sampler.messages.events import DeviationError

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


@pytest.mark.parametrize(
    "text",
    [
        f"{M3}5{M3}</n>{M3}<s>x{M3}</s>",
        f"{M3}<s>x{M3}</s>{M3}5{M3}</n>",
        f"{M3}<o>{M3}<k>v{M3}</k>{M3}w{M3}</l>{M3}</o>\n{M3}5{M3}</n>{M3}<s>x{M3}</s>",
    ],
)
def test_a_member_whose_first_mark_is_missing_has_the_name_in_its_last_one(text: str) -> None:
    inside = properties(k={"type": "string"}, l={"type": "string"})
    schema = properties(n={"type": "integer"}, s={"type": "string"}, o=inside)
    wanted = {"n": 5, "s": "x"} | ({"o": {"k": "v", "l": "w"}} if "<o>" in text else {})
    assert arguments_of("minimax_m3_xml", text, schema) == wanted


def test_a_value_without_any_name_is_a_deviation() -> None:
    with pytest.raises(DeviationError, match="no name"):
        arguments_of("minimax_m3_xml", f"{M3}5", properties(n={"type": "integer"}))
