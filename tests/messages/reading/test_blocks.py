"""Answers in which each part has marks: thoughts, text and calls."""

from __future__ import annotations

from typing import Any

import pytest

from engine_sampler.messages import MessageParser

SPOKEN = [("thought", "Hm."), ("content", "I look."), ("f", '{"a": 1}'), ("f", '{"a": 1}')]
INKLING = 'f<|content_invoke_tool_json|>{"name":"f","args":{"a": 1}}<|end_message|>'
ATEM = (
    ' to=f<|message|><atem:function_calls>\n<atem:invoke name="f">\n'
    '<atem:parameter name="a">1</atem:parameter>\n</atem:invoke>\n</atem:function_calls>'
)
SOLAR = '<|tool_call:begin|>x-1<|tool_call:name|>f<|tool_call:args|>{"a": 1}<|tool_call:end|>'
COHERE = '{"tool_call_id": "0", "tool_name": "f", "parameters": {"a": 1}}'
ANSWERS = {
    "inkling": "<|content_thinking|>Hm.<|end_message|><|message_model|><|content_text|>I look.<|end_message|>"
    f"<|message_model|>{INKLING}<|message_model|>{INKLING}<|content_model_end_sampling|>",
    "muse_glimmer": " to=self<|message|>Hm.<|eom|><|start|>assistant to=user<|message|>I look.<|eom|>"
    f"<|start|>assistant{ATEM}<|eom|><|start|>assistant{ATEM}<|eot|>",
    "solar_open": "<|think|>Hm.<|end|><|begin|>assistant<|content|>I look.<|end|>"
    f"<|begin|>assistant<|tool_calls|>{SOLAR}{SOLAR}<|calls|>",
    "command_a": "<|START_THINKING|>Hm.<|END_THINKING|><|START_TEXT|>I look.<|END_TEXT|>"
    f"<|START_ACTION|>[\n    {COHERE},\n    {COHERE}\n]<|END_ACTION|>",
    "command_r7b": "<|START_THINKING|>Hm.<|END_THINKING|><|START_RESPONSE|>I look.<|END_RESPONSE|>"
    f"<|START_ACTION|>[{COHERE}, {COHERE}]<|END_ACTION|>",
    "kimi_k3": "<|open|>think<|sep|>Hm.<|close|>think<|sep|><|open|>response<|sep|>I look."
    "<|close|>response<|sep|><|open|>tools<|sep|>"
    + 2
    * (
        '<|open|>call tool="f" index="1"<|sep|><|open|>argument key="a" type="number"<|sep|>1'
        "<|close|>argument<|sep|><|close|>call<|sep|>"
    )
    + "<|close|>tools<|sep|><|close|>message<|sep|>",
    "functionary_3_2": 'all\nI look.>>>f\n{"a": 1}>>>f\n{"a": 1}',
    "granite": "<think>Hm.</think><response>I look.</response><|tool_call|>"
    '[{"name": "f", "arguments": {"a": 1}}, {"name": "f", "arguments": {"a": 1}}]',
    "hunyuan_a13b": "<think>Hm.</think>\n<answer>I look.</answer><tool_calls>"
    '[{"name": "f", "arguments": {"a": 1}}, {"name": "f", "arguments": {"a": 1}}]</tool_calls>',
}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "f",
            "parameters": {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "s": {"type": "string"}},
            },
        },
    }
]


def parts(family: str, text: str, tools: Any = TOOLS, **options: Any) -> list[tuple[str, str]]:
    """What a text says, the same in any pieces."""
    whole, cut = (_read(family, pieces, tools, options) for pieces in ([text], list(text)))
    assert whole == cut
    return whole


def _read(family: str, pieces: list[str], tools: Any, options: dict[str, Any]) -> list[tuple[str, str]]:
    parser = MessageParser(family, tools, **{"reasoning": "auto", **options})
    for one in pieces:
        parser.feed(one)
    parser.finish()
    assert parser.deviation is None
    return [(one.name or one.kind, one.text) for one in parser.parts]


@pytest.mark.parametrize("family", ANSWERS)
def test_no_mark_of_a_part_is_text(family: str) -> None:
    expected = SPOKEN[family == "functionary_3_2" :]
    assert parts(family, ANSWERS[family]) == expected


def test_a_part_may_come_once_more() -> None:
    """Inkling thinks and speaks as often as it likes."""
    text = (
        "<|content_thinking|>one<|end_message|><|message_model|><|content_text|>mid<|end_message|>"
        "<|message_model|><|content_thinking|>two<|end_message|>"
    )
    assert parts("inkling", text) == [("thought", "one"), ("content", "mid"), ("thought", "two")]


def test_the_mark_of_a_part_may_begin_an_answer_only_there() -> None:
    assert parts("muse_glimmer", " to=user<|message|>Write to=user or ") == [("content", "Write to=user or ")]
    assert parts("muse_glimmer", "to=user<|message|>Hi.<|eot|>") == [("content", "Hi.")]
    assert parts("functionary_3_2", "all in all, no") == [("content", "all in all, no")]


def test_a_name_may_begin_an_answer() -> None:
    assert parts("inkling", INKLING) == [("f", '{"a": 1}')]
    assert parts("inkling", INKLING.removeprefix("f")) == [("f", '{"a": 1}')]
    assert parts("functionary_3_2", 'f\n{"a": 1}') == [("f", '{"a": 1}')]
    assert parts("functionary_3_2", "f is a letter") == [("content", "f is a letter")]
    assert parts("functionary_3_2", "f is a letter", None) == [("content", "f is a letter")]


def test_marks_that_may_follow_thoughts_are_text_without_them() -> None:
    text = "<response>is an element of XML</response>"
    assert parts("granite", text, reasoning="disabled") == [("content", text)]


def test_quotes_of_a_text_are_not_part_of_it() -> None:
    """MiniCPM5 writes texts with line breaks or markup as CDATA."""
    call = '<function name="f"><param name="s">%s</param></function>'
    for text, value in (
        ("<![CDATA[a </param>\n<b>]]>", '{"s": "a </param>\\n<b>"}'),
        ("<![CDATA[]]>", '{"s": ""}'),
        ("a <![CDATA[b", '{"s": "a <![CDATA[b"}'),
        ("<![CDAT", '{"s": "<![CDAT"}'),
    ):
        assert parts("minicpm_5", call % text) == [("f", value)]


def test_a_mark_is_no_text_where_it_ends_an_answer_and_could_begin_more() -> None:
    call = 'function call<|role_sep|>\n{"name": "f", "arguments": {"a": 1}}'
    end = "<|message_sep|>\n\n"
    assert parts("gigachat_3", f"Hi.{end}") == [("content", "Hi.")]
    assert parts("gigachat_3", f"Hi.{end}{call}{end}") == [("content", "Hi."), ("f", '{"a": 1}')]
    assert parts("gigachat_3", call) == [("f", '{"a": 1}')]


def test_other_ways_of_a_family_are_read() -> None:
    invoke = ATEM[ATEM.index("<atem:invoke") : ATEM.index("</atem:function_calls>")]
    several = f"<atem:function_calls>\n{invoke}{invoke}</atem:function_calls>"
    assert parts("muse_glimmer", several) == [("f", '{"a": 1}')] * 2
    json = '<dots_function_call>{"name": "f", "arguments": {"a": 1}}</dots_function_call>'
    assert parts("dots", json) == [("f", '{"a": 1}')]
    thoughts = "Here's my thought process:Hm.Here's my response:Hi."
    assert parts("granite_3_2", thoughts) == [("thought", "Hm."), ("content", "Hi.")]
    bare = "<tool_calls>\n<tool_call>f<tool_sep>\n</tool_call>\n</tool_calls>"
    assert parts("hunyuan_3", bare) == [("f", "{}")]
    listed = 'I call.\n```json\n[{"name": "f", "arguments": {"a": 1}}]\n```'
    assert parts("xlam", listed) == [("content", "I call.\n"), ("f", '{"a": 1}')]
