"""`ChatFormat`: all that an engine needs for the answer to a chat request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..base.errors import quoted
from ..contract import ParameterError
from ..grammar.bodies.structured import structured_parameters
from ..params import SamplingParams
from ..params.bodies import mapping
from ..params.families import TOOL_FAMILIES, Reasoning, check_reasoning
from ..params.openai import parameters_of
from ..registry import GRAMMAR_OPTIONS, structured_in
from ..tokenizer import Tokenizer
from .definition import stops_in
from .parser import MessageParser

KEYS = ("tools", "tool_choice", "functions", "function_call", "parallel_tool_calls", "response_format")
"""What of a request body a format is made of."""

_ENDS = {"harmony": ("<|return|>", "<|call|>")}
"""The marks that end an answer, of families in which those are not all EOS tokens."""


class ChatFormat:
    """How an answer to a chat request is written: what constrains it, what ends it, and what reads it.

    family       how the model that is served writes thoughts and calls: a name in `TOOL_FAMILIES`
    tools, tool_choice, parallel_tool_calls, response_format    as in OpenAI's request bodies
    reasoning    "enabled": thoughts come first, and the answer begins within them where the chat template
                 opens them; "auto": thoughts, with both their marks, or none; "disabled": none
    starts_inside  whether the answer begins within thoughts; None: as `reasoning` says
    preamble     whether text may precede a call that is required, as in `tool_calls`
    draft        the draft of schemas without `$schema`, of tools and of `response_format`: "4", "6", "7",
                 "2019-09" or "2020-12"; None: 2020-12
    resources    schemas by URI, to which a `$ref` of these may lead. What the body of a request says of
                 draft and resources takes their place

        format = ChatFormat("qwen_3", tools, tool_choice="required")
        scheduler.add(format.params(body, tokenizer), prompt_token_ids)
        parser = format.parser(tokenizer)

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
        draft: str | None = None,
        resources: Mapping[str, Any] | str | None = None,
    ) -> None:
        if family not in TOOL_FAMILIES:
            raise ParameterError(f"family={quoted(family)} is not allowed: one of {', '.join(TOOL_FAMILIES)}")
        check_reasoning(reasoning)
        self.family, self.tools, self.reasoning = family, tools, reasoning
        self.tool_choice = "none" if tool_choice is None and not tools else tool_choice
        self.starts_inside = starts_inside
        parameters = {
            "tools": tools,
            "tool_choice": tool_choice,
            "parallel_tool_calls": parallel_tool_calls,
            "response_format": response_format,
        }
        asked = {key: value for key, value in parameters.items() if value is not None}
        self.constraint = structured_parameters(asked, family, reasoning, preamble)
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
        starts_inside: bool | None = None,
        preamble: bool = True,
        draft: str | None = None,
        resources: Mapping[str, Any] | str | None = None,
    ) -> ChatFormat:
        """The format that the body of a chat request asks for. `chat_template_kwargs` with a false
        `enable_thinking` (or `thinking`) disables thoughts."""
        body = mapping("body", body)
        template = body.get("chat_template_kwargs")
        switches = template if isinstance(template, Mapping) else {}
        if switches.get("enable_thinking") is False or switches.get("thinking") is False:
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
            starts_inside=starts_inside,
            preamble=preamble,
            draft=draft,
            resources=resources,
        )

    def params(self, body: Mapping[str, Any], tokenizer: Tokenizer | None = None) -> SamplingParams:
        """The parameters of a request body (see `SamplingParams.from_dict`), with this format's constraint. A
        budget of thoughts holds between the family's marks.

        tokenizer  whose ids of the marks that end an answer stop it

        Raises `ParameterError`, for another constraint beside this one, too.
        """
        rest = {key: value for key, value in mapping("body", body).items() if key not in KEYS}
        if self.reasoning == "disabled":
            rest["thinking"] = False
        parameters = parameters_of(rest, self.family, self.reasoning)
        if self.starts_inside is not None and "thinking" in parameters:
            parameters["thinking"].setdefault("starts_inside", self.starts_inside)
        named = structured_in(parameters)
        if named and self.constraint:
            raise ParameterError(f"{named[0]} is not allowed beside tools or a response_format")
        ends = self.stop_token_ids(tokenizer)
        if ends:
            parameters["stop_token_ids"] = [*(parameters.get("stop_token_ids") or ()), *ends]
        constraint = {**parameters, **self.constraint}
        if any(constraint.get(name) is not None for name in GRAMMAR_OPTIONS["resources"]):
            constraint = {**self._schemas, **constraint}
        return SamplingParams(**constraint)

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
        return MessageParser(
            self.family,
            self.tools,
            tool_choice="none" if self.tool_choice == "none" else "auto",
            reasoning=self.reasoning,
            starts_inside=self.starts_inside,
            tokenizer=tokenizer,
            stop=() if stop is None else stops_in(stop),
            **options,
        )
