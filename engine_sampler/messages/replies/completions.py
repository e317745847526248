"""What a server that speaks OpenAI's protocols sends: completions, chunks, usage, logprobs and errors."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...arithmetic import GivenLogprobs, Logprobs
from ...arithmetic.given import RowGiven
from ...arithmetic.logprobs import RowLogprobs
from ...requests.detokenizer import Detokenizer
from ...tokenizer import Tokenizer
from ..parser import MessageParser


def _now() -> int:
    return int(time.time())


@dataclass
class ChatUsage:
    """How many tokens a request had: in its prompt (of which `cached_tokens` were known) and in its answers,
    of which `reasoning_tokens` were thoughts."""

    prompt_tokens: int
    completion_tokens: int
    reasoning_tokens: int = 0
    cached_tokens: int = 0

    def as_dict(self) -> dict[str, Any]:
        """The object `usage`."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
            "completion_tokens_details": {"reasoning_tokens": self.reasoning_tokens},
        }


@dataclass
class ChatChoice:
    """One answer: its message (see `chat_message`), and why it ended (see `chat_finish_reason`)."""

    message: Mapping[str, Any]
    finish_reason: str
    index: int = 0
    logprobs: Mapping[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        """An object in `choices`."""
        return {
            "index": self.index,
            "message": dict(self.message),
            "logprobs": self.logprobs,
            "finish_reason": self.finish_reason,
        }


@dataclass
class ChatCompletion:
    """All answers to a request at once. `created` is in seconds since 1970."""

    id: str
    model: str
    choices: Sequence[ChatChoice]
    usage: ChatUsage
    created: int = field(default_factory=_now)

    def as_dict(self) -> dict[str, Any]:
        """The object `chat.completion`."""
        return {
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": [choice.as_dict() for choice in self.choices],
            "usage": self.usage.as_dict(),
        }


@dataclass
class ChatChunk:
    """A part of a stream: a delta of one answer (see `chat_deltas`); or, without a delta, the usage alone."""

    id: str
    model: str
    delta: Mapping[str, Any] | None = None
    index: int = 0
    finish_reason: str | None = None
    logprobs: Mapping[str, Any] | None = None
    usage: ChatUsage | None = None
    created: int = field(default_factory=_now)

    def as_dict(self) -> dict[str, Any]:
        """The object `chat.completion.chunk`."""
        choice = {
            "index": self.index,
            "delta": None if self.delta is None else dict(self.delta),
            "logprobs": self.logprobs,
            "finish_reason": self.finish_reason,
        }
        chunk: dict[str, Any] = {
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "choices": [] if self.delta is None else [choice],
        }
        return chunk if self.usage is None else {**chunk, "usage": self.usage.as_dict()}

    def as_event(self) -> str:
        """The chunk as a server-sent event."""
        return f"data: {json.dumps(self.as_dict(), ensure_ascii=False)}\n\n"


def chat_finish_reason(parser: MessageParser, finish_reason: str | None) -> str | None:
    """Why an answer ended, as chat completions say it: `tool_calls` in place of `stop` if it calls tools.

    finish_reason  the scheduler's. A repetition is a stop; length, error and abort stay what they are, as in
                   vLLM and SGLang: whoever acts on calls must not take an answer that broke off for whole
    """
    if finish_reason in (None, "length", "error", "abort"):
        return finish_reason
    has_calls = any(part.kind == "call" and part.is_complete for part in parser.parts)
    return "tool_calls" if has_calls else "stop"


def _name(data: bytes, prefix: str = "") -> str:
    r"""A token's text. Where it is not whole characters, its bytes are written out after the prefix, like
    ` \xf0\x9f`. So do OpenAI's servers; in older completions they say `bytes:` first."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        plain = set(range(0x20, 0x7F)) - {ord("\\")}
        return prefix + "".join(chr(byte) if byte in plain else f"\\x{byte:02x}" for byte in data)


def _entry(data: bytes, logprob: float) -> dict[str, Any]:
    return {"token": _name(data), "logprob": logprob, "bytes": list(data)}


_Entries = list[tuple[int, float]]


def _entries(row: RowLogprobs | RowGiven) -> _Entries:
    """The ids of a row with their logprobs."""
    values = (max(one, -9999.0) for one in row.logprobs.tolist())  # JSON has no infinity
    return list(zip(row.token_ids.tolist(), values, strict=True))


def _rows(
    logprobs: Logprobs, rows: Iterable[int], given_logprobs: GivenLogprobs | None
) -> Iterator[tuple[_Entries, _Entries]]:
    """The entries of some rows that have any, the chosen token first, and those of the named tokens."""
    for row in rows:
        if entries := _entries(logprobs.row(row)):
            yield entries, [] if given_logprobs is None else _entries(given_logprobs.row(row))


def chat_logprobs(
    tokenizer: Tokenizer,
    logprobs: Logprobs,
    rows: Iterable[int],
    given_logprobs: GivenLogprobs | None = None,
) -> dict[str, Any]:
    """The logprobs of some rows of a step as chat completions give them; the chosen token is among the top
    ones only if it is one of them.

    given_logprobs  those of `logprob_token_ids`. As in vLLM, the top ones of a row that has any are the
                    chosen token and these, in their order.
    """
    content, data_of = [], tokenizer.token_bytes
    for ((chosen, logprob), *others), named in _rows(logprobs, rows, given_logprobs):
        best = list(dict([(chosen, logprob), *(named or others)]).items())
        if not named:
            best = sorted(best, key=lambda one: (-one[1], one[0]))[: len(others)]
        top = [_entry(data_of[token_id], value) for token_id, value in best]
        content.append({**_entry(data_of[chosen], logprob), "top_logprobs": top})
    return {"content": content, "refusal": None}


class TextOffset:
    """Where an answer's text has got to, for `completion_logprobs` of one chunk after another.

    characters  how many characters come before the next token. A character of which some bytes are missing
                does not count yet, and a special token that is not in the text never does; text that a stop
                string may still cut off does.
    prompt_token_ids  the prompt: the answer continues a character that it ends within
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        characters: int = 0,
        skip_special_tokens: bool = True,
        prompt_token_ids: Sequence[int] = (),
    ) -> None:
        self.characters = characters
        self._text = Detokenizer(tokenizer, skip_special_tokens)
        self._text.begin(prompt_token_ids[-3:])

    def pass_by(self, token_id: int) -> None:
        """Go on to the end of a token."""
        self._text.push(token_id)
        self.characters += len(self._text.deltas[-1])


def completion_logprobs(
    tokenizer: Tokenizer,
    logprobs: Logprobs,
    rows: Iterable[int],
    text_offset: int | TextOffset = 0,
    given_logprobs: GivenLogprobs | None = None,
) -> dict[str, Any]:
    """The logprobs of some rows of a step as OpenAI's older completions give them. Of tokens with the same
    text, `top_logprobs` has the likeliest.

    text_offset  the number of characters before the first of the tokens; for an answer in chunks the same
                 `TextOffset` each time, which knows of characters that tokens before have begun
    given_logprobs  as for `chat_logprobs`
    """
    form: dict[str, Any] = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
    place = text_offset if isinstance(text_offset, TextOffset) else TextOffset(tokenizer, text_offset)
    for (chosen, *others), named in _rows(logprobs, rows, given_logprobs):
        listed = [chosen, *(named or others)]
        entries = [(_name(tokenizer.token_bytes[token_id], "bytes:"), value) for token_id, value in listed]
        form["tokens"].append(entries[0][0])
        form["token_logprobs"].append(entries[0][1])
        best: dict[str, float] = {}
        for name, value in sorted(entries, key=lambda entry: -entry[1]):
            best.setdefault(name, value)
        form["top_logprobs"].append(best)
        form["text_offset"].append(place.characters)
        place.pass_by(chosen[0])
    return form
