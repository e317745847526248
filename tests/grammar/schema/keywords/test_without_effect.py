"""What a schema says without an effect is told, and what is no schema is refused."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from engine_sampler import ParameterError, SamplingParams, Scheduler, Tokenizer
from engine_sampler.grammar import Grammar, GrammarError, GrammarLimitError, tool_calls
from engine_sampler.grammar.schema.compiling import rules_from_schema
from engine_sampler.grammar.schema.keywords import without_effect
from engine_sampler.grammar.schema.options import SchemaOptions


def told(schema: Any, **options: Any) -> list[str]:
    """The warnings of a schema, which are its `unenforced`, too."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        rules = rules_from_schema(schema, SchemaOptions(**options))
    found = [str(one.message) for one in caught]
    assert found == list(rules.unenforced)
    return found


@pytest.mark.parametrize(
    ("schema", "meant"),
    [
        ({"type": "object", "requird": ["a"]}, "required"),
        ({"type": "array", "items": {"type": "integer", "minimun": 1}}, "minimum"),
        ({"items": {"min_length": 3}}, "minLength"),
        ({"items": {"additionalproperties": False}}, "additionalProperties"),
        ({"items": {"Required": ["a"]}}, "required"),
    ],
    ids=str,
)
def test_a_misspelled_keyword_is_reported_with_the_one_that_is_meant(schema: Any, meant: str) -> None:
    assert [text.partition(": ")[2] for text in told(schema)] == [f"is {meant} meant?"]


@pytest.mark.parametrize(
    "schema",
    [
        {"x-order": 1, "title": "a", "units": "m", "properties": {"requird": {"example": 1}}},
        {"items": {"x_type": 1, "_items": 2, "min_length_of_what_nobody_needs_at_all": 3}},
        {"type": "integer", "format": "int32", "contentEncoding": "base64"},
        {"type": "string", "format": "password"},
    ],
    ids=str,
)
def test_annotations_and_extensions_are_not_reported(schema: Any) -> None:
    assert told(schema) == []


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"format": "idn-hostname"}, "format 'idn-hostname' is not enforced"),
        ({"format": "date-tme"}, "format 'date-tme' is not enforced: is date-time meant?"),
        ({"format": "url"}, "format 'url' is not enforced: is uri meant?"),
        ({"format": "a" * 100_000}, f"format '{'a' * 80}'… is not enforced"),
        ({"contentEncoding": "base64"}, "contentEncoding 'base64' is not enforced"),
        ({"contentMediaType": "image/png"}, "contentMediaType 'image/png' is not enforced"),
        (
            {"properties": {"a": {"type": "string", "required": True}}},
            "required: true has no effect: the schema of an object lists the keys it needs",
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_is_not_enforced_is_reported(schema: Any, text: str) -> None:
    assert told(schema) == [text]


def test_formats_that_are_to_be_annotations_are_not_reported() -> None:
    assert told({"format": "date-tme", "contentEncoding": "base64"}, formats="annotate") == []


def test_what_is_to_be_ignored_is_listed_without_a_warning() -> None:
    grammar = Grammar.from_json_schema({"format": "url"}, unsupported="ignore")
    assert grammar.unenforced == ("format 'url' is not enforced: is uri meant?",)


def test_a_schema_full_of_mistakes_gives_a_few_warnings_and_python_keeps_none_of_them() -> None:
    mistakes = {"requird": 1, "minimun": 1, "patern": 2, "typ": 3, "itms": 4}
    schema = {"properties": {f"p{i}": {**mistakes, "format": f"f{i}"} for i in range(200)}}
    found = told(schema)
    assert len(found) == 6
    assert found[-1] == "200 more parts of the JSON Schema have no effect"
    assert not hasattr(without_effect, "__warningregistry__")


def test_a_grammar_of_many_schemas_has_a_bounded_number_of_warnings() -> None:
    schemas = [{"type": "object", "requird": [], "title": str(i)} for i in range(100)]
    tags = [{"begin": f"<{i}>", "schema": schema, "end": "</>"} for i, schema in enumerate(schemas)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        Grammar.from_structural_tag({"structures": tags, "triggers": ["<"]})
    assert len(caught) == 20


@pytest.mark.parametrize("family", ["hermes", "glm_4_5", "qwen_3_coder", "llama_4"])
def test_what_a_tools_schema_says_without_an_effect_is_listed(family: str) -> None:
    parameters = {"type": "object", "properties": {"link": {"type": "string", "format": "url"}}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
    with pytest.warns(UserWarning, match="format 'url' is not enforced"):
        grammar = Grammar.from_structural_tag(tool_calls(family, tools, "required"))
    told = "tools: the parameters of 'f': format 'url' is not enforced: is uri meant?"
    assert grammar.unenforced == (told,)


def test_a_scheduler_refuses_what_is_no_schema_and_lists_what_is_not_enforced() -> None:
    tokenizer = Tokenizer([*(bytes((i,)) for i in range(256)), b"</s>"], eos_token_ids=[256])
    scheduler = Scheduler(257, tokenizer)
    with pytest.raises(ParameterError, match="no keyword, only 'name', 'schema'"):
        scheduler.add(SamplingParams(json_schema={"name": "a", "schema": {"type": "object"}}))
    with pytest.warns(UserWarning, match="format 'cidr' is not enforced"):
        request = scheduler.add(SamplingParams(json_schema={"format": "cidr"}))
    assert scheduler.record(request).unenforced == ["format 'cidr' is not enforced"]


@pytest.mark.parametrize(
    ("schema", "meant"),
    [
        ({"name": "person", "strict": True, "schema": {"type": "object"}}, "is what 'schema' holds meant?"),
        ({"name": "f", "description": "d", "parameters": {}}, "is what 'parameters' holds meant?"),
        ({"min_length": 3}, "is minLength meant?"),
        ({"name": "Ada", "age": 36}, "an example of a value is no schema"),
        ({"title": "Dune", "author": "Herbert", "year": 1965}, "an example of a value is no schema"),
    ],
    ids=str,
)
def test_an_object_of_which_no_schema_is_left_is_refused(schema: Any, meant: str) -> None:
    for unsupported in ("error", "ignore"):
        with pytest.raises(GrammarError, match="the JSON Schema has no keyword, only ") as caught:
            Grammar.from_json_schema(schema, unsupported=unsupported)
        assert str(caught.value).endswith(meant)


@pytest.mark.parametrize(
    "schema",
    [
        *(
            True,
            {},
            {"title": "a", "description": "b"},
            {"x-note": 1, "title": "a"},
            {"$comment": "a", "b": 1},
        ),
        *({"$defs": {}, "name": "a"}, {"then": False, "name": "a"}, {"nullable": True, "name": "a"}),
    ],
    ids=str,
)
def test_annotations_alone_are_any_json(schema: Any) -> None:
    grammar = Grammar.from_json_schema(schema)
    assert all(grammar.check(text).valid for text in ("1", '"a"', "null", "[{}]"))


def test_an_object_with_very_many_keys_that_are_none_of_a_schema_is_refused_as_well() -> None:
    with pytest.raises(GrammarError, match="no keyword") as caught:
        Grammar.from_json_schema({f"key{i}": i for i in range(20_000)})
    assert len(str(caught.value)) < 300
    assert not isinstance(caught.value, GrammarLimitError)
