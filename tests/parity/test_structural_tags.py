"""Structural tags against xgrammar: the same masks along random walks.

Where the two differ: here, whole numbers may be written as `5.0`; free text is valid UTF-8 and contains no
special tokens; with `any_order`, required members must come and none twice; the type of a Kimi-K3 argument
agrees with its value; an empty object of MiniMax-M3 may contain white space; `max_tokens` never cuts a
character.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from engine_sampler import Tokenizer
from engine_sampler.grammar import Grammar, allocate_bitmask, tool_calls

xgrammar = pytest.importorskip("xgrammar")

MODELS = (
    "llama kimi kimi_k3 deepseek_r1 deepseek_v3_1 deepseek_v3_2 deepseek_v4 deepseek_v4_1 qwen_3 qwen_3_5 "
    "qwen_3_coder mimo harmony minimax minimax_m3 glm_4_7 cohere exaone"
).split()
FUNCTION = {
    "name": "get_weather",
    "parameters": {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "hourly": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "unit": {"enum": ["C", "F"]},
        },
        "required": ["city"],
        "additionalProperties": False,
    },
}
NAMES = ("get_weather", "now")
TOOLS: list[Any] = [{"type": "function", "function": {**FUNCTION, "name": name}} for name in NAMES]
ALL = ("enabled", "disabled", "auto")
CHOICES: tuple[Any, ...] = ("auto", "required", {"type": "function", "function": {"name": "now"}})
WORDS = """Paris city hourly tags unit true ["C" </parameter> <parameter= name=" type=" "> string="true">
    raw list <arg_key> </arg_key> <arg_value> </arg_value> <|sep|> boolean <cofl:value </cofl:value> <item>
    </item> ]<]minimax[>[ <city> </city> <｜DSML｜""".split()


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from strings(one)


def vocabulary(*tags: Any) -> list[bytes]:
    """The bytes of ASCII, and words in which the tags can be written."""
    words = {*WORDS, *strings([*tags])}
    words |= {part for word in words for part in re.findall(r"<[^<>]+>|\w+|\s+|[^\w\s]+", word)}
    words |= {character for word in words for character in word}
    return [
        *(bytes([i]) for i in range(9, 127)),
        *sorted(word.encode() for word in words if len(word.encode()) > 1),
        b"<eos>",
    ]


class Pair:
    """A structural tag here and there, compiled for one vocabulary."""

    def __init__(self, here: Any, there: Any) -> None:
        self.tokens = vocabulary(here, there)
        eos = [len(self.tokens) - 1]
        grammar = Grammar.from_structural_tag(here, key_order="schema", whitespace=2)
        self.here = grammar.compile(Tokenizer(self.tokens, eos))
        kind = xgrammar.VocabType.RAW
        known = xgrammar.TokenizerInfo(self.tokens, vocab_type=kind, stop_token_ids=eos)
        self.there = xgrammar.GrammarCompiler(known).compile_structural_tag(json.dumps(there))

    def walk(self, seed: int, steps: int = 40, *, wider: str = "") -> None:
        """Compare all masks along a random text. `wider`: "here" or "there" may allow more."""
        generator, text = random.Random(seed), b""
        here, there = self.here.matcher(), xgrammar.GrammarMatcher(self.there)
        mine = allocate_bitmask(1, len(self.tokens))
        other = xgrammar.allocate_token_bitmask(1, len(self.tokens))
        for _ in range(steps):
            here.fill_bitmask(mine)
            other.fill_(-1)
            there.fill_next_token_bitmask(other)
            bits = [
                np.unpackbits(mask.view(np.uint8), bitorder="little")[: len(self.tokens)].astype(bool)
                for mask in (mine[0], other.numpy()[0])
            ]
            missing = {"": bits[0] != bits[1], "here": bits[1] & ~bits[0], "there": bits[0] & ~bits[1]}[wider]
            apart = [self.tokens[i] for i in np.flatnonzero(missing)]
            assert not apart, (text, apart)
            all_allowed = np.flatnonzero(bits[0] & bits[1])
            long = [i for i in all_allowed if len(self.tokens[i]) > 2]
            token = int(generator.choice(long if long and generator.random() < 0.85 else list(all_allowed)))
            if token == len(self.tokens) - 1:
                return
            assert here.accept(token)
            assert there.accept_token(token)
            text += self.tokens[token]


def theirs(model: str, choice: Any, **options: Any) -> Any:
    return xgrammar.get_model_structural_tag(
        model, TOOLS, choice, max_whitespace_cnt=2, **options
    ).model_dump()


@pytest.mark.parametrize("model", [model for model in MODELS if model not in ("minimax_m3", "minimax")])
@pytest.mark.parametrize("is_parallel", [True, False])
def test_the_tag_of_a_model_means_the_same(model: str, is_parallel: bool) -> None:
    for number, choice in enumerate(CHOICES):
        for reasoning in ALL:
            tag = theirs(model, choice, reasoning=reasoning, parallel_tool_calls=is_parallel)
            Pair(tag, tag).walk(number)


WIDER = {
    "llama": "there",  # a text may follow a required call
    "deepseek_r1": "here",  # line breaks behind the thoughts
    "qwen_3": "here",  # calls in one line
    "qwen_3_5": "here",  # fewer line breaks behind the thoughts
    "qwen_3_coder": "here",
    "mimo": "there",  # the beginning of another parameter within a text
}
"""Models whose tags allow more on one side."""


@pytest.mark.parametrize(
    ("model", "modes"),
    [
        ("llama", ("disabled",)),  # here, there may be thoughts
        *((model, ALL) for model in MODELS if re.match("qwen|mimo|deepseek|glm|kimi_k3", model)),
        ("kimi", ("disabled",)),  # there, a call may begin in thoughts
        *((model, ("disabled", "auto")) for model in ("cohere", "exaone")),  # and thoughts in thoughts
        ("minimax", ("auto",)),  # there, "disabled" closes thoughts that a prompt has opened
    ],
)  # fmt: skip
def test_the_builder_gives_tags_that_mean_the_same(model: str, modes: tuple[Any, ...]) -> None:
    for number, choice in enumerate(CHOICES):
        for reasoning in modes:
            for is_parallel in (True, False):
                options: Any = {"reasoning": reasoning, "parallel_tool_calls": is_parallel}
                tag = tool_calls(model, TOOLS, choice, preamble=model == "kimi_k3", **options)
                pair = Pair(tag, theirs(model, choice, **options))
                pair.walk(number, wider=WIDER.get(model, ""))


OBJECT = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "boolean"}},
    "required": ["a"],
    "additionalProperties": False,
}
FORMATS: dict[str, Any] = {
    "dispatch": {
        "type": "dispatch",
        "rules": [["<a>", {"type": "regex", "pattern": "[0-9]{1,3}"}]],
        "excludes": ["bad"],
    },
    "tags": {
        "type": "tags_with_separator",
        "tags": [
            {"type": "tag", "begin": "<a>", "content": {"type": "any_text"}, "end": ["</a>", "!"]},
            {"type": "tag", "begin": "<b>", "content": {"type": "const_string", "value": "x"}, "end": ""},
        ],
        "separator": ", ",
    },
    "repeat": {
        "type": "repeat",
        "min": 1,
        "max": 3,
        "content": {
            "type": "or",
            "elements": [
                {"type": "const_string", "value": "ab"},
                {"type": "json_schema", "json_schema": OBJECT, "max_whitespace_cnt": 2},
            ],
        },
    },
    "tokens": {
        "type": "sequence",
        "elements": [
            {"type": "any_tokens", "exclude_tokens": ["<a>", "!"], "max_tokens": 4},
            {"type": "exclude_token", "exclude_tokens": ["b"]},
            {"type": "token", "token": "<a>"},
        ],
    },
    "token_dispatch": {
        "type": "token_dispatch",
        "rules": [
            ["<a>", {"type": "const_string", "value": "ab"}],
            ["!", {"type": "regex", "pattern": "[0-9]"}],
        ],
        "exclude_tokens": ["bad"],
    },
    **{
        style: {"type": "json_schema", "json_schema": OBJECT, "style": style, "max_whitespace_cnt": 2}
        for style in (
            "qwen_xml", "minimax_xml", "minimax_m3_xml", "deepseek_xml", "deepseek_v4_1_xml", "glm_xml",
            "cohere_xml", "kimi_k3_xml",
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_means_the_same(name: str) -> None:
    tag = {"type": "structural_tag", "format": FORMATS[name]}
    pair = Pair(tag, tag)
    for seed in range(20):
        pair.walk(seed, wider="here" if name == "qwen_xml" else "")  # True and False, as templates write them


def thoughts(most: int, end: Any = "</think>", **more: Any) -> Any:
    content = {"type": "any_text", "max_tokens": most, **more}
    return {"type": "tag", "begin": "<think>", "content": content, "end": end}


def sequence(*elements: Any) -> Any:
    return {"type": "sequence", "elements": [*elements]}


SAYS = {"type": "const_string", "value": "says"}
FREE = {"type": "any_text", "max_tokens": 3}
BUDGETED = (
    *(thoughts(most) for most in (0, 1, 2, 5)),
    thoughts(3, excludes=["Paris", "</"]),
    thoughts(2, ["</think>", "</item>"]),
    thoughts(2, ["xx", "xy"]),
    {"type": "star", "content": thoughts(2)},
    sequence(thoughts(1), thoughts(3), FREE),
    {"type": "star", "content": sequence(FREE, SAYS)},
    {"type": "or", "elements": [sequence({**FREE, "max_tokens": 1}, SAYS), sequence(FREE, thoughts(1))]},
    {"type": "triggered_tags", "triggers": ["<think"], "tags": [thoughts(2)]},
)


@pytest.mark.parametrize("given", BUDGETED, ids=range(len(BUDGETED)))
def test_budgets_of_tokens_mean_the_same(given: Any) -> None:
    tag = {"type": "structural_tag", "format": given}
    pair = Pair(tag, tag)
    for seed in range(8):
        pair.walk(seed, steps=24)
