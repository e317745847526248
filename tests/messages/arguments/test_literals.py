"""Texts as the JSON that schemas ask for."""

from __future__ import annotations

import ast
import json
from random import Random

import pytest

from engine_sampler.messages.arguments.dialects import nested_json
from engine_sampler.messages.arguments.literals import begins_json, number_json, scalar_json, typed_json
from engine_sampler.messages.schemas import TYPES, view_of


@pytest.mark.parametrize("written", ["0", "-7", "1.5e3", "1_000", "+5", "5.", ".5", "-.5e-2", "1_0.2_5"])
def test_numbers_of_python_are_numbers_of_json(written: str) -> None:
    found = number_json(written)
    assert found is not None
    assert json.loads(found) == ast.literal_eval(written)


@pytest.mark.parametrize(("written", "json_text"), [("007", "7"), ("00", "0"), ("-01.50", "-1.50")])
def test_leading_zeros_are_left_out(written: str, json_text: str) -> None:
    assert number_json(written) == json_text


@pytest.mark.parametrize("written", ["", "-", ".", "e5", "1e", "0x1f", "nan", "Infinity", "1,5", "1 2", "٣"])
def test_other_texts_are_no_numbers(written: str) -> None:
    assert scalar_json(written) is None


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "boolean"}, "True", True),
        ({"type": "boolean"}, "\nfalse ", False),
        ({"type": "boolean"}, '"true"', True),
        ({"type": "null"}, "None", None),
        ({"type": "integer"}, "5", 5),
        ({"type": "integer"}, '"5"', 5),
        ({"type": "integer"}, "'5'", 5),
        ({"type": ["integer", "null"]}, "None", None),
        ({"type": "object"}, '"{\\"x\\": 1}"', {"x": 1}),
        ({"type": "array"}, "'[1, True]'", [1, True]),
        ({"enum": ["C", "F"]}, "C", "C"),
        ({"enum": ["C", "F"]}, "\nC\n", "C"),
        ({"enum": ["C", "F"]}, '"C"', "C"),
        ({"enum": ["5", 5]}, "5", "5"),
        ({"enum": ["None", None]}, "None", "None"),
        ({"enum": ["C", None]}, "None", None),
        ({"type": "string"}, "None", "None"),
        ({"type": ["string", "integer"]}, "5", "5"),
        ({}, "5", "5"),
    ],
)
def test_a_text_becomes_what_its_schema_asks_for(schema: object, text: str, value: object) -> None:
    view = view_of(schema)
    assert json.loads(typed_json(text, view.types, view.strings, nested_json)) == value


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "integer"}, "five", "five"),
        ({"type": "object"}, "{not json", "{not json"),
        ({"type": "boolean"}, "yes", "yes"),
        ({"type": "boolean"}, "5", 5),
        ({"enum": ["C"]}, "K", "K"),
        ({"enum": ["C"]}, "5", "5"),
    ],
)
def test_what_its_schema_does_not_allow_stays_as_it_is_written(
    schema: object, text: str, value: object
) -> None:
    view = view_of(schema)
    assert json.loads(typed_json(text, view.types, view.strings, nested_json)) == value


@pytest.mark.parametrize("name", ["str", "int", "float", "bool", "dict", "list"])
def test_types_may_have_the_names_of_python(name: str) -> None:
    assert len(view_of({"type": name}).types) == 1


def test_a_type_that_there_is_not_says_nothing() -> None:
    assert view_of({"type": "varchar"}).types == TYPES


@pytest.mark.parametrize("text", ['{"', "{'", "{}", "{ }", "[]", "[[ {}", "[1", "[-", "[True", "[null", '["'])
def test_a_bracket_may_begin_json(text: str) -> None:
    assert begins_json(text + ",", 0)


@pytest.mark.parametrize("text", ["{not", "{a:", "[city]", "[not", "{1", "{[", "[[x"])
def test_a_bracket_may_begin_a_text(text: str) -> None:
    assert begins_json(text + ",", 0) is False


def test_what_a_bracket_begins_does_not_depend_on_where_the_text_is_cut() -> None:
    random = Random(1)
    for _ in range(2000):
        text = "".join(random.choices("[{ ]}\"'1-ntTfx,", k=random.randrange(1, 9)))
        decided = [begins_json(text[:end], 0) for end in range(1, len(text) + 1)]
        known = [one for one in decided if one is not None]
        if text[0] in "[{":
            assert len(set(known)) < 2, text
