"""White space at the ends of thoughts and of content, and thoughts that stay in the content."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_sampler import ParameterError, Tokenizer
from engine_sampler.grammar import Grammar
from engine_sampler.messages import Event, MessageParser, chat_message
from engine_sampler.messages.reading.following import MAX_SPACE

CALL = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
SPACE = " \t\r\n"


def read(text: str, size: int = 3, **options: Any) -> dict[str, Any]:
    """What is read of a text in pieces; what was said in events is what is read in the end."""
    parser = MessageParser("qwen_3", **options)
    events = [event for at in range(0, len(text), size) for event in parser.feed(text[at : at + size])]
    events += parser.finish()
    texts = dict.fromkeys(("thought", "content"), "")
    for kind, one, *_ in events:
        if kind in texts:
            texts[kind] += one
    message = chat_message(parser)
    assert texts == {"thought": message.get("reasoning", ""), "content": message["content"] or ""}
    return message


WRITTEN = f"<think>\nLet me see.\n</think>\n\nI look.\n{CALL}\nMore \n"


@pytest.mark.parametrize(
    ("trim", "thoughts", "content"),
    [
        ("nothing", "\nLet me see.\n", "I look.\n\nMore \n"),
        ("thoughts", "Let me see.", "I look.\n\nMore \n"),
        ("all", "Let me see.", "I look.\n\nMore"),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_white_space_at_the_ends_is_left_out(trim: str, thoughts: str, content: str, size: int) -> None:
    message = read(WRITTEN, size, trim=trim)
    assert (message["reasoning"], message["content"]) == (thoughts, content)
    assert len(message["tool_calls"]) == 1


def test_by_default_thoughts_are_as_templates_read_them() -> None:
    assert read(WRITTEN)["reasoning"] == read(WRITTEN, trim="thoughts")["reasoning"]
    assert read("<think>\n\n</think>\n\nHi\n") == {"role": "assistant", "content": "Hi\n"}
    assert read("<think>Hm.</think>\nHi")["content"] == "Hi"
    assert read("\nHi")["content"] == "\nHi"  # there were no thoughts


PARTS = st.lists(st.text("a \n\t", max_size=5), max_size=6)


@given(PARTS, PARTS, st.integers(1, 9), st.sampled_from(["thoughts", "all"]))
def test_what_is_left_out_is_at_the_ends_alone(
    thoughts: list[str], contents: list[str], size: int, trim: str
) -> None:
    text = "".join(f"<think>{one}</think>" for one in thoughts) + CALL.join(["b", *contents])
    whole, trimmed = read(text, size, trim="nothing"), read(text, size, trim=trim)
    assert trimmed.get("reasoning", "") == whole.get("reasoning", "").strip(SPACE)
    content = whole["content"].strip(SPACE) if trim == "all" else whole["content"]
    assert trimmed["content"] == content


@pytest.mark.parametrize("size", [1, 1000, 10_000])
def test_what_is_held_back_is_bounded(size: int) -> None:
    text = "a" + "\n" * (MAX_SPACE + 5)
    assert read(text, size, trim="all")["content"] == "a" + "\n" * 5
    assert read(text + "b", size, trim="all")["content"] == text + "b"


def test_white_space_that_waits_follows_rollbacks_and_forks() -> None:
    parser = MessageParser("qwen_3", starts_inside=True)
    for piece in ("a", " ", "\n", "b", "\n"):
        parser.feed(piece)
    fork = parser.fork()
    assert [one.text for one in fork.feed("c")] == ["\nc"]
    parser.rollback(2)
    assert parser.parts[0].text == "a"
    assert [one.text for one in parser.feed("d")] == [" \nd"]
    assert fork.parts[0].text == "a \nb\nc"


@pytest.mark.parametrize("size", [1, 4, 1000])
def test_thoughts_may_stay_in_the_content(size: int) -> None:
    message = read(WRITTEN, size, separate_reasoning=False)
    assert message["content"] == "<think>\nLet me see.\n</think>\n\nI look.\n\nMore \n"
    assert "reasoning" not in message
    assert len(message["tool_calls"]) == 1
    inside = read(f"Hm {CALL}.</think>Hi", size, separate_reasoning=False, reasoning="enabled")
    assert inside["content"] == f"<think>Hm {CALL}.</think>Hi"  # balanced, and a call in thoughts is none
    assert read("Hm", size, separate_reasoning=False, reasoning="enabled")["content"] == "<think>Hm"


def test_thoughts_of_harmony_may_stay_in_the_content() -> None:
    parser = MessageParser("harmony", separate_reasoning=False)
    text = "<|channel|>analysis<|message|>Hm.<|end|>"
    parser.feed(f"{text}<|start|>assistant<|channel|>final<|message|>Hi")
    assert [(one.kind, one.text) for one in parser.parts] == [("content", f"{text}Hi")]


def test_tokens_within_thoughts_count_where_they_are_content() -> None:
    tokenizer = Tokenizer([b"<think>", b"</think>", b"a", b"b"], special_token_ids=[0, 1])
    parser = MessageParser("qwen_3", tokenizer=tokenizer, separate_reasoning=False)
    assert parser.feed([0, 2, 1, 3]) == [Event("content", "<think>a</think>b")]
    assert parser.thinking_tokens == 2


@pytest.mark.parametrize("trim", ["thoughts", "all"])
def test_content_under_a_grammar_is_left_as_it_is(trim: str) -> None:
    grammar = Grammar.from_lark('start: /\\n/ word "\\n"\nword[capture]: /[a-z]+/\n')
    parser = MessageParser("qwen_3", grammar=grammar, trim=trim)
    parser.feed("<think> Hm. </think>\n\n\nhello\n")
    assert [(one.text, one.id) for one in parser.finish()] == [("hello", "word")]
    assert [one.text for one in parser.parts] == ["Hm.", "\nhello\n"]


def test_what_is_not_allowed_is_named() -> None:
    with pytest.raises(
        ParameterError, match="trim='some' is not allowed: one of 'nothing', 'thoughts', 'all'"
    ):
        MessageParser("qwen_3", trim="some")
