"""Many answers of a family to the same tools, each read in several ways: all laws are checked in one pass."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from engine_sampler.grammar import TOOL_FAMILIES
from engine_sampler.messages import Event, MessageParser, chat_deltas, chat_message

from .families import CalledTools, WrittenAnswer, random_answer, tools_of
from .laws import check_mutations, feed, pieces_of, read, said

ANSWERS = 300
"""How many answers a batch has, with 1.2 calls each."""

WAYS = 10
"""In how many tokenizations each answer is read."""

MUTATIONS = 100
"""How many mutated texts a batch has."""


@dataclass
class BatchCounts:
    """What has been read of a batch: answers, their calls, mutated texts, and what differed."""

    answers: int = 0
    calls: int = 0
    mutations: int = 0
    faults: list[str] = field(default_factory=list)


def check_batch(family: str, name: str, size: int = ANSWERS) -> BatchCounts:
    """Check the batch of a family that is made from a name."""
    random = Random(name)
    tools = CalledTools(family, random)
    answers = [random_answer(family, random, tools) for _ in range(size)]
    readers = Readers(family, answers)
    counts = BatchCounts()
    for number, answer in enumerate(answers):
        try:
            for way in range(WAYS):
                readers.check(answer, random, way)
            counts.answers += 1
            counts.calls += len(answer.calls)
        except Exception:
            counts.faults.append(f"answer {number}: {traceback.format_exc()}")
    for number in range(MUTATIONS):
        try:
            counts.mutations += check_mutations(family, random)
        except Exception:
            counts.faults.append(f"mutation {number}: {traceback.format_exc()}")
    return counts


class Readers:
    """Parsers for answers to the same tools: forks of one for each kind of tokens and each beginning."""

    def __init__(self, family: str, answers: Sequence[WrittenAnswer]) -> None:
        self._family = family
        self._tools = tools_of([call for answer in answers for call in answer.calls])
        self._known: dict[tuple[object, bool], MessageParser] = {}

    def parser(self, tokenizer: Any, answer: WrittenAnswer) -> MessageParser:
        """A parser that has read nothing."""
        inside = bool(answer.thoughts) and TOOL_FAMILIES[self._family].starts_inside
        inside = inside and self._family != "harmony"
        known = self._known.get((tokenizer, inside))
        if known is None:
            known = self._known[tokenizer, inside] = MessageParser(
                self._family,
                self._tools,
                starts_inside=inside,
                tokenizer=tokenizer,
                call_id=lambda index, name, given: given or f"call_{index}",
            )
        return known.fork()

    def check(self, answer: WrittenAnswer, random: Random, way: int) -> None:
        """Read an answer in one tokenization, roll any part of it back, and read that again."""
        tokenizer, pieces = pieces_of(answer, random, way % 3)
        parser = self.parser(tokenizer, answer)
        left, told, steps = random.randint(0, len(pieces)), Told(), list[list[Event]]()
        for piece in pieces:
            if len(steps) == left:
                before = state(parser)
            steps.append(feed(parser, piece))
            told.take(steps[-1], parser)
        if len(steps) == left:
            before = state(parser)
        last = parser.finish()
        told.take(last, parser)
        final = read(parser)
        assert told.parts() == final, answer.text
        assert parser.deviation is None, answer.text
        assert said(parser) == (answer.thoughts, answer.content, [tuple(one) for one in answer.calls])
        if way < 3:
            events = [event for step in [*steps, last] for event in step]
            assert summed(chat_deltas(events)) == chat_message(parser), answer.text

        parser.rollback(len(pieces) - left)
        assert state(parser) == before, answer.text
        for piece, step in zip(pieces[left:], steps[left:], strict=True):
            assert feed(parser, piece) == step, answer.text
        assert parser.finish() == last, answer.text
        assert read(parser) == final, answer.text


def state(parser: MessageParser) -> tuple[Any, ...]:
    """All that can be seen of a parser."""
    return read(parser), parser.deviation, parser.is_thinking, parser.thinking_tokens, len(parser)


class Told:
    """The parts of an answer so far, from its events alone, which only ever add to them."""

    def __init__(self) -> None:
        self._heads: list[tuple[str, int, str, str]] = []
        self._pieces: list[list[str]] = []
        self._is_complete: list[bool] = []
        self._is_open = False
        self._seen = 0

    def take(self, events: list[Event], parser: MessageParser) -> None:
        """Add what the events say; what the parser has read so far is then the same: all parts with what is
        said of them, and of the last one also what it has grown by.

        So each state of the parser is a beginning of the last one, which is compared as a whole.
        """
        for kind, text, call, _, call_id in events:
            if kind == "content" or kind == "thought" or kind == "arguments":
                part = "call" if kind == "arguments" else kind
                if not self._is_open or self._heads[-1][0] != part:
                    self._begin((part, -1, "", ""))
                self._pieces[-1].append(text)
            elif kind == "call_began":
                self._begin(("call", call, text, call_id))
            else:
                self._is_open = False
                if kind == "call_complete":
                    self._is_complete[-1] = True
        if events:
            self._compare(parser)

    def _begin(self, head: tuple[str, int, str, str]) -> None:
        self._heads.append(head)
        self._pieces.append([])
        self._is_complete.append(False)
        self._is_open, self._seen = True, 0

    def _compare(self, parser: MessageParser) -> None:
        parts = parser.parts
        assert len(parts) == len(self._heads)
        if not parts:
            return
        part, told = parts[-1], self._pieces[-1]
        assert part.is_complete == self._is_complete[-1]
        assert (part.kind, part.index, part.name, part.id) == self._heads[-1]
        if len(part.pieces) != len(told) or part.pieces[self._seen :] != told[self._seen :]:
            told[:] = ["".join(told)]  # one event, and several pieces
            assert part.text == told[0]
            told[:] = part.pieces
        self._seen = len(told)

    def parts(self) -> tuple[tuple[Any, ...], ...]:
        """All parts, as `read` gives those of a parser."""
        told = zip(self._heads, self._pieces, self._is_complete, strict=True)
        return tuple((*head, "".join(pieces), is_complete) for head, pieces, is_complete in told)


def summed(deltas: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The message that a client makes of the deltas of a stream."""
    texts: dict[str, list[str]] = {"content": [], "reasoning": [], "reasoning_content": []}
    calls: list[dict[str, Any]] = []
    for delta in deltas:
        for key in delta.keys() & texts.keys():
            texts[key].append(delta[key])
        for call in delta.get("tool_calls", ()):
            if call["index"] == len(calls):
                calls.append({"id": call["id"], "type": call["type"], "function": dict(call["function"])})
            else:
                calls[call["index"]]["function"]["arguments"] += call["function"]["arguments"]
    has_others = calls or texts["reasoning_content"]
    content = "".join(texts["content"]) if texts["content"] or not has_others else None
    message: dict[str, Any] = {"role": "assistant", "content": content}
    message |= {key: "".join(pieces) for key, pieces in texts.items() if pieces and key != "content"}
    return message | ({"tool_calls": calls} if calls else {})
