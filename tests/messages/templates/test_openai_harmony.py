"""What openai-harmony's encoder writes is admitted by masks, and read as its own parser reads it."""

from __future__ import annotations

import base64
import json
import os
import sys
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from engine_sampler import Tokenizer
from engine_sampler.contract import Matcher
from engine_sampler.grammar import Grammar, tool_calls
from engine_sampler.messages import MessageParser

from ..families import CalledTools, WrittenCall, random_answer, tools_of

harmony = pytest.importorskip("openai_harmony")
ENCODINGS = Path(sys.prefix, "encodings")
"""Where `.ci/peers` puts the ranks of o200k_base, which openai-harmony reads."""
if not (ENCODINGS / "o200k_base.tiktoken").is_file():
    pytest.skip("the ranks of o200k_base are there in .ci/peers alone", allow_module_level=True)
os.environ["TIKTOKEN_ENCODINGS_BASE"] = str(ENCODINGS)

COUNT = 20 if os.environ.get("ENGINE_SAMPLER_TEST_ROUNDS", "1") == "1" else 400
TEXTS = (
    "I look it up.",
    " two  words\n\nand a line \n",
    "été 東京 🙂",
    "a<|end|>b<|channel|>final<|message|>c",
    "<think>to=functions.f</think>",
    '{"a": 1}',
    "x",
)
BEGIN = "<|start|>assistant"


class HarmonyMessage(NamedTuple):
    """A message to a channel; `kind` follows a call's recipient."""

    channel: str
    text: str
    recipient: str = ""
    kind: str = ""
    is_behind_role: bool = False

    @property
    def header(self) -> str:
        to = f" to={self.recipient}" if self.recipient else ""
        role, channel = (to, "") if self.is_behind_role else ("", to)
        return f"{BEGIN}{role}<|channel|>{self.channel}{channel}{self.kind}<|message|>"


class Conversation(NamedTuple):
    """The messages of one turn, and the calls among them."""

    messages: list[HarmonyMessage]
    calls: list[WrittenCall]


def random_conversation(seed: int) -> Conversation:
    """Thoughts and preambles, and then calls, a final message, or both."""
    random = Random(seed)
    messages = [
        HarmonyMessage(random.choice(("analysis", "analysis", "commentary")), random.choice(TEXTS))
        for _ in range(random.randrange(4))
    ]
    calls = random_answer("harmony", random, CalledTools("harmony")).calls if seed % 4 else []
    for name, arguments in calls:
        text = json.dumps(arguments, ensure_ascii=random.random() < 0.3)
        kind = random.choice((" <|constrain|>json", "<|constrain|>json", " json", ""))
        channel = "analysis" if random.random() < 0.2 else "commentary"
        messages.append(HarmonyMessage(channel, text, f"functions.{name}", kind, random.random() < 0.4))
    if not calls or random.random() < 0.2:
        messages.append(HarmonyMessage("final", random.choice(TEXTS)))
    return Conversation(messages, calls)


@lru_cache
def encoding() -> Any:
    return harmony.load_harmony_encoding(harmony.HarmonyEncodingName.HARMONY_GPT_OSS)


@lru_cache
def vocabulary(*ends: str) -> Tokenizer:
    """gpt-oss's vocabulary, in which some marks end a text."""
    lines = (ENCODINGS / "o200k_base.tiktoken").read_bytes().split(b"\n")
    tokens = {int(rank): base64.b64decode(text) for text, rank in map(bytes.split, filter(None, lines))}
    special = {only(name): name.encode() for name in encoding().special_tokens_set}
    tokens |= special
    known = [tokens.get(i, b"") for i in range(max(tokens) + 1)]
    return Tokenizer(known, [only(end) for end in ends], special.keys())


def only(mark: str) -> int:
    """The token of a mark."""
    (one,) = encoding().encode(mark, allowed_special="all")
    return one


def ids_of(messages: list[HarmonyMessage]) -> list[int]:
    """The tokens of a turn, after the beginning with which a prompt ends."""
    ids: list[int] = []
    for message in messages:
        end = only("<|call|>" if message.recipient else "<|end|>")
        text = encoding().encode(message.text, disallowed_special=())
        ids += [*encoding().encode(message.header, allowed_special="all"), *text, end]
    last = "<|call|>" if messages[-1].recipient else "<|return|>"
    return [*ids[len(encoding().encode(BEGIN, allowed_special="all")) : -1], only(last)]


def rendered(message: HarmonyMessage) -> list[int]:
    """The tokens of a message, by openai-harmony's encoder."""
    return encoding().render(
        harmony.Message(
            author=harmony.Author(role=harmony.Role.ASSISTANT),
            content=[harmony.TextContent(text=message.text)],
            channel=message.channel,
            recipient=message.recipient or None,
            content_type=message.kind.strip() or None,
        )
    )


class Turn(NamedTuple):
    """What a turn says."""

    thoughts: str
    content: str
    calls: list[tuple[str, str]]


def turn_of(parts: list[tuple[str, str, str]]) -> Turn:
    """What parts say, of which each has a kind, the name of a function, and a text."""
    thoughts, content = (
        "".join(text for kind, _, text in parts if kind == wanted) for wanted in ("thought", "content")
    )
    return Turn(thoughts, content, [(name, text) for kind, name, text in parts if kind == "call"])


def parts_read_by_the_peer(ids: list[int]) -> list[tuple[str, str, str]]:
    kinds = {"analysis": "thought", "commentary": "content", "final": "content"}
    return [
        (
            "call" if one.recipient else kinds[one.channel],
            (one.recipient or "").removeprefix("functions."),
            "".join(part.text for part in one.content),
        )
        for one in encoding().parse_messages_from_completion_tokens(ids, harmony.Role.ASSISTANT)
    ]


def turn_read(ids: list[int], tools: Any, tokenizer: Tokenizer, *, at_once: bool) -> Turn:
    parser = MessageParser("harmony", tools, tokenizer=tokenizer, trim="nothing")
    for piece in [ids] if at_once else [[one] for one in ids]:
        parser.feed(piece)
    parser.finish()
    assert parser.deviation is None
    return turn_of([(one.kind, one.name, one.text) for one in parser.parts])


def admits(matcher: Matcher, ids: list[int]) -> bool:
    return all(map(matcher.accept, ids)) and (matcher.is_terminated() or matcher.is_accepting())


@pytest.mark.parametrize("seed", range(COUNT))
def test_a_turn_of_harmony_is_admitted_and_read_as_openai_reads_it(seed: int) -> None:
    messages, calls = random_conversation(seed)
    ids, tools = ids_of(messages), tools_of(calls) or tools_of([WrittenCall("f", {"a": 1})])
    parts = parts_read_by_the_peer(ids)
    assert [text for _, _, text in parts] == [message.text for message in messages]
    expected = turn_of(parts)
    is_plain = not any("<|end|>" in message.text for message in messages[:-1])

    ends = ("<|return|>", "<|endoftext|>")
    vocabularies = [vocabulary(*ends)]
    if not any(message.recipient for message in messages[:-1]):  # a call ends the text then
        vocabularies.append(vocabulary(*ends, "<|call|>"))
    for tokenizer in vocabularies:
        for at_once in (False, True):
            assert turn_read(ids, tools, tokenizer, at_once=at_once) == expected
        choices = ["auto", "required"] if messages[-1].recipient else ["auto"]
        for choice in choices if is_plain else ():  # masks forbid the text of a mark before that mark
            tag = tool_calls("harmony", tools, choice, reasoning="auto")
            assert admits(Grammar.from_structural_tag(tag).compile(tokenizer).matcher(), ids), choice


@pytest.mark.parametrize("seed", range(0, COUNT, 5))
def test_these_turns_are_what_openais_encoder_writes(seed: int) -> None:
    for message in random_conversation(seed).messages:
        behind_role = bool(message.recipient) and message.channel == "analysis"
        written = message._replace(is_behind_role=behind_role)
        if message.kind:
            written = written._replace(kind=" <|constrain|>json")
        ids = [*encoding().encode(BEGIN, allowed_special="all"), *ids_of([written])]
        assert ids[:-1] == rendered(message)[:-1]
