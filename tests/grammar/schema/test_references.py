"""References, drafts, unknown keywords."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest

from engine_sampler.grammar import Grammar
from engine_sampler.grammar.engines.reference import ReferenceGrammar
from engine_sampler.grammar.errors import GrammarError, UnsupportedKeywordError
from engine_sampler.grammar.program.rules import Rules, sequence
from engine_sampler.grammar.schema import metaschemas
from engine_sampler.grammar.schema.compiling import add_schema

from .judging import Judge, accepted

TREE = {
    "$id": "https://example.org/tree",
    "$dynamicAnchor": "node",
    "type": "object",
    "properties": {"value": True, "children": {"type": "array", "items": {"$dynamicRef": "#node"}}},
}


def test_a_schema_may_contain_itself() -> None:
    schema = {"type": "array", "items": {"$ref": "#"}}
    assert accepted(schema, "[]", "[[],[[]]]", "[1]") == ["[]", "[[],[[]]]"]


def test_references_resolve_to_pointers_anchors_and_embedded_schemas() -> None:
    schema = {
        "$id": "https://example.org/root",
        "prefixItems": [
            {"$ref": "#/$defs/a~1b%25"},
            {"$ref": "#name"},
            {"$ref": "inner"},
            {"$ref": "https://example.org/inner#/$defs/deep"},
        ],
        "type": "array",
        "$defs": {
            "a/b%": {"type": "integer"},
            "n": {"$anchor": "name", "type": "string"},
            "i": {"$id": "inner", "type": "null", "$defs": {"deep": {"type": "boolean"}}},
        },
    }
    assert accepted(schema, '[1,"x",null,true]', '["x"]', "[1,1]", '[1,"x",1]', '[1,"x",null,1]') == [
        '[1,"x",null,true]'
    ]


def test_a_dynamic_reference_out_of_every_scope_resolves_to_the_anchor_that_it_names() -> None:
    schema = {
        "$id": "https://example.com/main",
        "$ref": "start",
        "$defs": {
            "start": {"$id": "start", "$dynamicRef": "inner#thing"},
            "thing": {"$id": "inner", "$dynamicAnchor": "thing", "type": "string"},
        },
    }
    assert accepted(schema, '"a"', "1") == ['"a"']


def test_a_dynamic_reference_resolves_to_the_outermost_anchor() -> None:
    schema = {
        "$id": "https://example.org/strict",
        "$dynamicAnchor": "node",
        "$ref": "tree",
        "unevaluatedProperties": False,
        "$defs": {"tree": TREE},
    }
    good = ['{"children":[{"value":1}]}']
    assert accepted(schema, *good, '{"children":[{"valu":1}]}', '{"x":1}') == good
    assert Judge(TREE).accepts('{"children":[{"valu":1}]}')


@pytest.mark.parametrize(
    "schema",
    [{"$ref": "#"}, {"allOf": [{"$ref": "#"}]}, {"not": {"$ref": "#"}}, {"anyOf": [True, {"$ref": "#"}]}],
)
def test_a_reference_back_to_itself_at_the_same_value_is_an_error(schema: object) -> None:
    with pytest.raises(GrammarError, match="leads back to itself"):
        Judge(schema)


def test_unresolvable_references_raise_clear_errors() -> None:
    with pytest.raises(UnsupportedKeywordError, match=r"\$ref to another document.*example.org/x"):
        Judge({"$ref": "https://example.org/x"})
    with pytest.raises(GrammarError, match="does not point to a subschema"):
        Judge({"$ref": "#/$defs/missing"})
    assert Judge({"type": "integer", "$defs": {"unused": {"$ref": "https://example.org/x"}}}).accepts("1")


@pytest.mark.parametrize(
    ("schema", "meant"),
    [
        ({"$ref": "#/definitions/A", "$defs": {"A": {}}}, "is '#/$defs/A' meant?"),
        ({"$ref": "#/$defs/A", "definitions": {"A": {}}}, "is '#/definitions/A' meant?"),
        ({"$ref": "#/$defs/Perso", "$defs": {"Person": {}}}, "is 'Person' meant for 'Perso'?"),
    ],
    ids=str,
)
def test_a_reference_that_leads_nowhere_says_what_may_be_meant(schema: Any, meant: str) -> None:
    with pytest.raises(GrammarError) as caught:
        Judge(schema)
    assert caught.value.text.endswith(f"does not point to a subschema: {meant}")


def test_up_to_draft_7_a_reference_hides_its_sibling_keywords() -> None:
    schema = {
        "definitions": {"a": {"type": "integer"}},
        "properties": {"x": {"$ref": "#/definitions/a", "minimum": 5}},
    }
    assert accepted(schema, '{"x":1}', '{"x":7}') == ['{"x":7}']
    old = {"$schema": "http://json-schema.org/draft-07/schema#", **schema}
    assert accepted(old, '{"x":1}', '{"x":7}') == ['{"x":1}', '{"x":7}']


def test_unknown_keywords_have_no_effect() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Judge({"x-order": 1, "title": "t", "default": 3, "examples": [1], "$comment": "c"}).accepts(
            "[{}]"
        )


def test_a_schema_may_be_given_as_text() -> None:
    assert Judge('{"const": 1}').accepts("1")
    with pytest.raises(GrammarError, match="not JSON"):
        Judge("{")


def test_a_schema_inside_other_rules_reads_its_own_white_space() -> None:
    rules = Rules()
    value = add_schema({"type": "object", "properties": {"a": {"type": "array"}}}, rules)
    rules.start = rules.rule("start")
    rules.define(rules.start, sequence(value, value))
    matcher = ReferenceGrammar(rules.program(), ()).matcher()
    assert matcher.accept_bytes(b'{ "a" : [ 1 ,\n{} ] }{}')
    assert matcher.is_accepting()
    assert not matcher.accept_bytes(b" ")


@pytest.mark.parametrize(
    ("draft", "schema", "text"),
    [
        ("draft-04", {"const": 1}, "2"),
        ("draft-04", {"propertyNames": {"maxLength": 1}}, '{"ab":1}'),
        ("draft-06", {"if": {"type": "string"}, "then": False}, '"a"'),
        ("draft-07", {"dependentRequired": {"a": ["b"]}}, '{"a":1}'),
        ("draft-07", {"prefixItems": [{"type": "string"}]}, "[1]"),
        ("2019-09", {"prefixItems": [{"type": "string"}], "items": {"type": "number"}}, "[1]"),
    ],
)
def test_a_declared_draft_lacks_the_keywords_of_later_ones(draft: str, schema: Any, text: str) -> None:
    assert accepted({"$schema": f"http://json-schema.org/{draft}/schema#", **schema}, text) == [text]
    assert accepted(schema, text) == []


METASCHEMAS = [
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
]


@pytest.mark.parametrize("uri", METASCHEMAS)
def test_a_reference_may_lead_to_a_metaschema(uri: str) -> None:
    judge = Judge({"$ref": uri})
    for schema in (
        {"type": "object", "properties": {"a": {"type": ["integer", "null"], "minimum": 0}}},
        {"allOf": [{"$ref": "#/definitions/a"}], "definitions": {"a": {"enum": [1]}}},
        {"dependencies": {"a": ["b"], "c": {"pattern": "a{2}"}}, "unknown": 1},
    ):
        assert judge.accepts_value(schema)
    for schema in (
        {"properties": {"a": {"type": "int"}}},
        {"definitions": {"a": {"minLength": -1}}},
        {"not": {"required": "a"}},
        {"allOf": []},
        {"multipleOf": 0},
        [],
    ):
        assert not judge.accepts_value(schema)
    assert judge.accepts_value(True) == ("draft-04" not in uri)


@pytest.mark.parametrize(
    ("wrong", "first"),
    [
        ({"propertyNames": 1}, 1),
        ({"if": 1}, 2),
        ({"dependentSchemas": {"a": 1}}, 3),
        ({"prefixItems": {}}, 4),
    ],
)
def test_each_metaschema_has_the_keywords_of_its_draft(wrong: dict[str, Any], first: int) -> None:
    found = [Judge({"$ref": uri}).accepts_value(wrong) for uri in METASCHEMAS]
    assert found == [number < first for number in range(5)]


def test_the_parts_of_a_metaschema_can_be_named() -> None:
    named = {"$ref": "http://json-schema.org/draft-07/schema#/definitions/nonNegativeInteger"}
    assert accepted(named, "0", "-1", "1.5") == ["0"]


@pytest.mark.parametrize("draft", ["2019-09", "2020-12"])
@pytest.mark.parametrize(
    ("vocabulary", "wrong"),
    [
        ("core", {"$id": 3}),
        ("applicator", {"allOf": [{"not": 3}]}),
        ("validation", {"type": 3}),
        ("meta-data", {"title": 3}),
        ("content", {"contentEncoding": 3}),
    ],
)
def test_a_reference_may_lead_to_a_vocabulary(draft: str, vocabulary: str, wrong: dict[str, Any]) -> None:
    judge = Judge({"$ref": f"https://json-schema.org/draft/{draft}/meta/{vocabulary}"})
    assert judge.accepts_value({"$id": "a", "items": True, "type": "string", "unknown": 1})
    assert not judge.accepts_value(wrong)
    with pytest.raises(UnsupportedKeywordError, match="another document"):
        Judge({"$ref": f"https://json-schema.org/draft/{draft}/meta/{vocabulary}s"})


def test_where_the_package_of_metaschemas_is_missing_it_is_asked_for_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    metaschemas.metaschema.cache_clear()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UnsupportedKeywordError, match=r"needs jsonschema-specifications: pip install"):
        Grammar.from_json_schema({"$comment": "missing", "$ref": METASCHEMAS[4]})


def test_the_published_metaschema_is_a_schema_of_schemas() -> None:
    base = "https://json-schema.org/draft/2020-12"
    vocabularies = (
        "core",
        "applicator",
        "unevaluated",
        "validation",
        "meta-data",
        "format-annotation",
        "content",
    )
    published = {
        "$schema": f"{base}/schema",
        "$id": f"{base}/schema",
        "$dynamicAnchor": "meta",
        "allOf": [{"$ref": f"meta/{name}"} for name in vocabularies],
        "type": ["object", "boolean"],
        "properties": {
            "definitions": {"type": "object", "additionalProperties": {"$dynamicRef": "#meta"}},
            "$recursiveAnchor": {"$ref": "meta/core#/$defs/anchorString"},
        },
    }
    judge = Judge(published)
    assert judge.accepts_value({"items": {"type": "string"}})
    assert not judge.accepts_value({"items": {"type": "str"}})
    assert not judge.accepts_value({"$recursiveAnchor": "1"})


def test_a_metaschema_can_be_extended() -> None:
    for head, uri in (
        ({"$dynamicAnchor": "meta"}, METASCHEMAS[4]),
        ({"$recursiveAnchor": True}, METASCHEMAS[3]),
    ):
        extended = {
            "$id": "http://x/own",
            "$schema": uri,
            **head,
            "$ref": uri,
            "properties": {"unit": {"enum": ["kg", "m"]}},
        }
        judge = Judge(extended)
        assert judge.accepts_value({"items": {"unit": "kg"}})
        assert not judge.accepts_value({"items": {"unit": "s"}})
        assert not judge.accepts_value({"items": {"type": "s"}})


PARTS = {
    "https://example.com/parts.json": {
        "$defs": {"name": {"type": "string", "maxLength": 2}, "all": {"items": {"$ref": "sizes.json#small"}}}
    },
    "https://example.com/sizes.json": {"$anchor": "any", "$defs": {"s": {"$anchor": "small", "maximum": 9}}},
}


def test_a_reference_may_lead_to_a_document_that_is_handed_in() -> None:
    schema = {
        "properties": {
            "name": {"$ref": "https://example.com/parts.json#/$defs/name"},
            "sizes": {"$ref": "https://example.com/parts.json#/$defs/all", "type": "array"},
        }
    }
    for resources in (PARTS, {uri: json.dumps(one) for uri, one in PARTS.items()}):
        grammar = Grammar.from_json_schema(schema, resources=resources)
        assert grammar.check('{"name":"ab","sizes":[9]}').valid
        assert not grammar.check('{"name":"abc"}').viable
        assert not grammar.check('{"sizes":[10]}').viable
    with pytest.raises(
        UnsupportedKeywordError, match="to another document is not supported: 'https://example"
    ):
        Grammar.from_json_schema(schema)
    with pytest.raises(GrammarError, match="resources=5 is not allowed: schemas by URI"):
        Grammar.from_json_schema(schema, resources=5)  # type: ignore[arg-type]


def test_a_document_that_is_handed_in_may_lead_back() -> None:
    tree = {"$id": "https://example.com/tree", "type": "object", "properties": {"leaf": {"$ref": "leaf"}}}
    leaf = {"type": "object", "properties": {"tree": {"$ref": "tree"}}, "additionalProperties": False}
    grammar = Grammar.from_json_schema(tree, resources={"https://example.com/leaf": leaf})
    assert grammar.check('{"leaf":{"tree":{"leaf":{}}}}').valid
    assert not grammar.check('{"leaf":{"tree":{"leaf":{"a"').viable


def test_a_metaschema_without_the_vocabulary_of_validation_takes_its_keywords_away() -> None:
    base = "https://json-schema.org/draft/2020-12/"
    names = {f"{base}vocab/core": True, f"{base}vocab/applicator": True}
    own, full = "https://example.com/own", "https://example.com/full"
    resources = {
        own: {"$id": own, "$schema": f"{base}schema", "$vocabulary": names},
        full: {"$vocabulary": {**names, f"{base}vocab/validation": False}},
    }
    small = {"type": "integer", "maximum": 9}
    schema = {
        "$schema": own,
        "properties": {
            "a": small,
            "b": False,
            "c": {"contains": {"type": "null"}, "minContains": 0},
            "d": {"$id": "inner", "required": ["x"]},
            "e": {"$id": "other", "$schema": full, **small},
        },
        "required": ["z"],
    }
    grammar = Grammar.from_json_schema(schema, resources=resources)
    for text in ('{"a":10}', '{"a":"x"}', '{"c":[1]}', '{"d":{}}', '{"e":9}'):
        assert grammar.check(text).valid
    for text in ('{"b":1}', '{"c":[]}', '{"e":10}', '{"e":"x"}'):
        assert not grammar.check(text).valid
    assert not Grammar.from_json_schema({**schema, "required": []}).check('{"a":10}').valid
    assert not Grammar.from_json_schema({"$schema": full, **small}, resources=resources).check("10").valid


def test_a_schema_without_a_draft_has_the_one_that_is_given() -> None:
    exclusive = {"type": "number", "minimum": 3, "exclusiveMinimum": True}
    assert not Grammar.from_json_schema(exclusive, draft="4").check("3").valid
    array = {"type": "array", "items": [{"type": "null"}], "additionalItems": False}
    assert not Grammar.from_json_schema(array, draft="7").check("[null,1]").valid
    named = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": "#/$defs/a", "maximum": 1}
    for draft in ("7", "2020-12"):
        grammar = Grammar.from_json_schema({**named, "$defs": {"a": {"type": "integer"}}}, draft=draft)
        assert not grammar.check("2").valid
    with pytest.raises(ValueError, match="draft must be one of"):
        Grammar.from_json_schema(True, draft="3")
