"""Calls of tools: what models of each family may write under each choice."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, SamplingParams, Tokenizer
from engine_sampler.base.errors import warn_once
from engine_sampler.contract import allocate_bitmask, unpack_bitmask
from engine_sampler.grammar import TOOL_FAMILIES, Grammar, tool_calls
from engine_sampler.messages import MessageParser

from .transcripts import HERMES, TOOLS, TRANSCRIPTS, VARIANTS, Transcript

NAMED = {"type": "function", "function": {"name": "get_weather"}}
MARKS = sorted(
    {
        mark
        for one in TRANSCRIPTS.values()
        for mark in re.findall(
            r"｜DSML｜|<\|[^<>]*>|<[^<>]*\|>|<｜(?!D)[^<>]*>|\[[A-Z/_]+\]|\]<\]minimax\[>\[",
            one.calls() + one.thoughts,
        )
    }
)
PLAIN = Tokenizer([*(bytes([i]) for i in range(256)), b"<eos>"], [256])
SPECIAL = Tokenizer(
    [*(bytes([i]) for i in range(256)), b"<eos>", *(mark.encode() for mark in MARKS)],
    [256],
    range(257, 257 + len(MARKS)),
)
"""A vocabulary in which the marks of all families are special tokens."""
ADDED_MARKS = ("<tool_call>", "</tool_call>", "<think>", "</think>")
ADDED = Tokenizer(
    [*(bytes([i]) for i in range(256)), b"<eos>", *(mark.encode() for mark in ADDED_MARKS)],
    [256],
    added_token_ids=range(257, 261),
)
"""A vocabulary to which marks were added as text, as in those of Qwen and GLM."""
_TOKEN = re.compile("|".join(map(re.escape, sorted(MARKS, key=len, reverse=True))))


def tokens_of(text: str) -> list[int]:
    """A text in the tokens of `SPECIAL`."""
    found: list[int] = []
    at = 0
    for mark in _TOKEN.finditer(text):
        found += [*text[at : mark.start()].encode(), 257 + MARKS.index(mark.group())]
        at = mark.end()
    return [*found, *text[at:].encode()]


def accepts(family: str, text: str, choice: Any = "auto", **options: Any) -> bool:
    """Whether the text is an answer, token by token, the end included."""
    matcher = (
        Grammar.from_structural_tag(tool_calls(family, TOOLS, choice, **options)).compile(PLAIN).matcher()
    )
    return all(map(matcher.accept, text.encode())) and bool(matcher.is_accepting())


def test_every_family_has_a_transcript() -> None:
    assert TRANSCRIPTS.keys() == TOOL_FAMILIES.keys()


@pytest.mark.quick_share(3)
@pytest.mark.parametrize("family", TRANSCRIPTS)
def test_a_call_is_accepted_and_wrong_ones_are_not(family: str) -> None:
    call = TRANSCRIPTS[family].calls()
    for choice in ("auto", "required", NAMED):
        assert accepts(family, call, choice)
        assert not accepts(family, call.replace("get_weather", "get_forecast"), choice)
        assert not accepts(family, call.replace("city", "town"), choice)
        assert not accepts(family, call[:-1], choice) or family == "harmony"


@pytest.mark.parametrize("family", TRANSCRIPTS)
def test_a_call_without_its_arguments_is_not_accepted(family: str) -> None:
    transcript = TRANSCRIPTS[family]
    argument = re.compile(
        r'"city": "Paris"|\n?<parameter=city>.*</parameter>|<parameter name="city">.*</parameter>'
        r"|<｜DSML｜ ?parameter.*</｜DSML｜ ?parameter>|<\|open\|>argument.*<\|close\|>argument<\|sep\|>"
        r"|\]<\]minimax\[>\[<city>.*</city>|<arg_key>.*</arg_value>|<cofl:value.*</cofl:value>"
        r'|city="Paris"|city:<\|"\|>Paris<\|"\|>|<steptml:parameter.*</steptml:parameter>'
        r"|<arg_key:opensource>.*</arg_value:opensource>|<atem:parameter.*</atem:parameter>"
        r"|<param .*</param>|city:<escape>Paris<escape>",
        re.DOTALL,
    )
    empty, count = argument.subn("", transcript.calls())
    assert count == 1
    assert not accepts(family, empty, "required")
    assert not accepts(family, empty)


@pytest.mark.quick_share(3)
@pytest.mark.parametrize("family", TRANSCRIPTS)
def test_calls_are_made_at_once_only_if_they_may_be_parallel(family: str) -> None:
    twice = TRANSCRIPTS[family].calls(2)
    for choice in ("auto", "required"):
        assert accepts(family, twice, choice)
        assert not accepts(family, twice, choice, parallel_tool_calls=False)
        assert accepts(family, TRANSCRIPTS[family].calls(), choice, parallel_tool_calls=False)


@pytest.mark.parametrize("family", TRANSCRIPTS)
def test_a_named_call_is_the_only_one(family: str) -> None:
    transcript = TRANSCRIPTS[family]
    other = {"type": "function", "function": {"name": "now"}}
    assert not accepts(family, transcript.calls(), other)
    assert not accepts(family, transcript.calls() + " Done.", NAMED)


FREE = sorted(name for name, family in TOOL_FAMILIES.items() if family.layout == "text")
BLOCKS = sorted(name for name, family in TOOL_FAMILIES.items() if family.layout == "blocks")
WITHOUT_MARKS = {"llama", "phi_4_mini", "firefunction_2", "command_r_plus"}
"""Families whose calls begin with words that any text may contain."""


@pytest.mark.quick_share(3)
@pytest.mark.parametrize("family", FREE)
def test_text_may_stand_around_calls(family: str) -> None:
    call = TRANSCRIPTS[family].calls()
    assert accepts(family, "No calls at all.")
    assert accepts(family, f"Let me see.{call}")
    assert accepts(family, f"Let me see.{call} That is all.")
    assert not accepts(family, f"Let me see.{call} That is all.", parallel_tool_calls=False)
    assert not accepts(family, "No calls at all.", "required")
    assert not accepts(family, f"Let me see.{call}", "required", preamble=False)
    for choice in ("required", NAMED) if family != "llama" else ():
        assert accepts(family, f"Let me see.{call}", choice)
        assert not accepts(family, f"Let me see.{call}{call}", choice, parallel_tool_calls=False)


def test_calls_that_are_required_may_have_text_between_and_behind_them() -> None:
    assert accepts("hermes", f"One.{HERMES}Two.{HERMES}Three.", "required")
    assert not accepts("hermes", f"One.{HERMES}Two.", NAMED)
    assert not accepts("hermes", f"One.{HERMES}Two.", "required", parallel_tool_calls=False)


@pytest.mark.parametrize("family", sorted({*FREE, "llama_4", "xlam", "pythonic"} - WITHOUT_MARKS))
def test_no_call_is_made_if_none_may_be(family: str) -> None:
    assert accepts(family, "Only text.", "none")
    assert not accepts(family, TRANSCRIPTS[family].calls(), "none")


@pytest.mark.quick_share(3)
@pytest.mark.parametrize("family", [name for name, one in TRANSCRIPTS.items() if one.thoughts])
def test_thoughts_come_first(family: str) -> None:
    transcript, (begin, _) = TRANSCRIPTS[family], TOOL_FAMILIES[family].thinking or ("", "")
    thinking = transcript.thoughts + transcript.calls()
    whole = thinking if transcript.thoughts.startswith(begin) else begin + thinking
    for choice in ("auto", "required", NAMED):
        assert accepts(family, thinking, choice, reasoning="enabled")
        assert not accepts(family, thinking, choice) or choice == "auto"
        assert accepts(family, whole, choice, reasoning="auto")
        assert accepts(family, transcript.calls(), choice, reasoning="auto")
    assert not accepts(family, transcript.calls(), "required", reasoning="enabled") or family == "harmony"


def test_an_answer_of_llama_4_is_text_or_calls() -> None:
    assert accepts("llama_4", "Call [a list] what it is.")
    assert not accepts("llama_4", "[a list]")
    assert not accepts("llama_4", 'Let me see. [get_weather(city="Paris")]', "required")
    assert accepts("llama_4", '[get_weather(city="Paris"), now()]', "required")


ARGUMENTS = {
    'text="a\\"b\\u00e9é", flag=True': True,
    'flag=None,text=""': True,
    'text="x", counts=[1, -2.5, True]': True,
    'text="x", nested={"a": {"b": None}}': True,
    'text="x", flag=true': False,
    'text="a\\/b"': False,
    'text="\\ud83d\\ude00"': False,
    "text='x'": True,
    "text='a \"b\"', nested={'a': {'b': None}}": True,
    "flag=True": False,
    'text="x", text="y"': False,
    'text="x", other=[False]': True,
    'text="x", lambda=1': False,
}


@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_arguments_in_python_are_literals_that_python_reads_as_the_schema_says(arguments: str) -> None:
    properties = {
        "text": {"type": "string"},
        "flag": {"type": ["boolean", "null"]},
        "counts": {"type": "array", "items": {"type": ["number", "boolean"]}},
        "nested": {"$ref": "#/$defs/tree"},
    }
    tree = {"additionalProperties": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]}, "type": "object"}
    parameters = {"properties": properties, "required": ["text"], "$defs": {"tree": tree}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
    text = f"[f({arguments})]"
    grammar = Grammar.from_structural_tag(tool_calls("llama_4", tools, "required"))
    assert grammar.check(text).valid == ARGUMENTS[arguments]
    if ARGUMENTS[arguments]:
        call = ast.parse(text, mode="eval").body.elts[0]  # type: ignore[attr-defined]
        found = {one.arg: ast.literal_eval(one.value) for one in call.keywords}
        assert isinstance(found["text"], str)


@pytest.mark.parametrize("family", BLOCKS)
def test_blocks_follow_each_other(family: str) -> None:
    call, entry = TRANSCRIPTS[family].calls(), TOOL_FAMILIES[family]
    begin, end = around(family)
    text = f"{begin}Hello.{end}"
    assert accepts(family, text, "none")
    assert accepts(family, text)
    assert not accepts(family, text, "required")
    assert not accepts(family, call, "none")
    assert not accepts(family, call + "x")
    assert not accepts(family, "Hello.")
    marks = entry.content or ("", "")
    if not entry.text_first:
        assert accepts(family, f"{begin}Let me see.{marks[1]}{entry.joint}{call}")
    elif entry.thinking:
        thoughts = f"I look it up.{entry.thinking[1]}{marks[0]}"
        assert accepts(family, thoughts + call, reasoning="enabled")


@pytest.mark.parametrize("family", [name for name in BLOCKS if TOOL_FAMILIES[name].stops])
def test_a_mark_that_ends_the_text_may_be_missing_at_its_end(family: str) -> None:
    """In most vocabularies it is a token that ends generation, and no part of what is generated then."""
    begin, end = around(family)
    call, stops = TRANSCRIPTS[family].calls(), TOOL_FAMILIES[family].stops
    for text in (f"{begin}Hello.{end}", call):
        last = next((stop for stop in stops if text.endswith(stop)), "")
        assert accepts(family, text.removesuffix(last))
        assert any(accepts(family, text.removesuffix(last) + stop) for stop in stops)


def test_a_message_of_harmony_goes_to_its_channel() -> None:
    final = "<|channel|>final<|message|>Hello.<|return|>"
    assert accepts("harmony", final)
    assert accepts("harmony", final, "none")
    assert not accepts("harmony", final, "required")
    thoughts = TRANSCRIPTS["harmony"].thoughts
    assert accepts("harmony", thoughts + thoughts + final, reasoning="enabled")
    assert not accepts("harmony", thoughts + TRANSCRIPTS["harmony"].calls(), "none", reasoning="enabled")


@pytest.mark.parametrize("family", TRANSCRIPTS)
def test_marks_that_are_special_tokens_are_these_tokens(family: str) -> None:
    transcript = TRANSCRIPTS[family]
    text = transcript.thoughts + transcript.calls()
    tag = tool_calls(family, TOOLS, "required", reasoning="enabled" if transcript.thoughts else "disabled")
    matcher = Grammar.from_structural_tag(tag).compile(SPECIAL).matcher()
    assert all(map(matcher.accept, tokens_of(text)))
    assert matcher.is_accepting()
    matcher.rollback(len(tokens_of(text)))
    spelled = all(map(matcher.accept, text.encode()))
    assert spelled is (len(tokens_of(text)) == len(text.encode()))


@pytest.mark.parametrize("family", ["qwen_3", "qwen_3_5", "glm_4_5", "glm_4_7", "exaone"])
def test_marks_that_were_added_as_text_are_these_tokens(family: str) -> None:
    tag = tool_calls(family, TOOLS, "required", reasoning="auto", preamble=False)
    matcher = Grammar.from_structural_tag(tag).compile(ADDED).matcher()
    newline = {ord("\n")} if family == "glm_4_5" else set()  # as its chat template has it
    assert set(np.flatnonzero(allowed(matcher))) == {257, 259} | newline
    assert not matcher.accept(ord("<"))
    text = TRANSCRIPTS[family].calls()
    ids = [257, *text.removeprefix("<tool_call>").removesuffix("</tool_call>").encode(), 258]
    assert all(map(matcher.accept, ids))
    assert matcher.is_accepting()


def test_a_model_may_write_added_tokens_as_text() -> None:
    plain = Tokenizer(ADDED.token_bytes, [256])
    tag = tool_calls("qwen_3", TOOLS, "required", preamble=False)
    matcher = Grammar.from_structural_tag(tag).compile(plain).matcher()
    assert set(np.flatnonzero(allowed(matcher))) == {ord("<"), 257}


def allowed(matcher: Any) -> np.ndarray:
    """Which tokens of `ADDED` may follow."""
    bitmask = allocate_bitmask(1, len(ADDED))
    matcher.fill_bitmask(bitmask)
    return unpack_bitmask(bitmask[0], len(ADDED))


def test_strictness_decides_what_arguments_may_be() -> None:
    def accepts_arguments(arguments: str, strict: bool | None, **function: bool) -> bool:
        schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
        given = {"strict": function["said"]} if function else {}
        tools = [{"type": "function", "function": {"name": "f", "parameters": schema, **given}}]
        tag = tool_calls("hermes", tools, "required", strict=strict)
        text = f'<tool_call>\n{{"name": "f", "arguments": {arguments}}}\n</tool_call>'
        return Grammar.from_structural_tag(tag).check(text).valid

    assert accepts_arguments('{"a": 1, "b": 2}', None)
    assert not accepts_arguments('{"b": 2}', None)
    assert not accepts_arguments('{"a": 1, "b": 2}', True)
    assert accepts_arguments('{"b": 2}', False)
    assert accepts_arguments('{"b": 2}', None, said=False)
    assert not accepts_arguments("[]", False)


@pytest.mark.parametrize("choice", ["any", {"type": "any"}])
def test_any_requires_a_call(choice: Any) -> None:
    assert tool_calls("hermes", TOOLS, choice) == tool_calls("hermes", TOOLS, "required")


@pytest.mark.parametrize("name", ["get weather", "R&D", "mcp__a.b:c/d-e", "名前"])
def test_names_of_functions_may_have_blanks_and_ampersands(name: str) -> None:
    tools = [{"type": "function", "function": {"name": name}}]
    call = f'<tool_call>\n{{"name": "{name}", "arguments": {{}}}}\n</tool_call>'
    assert Grammar.from_structural_tag(tool_calls("hermes", tools, "required")).check(call).valid
    MessageParser("hermes", tools).feed(call)


HARMONY_HEADS = [
    f"{head}<|message|>"
    for kind in (" <|constrain|>json", "<|constrain|>json", " json", "")
    for channel in ("commentary", "analysis")
    for head in (
        f"<|channel|>{channel} to=functions.get_weather{kind}",
        f" to=functions.get_weather<|channel|>{channel}{kind}",
    )
]


@pytest.mark.parametrize("head", HARMONY_HEADS)
def test_headers_of_harmony_need_not_say_what_a_call_is_written_in(head: str) -> None:
    call = f'{head}{{"city": "Paris"}}<|call|>'
    for choice in ("auto", "required", NAMED):
        assert accepts("harmony", call, choice)
        assert accepts(
            "harmony", f"<|channel|>commentary<|message|>I look.<|end|><|start|>assistant{call}", choice
        )


def test_many_functions_fit_into_the_tag_of_harmony() -> None:
    tools = [{"name": f"f{number}", "parameters": {"type": "object"}} for number in range(300)]
    assert (
        Grammar.from_structural_tag(tool_calls("harmony", tools)).check("<|channel|>final<|message|>").valid
    )


@pytest.mark.parametrize("choice", ["auto", "required", NAMED])
def test_a_call_of_mistral_may_have_an_id_behind_its_arguments(choice: Any) -> None:
    call = '{"name": "get_weather", "arguments": {"city": "Paris"}, "id": "%s"}'
    assert accepts("mistral", f"[TOOL_CALLS][{call % 'a1B2c3D4e'}]", choice)
    assert not accepts("mistral", f"[TOOL_CALLS][{call % 'short'}]", choice)


def test_some_functions_may_be_allowed() -> None:
    for mode, text, valid in (("auto", "Hello.", True), ("required", "Hello.", False)):
        allowed = {"mode": mode, "tools": [{"type": "function", "function": {"name": "now"}}]}
        choice = {"type": "allowed_tools", "allowed_tools": allowed}
        assert accepts("hermes", text, choice) is valid
        assert not accepts("hermes", TRANSCRIPTS["hermes"].calls(), choice)
        assert accepts("hermes", '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>', choice)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nobody", TOOLS), "family='nobody' is not allowed: one of llama, hermes"),
        (("llama", "ls"), "tools='ls' is not allowed"),
        (("llama", [{"function": {"name": 'a"b'}}]), "a function with a name of up to 256 letters"),
        (("llama", [], "required"), "tools has no function"),
        (("llama", TOOLS, {"function": {"name": "f"}}), "tool_choice=.* is not allowed: auto, none"),
        (("llama", TOOLS, {"type": "allowed_tools", "mode": "none"}), "allowed_tools with the mode"),
        (("llama", TOOLS, 5), "tool_choice=5 is not allowed"),
        (("llama", [*TOOLS, TOOLS[0]]), "tools has two functions of the name 'get_weather'"),
    ],
)
def test_what_is_not_allowed_is_named(arguments: Any, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        tool_calls(*arguments)
    with pytest.raises(ParameterError, match="reasoning='maybe' is not allowed"):
        tool_calls("llama", TOOLS, reasoning="maybe")  # type: ignore[arg-type]


def test_a_request_is_read_with_the_family_of_the_model_that_is_served() -> None:
    body = {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False}
    expected = tool_calls("qwen_3", TOOLS, "required", parallel_tool_calls=False, reasoning="auto")
    params = SamplingParams.from_dict(body, tool_family="qwen_3", reasoning="auto")
    assert json.loads(params.structural_tag) == expected
    for choice in ("auto", NAMED):
        params = SamplingParams.from_dict({"tools": TOOLS, "tool_choice": choice}, tool_family="qwen_3")
        assert json.loads(params.structural_tag) == tool_calls("qwen_3", TOOLS, choice)
    params = SamplingParams.from_dict({"tools": TOOLS, "tool_choice": "none"}, tool_family="qwen_3")
    assert json.loads(params.structural_tag) == tool_calls("qwen_3", TOOLS, "none")
    for free in ({}, {"tool_choice": "none"}, {"tools": []}):
        assert SamplingParams.from_dict(free, tool_family="qwen_3").structural_tag is None
    formatted = {"tools": TOOLS, "response_format": {"type": "json_object"}}
    answer = {"type": "json_schema", "json_schema": {"type": "object"}}
    params = SamplingParams.from_dict(formatted, tool_family="qwen_3", reasoning="auto")
    assert json.loads(params.structural_tag) == tool_calls("qwen_3", TOOLS, reasoning="auto", answer=answer)
    params = SamplingParams.from_dict({**formatted, "tool_choice": "none"}, tool_family="qwen_3")
    assert params.json_object
    with pytest.raises(ParameterError, match="family='qwen' is not allowed"):
        SamplingParams.from_dict(body, tool_family="qwen")


def around(family: str) -> tuple[str, str]:
    """What families of their own layout write around an answer that begins at once."""
    if family == "harmony":
        return "<|channel|>final<|message|>", ""
    entry = TOOL_FAMILIES[family]
    begin, end = entry.content or ("", "")
    return ("" if entry.text_first else begin), end + entry.finish


@pytest.mark.parametrize("family", TRANSCRIPTS)
def test_an_answer_is_calls_or_what_is_asked_for(family: str) -> None:
    answer = {"type": "json_schema", "json_schema": {"type": "object", "properties": {"name": False}}}
    begin, end = around(family) if family not in FREE else ("", "")
    calls = TRANSCRIPTS[family].calls().replace("Let me see.", "")
    assert accepts(family, calls, answer=answer)
    assert accepts(family, f'{begin}{{"a": 1}}{end}', answer=answer)
    for wrong in ("Hello", "[1]", '{"a": 1} and more', ""):
        assert not accepts(family, f"{begin}{wrong}{end}", answer=answer)


def test_an_answer_of_one_format_follows_thoughts() -> None:
    answer = {"type": "json_schema", "json_schema": {"type": "integer"}}
    for text, is_answer in (("7", True), (HERMES, True), ("x", False)):
        whole = f"I count.</think>\n\n{text}"
        assert accepts("qwen_3", whole, reasoning="enabled", answer=answer) == is_answer


def test_free_calls_are_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    warn_once.cache_clear()
    for choice in (None, "auto", "none"):
        body = {"tools": TOOLS, "tool_choice": choice, "response_format": {"type": "json_object"}}
        assert SamplingParams.from_dict(body).json_object
    assert ["tool_family" in record.message for record in caplog.records] == [True]


@pytest.mark.parametrize(("family", "transcript"), VARIANTS)
def test_a_family_has_all_the_ways_in_which_its_models_call(family: str, transcript: Transcript) -> None:
    count = 2 if transcript.between else 1
    text = transcript.calls(count)
    assert accepts(family, text)
    assert accepts(family, text, "required")
    assert accepts(family, transcript.calls(), NAMED) or family == "harmony"
    whole = transcript.thoughts + text
    if transcript.thoughts:
        assert accepts(family, whole, "required", reasoning="enabled")
    parser = MessageParser(family, TOOLS, reasoning="enabled" if transcript.thoughts else "disabled")
    parser.feed(whole)
    parser.finish()
    assert parser.deviation is None
    calls = [part for part in parser.parts if part.kind == "call"]
    assert [(one.name, json.loads(one.text)) for one in calls] == [("get_weather", {"city": "Paris"})] * count


def test_nothing_but_calls_may_follow_a_bare_call_that_is_required() -> None:
    call = TRANSCRIPTS["llama"].calls()
    assert accepts("llama", call * 2, "required")
    assert not accepts("llama", call + " And so on.", "required")
    assert not accepts("llama", "I call. " + call, "required")
