"""Arguments of calls in the styles of models that do not write JSON."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest

from engine_sampler.grammar.errors import GrammarError, UnsupportedKeywordError
from engine_sampler.grammar.grammar import Grammar
from engine_sampler.grammar.structural_tag.elements import NOTATIONS
from engine_sampler.grammar.structural_tag.parameters import STYLES

from .test_structural_tag import accepts

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "unit": {"enum": ["C", 0, None]},
        "place": {"$ref": "#/$defs/place"},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
    },
    "required": ["city", "days"],
    "additionalProperties": False,
    "$defs": {"place": {"type": "object", "properties": {"x": {"type": "boolean"}}, "required": ["x"]}},
}
DSML = '<｜DSML｜parameter name="{}" string="{}">{}</｜DSML｜parameter>'
K3 = '<|open|>argument key="{}" type="{}"<|sep|>{}<|close|>argument<|sep|>'
COFL = '<cofl:value name="{}" type="{}">{}</cofl:value>'
M3 = "]<]minimax[>[<{0}>{1}]<]minimax[>[</{0}>"


def of(style: str, schema: Any = SCHEMA, **more: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": schema, "style": style, **more}


def item(text: str) -> str:
    return f'<cofl:value type="raw">{text}</cofl:value>'


WRITTEN = {
    **dict.fromkeys(
        ("qwen_xml", "seed_xml", "mimo_xml"),
        ("<parameter=city>Ö < B</parameter>", "<parameter=days>3</parameter>"),
    ),
    "minimax_xml": ('<parameter name="city">Ö < B</parameter>', '<parameter name="days">3</parameter>'),
    "deepseek_xml": (DSML.format("city", "true", "Ö < B"), DSML.format("days", "false", "3")),
    "deepseek_v4_1_xml": tuple(
        DSML.replace("parameter", " parameter").format(*one)
        for one in (("city", "true", "Ö < B"), ("days", "false", "3"))
    ),
    "glm_xml": (
        "<arg_key>city</arg_key>\n<arg_value>Ö < B</arg_value>",
        "<arg_key>days</arg_key><arg_value>3</arg_value>",
    ),
    "kimi_k3_xml": (K3.format("city", "string", "Ö < B"), K3.format("days", "number", "3")),
    "step3_xml": (
        '<steptml:parameter name="city">Ö < B</steptml:parameter>',
        '<steptml:parameter name="days">3</steptml:parameter>',
    ),
    "cohere_xml": (COFL.format("city", "raw", "Ö < B"), COFL.format("days", "json", "3")),
    "minimax_m3_xml": (M3.format("city", "Ö < B"), M3.format("days", "3")),
    "gemma": ('city:<|"|>Ö < B<|"|>', "days:3"),
    "function_gemma": ("city:<escape>Ö < B<escape>", "days:3"),
    "hunyuan_3_xml": (
        "<arg_key:opensource>city</arg_key:opensource>\n<arg_value:opensource>Ö < B</arg_value:opensource>",
        "<arg_key:opensource>days</arg_key:opensource>\n<arg_value:opensource>3</arg_value:opensource>",
    ),
    "atem_xml": (
        '<atem:parameter name="city">Ö < B</atem:parameter>',
        '<atem:parameter name="days">3</atem:parameter>',
    ),
    "minicpm_5_xml": ('<param name="city">Ö < B</param>', '<param name="days">3</param>'),
}
"""The members `city` and `days` in each style."""
LIKE_JSON = {"gemma", "function_gemma"}


def joined(style: str, *members: str) -> str:
    return "{" + ",".join(members) + "}" if style in LIKE_JSON else "".join(members)


def test_every_style_is_tested() -> None:
    assert WRITTEN.keys() == STYLES.keys() | NOTATIONS.keys()


@pytest.mark.parametrize("style", WRITTEN)
def test_members_come_once_in_any_order_and_required_ones_come(style: str) -> None:
    city, days = WRITTEN[style]
    assert accepts(of(style), joined(style, city, days))
    assert accepts(of(style), joined(style, days, city))
    assert not accepts(of(style), joined(style, city))
    assert not accepts(of(style), joined(style, days))
    assert not accepts(of(style), joined(style, city, days, days))
    assert not accepts(of(style), joined(style, city, days.replace("days", "nights")))
    assert not accepts(of(style), joined(style, city, days.replace("3", "three")))


@pytest.mark.parametrize("style", WRITTEN)
def test_members_can_be_kept_in_order(style: str) -> None:
    city, days = WRITTEN[style]
    last = of(style, {**SCHEMA, "required": ["days"]}, any_order=False)
    assert accepts(last, joined(style, city, days))
    assert accepts(last, joined(style, days))
    assert not accepts(last, joined(style, days, city))
    assert not accepts(last, joined(style, city))


@pytest.mark.parametrize("style", sorted(set(WRITTEN) - LIKE_JSON))
def test_white_space_between_members_is_bounded(style: str) -> None:
    city, days = WRITTEN[style]
    assert accepts(of(style), f"\n{city}\n{days}\n")
    assert accepts(of(style, max_whitespace_cnt=3), f"{city}   {days}")
    assert not accepts(of(style, max_whitespace_cnt=3), f"{city}    {days}")
    assert not accepts(of(style), f"{city}\n\n{days}")


@pytest.mark.parametrize("style", sorted(set(WRITTEN) - {"minimax_m3_xml"}))
def test_members_that_are_not_named_are_allowed_unless_they_are_forbidden(style: str) -> None:
    city, days = WRITTEN[style]
    other = city.replace("city", "town")
    schema = {"properties": {"city": {"type": "string"}}, "additionalProperties": {"type": "string"}}
    assert accepts(of(style, schema), joined(style, other, city))
    assert not accepts(of(style, schema), joined(style, city, city))
    assert accepts(of(style, {}), joined(style, days, other))


@pytest.mark.parametrize(
    ("style", "text", "valid"),
    [
        ("deepseek_xml", DSML.format("unit", "true", "C"), True),
        ("deepseek_xml", DSML.format("unit", "false", "0"), True),
        ("deepseek_xml", DSML.format("unit", "true", "0"), False),
        ("deepseek_xml", DSML.format("unit", "false", "C"), False),
        ("deepseek_xml", DSML.format("place", "false", '{"x": true}'), True),
        ("deepseek_xml", DSML.format("place", "false", '{"x": 1}'), False),
        ("kimi_k3_xml", K3.format("unit", "null", "null"), True),
        ("kimi_k3_xml", K3.format("unit", "string", "null"), False),
        ("kimi_k3_xml", K3.format("unit", "number", "0"), True),
        ("kimi_k3_xml", K3.format("place", "object", '{"x":true}'), True),
        ("kimi_k3_xml", K3.format("tags", "array", '["a"]'), True),
        ("kimi_k3_xml", K3.format("tags", "string", '["a"]'), False),
        ("cohere_xml", COFL.format("unit", "raw", "C"), True),
        ("cohere_xml", COFL.format("unit", "json", "null"), True),
        ("cohere_xml", COFL.format("unit", "json", "C"), False),
        ("cohere_xml", COFL.format("place", "dict", COFL.format("x", "json", "true")), True),
        ("cohere_xml", COFL.format("place", "dict", ""), False),
        ("cohere_xml", COFL.format("tags", "list", item("a") + item("b")), True),
        ("cohere_xml", COFL.format("tags", "list", item("a") * 3), False),
        ("cohere_xml", COFL.format("tags", "list", ""), True),
        ("minimax_m3_xml", M3.format("unit", "null"), True),
        ("minimax_m3_xml", M3.format("place", M3.format("x", "true")), True),
        ("minimax_m3_xml", M3.format("place", "true"), False),
        ("minimax_m3_xml", M3.format("tags", M3.format("item", "a") + M3.format("item", "b")), True),
        ("minimax_m3_xml", M3.format("tags", M3.format("item", "a") * 3), False),
        ("minimax_m3_xml", M3.format("tags", M3.format("tag", "a")), False),
        ("gemma", 'unit:<|"|>C<|"|>', True),
        ("gemma", "unit:0", True),
        ("gemma", "unit:C", False),
        ("gemma", "place:{x:true}", True),
        ("gemma", "place:{}", False),
        ("gemma", 'tags:[<|"|>a<|"|>,<|"|>b<|"|>]', True),
        ("gemma", 'tags:[<|"|>a<|"|>,]', False),
        ("gemma", "tags:[]", True),
    ],
)
def test_the_mark_of_a_type_agrees_with_the_value(style: str, text: str, valid: bool) -> None:
    assert accepts(of(style), joined(style, *WRITTEN[style], text)) is valid


def test_lists_have_items_by_position_and_in_number() -> None:
    schema = {
        "properties": {
            "l": {"type": "array", "prefixItems": [{"const": "a"}], "items": {"const": "b"}, "minItems": 2}
        }
    }
    for items, valid in (("a", False), ("ab", True), ("abb", True), ("bb", False), ("", False)):
        assert accepts(of("cohere_xml", schema), COFL.format("l", "list", "".join(map(item, items)))) is valid


def test_objects_of_an_enum_are_written_as_json() -> None:
    schema = {"properties": {"o": {"enum": [{"a": 1}, "b"]}}}
    assert accepts(of("cohere_xml", schema), COFL.format("o", "json", '{"a":1}'))
    assert accepts(of("cohere_xml", schema), COFL.format("o", "raw", "b"))
    assert not accepts(of("cohere_xml", schema), COFL.format("o", "dict", '{"a":1}'))


def test_objects_are_elements_where_an_enum_only_rules_out_others() -> None:
    schema = {"properties": {"o": {"type": ["object", "number"]}}, "required": ["o"]}
    schema |= {"not": {"properties": {"o": {"enum": [1, 2]}}}}
    assert accepts(of("cohere_xml", schema), COFL.format("o", "dict", COFL.format("x", "json", "1")))
    assert not accepts(of("cohere_xml", schema), COFL.format("o", "json", '{"x": 1}'))
    for number, valid in ((1, False), (3, True)):
        assert accepts(of("cohere_xml", schema), COFL.format("o", "json", number)) is valid


def test_values_may_contain_themselves() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "additionalProperties": False}
    schema = {"properties": {"next": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}}
    text = ""
    for _ in range(4):
        text = COFL.format("next", "dict", text)
        assert accepts(of("cohere_xml", schema), text)
    assert not accepts(of("cohere_xml", schema), text.replace("dict", "list"))


@pytest.mark.parametrize("style", sorted(STYLES.keys() | NOTATIONS.keys()))
def test_deep_schemas_are_read(style: str) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"x": {"type": "string"}}}
    for _ in range(200):
        schema = {"type": "object", "properties": {"a": schema}, "additionalProperties": False}
    Grammar.from_structural_tag({"format": of(style, schema)})


def test_names_are_escaped_where_a_style_does_so() -> None:
    schema = {"properties": {'a"&b': {"type": "string"}}, "additionalProperties": False}
    assert accepts(of("kimi_k3_xml", schema), K3.format("a&quot;&amp;b", "string", ""))
    assert accepts(of("cohere_xml", schema), COFL.format("a&quot;&amp;b", "raw", ""))
    assert not accepts(of("kimi_k3_xml", schema), K3.format('a"&b', "string", ""))


def test_a_text_may_stand_in_the_quotes_of_a_style() -> None:
    schema = {
        "properties": {"s": {"type": "string"}, "e": {"enum": ["C", "F", 1]}, "n": {"type": "integer"}},
        "additionalProperties": False,
    }
    for name, text, valid in (
        ("s", "<![CDATA[a </param> <b>\n]]>", True),
        ("s", "<![CDATA[a]] ]]>", True),
        ("s", "a ]]>", True),
        ("s", "<![CDATA[a", False),
        ("s", "<![CDATA[a]]> b", False),
        ("e", "<![CDATA[F]]>", True),
        ("e", "<![CDATA[ F]]>", False),
        ("e", "<![CDATA[G]]>", False),
        ("n", "<![CDATA[1]]>", False),
    ):
        member = f'<param name="{name}">{text}</param>'
        assert accepts(of("minicpm_5_xml", schema), member) is valid, text


def test_texts_can_be_restricted() -> None:
    limited = {"properties": {"s": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2}}}
    for text, valid in (("ab", True), ("\nab\n", True), ("a", False), ("AB", False)):
        assert accepts(of("qwen_xml", limited), f"<parameter=s>{text}</parameter>") is valid
    dated = {"properties": {"s": {"type": "string", "format": "date"}}}
    for text, valid in (("2026-02-28", True), ("2026-02-30", False)):
        assert accepts(of("qwen_xml", dated), f"<parameter=s>{text}</parameter>") is valid
    free = {"properties": {"s": {"type": "string"}, "e": {"enum": ["bad", "good"]}}}
    for text, valid in (("fine", True), ("bad", False), ("a bad one", False)):
        found = accepts(of("qwen_xml", free, excludes=["bad"]), f"<parameter=s>{text}</parameter>")
        assert found is valid
    assert not accepts(of("qwen_xml", free, excludes=["bad"]), "<parameter=e>bad</parameter>")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (of("yaml"), "format.style='yaml' is not allowed: json, pythonic, qwen_xml"),
        (of("json", excludes=["a"]), "format.excludes is not supported in the style json"),
        (of("cohere_xml", excludes=["a"]), "format.excludes is not supported in the style cohere_xml"),
        (of("glm_xml", {"type": "array"}), "no object is valid under the schema"),
        (of("glm_xml", {"minProperties": 1, "propertyNames": False}), "no object is valid under the schema"),
        (of("glm_xml", {"minProperties": 1, "propertyNames": {"pattern": "^ "}}), "no object is valid"),
        (of("glm_xml", {"properties": {"a": {"const": "</arg_value>"}}}), "no value is valid"),
        (of("glm_xml", {"properties": {"a": {"$ref": "#/nowhere"}}}), "does not point to a subschema"),
        (of("glm_xml", {"properties": {"a": {"$ref": "#/properties/a"}}}), "leads back to itself"),
        (of("cohere_xml", {"properties": {"a": {"const": "</cofl:value>"}}}), "no value is valid"),
        (of("cohere_xml", '{"type":'), "format: the schema is not JSON"),
    ],
)
def test_what_a_style_cannot_write_is_rejected_with_its_path(given: Any, words: str) -> None:
    with pytest.raises(GrammarError, match=re.escape(words) if "=" in words else words):
        accepts(given, "")


def test_keywords_that_cannot_be_enforced_are_rejected() -> None:
    for style, schema in (
        ("glm_xml", {"minProperties": 2}),
        ("glm_xml", {"required": ["a"], "minProperties": 3}),
        ("glm_xml", {"properties": {"a": {"not": {"format": "regex"}}}}),
        ("cohere_xml", {"properties": {"a": {"type": "object", "minProperties": 2}}}),
        ("cohere_xml", {"enum": [{"a": n} for n in range(40)]}),
        ("pythonic", {"properties": {"my-city": {"type": "string"}}}),
        ("pythonic", {"properties": {"class": {"type": "string"}}}),
        ("glm_xml", {"properties": {"a" * 1025: {}}}),
    ):
        with pytest.raises(UnsupportedKeywordError):
            accepts(of(style, schema), "")


PARAMETER = "<parameter={}>{}</parameter>"


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (
            {"properties": {"a": {"type": "string", "not": {"enum": ["no", "never"]}}}},
            [{"a": "yes"}, {"a": "\nnothing\n"}],
            [{"a": "no"}, {"a": "never"}, {"a": "\nno\n"}],
        ),
        (
            {
                "properties": {"mode": {"enum": ["at", "now"]}, "hour": {"type": "integer"}},
                "required": ["mode"],
                "if": {"properties": {"mode": {"const": "at"}}},
                "then": {"required": ["hour"]},
                "additionalProperties": False,
            },
            [{"mode": "now"}, {"mode": "at", "hour": "3"}, {"hour": "3", "mode": "now"}],
            [{"mode": "at"}, {"hour": "3"}],
        ),
        (
            {"properties": dict.fromkeys("abc", True), "additionalProperties": False, "minProperties": 2},
            [{"a": "1", "c": "2"}, {"c": "1", "b": "1", "a": "2"}],
            [{}, {"b": "1"}],
        ),
        ({"maxProperties": 1}, [{}, {"x": "1"}], [{"x": "1", "y": "1"}]),
        (
            {"dependentRequired": {"card": ["name"]}},
            [{}, {"name": "x"}, {"card": "1", "name": "x"}, {"name": "x", "z": "1", "card": "1"}],
            [{"card": "1"}, {"card": "1", "z": "x"}],
        ),
        ({"propertyNames": {"maxLength": 2}}, [{"ab": "1"}], [{"abc": "1"}]),
        (
            {
                "anyOf": [{"required": ["id"]}, {"required": ["name"]}],
                "properties": {"id": {"type": "integer"}},
            },
            [{"id": "1"}, {"name": "x"}, {"name": "x", "id": "2"}],
            [{}, {"other": "x"}, {"id": "x"}],
        ),
        (
            {"oneOf": [{"required": ["id"]}, {"required": ["name"]}]},
            [{"id": "1"}, {"name": "x", "other": "y"}],
            [{}, {"id": "1", "name": "x"}],
        ),
    ],
)
@pytest.mark.parametrize("order", [True, False])
def test_every_keyword_of_the_parameters_holds(schema: Any, good: Any, bad: Any, order: bool) -> None:
    grammar = Grammar.from_structural_tag({"format": of("qwen_xml", schema, any_order=order)})
    places = {name: n for n, name in enumerate([*schema.get("properties", {}), "card", "name"])}
    for members, valid in [*((one, True) for one in good), *((one, False) for one in bad)]:
        names = members if order else sorted(members, key=lambda name: places.get(name, 9))
        text = "".join(PARAMETER.format(name, members[name]) for name in names)
        assert grammar.check(text).valid is valid, text


def test_names_by_pattern_are_those_that_are_escaped() -> None:
    schema = {"patternProperties": {"^x.?$": {"type": "integer"}}, "additionalProperties": False}
    written = {"kimi_k3_xml": K3.format("{}", "number", "3"), "cohere_xml": COFL.format("{}", "json", "3")}
    for style, member in written.items():
        for name, valid in (("x1", True), ("x&amp;", True), ("x&quot;", True), ("y1", False), ("x11", False)):
            assert accepts(of(style, schema), member.format(name)) is valid, name
        for name in ("x&", "x&x", "x&amp;&amp;", "x&amp"):
            assert not accepts(of(style, schema), member.format(name)), name
        assert not accepts(of(style, schema), member.format("x1").replace("3", "three"))


def test_every_keyword_of_an_object_within_the_arguments_holds() -> None:
    inner: dict[str, Any] = {"type": "object", "properties": {"x": {"not": {"const": "b"}}, "y": {}}}
    inner |= {"minProperties": 1, "dependentRequired": {"y": ["x"]}}
    schema = {"properties": {"o": inner}, "additionalProperties": False}
    x, y = COFL.format("x", "raw", "{}"), COFL.format("y", "json", "1")
    for members, valid in ((x, True), (x + y, True), (y + x, True), (y, False), ("", False)):
        text = COFL.format("o", "dict", members.replace("{}", "a"))
        assert accepts(of("cohere_xml", schema), text) is valid, text
    assert not accepts(of("cohere_xml", schema), COFL.format("o", "dict", x.replace("{}", "b")))


def random_part(random_: random.Random) -> dict[str, Any]:
    """A schema of an object, with few keywords."""
    kinds: list[Any] = [{"type": "integer"}, {"type": "string"}, {"minimum": 2}, {"maxLength": 1}, {}, True]
    names = random_.sample(["a", "b", "x1"], random_.randrange(1, 3))
    part: dict[str, Any] = {"properties": {name: random_.choice(kinds) for name in names}}
    if random_.random() < 0.4:
        part["required"] = random_.sample(["a", "b", "x1", "y"], 1)
    if random_.random() < 0.3:
        part["patternProperties"] = {random_.choice(["^x", "1$"]): random_.choice(kinds) for _ in range(2)}
    if random_.random() < 0.4:
        part["additionalProperties"] = random_.choice([False, *kinds[:3]])
    return part


def random_condition(random_: random.Random) -> dict[str, Any]:
    """A keyword that combines schemas, or one about all members."""
    parts = [random_part(random_) for _ in range(3)]
    return random_.choice(
        [
            {"not": parts[0]},
            {"if": parts[0], "then": parts[1], "else": parts[2]},
            {"anyOf": parts[:2]},
            {"oneOf": parts[:2]},
            {"minProperties": 1, "maxProperties": 2},
            {"dependentRequired": {"a": ["b"], "y": ["x1"]}},
            {"propertyNames": {"pattern": random_.choice(["1", "^[a-x]"])}},
        ]
    )


@pytest.mark.quick_share(3)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("style", ["pythonic", "deepseek_xml", "cohere_xml"])
def test_combined_schemas_mean_what_they_mean_for_json(seed: int, style: str) -> None:
    random_ = random.Random(seed)
    decided = 0
    for _ in range(12):
        parts = [random_part(random_) for _ in range(random_.randrange(1, 4))]
        schema: dict[str, Any] = {"type": "object", "allOf": [{"$ref": "#/$defs/0"}, *parts[1:]]}
        schema["$defs"] = {"0": parts[0]}
        if random_.random() < 0.3:
            schema |= random_part(random_)
        if random_.random() < 0.6:
            schema |= random_condition(random_)
        try:
            tag = Grammar.from_structural_tag({"format": of(style, schema)})
        except GrammarError:
            continue
        judge = Grammar.from_json_schema(schema)
        for _ in range(12):
            names = random_.sample(["a", "b", "x1", "x2", "y", "y1"], random_.randrange(4))
            values = {name: random_.choice([1, 3, "s", "long", True, None]) for name in names}
            if style == "pythonic":
                text = ",".join(f"{name}={value!r}" for name, value in values.items()).replace("'", '"')
            else:
                form, kinds = (
                    (DSML, ("false", "true")) if style == "deepseek_xml" else (COFL, ("json", "raw"))
                )
                texts = {n: one if isinstance(one, str) else json.dumps(one) for n, one in values.items()}
                text = "".join(
                    form.format(name, kinds[isinstance(one, str)], texts[name])
                    for name, one in values.items()
                )
            assert tag.check(text).valid == judge.check(json.dumps(values)).valid, (schema, text)
            decided += 1
    assert decided > 20
