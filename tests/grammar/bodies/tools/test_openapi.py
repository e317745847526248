"""Operations of OpenAPI documents as tools."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine_sampler import ParameterError
from engine_sampler.grammar import Grammar, openapi_tools, tool_calls

DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "paths": {
        "/pets/{id}": {
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}],
            "get": {
                "operationId": "get_pet",
                "summary": "Find a pet.",
                "parameters": [{"$ref": "#/components/parameters/verbose"}],
            },
            "put": {
                "operationId": "put_pet",
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}},
                },
            },
            "delete": {"summary": "It has no name."},
        }
    },
    "components": {
        "parameters": {"verbose": {"name": "verbose", "in": "query", "schema": {"type": "boolean"}}},
        "schemas": {
            "Pet": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "maxLength": 8},
                    "mother": {"$ref": "#/components/schemas/Pet"},
                },
                "required": ["name"],
            },
            "Other": {"type": "string"},
        },
    },
}


def test_each_named_operation_is_a_tool() -> None:
    get, put = openapi_tools(DOCUMENT)
    assert get["function"] == {
        "name": "get_pet",
        "description": "Find a pet.",
        "parameters": {
            "type": "object",
            "properties": {"id": {"type": "integer"}, "verbose": {"type": "boolean"}},
            "additionalProperties": False,
            "required": ["id"],
        },
    }
    assert put["function"]["parameters"]["required"] == ["id", "body"]
    assert list(put["function"]["parameters"]["components"]["schemas"]) == ["Pet"]
    assert openapi_tools(json.dumps(DOCUMENT), ["put_pet"]) == [put]


@pytest.mark.parametrize(
    ("body", "valid"), [('{"name": "a", "mother": {"name": "b"}}', True), ('{"mother": {}}', False)]
)
@pytest.mark.parametrize("operations", [None, ["put_pet"]], ids=str)
def test_a_call_follows_the_schemas_of_the_document(operations: Any, body: str, valid: bool) -> None:
    tag = tool_calls("hermes", openapi_tools(DOCUMENT, operations), "required")
    call = f'<tool_call>\n{{"name": "put_pet", "arguments": {{"id": 1, "body": {body}}}}}\n</tool_call>'
    assert Grammar.from_structural_tag(tag).check(call).valid is valid


def changed(operation: dict[str, Any]) -> dict[str, Any]:
    return {"openapi": "3.0.3", "paths": {"/a": {"post": {"operationId": "a", **operation}}}}


@pytest.mark.parametrize(
    ("document", "error"),
    [
        ("{", "document is not JSON"),
        ({"swagger": "2.0"}, "an OpenAPI document has `openapi` and `paths`"),
        (3, "document=3 is not allowed"),
        (changed({"parameters": [{"$ref": "other.json"}]}), r"\$ref='other.json' is not allowed"),
        (changed({"parameters": [{"$ref": "#/components/parameters/x"}]}), "is not allowed: a part"),
        (changed({"parameters": [{"name": "body"}], "requestBody": {}}), "the parameter 'body' of a"),
    ],
    ids=["text", "swagger", "number", "elsewhere", "missing", "twice"],
)
def test_what_is_no_such_document_is_refused(document: Any, error: str) -> None:
    with pytest.raises(ParameterError, match=error):
        openapi_tools(document)


def test_an_operation_that_is_missing_is_named() -> None:
    with pytest.raises(ParameterError, match=r"operations names 'post_pet', .* one of get_pet, put_pet"):
        openapi_tools(DOCUMENT, ["post_pet"])
