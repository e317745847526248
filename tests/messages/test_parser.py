"""What a parser makes of answers that are as defined, nearly so, or not at all."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import pytest

from engine_sampler import ParameterError, Tokenizer
from engine_sampler.grammar import Grammar, GrammarError, GrammarLimitError, tool_calls
from engine_sampler.messages import Event, MalformedCallError, MessageParser

from ..grammar.bodies.tools.transcripts import TOOLS, TRANSCRIPTS
from .vocabularies import ADDED, MARKERS, SPECIAL

END = ("content", "Z")
NEXT = ("get_weather", '{"city": "Paris"}')
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'


def read(text: Any, family: str | None = "qwen_3", **options: Any) -> tuple[MessageParser, list[Event]]:
    options.setdefault("call_id", lambda index, name, given: f"call_{index}")
    parser = MessageParser(family, **options)
    return parser, parser.feed(text) + parser.finish()


def parts(text: Any, family: str | None = "qwen_3", **options: Any) -> list[tuple[str, str]]:
    return [(one.name or one.kind, one.text) for one in read(text, family, **options)[0].parts]


def test_events_follow_the_text() -> None:
    _, events = read(f"<think>Hm.</think>\n\nLook: {CALL}", tools=TOOLS, values=True)
    assert events == [
        Event("section_began", "thoughts"),
        Event("thought", "Hm."),
        Event("section_ended", "thoughts"),
        Event("content", "Look: "),
        Event("call_began", "get_weather", 0, "", "call_0"),
        Event("arguments", '{"city": "Paris"}', 0),
        Event("value", "Paris", 0, "/city"),
        Event("call_complete", "", 0),
    ]


def test_what_might_be_a_marker_is_held_back_and_nothing_else() -> None:
    parser = MessageParser("qwen_3", TOOLS)
    assert parser.feed("1 < 2, <b>, <tool") == [Event("content", "1 < 2, <b>, ")]
    assert parser.feed("box>") == [Event("content", "<toolbox>")]
    assert parser.feed(" <tool_call") == [Event("content", " ")]
    assert parser.finish() == [Event("content", "<tool_call")]
    with pytest.raises(ValueError, match="the answer is finished"):
        parser.feed("x")


def test_captures_of_a_grammar_are_reported() -> None:
    grammar = Grammar.from_lark('start: w (" " w)*\nw[capture="word"]: l+\nl[capture]: /[a-z]/')
    parser, events = read("<think>a b</think>ab c", grammar=grammar)
    assert events[3:] == [
        Event("content", "ab c"),
        *(Event("capture", text, id="l") for text in "ab"),
        Event("capture", "ab", id="word"),
        *(Event("capture", "c", id=name) for name in ("l", "word")),
    ]
    assert [one.start for one in (parser.captures or {})["word"]] == [0, 3]
    parser.rollback(1)
    assert parser.captures == {"word": [], "l": []}
    other = parser.fork()
    assert parser.feed("x y") + parser.finish() != other.feed("xy") + other.finish()
    assert [one.text for one in (other.captures or {})["word"]] == ["xy"]


def test_captures_come_at_the_end_and_again_after_a_rollback() -> None:
    grammar = Grammar.from_lark('start: w (" " w)*\nw[capture="word"]: /[a-z]+/')
    parser = MessageParser("qwen_3", TOOLS, grammar=grammar)
    assert parser.feed("<think>x y</think>")[-1] == Event("section_ended", "thoughts")
    assert parser.feed("ab") == [Event("content", "ab")]
    other = parser.fork()
    assert parser.feed(" c") == [Event("content", " c")]
    assert parser.finish() == [Event("capture", "ab", id="word"), Event("capture", "c", id="word")]
    assert parser.finish() == []
    parser.rollback(1)
    assert parser.finish() == other.finish() == [Event("capture", "ab", id="word")]


@pytest.mark.parametrize("seed", range(5))
def test_captures_of_an_answer_are_the_same_however_it_comes(seed: int) -> None:
    rng = random.Random(seed)
    grammar = Grammar.from_lark('start: "[" [v ("," v)*] "]"\nv[capture]: n | start\nn[capture]: /[0-9]+/')
    text = "[1,22,[3,[4,55]],[],6]"
    whole, events = read(text, None, grammar=grammar)
    parser, received = MessageParser(grammar=grammar), []
    at = 0
    marks = [(0, 0)]
    while at < len(text):
        end = min(len(text), at + rng.randrange(1, 4))
        received += parser.feed(text[at:end])
        marks.append((end, len(received)))
        if len(marks) > 1 and rng.random() < 0.3:
            back = rng.randrange(1, len(marks))
            del marks[-back:]
            parser.rollback(back)
            del received[marks[-1][1] :]
        at = marks[-1][0]
    received += parser.finish()
    captures = [event for event in received if event.kind == "capture"]
    assert sorted(captures) == sorted(event for event in events if event.kind == "capture")
    assert parser.captures == whole.captures
    assert {name: sorted(one.text for one in some) for name, some in (whole.captures or {}).items()} == {
        name: sorted(event.text for event in captures if event.id == name) for name in ("v", "n")
    }


def test_content_outside_of_a_grammar_has_no_captures() -> None:
    grammar = Grammar.from_lark('start: w\nw[capture]: "a"')
    parser, events = read("b", None, grammar=grammar)
    assert events == [Event("content", "b")]
    assert parser.captures is None
    assert read("a", None)[0].captures == {}
    with pytest.raises(ParameterError, match="grammar='a' is not allowed: a Grammar"):
        MessageParser(grammar="a")  # type: ignore[arg-type]


@pytest.mark.parametrize("steps", [0, 1, 40, 10**6])
def test_captures_that_take_more_steps_come_with_another_call(steps: int) -> None:
    """What is told within the steps and what comes later is what is told at once."""
    grammar = Grammar.from_lark('start: x\nx[capture]: start x | y\ny[capture]: "a" | "aa"')
    parser = MessageParser(grammar=grammar)
    parser.feed("a" * 30)
    known = parser.fork().finish()
    first = parser.finish(steps=steps)
    assert parser.is_finished
    later = parser.fork().finish()
    assert first + later == known
    assert bool(later) == (steps < 100)
    assert parser.finish() == later
    assert parser.finish() == []


def test_arguments_come_as_they_are_written() -> None:
    parser = MessageParser("qwen_3_5", TOOLS, call_id=lambda *_: "1")
    parser.feed("<tool_call>\n<function=get_weather>\n<parameter=city>\nPar")
    assert parser.parts[0].text == '{"city": "Par'
    assert parser.parts[0].value == {"city": "Par"}
    assert parser.feed('is "centre"\n</par') == [Event("arguments", 'is \\"centre\\"', 0)]
    parser.feed("ameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>")
    assert parser.parts[0].value == {"city": 'Paris "centre"', "days": 3}
    assert parser.parts[0].is_complete


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('<tool_call>{"name":"now","arguments":{}}</tool_call>', [("now", "{}")]),
        ('<tool_call>\n\n{ "name" : "now",\n "arguments" : {} }\n</tool_call>\n', [("now", "{}")]),
        ("  Hello.\n", [("content", "  Hello.\n")]),
        ("\n \n", [("content", "\n \n")]),
        ("<think>", []),
        ("<think>a</think>\n\n\nb", [("thought", "a"), ("content", "b")]),
        ("<think>a</think>b<think>c</think>", [("thought", "a"), ("content", "b"), ("thought", "c")]),
        (f"{CALL}\n\n{CALL} Done.", [*[("get_weather", '{"city": "Paris"}')] * 2, ("content", " Done.")]),
        ("a </think> b", [("content", "a  b")]),
    ],
)
def test_white_space_is_free_and_counts_only_within_content(
    text: str, expected: list[tuple[str, str]]
) -> None:
    assert parts(text, tools=TOOLS) == expected


@pytest.mark.parametrize(
    ("text", "where", "expected"),
    [
        ("<tool_call>Hm", "0: what can only be", [("content", "Hm")]),
        ("a </think> b", "2: free text contains a mark", [("content", "a  b")]),
        (CALL[:-20], "text ends within a call", [("get_weather", '{"city": "P')]),
        ("<tool_call>\n{", "text ends within markup", []),
        (
            CALL.replace('"Paris"', "Paris") + " Bye.",
            "58: the arguments are not JSON",
            [("get_weather", '{"city": null}'), ("content", "Paris}}\n Bye.")],
        ),
        (
            CALL.replace("}}", "}") + " Bye.",
            "a call does not end",
            [("get_weather", '{"city": "Paris"}'), ("content", " Bye.")],
        ),
    ],
    ids=["no call", "stray mark", "cut", "cut before arguments", "wrong arguments", "wrong end"],
)
def test_the_first_deviation_is_reported_and_what_follows_is_read(
    text: str, where: str, expected: list[tuple[str, str]]
) -> None:
    parser, events = read(text, tools=TOOLS)
    assert where in str(parser.deviation)
    assert [one.text for one in events if one.kind == "deviation"] == [parser.deviation]
    assert [(one.name or one.kind, one.text) for one in parser.parts] == expected


BROKEN = CALL.replace('"Paris"', "?")


@pytest.mark.parametrize(
    ("malformed", "expected"),
    [
        ("content", [("content", "A"), ("get_weather", '{"city": null}'), ("content", "?}}\n"), NEXT, END]),
        ("drop", [("content", "A"), ("get_weather", '{"city": null}'), NEXT, END]),
    ],
)
def test_what_becomes_of_a_call_that_is_not_as_defined_can_be_chosen(malformed: str, expected: Any) -> None:
    text = f"A{BROKEN}{CALL}Z"
    parser, events = read(text, tools=TOOLS, malformed=malformed)
    assert [(one.name or one.kind, one.text) for one in parser.parts] == expected
    assert Event("call_broken", '{"city": ', 0) in events
    assert ("".join(one.text for one in events if one.kind == "malformed") == "?}}\n") == (
        malformed == "drop"
    )


def test_a_call_that_is_not_as_defined_can_be_an_error() -> None:
    parser = MessageParser("qwen_3", TOOLS, malformed="error")
    parser.feed(CALL)
    before = len(parser)
    for text in (f"A{BROKEN}", "<tool_call>Hm"):
        with pytest.raises(MalformedCallError, match="at character"):
            parser.feed(text)
        assert (len(parser), [one.kind for one in parser.parts]) == (before, ["call"])
    bytes_of_tokens = Tokenizer([bytes([i]) for i in range(256)])
    parser = MessageParser("hermes", TOOLS, malformed="error", tokenizer=bytes_of_tokens)
    parser.feed([*CALL[:-20].encode(), ord('"'), 0xE6])
    for _ in range(2):
        with pytest.raises(MalformedCallError, match="the arguments are not JSON"):
            parser.finish()


@pytest.mark.parametrize(
    ("unfinished", "expected"),
    [
        ("open", [NEXT, ("get_weather", '{"city": "P')]),
        ("close", [NEXT, ("get_weather", '{"city": "P"}')]),
        ("drop", [NEXT]),
    ],
)
def test_a_call_that_is_cut_stays_open_or_is_closed_or_dropped(unfinished: str, expected: Any) -> None:
    parser, events = read(CALL + CALL[:-20], tools=TOOLS, unfinished=unfinished)
    assert [(one.name, one.text) for one in parser.parts] == expected
    assert [one.is_complete for one in parser.parts] == [True, False][: len(expected)]
    assert "".join(one.text for one in events if one.kind == "arguments") == "".join(
        text for _, text in expected
    )


CUT = [
    ('{"a": 12, "b', '{"a": 12}'),
    ('{"a": 12, "b": ', '{"a": 12}'),
    ('{"a": ', "{}"),
    ('{"a": [1, {"k": -', '{"a": [1, {}]}'),
    ('{"a": 1.', '{"a": 1}'),
    ('{"a": "x\\u00', '{"a": "x"}'),
    ('{"a": "', '{"a": ""}'),
    ('{"a": n', '{"a": null}'),
]


@pytest.mark.parametrize("size", [1, 4, 1000])
@pytest.mark.parametrize(("written", "expected"), CUT)
def test_a_call_that_is_closed_has_nothing_that_was_not_written(
    written: str, expected: str, size: int
) -> None:
    text = f'<tool_call>\n{{"name": "get_weather", "arguments": {written}'
    parser = MessageParser("qwen_3", TOOLS, unfinished="close")
    events = [event for at in range(0, len(text), size) for event in parser.feed(text[at : at + size])]
    events += parser.finish()
    assert [one.text for one in parser.parts] == [expected]
    assert "".join(one.text for one in events if one.kind == "arguments") == expected


def test_keys_that_wait_for_values_are_bounded_and_taken_back() -> None:
    parser = MessageParser("hermes", TOOLS, unfinished="close")
    parser.feed('<tool_call>\n{"name": "get_weather", "arguments": {"a": 1, "')
    before = parser.fork()
    assert parser.feed("k" * 16_384)[0].text.startswith('{"a": 1, "kkk')
    parser.rollback(1)
    for one in (parser, before):
        one.feed('b": 2}}\n</tool_call>')
        one.finish()
        assert [part.text for part in one.parts] == ['{"a": 1, "b": 2}']


def test_a_call_of_an_unknown_function_is_a_call_or_content() -> None:
    text = CALL.replace("get_weather", "f")
    assert parts(text, tools=TOOLS) == [("f", '{"city": "Paris"}')]
    left = text.removeprefix("<tool_call>").removesuffix("</tool_call>").lstrip()
    assert parts(text, tools=TOOLS, unknown_tools="content") == [("content", f"\n{left}")]


@pytest.mark.parametrize("option", ["malformed", "unfinished", "unknown_tools"])
def test_options_are_some_words(option: str) -> None:
    with pytest.raises(ParameterError, match=f"{option}='x' is not allowed: one of"):
        MessageParser("qwen_3", **{option: "x"})  # type: ignore[arg-type]


def test_a_parser_reads_on_after_a_call_that_is_none() -> None:
    assert parts(f"<tool_call>Hm{CALL}", tools=TOOLS) == [("content", "Hm"), NEXT]


def test_calls_are_hidden_where_none_may_be_made() -> None:
    text = f"A{CALL}B<tool_call>"
    assert parts(text, tools=TOOLS, tool_choice="none") == [("content", "A"), ("content", "B")]


def test_no_call_is_read_where_none_may_be_made() -> None:
    assert parts(CALL, tool_choice="none") == [("content", CALL)]
    assert parts(f"<think>a</think>{CALL}", tools=[]) == [("thought", "a"), ("content", CALL)]


def test_any_function_may_be_called_if_none_is_named() -> None:
    assert parts(CALL.replace("get_weather", "any.name-1")) == [("any.name-1", '{"city": "Paris"}')]


def test_thoughts_begin_where_it_is_said() -> None:
    text = "Hm.</think>\n\nHello."
    assert parts(text, reasoning="enabled") == [("thought", "Hm."), ("content", "Hello.")]
    assert parts(f"<think>{text}", reasoning="enabled") == [("thought", "Hm."), ("content", "Hello.")]
    assert parts(text, starts_inside=True) == [("thought", "Hm."), ("content", "Hello.")]
    assert parts(text, "mimo", reasoning="enabled") == [("content", "Hm.\n\nHello.")]
    assert parts(f"<think>{text}", reasoning="disabled") == [("content", f"<think>{text}")]
    parser = MessageParser("qwen_3", reasoning="enabled")
    assert parser.is_thinking
    parser.feed("Hm.</think>")
    assert not parser.is_thinking


def test_thoughts_of_models_without_a_family() -> None:
    marks = ("[THINK]", "[/THINK]")
    assert parts("[THINK]a[/THINK]b", None, reasoning_marks=marks) == [("thought", "a"), ("content", "b")]
    assert parts("a[/THINK]b", None, reasoning_marks=marks, reasoning="enabled") == [
        ("thought", "a"),
        ("content", "b"),
    ]
    assert parts("[THINK]a", None) == [("content", "[THINK]a")]


@pytest.mark.parametrize("tokenizer", [SPECIAL, ADDED], ids=["special", "added"])
def test_a_marker_that_is_a_token_is_that_token(tokenizer: Tokenizer) -> None:
    spelled = list(CALL.encode())
    assert parts(spelled, tokenizer=tokenizer) == [("content", CALL)]
    first = len(tokenizer) - len(MARKERS)
    begin, end = (first + MARKERS.index(mark) for mark in ("<tool_call>", "</tool_call>"))
    ids = [begin, *CALL[len("<tool_call>") : -len("</tool_call>")].encode(), end]
    assert parts(ids, tokenizer=tokenizer) == [("get_weather", '{"city": "Paris"}')]
    assert parts([end], tokenizer=tokenizer) == []


def test_a_marker_within_an_argument_is_its_name_there() -> None:
    first = len(ADDED) - len(MARKERS)
    think, begin, end = (first + MARKERS.index(mark) for mark in ("<think>", "<tool_call>", "</tool_call>"))
    text = CALL[len("<tool_call>") : -len("</tool_call>")]
    before, after = text.split("Paris")
    ids = [begin, *before.encode(), think, *after.encode(), end]
    assert parts(ids, tokenizer=ADDED) == [("get_weather", '{"city": "<think>"}')]


def test_a_character_may_be_divided_between_tokens() -> None:
    data = "東🙂".encode()
    tokenizer = Tokenizer([bytes([i]) for i in range(256)])
    parser = MessageParser("qwen_3", tokenizer=tokenizer)
    assert parser.feed(data[:2]) == []
    assert parser.feed(data[2:5]) == [Event("content", "東")]
    assert parser.finish() == [Event("content", "\ufffd")]
    parser.rollback(2)
    assert parser.feed(data[3:]) == [Event("content", "🙂")]


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("family", TRANSCRIPTS)
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_a_structural_tag_of_a_family_reads_what_it_constrains(family: str, choice: str) -> None:
    transcript = TRANSCRIPTS[family]
    thinks = bool(transcript.thoughts)
    tag = tool_calls(family, TOOLS, choice, reasoning="enabled" if thinks else "disabled")
    text = transcript.thoughts + transcript.calls(2)
    assert Grammar.from_structural_tag(tag).check(text).valid
    read = parts(text, None, structural_tag=tag, tools=TOOLS)
    assert [one for one in read if one[0] == "get_weather"] == [("get_weather", '{"city": "Paris"}')] * 2
    assert [text for kind, text in read if kind == "thought"] == ["I look it up."] * thinks


def test_a_structural_tag_of_any_kind() -> None:
    tag = {
        "type": "structural_tag",
        "triggers": ["<tool"],
        "structures": [{"begin": "<tool=add>", "schema": {"type": "object"}, "end": "</tool>"}],
    }
    text = 'One.<tool=add>{"a": 1}</tool>Two.'
    expected = [("content", "One."), ("add", '{"a": 1}'), ("content", "Two.")]
    assert parts(text, None, structural_tag=tag) == expected
    tag = {
        "type": "structural_tag",
        "format": {
            "type": "sequence",
            "elements": [
                {"type": "tag", "begin": "<a>", "content": {"type": "any_text"}, "end": "</a>"},
                {"type": "tag", "begin": {"token": "<b>"}, "content": {"type": "any_text"}, "end": "</b>"},
            ],
        },
    }
    assert parts("<a>x</a><b>y</b>", None, structural_tag=tag) == [("content", "xy")]


HOSTILE = (
    5,
    None,
    "x",
    [],
    {},
    [5],
    {"type": "sequence", "elements": 5},
    {"type": "json_schema", "style": 5},
)


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_a_wrong_structural_tag_is_an_error_or_has_no_meaning(number: int) -> None:
    wrong = HOSTILE[number]
    for begin, content, end in (
        ("<a>", wrong, "</a>"),
        (wrong, {"type": "json_schema"}, "x"),
        ("<a>", {}, wrong),
    ):
        tag = {"type": "structural_tag", "format": {"begin": begin, "content": content, "end": end}}
        with suppress(GrammarError):
            assert parts("Hello.", None, structural_tag=tag) == [("content", "Hello.")]


def test_a_structural_tag_may_not_be_too_large() -> None:
    deep: dict[str, Any] = {"type": "any_text"}
    for _ in range(400):
        deep = {"type": "optional", "content": deep}
    wide = {"type": "or", "elements": [{"type": "any_text"}] * 5_000}
    for given in (deep, wide):
        with pytest.raises(GrammarLimitError, match="too many formats, or they are nested too deeply"):
            MessageParser(structural_tag={"type": "structural_tag", "format": given})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"family": "nobody"}, "family='nobody' is not allowed: one of llama"),
        ({"reasoning": "maybe"}, "reasoning='maybe' is not allowed"),
        ({"family": "llama", "structural_tag": {}}, "family is not allowed beside structural_tag"),
        (
            {"reasoning_marks": ("<a>",)},
            "reasoning_marks=.* is not allowed: what begins thoughts, and what ends them",
        ),
        ({"family": "llama", "tools": "ls"}, "tools='ls' is not allowed"),
        ({"tokenizer": "llama"}, "tokenizer='llama' is not allowed"),
    ],
)
def test_what_is_not_allowed_is_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        MessageParser(**options)
    with pytest.raises(GrammarError, match="structural tag"):
        MessageParser(structural_tag={"type": "tag"})
    with pytest.raises(ParameterError, match="pieces='x' is not allowed: ids, with a tokenizer"):
        MessageParser(tokenizer=ADDED).feed("x")
    with pytest.raises(ParameterError, match=r"pieces=\[1\] is not allowed: text"):
        MessageParser().feed([1])
    parser = MessageParser(tokenizer=ADDED)
    with pytest.raises(ParameterError, match=r"token id=1.5 is not allowed"):
        parser.feed([65, 1.5])  # type: ignore[list-item]
    assert (len(parser), parser.parts) == (0, [])
    with pytest.raises(ValueError, match="n=1 is not allowed: 0 to 0"):
        MessageParser().rollback(1)


def test_the_first_answers_of_a_vocabulary_are_read_without_a_family() -> None:
    assert parts("<think>a</think>", None) == [("content", "<think>a</think>")]


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("family", TRANSCRIPTS)
def test_work_is_linear_in_what_hostile_answers_repeat(family: str) -> None:
    transcript = TRANSCRIPTS[family]
    call = transcript.calls()
    for piece in (" ", "<", call[:20], call[:-3], '{"name": ', "[" * 10, '"\\u12'):
        text = (piece * 1000)[:1_000]
        for start in ("", call[: call.index("Paris")], call[:10], "<think>"):
            parser = MessageParser(family)
            for at in range(0, len(text), 9):
                parser.feed(start + text[at : at + 9] if at == 0 else text[at : at + 9])
                assert len(parser._place.pending) < 600
            parser.finish()


def test_a_new_parser_is_true() -> None:
    assert MessageParser()
    assert len(MessageParser()) == 0
