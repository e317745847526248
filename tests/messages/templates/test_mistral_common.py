"""Masks admit calls in the tokens of Mistral's own tokenizers, and parsers read them."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from engine_sampler.grammar import Grammar, tool_calls
from engine_sampler.messages import MessageParser
from engine_sampler.tokenizer import Tokenizer

from ..families import CalledTools, WrittenCall, random_answer, tools_of
from ..laws import said

mistral_common = pytest.importorskip("mistral_common")
FILES = (
    "mistral_instruct_tokenizer_240323.model.v3",
    "mistral_instruct_tokenizer_241114.model.v7",
    "tekken_240718.json",
    "tekken_240911.json",
)
"""Those that write calls as a list of JSON objects, with ids behind the arguments."""


def assistant(calls: list[WrittenCall]) -> Any:
    """The message of an assistant."""
    from mistral_common.protocol.instruct.messages import AssistantMessage
    from mistral_common.protocol.instruct.tool_calls import FunctionCall, ToolCall

    return AssistantMessage(
        content=None,
        tool_calls=[
            ToolCall(id=f"abc{number:06}", function=FunctionCall(name=name, arguments=json.dumps(arguments)))
            for number, (name, arguments) in enumerate(calls)
        ],
    )


@pytest.mark.parametrize("file", FILES)
def test_calls_in_mistrals_tokens_are_admitted_and_read(file: str) -> None:
    from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

    path = Path(mistral_common.__file__).parent / "data" / file
    encoder = MistralTokenizer.from_file(str(path)).instruct_tokenizer
    tokenizer = Tokenizer.from_mistral_common(path)
    for seed in range(6):
        calls = random_answer("mistral", Random(seed), CalledTools("mistral")).calls
        if not calls:
            continue
        ids = encoder.encode_assistant_message(assistant(calls), is_before_last_user_message=False)
        assert ids.pop() in tokenizer.eos_token_ids
        for choice in ("auto", "required"):
            grammar = Grammar.from_structural_tag(tool_calls("mistral", tools_of(calls), choice))
            matcher = grammar.compile(tokenizer).matcher()
            assert matcher.validate(ids) == len(ids), tokenizer.decode(ids)
        parser = MessageParser("mistral", tools_of(calls), tokenizer=tokenizer)
        for one in ids:
            parser.feed([one])
        parser.finish()
        assert said(parser) == ("", "", [tuple(one) for one in calls])
