"""Structural tags: free text with tags in it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine_sampler import Tokenizer
from engine_sampler.grammar.errors import GrammarError, GrammarLimitError, UnsupportedKeywordError
from engine_sampler.grammar.grammar import Grammar
from engine_sampler.grammar.structural_tag.structural_tag import (
    MAX_DEPTH,
    MAX_FORMATS,
    MAX_LARK,
    rules_from_tag,
)

from ...conftest import example_count
from ..both_engines import Engine, every_engine

SPECIAL = {"<eos>": 256, "<call>": 257, "<end>": 258}
TOKENIZER = Tokenizer(
    [*(bytes([i]) for i in range(256)), *(name.encode() for name in SPECIAL)], [256], [257, 258]
)

ADD = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
LEGACY = {
    "type": "structural_tag",
    "structures": [
        {"begin": "<f=add>", "schema": ADD, "end": "</f>"},
        {"begin": "<f=now>", "schema": {"type": "null"}, "end": "</f>"},
    ],
    "triggers": ["<f="],
}
TEXT = {"type": "any_text"}


def const(value: str) -> dict[str, Any]:
    return {"type": "const_string", "value": value}


def tag(begin: Any, content: Any, end: Any) -> dict[str, Any]:
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def triggered(*tags: dict[str, Any], triggers: list[str], **more: Any) -> dict[str, Any]:
    return {"type": "triggered_tags", "triggers": triggers, "tags": list(tags), **more}


def matcher(tag: Any) -> Any:
    """A matcher of a structural tag, or of a format."""
    whole = tag if isinstance(tag, str) or "format" in tag or "structures" in tag else {"format": tag}
    return Grammar.from_structural_tag(whole).compile(TOKENIZER).matcher()


def accepts(tag: Any, *pieces: str | bytes | int) -> bool:
    """Whether a text, given in pieces and special tokens, is in the language of a tag."""
    tag_matcher = matcher(tag)
    for piece in pieces:
        if isinstance(piece, int):
            accepted = tag_matcher.accept(piece)
        else:
            accepted = tag_matcher.accept_bytes(piece if isinstance(piece, bytes) else piece.encode())
        if not accepted:
            return False
    return bool(tag_matcher.is_accepting())


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("", True),
        ("no call at all, not even <f or <g=", True),
        ('<f=add>{"a": 1, "b": 2}</f>', True),
        ('first <f=add>{"b":2,"a":1}</f> then <f=now>null</f>', True),
        ('<<f=add>{"a": 1, "b": 2}</f>', True),
        ("<f=", False),
        ("<f=add>", False),
        ("<f=sub>{}</f>", False),
        ('<f=add>{"a": 1}</f>', False),
        ('<f=add>{"a": 1, "b": 2}</g>', False),
        ('<f=add>{"a": 1, "b": 2} </f>', False),
        ('<f=now>{"a": 1, "b": 2}</f>', False),
    ],
)
def test_a_trigger_must_be_followed_by_one_of_its_tags(text: str, valid: bool) -> None:
    assert accepts(LEGACY, text) is valid
    assert accepts(json.dumps(LEGACY), text) is valid


@every_engine
def test_all_engines_accept_the_same_texts_of_a_structural_tag(engine: Engine) -> None:
    program = rules_from_tag(LEGACY, special_tokens={}).program()
    for text, valid in ((b"x <f=now>null</f> y", True), (b"x <f=now>nil", False), (b"<f=now>null<", False)):
        found = engine(program, ()).matcher()
        assert (found.accept_bytes(text) and found.is_accepting()) is valid


def test_the_older_form_is_short_for_triggered_tags() -> None:
    tags = [
        {
            "begin": one["begin"],
            "content": {"type": "json_schema", "json_schema": one["schema"]},
            "end": one["end"],
        }
        for one in LEGACY["structures"]
    ]
    newer = {"type": "structural_tag", "format": triggered(*tags, triggers=["<f="])}
    assert Grammar.from_structural_tag(newer) == Grammar.from_structural_tag(LEGACY)


def test_free_text_is_valid_utf_8() -> None:
    assert accepts(LEGACY, "é€😀")
    assert not accepts(LEGACY, b"\xff")
    assert not accepts(LEGACY, "é".encode()[:1])


@given(
    st.lists(st.sampled_from(["a", "b", "ab", "aab", "abb", "<"]), min_size=1, max_size=3, unique=True),
    st.data(),
)
@settings(max_examples=example_count(60), deadline=None)
def test_free_text_ends_where_a_trigger_first_occurs(triggers: list[str], data: Any) -> None:
    text = data.draw(st.text("ab<c", max_size=8))
    rules = [[trigger, const("!")] for trigger in triggers]
    dispatch = {"type": "dispatch", "rules": rules}
    assert accepts(dispatch, text) is _reads(text, triggers)


def _reads(text: str, triggers: list[str]) -> bool:
    """Whether each trigger, found by scanning from left to valid, is followed by a "!"."""
    since = at = 0
    while at < len(text):
        at += 1
        if any(text[since:at].endswith(trigger) for trigger in triggers):
            if text[at : at + 1] != "!":
                return False
            at += 1
            since = at
    return True


@given(st.text("ab!", max_size=10))
@settings(max_examples=example_count(100), deadline=None)
def test_after_a_tag_the_text_is_watched_from_scratch(text: str) -> None:
    assert accepts({"type": "dispatch", "rules": [["ab", const("!")]]}, text) is _reads(text, ["ab"])


def test_if_one_trigger_ends_in_another_a_tag_of_either_may_follow() -> None:
    given = triggered(tag("<f>", const("1"), ""), tag("f>", const("2"), ""), triggers=["<f>", "f>"])
    assert accepts(given, "<f>1")
    assert accepts(given, "<f>2")
    assert accepts(given, "f>2")
    assert not accepts(given, "f>1")


def test_a_trigger_without_tags_never_occurs() -> None:
    given = triggered(tag("<a>", const("1"), "."), triggers=["<a", "<b"])
    assert accepts(given, "x<a>1. <c")
    assert not accepts(given, "x<b")


def test_a_tag_can_be_required_first() -> None:
    given = triggered(tag("<a>", const("1"), "</a>"), triggers=["<a"], at_least_one=True)
    assert accepts(given, "<a>1</a> and text <a>1</a>")
    assert not accepts(given, "")
    assert not accepts(given, "text <a>1</a>")


def test_nothing_follows_the_first_tag_if_it_must_be_the_last() -> None:
    given = triggered(tag("<a>", const("1"), "</a>"), triggers=["<a"], stop_after_first=True)
    assert accepts(given, "text <a>1</a>")
    assert accepts(given, "text")
    assert not accepts(given, "text <a>1</a>.")
    only = {**given, "at_least_one": True}
    assert accepts(only, "<a>1</a>")
    assert not accepts(only, "")
    assert not accepts(only, "<a>1</a><a>1</a>")


def test_excluded_texts_do_not_occur_in_free_text() -> None:
    given = triggered(tag("<a>", TEXT, "</a>"), triggers=["<a>"], excludes=["<a", "bad"])
    assert accepts(given, "good <a>bad</a> good")
    assert not accepts(given, "bad")
    assert not accepts(given, "good <a>1</a> bad")
    assert not accepts(given, "<a ")


def test_text_in_a_tag_stops_where_the_end_of_the_tag_first_occurs() -> None:
    given = {"type": "sequence", "elements": [tag("<t>", TEXT, "</t>"), const("!")]}
    assert accepts(given, "<t>a < b </t!</t>!")
    assert not accepts(given, "<t>a</t>b</t>!")
    assert not accepts(tag("", TEXT, "aa"), "aaa")
    assert accepts(tag("", TEXT, "aa"), "baa")


def test_a_tag_may_have_several_ends_and_an_empty_one() -> None:
    given = tag("<", TEXT, ["/>", "!"])
    assert accepts(given, "<text/>")
    assert accepts(given, "<text!")
    assert not accepts(given, "<text!/>")
    assert accepts(tag("<", const("x"), ["", ">"]), "<x")
    assert accepts(tag("<", const("x"), ["", ">"]), "<x>")


def test_the_length_of_text_can_be_limited() -> None:
    assert accepts({**TEXT, "max_chars": 3}, "äöü")
    assert not accepts({**TEXT, "max_chars": 3}, "äöüß")
    given = tag("<", {**TEXT, "max_chars": 2, "excludes": ["b>"]}, ">")
    assert accepts(given, "<ab>")
    assert not accepts(given, "<abc>")


def test_tags_in_a_tag_do_not_hide_its_end() -> None:
    call = triggered(tag("<c>", const("1"), "</c>"), triggers=["<c>"])
    given = {"type": "sequence", "elements": [tag("<t>", call, "</t>"), const(".")]}
    assert accepts(given, "<t>think <c>1</c> more</t>.")
    assert accepts(given, "<t></t>.")
    assert not accepts(given, "<t>x</t>y</t>.")
    assert not accepts(given, "<t><c>1</t>.")


def test_tags_with_a_separator_have_nothing_else_around_them() -> None:
    separated = {
        "type": "tags_with_separator",
        "tags": [tag("<a>", {"type": "regex", "pattern": r"\d+"}, "</a>"), tag("<b>", TEXT, "</b>")],
        "separator": ", ",
    }
    assert accepts(separated, "")
    assert accepts(separated, "<a>12</a>, <b>x, y</b>, <a>3</a>")
    assert not accepts(separated, "<a>12</a>,<a>3</a>")
    assert not accepts(separated, "<a>12</a>, ")
    assert not accepts({**separated, "at_least_one": True}, "")
    assert not accepts({**separated, "stop_after_first": True}, "<a>1</a>, <a>1</a>")


def test_formats_can_be_combined() -> None:
    either = {
        "type": "or",
        "elements": [const("yes"), {"type": "json_schema", "json_schema": {"type": "integer"}}],
    }
    combined = {
        "type": "sequence",
        "elements": [
            either,
            {"type": "optional", "content": const("?")},
            {"type": "star", "content": const("a")},
            {"type": "plus", "content": const("b")},
            {"type": "repeat", "min": 1, "max": 2, "content": const("c")},
            {"type": "repeat", "min": 2, "max": -1, "content": const("d")},
        ],
    }
    assert accepts(combined, "yes?aabccddd")
    assert accepts(combined, "12bcdd")
    for wrong in ("maybebcdd", "yes??bcdd", "yescdd", "yesbcccdd", "yesbcd"):
        assert not accepts(combined, wrong)


def test_a_grammar_in_a_tag_ignores_text_only_within_itself() -> None:
    grammar = 'start: NUMBER ("+" NUMBER)*\nNUMBER: /\\d+/\n%ignore /[ \\t]+/\n%ignore /#[^\\n]*\\n/'
    given = tag("<", {"type": "grammar", "grammar": grammar}, ">")
    assert accepts(given, "<1 +\t2 #c\n >")
    assert accepts(given, "< 1>")
    assert not accepts(given, "<1 + >")
    assert not accepts({"type": "sequence", "elements": [const("x"), given]}, "x <1>")


def test_ignored_text_of_a_grammar_is_matched_as_far_as_possible() -> None:
    grammar = 'start: "a"+\n%ignore /#[^\\n]*/\n%ignore "\\n"'
    given = {"type": "grammar", "grammar": grammar}
    assert accepts(given, "a#a\na")
    assert not accepts(given, "#a")


def test_a_grammar_in_a_tag_may_have_counters_special_tokens_and_schemas() -> None:
    grammar = 'start: "a"~3..5 <call> %json {"type": "boolean"} <[258]>'
    given = tag("<", {"type": "grammar", "grammar": grammar}, ">")
    assert accepts(given, "<aaaa", 257, "true", 258, ">")
    assert not accepts(given, "<aa", 257, "true", 258, ">")


def test_special_tokens_are_requested_by_name_or_id() -> None:
    token = {"type": "token", "token": "<call>"}
    given = tag(token, TEXT, {"type": "token", "token": 258})
    assert accepts(given, 257, "text", 258)
    assert not accepts(given, "<call>", "text", 258)
    assert not accepts(token, "<call>")
    with pytest.raises(GrammarError, match="lacks"):
        Grammar.from_structural_tag({"format": {"type": "token", "token": "<none>"}}).compile(TOKENIZER)
    with pytest.raises(GrammarError, match="not a special token"):
        rules_from_tag({"format": token}, special_tokens={})


def test_special_tokens_can_be_triggers() -> None:
    calls = {
        "type": "token_triggered_tags",
        "trigger_tokens": ["<call>"],
        "tags": [{"begin": {"type": "token", "token": "<call>"}, "content": TEXT, "end": {"token": "<end>"}}],
    }
    assert accepts(calls, "text", 257, "more", 258, "text")
    assert accepts(calls, "text")
    assert not accepts(calls, "text", 257, "more")
    assert not accepts({**calls, "stop_after_first": True}, 257, 258, "text")
    assert not accepts({**calls, "at_least_one": True}, "text")
    inside = {"type": "sequence", "elements": [tag("<", calls, ">"), const("!")]}
    assert accepts(inside, "<a", 257, 258, "b>!")


PARAMETERS = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "unit": {"enum": ["C", "F"]},
        "days": {"type": ["integer", "null"]},
        "place": {"$ref": "#/$defs/place"},
        "code": {"type": "string", "pattern": "^[A-Z]+$", "maxLength": 3},
    },
    "required": ["city"],
    "additionalProperties": False,
    "$defs": {"place": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}},
}


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("<parameter=city>Paris</parameter>", True),
        ("\n<parameter=days>\n3\n</parameter>\n<parameter=city>\nA < B & C\n</parameter>\n", True),
        ("<parameter=unit>C</parameter><parameter=city></parameter>", True),
        ('<parameter=city>x</parameter><parameter=place>{"x": 1.5}</parameter>', True),
        ("<parameter=city>x</parameter><parameter=code>ABC</parameter>", True),
        ("<parameter=city>x</parameter><parameter=code>ABCD</parameter>", False),
        ("<parameter=city>x</parameter><parameter=code>abc</parameter>", False),
        ("", False),
        ("<parameter=days>3</parameter>", False),
        ("<parameter=city>x</parameter><parameter=city>y</parameter>", False),
        ("<parameter=city>x</parameter><parameter=days>three</parameter>", False),
        ("<parameter=city>x</parameter><parameter=unit>K</parameter>", False),
        ("<parameter=city>x</parameter><parameter=town>y</parameter>", False),
        ('<parameter=city>x</parameter><parameter=place>{"x": "y"}</parameter>', False),
    ],
)
def test_parameters_can_be_written_as_xml(text: str, valid: bool) -> None:
    assert accepts({"type": "qwen_xml_parameter", "json_schema": PARAMETERS}, text) is valid
    assert accepts({"type": "json_schema", "json_schema": PARAMETERS, "style": "qwen_xml"}, text) is valid


def test_parameters_that_are_not_named_are_allowed_unless_the_schema_forbids_them() -> None:
    given = {"type": "qwen_xml_parameter", "json_schema": {"additionalProperties": {"type": "boolean"}}}
    assert accepts(given, "<parameter=any>true</parameter>")
    assert not accepts(given, "<parameter=any>maybe</parameter>")
    assert not accepts(given, "<parameter=>true</parameter>")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("[", "not JSON"),
        ([], "object"),
        ({"type": "json_schema"}, "structural_tag"),
        ({}, "lacks the field 'format'"),
        ({"format": {"type": "sequins"}}, "format is of the unknown type 'sequins'"),
        ({"format": {"type": ["or"]}}, "format is of the unknown type"),
        ({"format": {"type": "or", "elements": []}}, "elements is empty"),
        (
            {"format": {"type": "sequence", "elements": [1]}},
            r"elements\[0\] must be an object, not a whole number",
        ),
        ({"format": const("\ud800")}, "lone surrogate"),
        (
            {"format": {"type": "const_string", "value": 1}},
            "format.value must be a string, not a whole number",
        ),
        ({"format": {"type": "const_string", "value": "", "more": 1}}, "has the unknown field 'more'"),
        ({"format": {**TEXT, "max_tokens": -3}}, "max_tokens"),
        ({"format": {**TEXT, "excludes": [""]}}, "empty string"),
        ({"format": {"type": "regex", "pattern": "("}}, "format: "),
        ({"format": {"type": "grammar", "grammar": "start: other"}}, "format: .*other"),
        ({"format": {"type": "repeat", "min": 3, "max": 2, "content": TEXT}}, "repeats 3 to 2 times"),
        (
            {"format": triggered(tag("<b", TEXT, ">"), triggers=["<a"])},
            r"tags\[0\]\.begin='<b' is not allowed: it must start with one of the triggers",
        ),
        ({"format": triggered(tag("<b", TEXT, []), triggers=["<b"])}, "end is an empty list"),
        (
            {"structures": [{"begin": "<a", "end": ">"}], "triggers": ["<a"]},
            r"structures\[0\] lacks .*schema",
        ),
    ],
)
def test_an_invalid_tag_is_rejected_with_the_path_of_its_fault(given: Any, words: str) -> None:
    with pytest.raises(GrammarError, match=words):
        rules_from_tag(given, special_tokens={})


def test_a_bound_on_tokens_is_left_out_where_characters_say_it() -> None:
    empty = tag("<think>", {**TEXT, "max_tokens": 0}, "</think>")
    assert accepts(empty, "<think></think>")
    assert not accepts(empty, "<think>a</think>")
    for bounds in ({"max_chars": 2, "max_tokens": 8}, {"max_chars": 2, "max_tokens": 2**31 - 1}):
        given = tag("<", {**TEXT, **bounds}, ">")
        assert accepts(given, "<ab>")
        assert not accepts(given, "<abc>")
        assert not rules_from_tag({"format": given}, special_tokens={}).program().budgets
    unbounded = tag("<", {**TEXT, "max_tokens": 2**31 - 1}, ">")
    assert accepts(unbounded, "<" + 50 * "a" + ">")
    assert not rules_from_tag({"format": unbounded}, special_tokens={}).program().budgets


def test_schemas_in_a_tag_may_lead_to_documents_that_are_handed_in_and_have_a_draft() -> None:
    exclusive = {"type": "integer", "minimum": 3, "exclusiveMinimum": True}
    schema = {"type": "object", "properties": {"n": {"$ref": "https://example.com/n"}}, "required": ["n"]}
    content = {"type": "json_schema", "json_schema": schema}
    given = {"type": "structural_tag", "format": tag("<", content, ">")}
    grammar = Grammar.from_structural_tag(given, draft="4", resources={"https://example.com/n": exclusive})
    assert grammar.check('<{"n":4}>').valid
    assert not grammar.check('<{"n":3}').viable
    with pytest.raises(UnsupportedKeywordError, match="another document is not supported"):
        Grammar.from_structural_tag(given)


def test_a_schema_that_cannot_be_enforced_is_rejected_with_its_path() -> None:
    given = tag("<", {"type": "json_schema", "json_schema": {"type": "nonsense"}}, ">")
    with pytest.raises(GrammarError, match=r"format\.content: "):
        rules_from_tag({"format": given}, special_tokens={})
    xml = {"type": "qwen_xml_parameter", "json_schema": {"minProperties": 2}}
    with pytest.raises(UnsupportedKeywordError, match=r"format: .*minProperties"):
        rules_from_tag({"format": xml}, special_tokens={})


def test_a_token_triggers_and_ends_although_its_string_overlaps_itself() -> None:
    format = triggered(tag("<call><f>", const("x"), ""), triggers=["<call><"])
    assert accepts(format, "a", 257, "<f>x", "b", 257, "<f>x")
    assert accepts(format, "a <", 257, "<f>x<")
    assert not accepts(format, 257, "f")
    assert accepts(tag("(", TEXT, "<end><"), "(a", 258, "<")
    assert not accepts(tag("(", TEXT, "<end><"), "(a", 258, "(")


def test_hostile_tags_reach_limits_that_the_errors_name() -> None:
    deep: Any = TEXT
    for _ in range(MAX_DEPTH):
        deep = {"type": "optional", "content": deep}
    overlapping = ["<" * n for n in range(1, 90)]
    stops = [chr(0x4E00 + i) * 2 for i in range(1000)]
    for hostile, words in (
        ({"format": deep}, f"{MAX_DEPTH} levels deep"),
        ({"format": {"type": "or", "elements": [TEXT] * MAX_FORMATS}}, f"{MAX_FORMATS} formats"),
        ('{"format":' + "[" * 200_000, "nested too deeply"),
        ({"format": {**TEXT, "excludes": stops}}, "transitions"),
        ({"format": {"type": "grammar", "grammar": "//" + "x" * MAX_LARK}}, f"{MAX_LARK} characters"),
        ({"structures": [{"begin": "<" * 90, "schema": {}, "end": ""}], "triggers": overlapping}, "overlap"),
    ):
        with pytest.raises(GrammarLimitError, match=words):
            rules_from_tag(hostile, special_tokens={})
