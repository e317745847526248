"""Answers that are not quite as a family's models are asked to write them, and are read all the same."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from engine_sampler.messages import MessageParser

from ..families import WrittenCall, tools_of
from ..vocabularies import SPECIAL, random_cuts, random_ids

TOOLS = tools_of([WrittenCall("f", {"a": 1}), WrittenCall("g_2", {"b": 2})])
F, G = ("f", {"a": 1}), ("g_2", {"b": 2})
KIMI = "<|tool_call_begin|>%s<|tool_call_argument_begin|>%s<|tool_call_end|>"
XML = "<function=f>\n<parameter=a>\n1\n</parameter>\n</function>"
DSML = '<｜DSML｜parameter name="a" string="false">1</｜DSML｜parameter>\n'
HARMONY = "<|channel|>final<|message|>Done<|return|>"


def parts(parser: MessageParser) -> list[Any]:
    return [
        (part.name, json.loads(part.text)) if part.kind == "call" else (part.kind, part.text)
        for part in parser.parts
    ]


def read(family: str, text: str, **options: Any) -> list[Any]:
    """What is read of a text: whole, character by character, in pieces, and in ids, all the same."""
    results = []
    ids = [[token_id] for token_id in random_ids(text, Random(0))]
    for pieces in ([text], list(text), random_cuts(text, Random(0)), ids):
        tokenizer = SPECIAL if pieces is ids else None
        parser = MessageParser(family, TOOLS, tokenizer=tokenizer, **options)
        for piece in pieces:
            parser.feed(piece)
        parser.finish()
        results.append(parts(parser))
    assert all(result == results[0] for result in results), results
    return results[0]


@pytest.mark.parametrize(
    ("family", "text", "expected"),
    [
        ("hermes", '<tool_call>{"arguments": {"a": 1}, "name": "f"}</tool_call>', [F]),
        (
            "hermes",
            '<tool_call>{"id": "1", "type": "function", "name": "f", "parameters": {"a": 1}}</tool_call>',
            [F],
        ),
        ("hermes", '<tool_call>{"function": {"name": "f", "arguments": {"a": 1}}}</tool_call>', [F]),
        ("hermes", '<tool_call>{"name": "f"}</tool_call>', [("f", {})]),
        ("hermes", '<tool_call>{"name": "f", "arguments": null}</tool_call>', [("f", {})]),
        ("granite_4", '<tool_call>\n{"name": "f", "arguments": "{\\"a\\": 1}"}\n</tool_call>', [F]),
        ("qwen_3", '<tool_call>{"name": "f", "arguments": {\'a\': 1,}}</tool_call>', [F]),
        ("qwen_3", '<tool_call>{"name": "f", "arguments": {"a": 1}</tool_call>!', [F, ("content", "!")]),
        ("qwen_3", '<tool_call>{"name": "f", "arguments": {"a": 1}}', [F]),
        (
            "qwen_3",
            '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call></tool_call>!',
            [F, ("content", "!")],
        ),
        ("qwen_3", "<tool_call></tool_call>!", [("content", "!")]),
        ("qwen_3", "<think><think>x</think>y</think>z", [("thought", "x"), ("content", "yz")]),
        ("qwen_3", "<think>x</think>\n", [("thought", "x")]),
        (
            "mistral",
            '[TOOL_CALLS][{"name": "f", "arguments": {"a": 1}, "id": "123456789"},'
            '{"name": "g_2", "arguments": {"b": 2}}]',
            [F, G],
        ),
        ("mistral", '[TOOL_CALLS]f[ARGS]{"a": 1}[TOOL_CALLS]g_2{"b": 2}', [F, G]),
        ("mistral_v11", '[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}}]', [F]),
        ("mistral_v11", '[TOOL_CALLS]f{"a": 1}[TOOL_CALLS] g_2 [ARGS] {"b": 2}', [F, G]),
        (
            "llama",
            '<|python_tag|>{"type": "function", "name": "f", "arguments": {"a": 1}}; '
            '{"name": "g_2", "parameters": {"b": 2}}',
            [F, G],
        ),
        ("llama", '{"name": "Bob"} {"a": 1}', [("content", '{"name": "Bob"} {"a": 1}')]),
        (
            "kimi",
            "<|tool_calls_section_begin|>"
            + KIMI % ("functions.f:0 ", '{"a": 1} ')
            + "<|tool_calls_section_end|>",
            [F],
        ),
        (
            "kimi",
            "<|tool_call_section_begin|>" + KIMI % ("f:0", '{"a": 1}') + "<|tool_call_section_end|>",
            [F],
        ),
        ("kimi", KIMI % ("functions_f_2", '{"a": 1}') + KIMI % ("functions.g_2:1", '{"b": 2}'), [F, G]),
        ("kimi", KIMI % ("0", '{"b": 2}'), [G]),
        ("kimi", "<think>x<|tool_calls_section_begin|>" + KIMI % ("f:0", '{"a": 1'), [("thought", "x"), F]),
        ("kimi", "<|tool_calls_section_begin|><|tool_calls_section_end|>!", [("content", "!")]),
        ("qwen_3_coder", f"{XML}\n</tool_call>", [F]),
        ("qwen_3_coder", f"<tool_call>\n{XML.removesuffix('</function>')}", [F]),
        ("qwen_3_coder", f"<tool_call>\n{XML}\n<tool_call>\n{XML}\n</tool_call>", [F, F]),
        ("deepseek_v4", f'<｜DSML｜tool_calls>\n<｜DSML｜invoke name="f">\n{DSML}</｜DSML｜tool_calls>', [F]),
        (
            "deepseek_v4",
            '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="f"/>\n</｜DSML｜tool_calls>',
            [("f", {})],
        ),
        ("deepseek_v4", '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="f">{"a": 1}</｜DSML｜invoke>\n', [F]),
        ("glm_4_7", "<tool_call>\nf\n<arg_key>a</arg_key><arg_value>1</arg_value>", [F]),
        (
            "gemma_4",
            "<|channel>x<channel|><|channel>thought<channel|>Hi<tool_call|>",
            [("thought", "x"), ("content", "Hi")],
        ),
        ("lfm_2", '<|tool_call_start|>{"name": "f", "arguments": {"a": 1}}<|tool_call_end|>', [F]),
        ("lfm_2", "<|tool_call_start|> [ ] <|tool_call_end|>", []),
        ("lfm_2", "<think>x</think>y", [("thought", "x"), ("content", "y")]),
        ("granite", "<think>x</think><response>y</response>", [("thought", "x"), ("content", "y")]),
        ("llama_4", "Hm [f(a=1)] and [x(a=1)]", [("content", "Hm "), F, ("content", " and [x(a=1)]")]),
        ("llama_4", "Hm <|python_start|>[f(a=1)]<|python_end|>", [("content", "Hm "), F]),
        ("command_r7b", "<|START_RESPONSE|>Hi<|END_RESPONSE|>", [("content", "Hi")]),
        ("kimi_k3", "<|open|> response <|sep|>Hi<|close|> response <|sep|>", [("content", "Hi")]),
        (
            "harmony",
            '<|channel|>commentary to=functions.f<|constrain|>json<|message|>{"a": 1}<|call|>' + HARMONY,
            [F, ("content", "Done")],
        ),
        (
            "harmony",
            f" to=functions.f<|channel|>commentary<|message|>foo<|call|><|start|>assistant{HARMONY}",
            [("content", "fooDone")],
        ),
        (
            "harmony",
            f" to=assistant<|channel|>commentary<|message|>x<|call|><|start|>assistant{HARMONY}",
            [("content", "Done")],
        ),
    ],
)
def test_what_models_write_now_and_then_is_read(family: str, text: str, expected: list[Any]) -> None:
    assert read(family, text) == expected


ENDS = {
    "hermes": '<tool_call>\n{"name": "f", "arguments": {"a": 1}%s}\n</tool_call>',
    "mistral": '[TOOL_CALLS][{"name": "f", "arguments": {"a": 1}%s}]',
    "kimi": KIMI % ("functions.f:0", '{"a": 1}%s'),
    "qwen_3_coder": f"<tool_call>\n{XML.replace('</function>', '%s</function>')}\n</tool_call>",
    "ling_3": "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>%s\n</tool_call>",
}


@pytest.mark.parametrize("family", ENDS)
@pytest.mark.parametrize("size", [65, 700])
def test_there_may_be_any_white_space_before_an_end(family: str, size: int) -> None:
    assert read(family, ENDS[family] % (" " * size)) == [F]


def test_what_is_left_of_an_end_is_left_out_however_it_is_cut() -> None:
    call = '<tool_call>\n{"name": "f", "arguments": {"a": 1}]}\n`</tool_call>'
    assert read("hermes", call + "Hi") == [F, ("content", "Hi")]
    assert read("seed_oss", f"<seed:tool_call>\n{XML.replace('</function>', ']')} \nHi") == [
        F,
        ("content", "Hi"),
    ]


@pytest.mark.parametrize("family", ["qwen_3_coder", "qwen_3"])
def test_there_may_be_much_white_space_within_an_end(family: str) -> None:
    call = XML if family == "qwen_3_coder" else '{"name": "f", "arguments": {"a": 1}}'
    assert read(family, f"<tool_call>{call}{' ' * 250}</tool_call>") == [F]


@pytest.mark.parametrize("family", ["mistral", "mistral_v11"])
@pytest.mark.parametrize("marks", ["[ARGS]", " [ARGS]", "[CALL_ID]x12345678[ARGS]"])
def test_a_call_without_a_name_leaves_no_marks(family: str, marks: str) -> None:
    rest = f"{'x12345678' if 'CALL_ID' in marks else ''}{{}}"
    text = f'[TOOL_CALLS]{marks}{{}}[TOOL_CALLS]f[CALL_ID]123456789[ARGS]{{"a": 1}}'
    assert read(family, text) == [("content", rest), F]


@pytest.mark.parametrize("family", ["qwen_3_coder", "glm_4_5", "seed_oss"])
@pytest.mark.parametrize("written", ["\n five\n", "five", " {five\n\n"])
def test_what_no_schema_allows_is_a_string_without_space_around_it(family: str, written: str) -> None:
    texts = {
        "qwen_3_coder": f"<tool_call>\n{XML}\n</tool_call>".replace("\n1\n", written),
        "glm_4_5": f"<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>{written}</arg_value>\n</tool_call>",
        "seed_oss": f"<seed:tool_call>\n{XML}\n</seed:tool_call>".replace("\n1\n", written),
    }
    assert read(family, texts[family]) == [("f", {"a": written.strip()})]


def test_arguments_are_streamed_as_soon_as_the_name_is_known() -> None:
    parser = MessageParser("qwen_3", TOOLS)
    parser.feed('<tool_call>{"name": "f", "arguments": {"a": ')
    assert [(one.name, one.text) for one in parser.parts] == [("f", '{"a": ')]
    parser = MessageParser("qwen_3", TOOLS)
    parser.feed('<tool_call>{"arguments": {"a": 1}, "na')
    assert list(parser.parts) == []
    parser.feed('me": "f"}</tool_call>')
    assert [(one.name, one.text) for one in parser.parts] == [("f", '{"a": 1}')]


def test_arguments_without_a_name_are_held_back_up_to_a_limit() -> None:
    parser = MessageParser("qwen_3", TOOLS)
    for _ in range(40):
        parser.feed('<tool_call>{"arguments": {"a": "' + "x" * 1_000)
    assert any("x" * 1_000 in one.text for one in parser.parts)


def test_calls_end_thoughts_where_the_models_of_a_family_are_served_so() -> None:
    call = KIMI % ("functions.f:0", '{"a": 1}')
    assert read("kimi", f"<think>x{call}") == [("thought", "x"), F]
    assert read("kimi", f"<think>x{call}", calls_end_thoughts=False) == [("thought", f"x{call}")]


def test_markup_of_calls_is_content_without_tools() -> None:
    text = '<think>x</think><tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>'
    parser = MessageParser("qwen_3", tool_choice="none")
    parser.feed(text)
    parser.finish()
    assert [(one.kind, one.text) for one in parser.parts] == [
        ("thought", "x"),
        ("content", text.partition("</think>")[2]),
    ]
