"""`ChatFormat`: all that an engine needs for the answer to a chat request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..base.arguments import not_allowed
from ..contract import ParameterError
from ..grammar.bodies.structured import structured_parameters
from ..params import SamplingParams
from ..params.bodies import is_unset, mapping
from ..params.families import Reasoning, check_reasoning
from ..params.families.templates import family_named
from ..params.openai import parameters_of
from ..params.thinking_keys import thoughts_are_off
from ..params.unknown_keys import Unknown
from ..registry import GRAMMAR_OPTIONS, structured_in
from ..tokenizer import Tokenizer
from .definition import stops_in
from .events import Event
from .format_keys import asked_of_prefix, asked_of_replies
from .parser import MessageParser
from .replies import REASONING_KEYS, chat_deltas, chat_message

KEYS = (
    "tools",
    "tool_choice",
    "functions",
    "function_call",
    "parallel_tool_calls",
    "response_format",
    "separate_reasoning",
    "reasoning_format",
    "include_reasoning",
    "parse_tool_calls",
    "continue_final_message",
    "echo",
)
"""What of a request body a format is made of."""

_ENDS = {"harmony": ("<|return|>", "<|call|>")}
"""The marks that end an answer, of families in which those are not all EOS tokens."""


class ChatFormat:
    """How an answer to a chat request is written: what constrains it, what ends it, and what reads it.

    family       how the model that is served writes thoughts and calls: a name in `TOOL_FAMILIES`, or "auto":
                 as `chat_template` says (`family_of`). The attribute is the name that was found
    tools, tool_choice, parallel_tool_calls, response_format    as in OpenAI's request bodies
    reasoning    "enabled": thoughts come first, and the answer begins within them where the chat template
                 opens them; "auto": thoughts, with both their marks, or none; "disabled": none
    starts_inside  whether the answer begins within thoughts; None: as `reasoning` says
    preamble     whether text may precede a call that is required, as in `tool_calls`
    separate_reasoning  False: thoughts stay in the content, between their marks
    parse_tool_calls    False: calls stay in the content, as they are written
    reasoning_keys      the keys of thoughts in messages and deltas (`chat_message`)
    prefix, echo        what the answer goes on from, and whether that is given as well (`MessageParser`)
    chat_template   the text of the model's template, or a tokenizer with one
    draft        the draft of schemas without `$schema`, of tools and of `response_format`: "4", "6", "7",
                 "2019-09" or "2020-12"; None: 2020-12
    resources    schemas by URI, to which a `$ref` of these may lead. What the body of a request says of
                 draft and resources takes their place
    unknown      "error", "log" or "ignore": what becomes of unknown keys of a body, as in
                 `SamplingParams.from_dict`

        format = ChatFormat("qwen_3", tools, tool_choice="required")
        scheduler.add(format.params(body, tokenizer), prompt_token_ids)
        parser = format.parser(tokenizer)
        send(format.deltas(parser.feed(tokens)))
        message = format.message(parser)

    Raises `ParameterError` for what is not allowed.
    """

    def __init__(
        self,
        family: str,
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        tool_choice: Any = None,
        parallel_tool_calls: bool | None = None,
        reasoning: Reasoning = "auto",
        response_format: Mapping[str, Any] | None = None,
        starts_inside: bool | None = None,
        preamble: bool = True,
        separate_reasoning: bool = True,
        parse_tool_calls: bool = True,
        reasoning_keys: Sequence[str] = REASONING_KEYS,
        prefix: str = "",
        echo: bool = False,
        chat_template: Any = None,
        draft: str | None = None,
        resources: Mapping[str, Any] | str | None = None,
        unknown: Unknown = "error",
    ) -> None:
        family = family_named("family", family, chat_template)
        check_reasoning(reasoning)
        self.family, self.tools, self.reasoning = family, tools, reasoning
        self.tool_choice = "none" if tool_choice is None and not tools else tool_choice
        self.starts_inside = starts_inside
        self.separate_reasoning, self.parse_tool_calls = separate_reasoning, parse_tool_calls
        self.prefix, self.echo, self.unknown = prefix, echo, unknown
        if isinstance(reasoning_keys, str):
            raise not_allowed("reasoning_keys", reasoning_keys, "a list of keys")
        self.reasoning_keys = tuple(reasoning_keys)
        parameters = {
            "tools": tools,
            "tool_choice": tool_choice,
            "parallel_tool_calls": parallel_tool_calls,
            "response_format": response_format,
        }
        self._asked = {key: value for key, value in parameters.items() if value is not None}
        self.preamble = preamble
        self.constraint = structured_parameters(self._asked.copy(), family, reasoning, preamble)
        schemas: dict[str, Any] = {"draft": draft, "resources": resources}
        self._schemas = {name: value for name, value in schemas.items() if value is not None}
        if self._schemas:
            SamplingParams(json_schema=True, **self._schemas)  # raises for what these may not be

    @classmethod
    def from_dict(
        cls,
        body: Mapping[str, Any],
        family: str,
        *,
        reasoning: Reasoning = "auto",
        **options: Any,
    ) -> ChatFormat:
        """The format that the body of a chat request asks for.

        reasoning  as above; a body that turns thoughts off (see `docs/reasoning.md`) disables them
        options    further arguments, which hold for all bodies. What a body says in SGLang's
                   `separate_reasoning`, llama.cpp's `reasoning_format` and `parse_tool_calls`, or vLLM's
                   `include_reasoning`, `continue_final_message` and `echo`, takes their place
        """
        body = mapping("body", body)
        family = family_named("family", family, options.pop("chat_template", None))
        if thoughts_are_off(body):
            reasoning = "disabled"
        tools, choice = body.get("tools"), body.get("tool_choice")
        if tools is None and body.get("functions") is not None:
            tools, choice = body["functions"], body.get("function_call")
        return cls(
            family,
            tools,
            tool_choice=choice,
            parallel_tool_calls=body.get("parallel_tool_calls"),
            reasoning=reasoning,
            response_format=body.get("response_format"),
            **{**options, **asked_of_replies(body), **asked_of_prefix(body, family)},
        )

    def params(self, body: Mapping[str, Any], tokenizer: Tokenizer | None = None) -> SamplingParams:
        """The parameters of a request body (see `SamplingParams.from_dict`), with this format's constraint. A
        budget of thoughts holds between the family's marks.

        tokenizer  whose ids of the marks that end an answer stop it

        Raises `ParameterError`, for another constraint beside this one, too.
        """
        given = mapping("body", body).items()
        rest = {key: value for key, value in given if key not in KEYS and not is_unset(key, value)}
        named = structured_in(rest)
        if named and self.constraint:
            raise ParameterError(f"{named[0]} is not allowed beside tools or a response_format")
        if self.reasoning == "disabled":
            rest["thinking"] = False
        asked = (self.family, self.reasoning, self.preamble)
        unread = rest.copy()
        if structured_parameters(unread, *asked) or unread != rest:  # it asks for more
            rest |= self._asked
            rest |= structured_parameters(rest, *asked)
        else:
            rest |= self.constraint
        parameters = parameters_of(rest, self.family, self.reasoning, unknown=self.unknown)
        if self.starts_inside is not None and "thinking" in parameters:
            parameters["thinking"].setdefault("starts_inside", self.starts_inside)
        ends = self.stop_token_ids(tokenizer)
        if ends:
            parameters["stop_token_ids"] = [*(parameters.get("stop_token_ids") or ()), *ends]
        if any(parameters.get(name) is not None for name in GRAMMAR_OPTIONS["resources"]):
            parameters = {**self._schemas, **parameters}
        return SamplingParams(**parameters)

    def stop_token_ids(self, tokenizer: Tokenizer | None) -> list[int]:
        """The tokens that end an answer besides a tokenizer's EOS tokens."""
        if tokenizer is None:
            return []
        ids = (i for name in _ENDS.get(self.family, ()) for i in tokenizer.markers.get(name, ()))
        return [i for i in ids if i not in tokenizer.eos_token_ids]

    def parser(
        self, tokenizer: Tokenizer | None = None, *, stop: Any = None, **options: Any
    ) -> MessageParser:
        """What reads an answer, fed with ids of `tokenizer`, or with text.

        stop     the stop strings of the request
        options  further arguments of `MessageParser`
        """
        options = {"prefix": self.prefix, "echo": self.echo, **options}
        return MessageParser(
            self.family,
            self.tools if self.parse_tool_calls else None,
            tool_choice="auto" if self.parse_tool_calls and self.tool_choice != "none" else "none",
            reasoning=self.reasoning,
            starts_inside=self.starts_inside,
            separate_reasoning=self.separate_reasoning,
            tokenizer=tokenizer,
            stop=() if stop is None else stops_in(stop),
            **options,
        )

    def deltas(self, events: Iterable[Event]) -> list[dict[str, Any]]:
        """The deltas of a stream for events of a parser (`chat_deltas`)."""
        return chat_deltas(events, self.reasoning_keys)

    def message(self, parser: MessageParser) -> dict[str, Any]:
        """What a parser has read, as a message (`chat_message`)."""
        return chat_message(parser, self.reasoning_keys)
