"""OpenAI's chat completions and completions without a socket: a body in, chunks or a whole answer out."""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

from engine_sampler import ParameterError, SamplingMask, SamplingParams, Tokenizer
from engine_sampler.messages import (
    ChatChoice,
    ChatChunk,
    ChatCompletion,
    ChatFormat,
    ChatUsage,
    TextOffset,
    chat_finish_reason,
    chat_logprobs,
    completion_logprobs,
    error_body,
)
from engine_sampler.session import Session

from .engine import BusyError, Deliver, ServingEngine, Update

logger = logging.getLogger("engine_sampler")

MAX_BODY = 8 << 20
"""The bytes of a request."""

MAX_ANSWERS = 128
"""The answers of a request: `n` for each of its prompts."""

MAX_SURVIVORS = 1 << 20
"""The ids in all sampling masks of a request; later tokens have none."""

HOW = ("echo", "return_token_ids")
"""Keys of a body that say how it is answered, and are not for `SamplingParams`."""

DONE = "data: [DONE]\n\n"
"""The end of a stream."""


@dataclass(frozen=True)
class ServedModel:
    """A model and how one talks to it.

    name    what clients call it
    family  how it writes thoughts and calls: a name in `TOOL_FAMILIES`
    render  its chat template: `render(messages, tools) -> text`
    unknown  what becomes of keys of a body that are not known here, as in `SamplingParams.from_dict`
    drafter  what drafts tokens for requests that name no `drafter`
    """

    session: Session
    name: str
    family: str
    render: Callable[[Any, Any], str]
    unknown: Literal["error", "log", "ignore"] = "error"
    drafter: Sequence[str] | None = None

    @property
    def tokenizer(self) -> Tokenizer:
        """The session's."""
        tokenizer = self.session.scheduler.vocabulary.tokenizer
        assert tokenizer is not None
        return tokenizer

    @cached_property
    def longest_token(self) -> int:
        """The bytes of the longest token."""
        return max(map(len, self.tokenizer.token_bytes))

    def encode(self, text: str) -> list[int]:
        """A prompt as token ids; a template may have written the special token at its beginning, too.

        Raises ValueError for a text that no `max_model_len` tokens can spell: its encoding would take long.
        """
        length = self.session.scheduler.max_model_len
        size = len(text.encode())
        if length is not None and size > length * self.longest_token:
            raise ValueError(
                f"a text of {size:,} bytes is not allowed: at most {length * self.longest_token:,}, "
                f"which max_model_len={length} tokens can have"
            )
        ids = self.session.encode(text)
        is_doubled = ids[:1] == ids[1:2] and ids[:1] and ids[0] in self.tokenizer.special_token_ids
        return ids[1:] if is_doubled else ids

    def card(self) -> dict[str, Any]:
        """What /v1/models says."""
        card = {"id": self.name, "object": "model", "created": 0, "owned_by": "engine-sampler"}
        return {"object": "list", "data": [card]}


class RefusedError(Exception):
    """A request that is not served: the status of HTTP, and the body of the answer."""

    def __init__(self, status: int, body: Mapping[str, Any]) -> None:
        super().__init__(body["error"]["message"])
        self.status, self.body = status, body


def server_error(message: str) -> dict[str, Any]:
    """The body of an answer for which the client is not to blame."""
    return {"error": {"message": message, "type": "server_error", "param": None, "code": None}}


def refused(status: int, message: str) -> RefusedError:
    """A refusal for which the client is to blame."""
    return RefusedError(status, error_body(ValueError(message)))


def too_large() -> RefusedError:
    """The refusal of a body of more than MAX_BODY bytes."""
    return refused(413, f"the body has more than {MAX_BODY:,} bytes")


def no_page(path: str) -> RefusedError:
    """The refusal of any other path."""
    return refused(404, f"nothing at {path}")


def begin(path: str, data: bytes, served: ServedModel, engine: ServingEngine, deliver: Deliver) -> Reply:
    """Add the requests of a body to the engine. `deliver` takes their updates, which the reply is to `take`.

    May take long, for a large grammar. Raises `RefusedError`.
    """
    if path not in FORMS:
        raise no_page(path)
    body = None
    try:
        body = json.loads(data)
        if not isinstance(body, Mapping):
            raise ParameterError(f"body={type(body).__name__} is not allowed: an object of parameters")
        reply = FORMS[path](body, served)
        reply.ids = engine.add(reply.params, reply.prompts, deliver)
    except BusyError as error:
        raise RefusedError(503, server_error(str(error))) from None
    except (ValueError, RecursionError) as error:  # no JSON, or a ParameterError
        raise RefusedError(400, error_body(error, body)) from None
    except Exception as error:
        logger.exception("a request failed")
        raise RefusedError(500, server_error(type(error).__name__)) from None
    return reply


class Reply:
    """What a client has asked for, and what it is answered.

    params, prompts  for `ServingEngine.add`, which gives the ids
    streams          whether the client wants chunks
    is_done          whether all answers have ended
    """

    params: SamplingParams
    prompts: Sequence[Sequence[int]]
    ids: Sequence[int] = ()
    prefix: ClassVar[str]
    source: ClassVar[str]
    """The key of the body that has the prompts."""

    def __init__(
        self, body: Mapping[str, Any], served: ServedModel, asked: Sequence[str | list[int]]
    ) -> None:
        self.name, self.served = f"{self.prefix}-{uuid.uuid4().hex}", served
        self.streams = bool(body.get("stream"))
        options = body.get("stream_options") or {}
        if not isinstance(options, Mapping):
            raise ParameterError("stream_options: an object is allowed")
        self.has_usage = bool(options.get("include_usage"))
        self.has_token_ids = bool(body.get("return_token_ids"))
        params = self.params
        self.has_lists = self.has_token_ids or bool(params.return_sampling_mask)
        served.session.check(params)
        served.session.scheduler.limits.check(params, len(served.tokenizer))
        for name, value, neutral in (
            ("use_beam_search", params.use_beam_search, False),
            ("prompt_logprobs", params.prompt_logprobs, None),
            ("prompt_logprob_token_ids", params.prompt_logprob_token_ids, None),
            ("best_of", params.best_of or params.n, params.n),
        ):
            if value != neutral:
                raise ParameterError(f"{name}={value!r} is not allowed: this server takes {neutral!r}")
        if params.logprob_token_ids is not None and params.logprobs is None:
            raise ParameterError("logprob_token_ids is not allowed without logprobs, which has these tokens")
        self.count = params.n * len(asked)
        if self.count > MAX_ANSWERS:
            raise ParameterError(f"prompt: {self.count} answers are not allowed: at most {MAX_ANSWERS}")
        try:
            self.prompts = [served.encode(part) if isinstance(part, str) else part for part in asked]
        except ValueError as error:
            raise ParameterError(f"{self.source}: {error}") from None
        self.usage = ChatUsage(sum(map(len, self.prompts)), 0)
        self.finish_reasons: dict[int, str] = {}
        self.errors: dict[int, str] = {}
        self.lists: list[dict[str, list[Any]]] = [{} for _ in range(self.count)]
        self.room = MAX_SURVIVORS

    @property
    def is_done(self) -> bool:
        return len(self.finish_reasons) == self.count

    @property
    def error(self) -> str | None:
        """Why no answer is whole, if that is so."""
        return next(iter(self.errors.values())) if len(self.errors) == self.count else None

    def take(self, update: Update) -> list[str]:
        """The events of a stream for an update."""
        self.usage.completion_tokens += len(update.token_ids)
        chunks = self._chunks(update)
        if update.token_ids and self.has_lists:
            chunks[-1]["choices"][0] |= self._listed(update)
        if update.error is not None:
            self.errors[update.number] = update.error
        return [_event(chunk) for chunk in chunks]

    def first(self) -> list[str]:
        """The events before all others."""
        return []

    def last(self) -> list[str]:
        """The events after all others."""
        usage = [_event(self._usage_chunk())] if self.has_usage else []
        return [*usage, *([_event(server_error(self.error))] if self.error else []), DONE]

    def whole(self) -> dict[str, Any]:
        """All answers at once. Raises `RefusedError` if none is whole."""
        if self.error is not None:
            raise RefusedError(500, server_error(self.error))
        answer = self._whole()
        for choice, lists in zip(answer["choices"], self.lists, strict=True):
            choice |= lists
        return answer

    def _listed(self, update: Update) -> dict[str, Any]:
        """The lists of a choice that have an entry for each token, as in vLLM."""
        lists: dict[str, list[Any]] = {"token_ids": [*update.token_ids]} if self.has_token_ids else {}
        if update.reported.sampling_mask is not None and self.params.return_sampling_mask:
            lists["sampling_mask"] = [self._survivors(update.reported.sampling_mask, r) for r in update.rows]
        for name, entries in lists.items():
            self.lists[update.number].setdefault(name, []).extend(entries)
        return lists

    def _survivors(self, mask: SamplingMask, row: int) -> list[int] | None:
        """The tokens that a row was drawn from; None if they are more than may be listed."""
        ids, most = mask.row(row), self.params.return_sampling_mask
        if ids is None or len(ids) > self.room or len(ids) > most > 0:
            return None
        self.room -= len(ids)
        return ids.tolist()

    def _chunks(self, update: Update) -> list[dict[str, Any]]:
        raise NotImplementedError

    def _usage_chunk(self) -> dict[str, Any]:
        raise NotImplementedError

    def _whole(self) -> dict[str, Any]:
        raise NotImplementedError


def _rest(body: Mapping[str, Any]) -> dict[str, Any]:
    """What of a body is for `SamplingParams`."""
    return {key: value for key, value in body.items() if key not in HOW}


def _event(chunk: Mapping[str, Any]) -> str:
    return f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n"


class ChatReply(Reply):
    """An answer to /v1/chat/completions."""

    prefix, source = "chatcmpl", "messages"

    def __init__(self, body: Mapping[str, Any], served: ServedModel) -> None:
        self.form = form = ChatFormat.from_dict(body, served.family, preamble=False, unknown=served.unknown)
        self.params = form.params(_rest(body), served.tokenizer)
        try:  # the template; a message that goes on stands behind its text
            messages = body["messages"][: -1 if form.prefix else None]
            text = served.render(messages, body.get("tools")) + form.prefix
        except Exception as error:
            raise ParameterError(f"messages: the chat template does not take them: {error!r}") from None
        super().__init__(body, served, [text])
        parser = form.parser(served.tokenizer, stop=body.get("stop"))
        self.parsers = [parser.fork() for _ in range(self.count)]
        self.logprobs: list[list[Any]] = [[] for _ in self.parsers]
        self.prompt = {"prompt_token_ids": [*self.prompts[0]]} if self.has_token_ids else {}

    def first(self) -> list[str]:
        roles = ({"role": "assistant", "content": ""} for _ in self.parsers)
        return [_event(self._chunk(role, number) | self.prompt) for number, role in enumerate(roles)]

    def _chunks(self, update: Update) -> list[dict[str, Any]]:
        number, parser, logprobs = update.number, self.parsers[update.number], None
        events = parser.feed(update.token_ids)
        given = update.reported.given_logprobs
        if update.reported.logprobs is not None:
            logprobs = chat_logprobs(self.served.tokenizer, update.reported.logprobs, update.rows, given)
            self.logprobs[number] += logprobs["content"]
        if update.finish_reason is not None:
            events += parser.finish()
            self.usage.reasoning_tokens += parser.thinking_tokens
        finish_reason = chat_finish_reason(parser, update.finish_reason)
        if finish_reason is not None:
            self.finish_reasons[number] = finish_reason
        deltas = self.form.deltas(events) or ([{}] if finish_reason or logprobs or self.has_lists else [])
        chunks = [self._chunk(delta, number) for delta in deltas[:-1]]
        return chunks + [self._chunk(delta, number, finish_reason, logprobs) for delta in deltas[-1:]]

    def _chunk(self, *parts: Any) -> dict[str, Any]:
        return ChatChunk(self.name, self.served.name, *parts).as_dict()

    def _usage_chunk(self) -> dict[str, Any]:
        return ChatChunk(self.name, self.served.name, usage=self.usage).as_dict()

    def _whole(self) -> dict[str, Any]:
        choices = [
            ChatChoice(
                self.form.message(parser),
                self.finish_reasons[number],
                number,
                {"content": self.logprobs[number]} if self.logprobs[number] else None,
            )
            for number, parser in enumerate(self.parsers)
        ]
        return ChatCompletion(self.name, self.served.name, choices, self.usage).as_dict() | self.prompt


class TextReply(Reply):
    """An answer to /v1/completions: the texts that continue a prompt, or several."""

    prefix, source = "cmpl", "prompt"

    def __init__(self, body: Mapping[str, Any], served: ServedModel) -> None:
        self.params = SamplingParams.from_dict(_rest(body), unknown=served.unknown)
        asked = _prompts_in(body.get("prompt"), len(served.tokenizer))
        super().__init__(body, served, asked)
        texts = asked if body.get("echo") else [""] * len(asked)
        decode, n = served.tokenizer.decode, self.params.n
        self.texts = [one if isinstance(one, str) else decode(one) for one in texts for _ in range(n)]
        skip = self.params.skip_special_tokens
        self.offsets = [TextOffset(served.tokenizer, len(text), skip) for text in self.texts]
        self.logprobs: list[dict[str, list[Any]]] = [{} for _ in self.texts]
        self.created = int(time.time())
        if self.has_token_ids:
            self.lists = [{"prompt_token_ids": [*prompt]} for prompt in self.prompts for _ in range(n)]

    def first(self) -> list[str]:
        begun = (_choice(number, text) | self.lists[number] for number, text in enumerate(self.texts))
        return [_event(self._chunk(one)) for one in begun if one["text"] or self.has_token_ids]

    def _chunks(self, update: Update) -> list[dict[str, Any]]:
        number, logprobs = update.number, None
        self.texts[number] += update.text
        table, given = update.reported.logprobs, update.reported.given_logprobs
        if table is not None:
            offset = self.offsets[number]
            logprobs = completion_logprobs(self.served.tokenizer, table, update.rows, offset, given)
            for name, values in logprobs.items():
                self.logprobs[number].setdefault(name, []).extend(values)
        finish_reason = "stop" if update.finish_reason == "repetition" else update.finish_reason
        if finish_reason is not None:
            self.finish_reasons[number] = finish_reason
        if not (update.text or logprobs or finish_reason or self.has_lists):
            return []
        return [self._chunk(_choice(number, update.text, logprobs, finish_reason))]

    def _chunk(self, *choices: dict[str, Any], **usage: Any) -> dict[str, Any]:
        head = {"id": self.name, "object": "text_completion", "created": self.created}
        return {**head, "model": self.served.name, "choices": list(choices), **usage}

    def _usage_chunk(self) -> dict[str, Any]:
        return self._chunk(usage=self.usage.as_dict())

    def _whole(self) -> dict[str, Any]:
        choices = (
            _choice(number, text, self.logprobs[number] or None, self.finish_reasons[number])
            for number, text in enumerate(self.texts)
        )
        return self._chunk(*choices, usage=self.usage.as_dict())


def _choice(number: int, text: str, logprobs: Any = None, finish_reason: str | None = None) -> dict[str, Any]:
    return {"index": number, "text": text, "logprobs": logprobs, "finish_reason": finish_reason}


def _prompts_in(prompt: Any, vocab_size: int) -> list[Any]:
    """A text or a list of ids, or a list of these, as a list."""

    def are_ids(value: Any) -> bool:
        return isinstance(value, list) and bool(value) and all(type(i) is int for i in value)

    prompts = prompt if isinstance(prompt, list) and not are_ids(prompt) else [prompt]
    if not prompts or not all(isinstance(one, str) or are_ids(one) for one in prompts):
        raise ParameterError("prompt: a text, a list of token ids, or a list of these is allowed")
    if not all(0 <= i < vocab_size for one in prompts if isinstance(one, list) for i in one):
        raise ParameterError(f"prompt: token ids of at least 0 and at most {vocab_size - 1} are allowed")
    return prompts


FORMS: Mapping[str, type[ChatReply | TextReply]] = {
    "/v1/chat/completions": ChatReply,
    "/v1/completions": TextReply,
}
"""What is served at which path."""


def metrics() -> tuple[str, bytes]:
    """The type and the text of Prometheus' metrics. Raises `RefusedError` without the plugin of them."""
    try:
        import engine_sampler_metrics  # noqa: F401
        from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
    except ImportError:
        raise no_page("/metrics without the plugin engine-sampler-metrics") from None
    return CONTENT_TYPE_LATEST, generate_latest()
