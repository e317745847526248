"""Parsers of calls against vLLM's own: the same calls in the same texts, of every family that has one there.

Where the two differ: vLLM's parser of Step-3 trims strings; those of Gemma 4 and MiniMax-M3 read booleans
within untyped lists as strings; that of Phi-4 finds no calls in lists that contain others, that of Llama 3
none where several follow each other, and that of InternLM 2 raises; those of Mistral and Cohere need the
tokenizers of these models.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from engine_sampler.grammar import TOOL_FAMILIES
from engine_sampler.messages import MessageParser

from ..messages.families import random_answer, tools_of
from ..messages.vocabularies import MARKERS

pytest.importorskip("vllm")

PARSERS = {
    "hermes": "hermes",
    "qwen_2_5": "hermes",
    "qwen_3": "hermes",
    "qwen_3_5": "qwen3_coder",
    "qwen_3_coder": "qwen3_coder",
    "nemotron_3": "qwen3_coder",
    "mimo": "mimo",
    "seed_oss": "seed_oss",
    "deepseek_v3": "deepseek_v3",
    "deepseek_r1": "deepseek_v3",
    "deepseek_v3_1": "deepseek_v31",
    "deepseek_v3_2": "deepseek_v32",
    "deepseek_v4": "deepseek_v4",
    "deepseek_v4_1": "deepseek_v41",
    "kimi": "kimi_k2",
    "kimi_k3": "kimi_k3",
    "minimax": "minimax_m2",
    "glm_4_5": "glm45",
    "glm_4_7": "glm47",
    "granite": "granite",
    "granite_4": "granite4",
    "ernie_4_5": "ernie45",
    "longcat": "longcat",
    "jamba": "jamba",
    "hunyuan_a13b": "hunyuan_a13b",
    "apertus": "apertus",
    "llama_4": "llama4_pythonic",
    "lfm_2": "lfm2",
    "olmo_3": "olmo3",
}
"""vLLM's parser of each family."""


class Vocabulary:
    """What vLLM's parsers ask of a tokenizer: its markers, each a token."""

    eos_token, eos_token_id, bos_token_id = "<eos>", 2, 1
    all_special_tokens = MARKERS

    def __init__(self) -> None:
        names = [*(chr(i) for i in range(256)), *MARKERS, "<｜DSML｜", "<|python_tag|>"]
        self._ids = {name: number for number, name in enumerate(names)}

    def get_vocab(self) -> dict[str, int]:
        return self._ids

    def get_added_vocab(self) -> dict[str, int]:
        return {name: number for name, number in self._ids.items() if number >= 256}

    def encode(self, text: str, **_: Any) -> list[int]:
        return [ord(character) % 256 for character in text]

    def decode(self, ids: list[int], **_: Any) -> str:
        return "".join(map(chr, ids))

    def convert_tokens_to_ids(self, token: str) -> int | None:
        return self._ids.get(token)


@pytest.mark.parametrize("family", PARSERS)
def test_vllm_reads_the_same_calls(family: str) -> None:
    pytest.importorskip("ijson")
    protocol = pytest.importorskip("vllm.entrypoints.openai.chat_completion.protocol")
    tool_parsers = pytest.importorskip("vllm.tool_parsers")
    kind = tool_parsers.ToolParserManager.get_tool_parser(PARSERS[family])
    for seed in range(40):
        random = Random(seed)
        answer = random_answer(family, random)
        if not answer.calls:
            continue
        tools, text = tools_of(answer.calls), answer.text
        if answer.thoughts:
            end = (TOOL_FAMILIES[family].thinking or ("", ""))[1]
            text = text[text.index(end) + len(end) :]
        request = protocol.ChatCompletionRequest(
            messages=[{"role": "user", "content": "x"}], model="m", tools=tools
        )
        theirs = kind(Vocabulary(), request.tools).extract_tool_calls(text, request=request)
        parser = MessageParser(family, tools)
        parser.feed(text)
        parser.finish()
        ours = [(one.name, one.value) for one in parser.parts if one.kind == "call"]
        assert ours == [(one.function.name, json.loads(one.function.arguments)) for one in theirs.tool_calls]
