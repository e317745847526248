"""Which family a model speaks is found in its chat template."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from engine_sampler import ParameterError, SamplingParams
from engine_sampler.grammar import TOOL_FAMILIES, tool_calls
from engine_sampler.messages import ChatFormat, MessageParser, family_of
from engine_sampler.params.families import Family

from ...messages.templates.rendering import FOLDER
from ...messages.templates.table import SERVED

CALL = """'<tool_call>\\n{"name": "' + call.name + '", "arguments": ' + call.arguments|tojson"""
HERMES = f"{{{{ {CALL} + '}}\\n</tool_call>' }}}}"
THINKS = "{{ '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}"
TEMPLATES = {
    "hermes": HERMES,
    "qwen_3": THINKS + HERMES,
    "exaone": (THINKS + HERMES).replace("\\n", ""),
    "qwen_3_5": THINKS
    + "{{ '<tool_call>\\n<function=' + call.name + '>\\n' }}<parameter={{ k }}>\n{{ v }}\n</parameter>\n"
    + "</function>\n</tool_call>",
    "llama": """{{ '{"name": "' + call.name + '", "parameters": ' }}{{ call.arguments | tojson }}{{ "}" }}""",
    "mistral": "[TOOL_CALLS] [{% for call in calls %}{{ call.function|tojson }}{% endfor %}]",
    "mistral_v11": "[TOOL_CALLS]{{ call.name }}[ARGS]{{ call.arguments }}",
    "deepseek_v3_2": "{% set mark = '｜DSML｜' %}<{{ mark }}function_calls>\n<{{ mark }}invoke name=",
    "deepseek_v4": "{% set mark = '｜DSML｜' %}<{{ mark }}tool_calls>\n<{{ mark }}invoke name=",
    "harmony": "<|channel|>analysis<|message|>{{ thoughts }}<|end|><|channel|>commentary json<|call|>",
}


@pytest.mark.parametrize("family", TEMPLATES)
def test_the_marks_in_a_template_tell_the_family(family: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="engine_sampler"):
        assert family_of(f"{{# {family} #}}{TEMPLATES[family]}") == family
    assert f"the chat template is that of the family {family}" in caplog.text
    assert ChatFormat("auto", chat_template=TEMPLATES[family]).family == family
    assert ChatFormat.from_dict({}, "auto", chat_template=TEMPLATES[family]).family == family


@pytest.mark.parametrize(
    "templates",
    [HERMES, {"default": "x", "tool_use": HERMES}, {"default": HERMES}],
    ids=["one", "for tools", "by default"],
)
def test_a_tokenizer_may_have_the_template(templates: Any) -> None:
    assert family_of(SimpleNamespace(chat_template=templates)) == "hermes"


@pytest.mark.parametrize(
    ("template", "words"),
    [
        (
            "{{ messages[0].content }}",
            r"template '\{\{ messages\[0\].content }}' has the marks of no family that is known, but none at "
            "all: give one of llama, hermes, ",
        ),
        (
            "<|a|>" * 9 + "<x>",
            "has the marks of no family that is known, but <|a|>, <x>: ".replace("|", r"\|"),
        ),
        (" ".join(f"<x{n}>" for n in range(14)), "that is known, but <x0>, .*, <x11> and 2 more: give"),
        (None, "template=None is not allowed: the text of a chat template, or a tokenizer"),
        (SimpleNamespace(chat_template=None), "is not allowed: the text of a chat template"),
    ],
)
def test_what_tells_no_family_is_an_error(template: Any, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        family_of(template)


def test_families_that_a_template_does_not_tell_apart_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, mark in (("first", "a1"), ("second", "b1")):
        entry = Family(f"<{mark}>{{name}}", f"</{mark}>", thinking=None)
        monkeypatch.setitem(TOOL_FAMILIES, name, entry)
    with pytest.raises(ParameterError, match="may be that of several families: give one of first, second"):
        family_of("<a1>{{ f }}</a1> or <b1>{{ f }}</b1>")


BODY = {
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    "tool_choice": "required",
}


def test_a_request_is_read_with_the_family_of_a_template() -> None:
    named = SamplingParams.from_dict(BODY, tool_family="qwen_3_5", reasoning="enabled")
    for template in (TEMPLATES["qwen_3_5"], SimpleNamespace(chat_template=TEMPLATES["qwen_3_5"])):
        assert (
            SamplingParams.from_dict(BODY, tool_family="auto", chat_template=template, reasoning="enabled")
            == named
        )
    budget = {"thinking_token_budget": 9}
    params = SamplingParams.from_dict(budget, tool_family="auto", chat_template=TEMPLATES["qwen_3_5"])
    assert dict(params.thinking) == {"family": "qwen_3_5"}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: SamplingParams.from_dict(BODY, tool_family="auto"), "tool_family='auto' is not allowed"),
        (lambda: ChatFormat("auto"), "family='auto' is not allowed"),
        (lambda: ChatFormat.from_dict({}, "auto"), "family='auto' is not allowed"),
        (lambda: MessageParser("auto"), "family='auto' is not allowed"),
        (lambda: tool_calls("auto", BODY["tools"]), "family='auto' is not allowed"),
    ],
    ids=["parameters", "format", "format of a body", "parser", "tag"],
)
def test_without_a_template_auto_is_an_error_that_says_so(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(ParameterError, match=f"{words}.*'auto' needs a chat_template"):
        call()


def test_an_unknown_family_is_an_error_even_where_nothing_needs_it() -> None:
    with pytest.raises(ParameterError, match="tool_family='qwen' is not allowed: one of llama, hermes"):
        SamplingParams.from_dict({}, tool_family="qwen")


NOT_TOLD = {
    "GigaChat3.1-10B-A1.8B": "its template has the marks of GigaChat 3, too, which reads both",
    "meetkai-functionary-medium-v3.2": "it has no marks",
    "tencent-Hy3": "it puts its marks together",
}
"""Templates of families that are not found so, and why."""


@pytest.mark.skipif(not FOLDER.is_dir(), reason="the chat templates of llama.cpp are not there")
@pytest.mark.parametrize("name", sorted(SERVED.keys() - NOT_TOLD.keys()))
def test_chat_templates_of_llama_cpp_tell_their_families(name: str) -> None:
    entry = TOOL_FAMILIES[family_of((FOLDER / f"{name}.jinja").read_text(encoding="utf-8"))]
    expected = TOOL_FAMILIES[SERVED[name].family]
    shown = [
        "".join(f"{one.section}{one.begin}{one.end}{one.style}".replace("\\n", "").split())
        for one in (entry, expected)
    ]
    assert shown[0] == shown[1]
