"""How request bodies ask for thoughts: the keys of vLLM, SGLang, llama.cpp, Anthropic and others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.arguments import not_allowed, one_of
from ..base.errors import quoted
from ..contract import ParameterError
from .bodies import mapping
from .families import TOOL_FAMILIES

BUDGETS = (
    *("thinking_token_budget", "thinking_budget", "max_thinking_tokens"),
    *("reasoning_budget_tokens", "reasoning_budget"),
)
"""The keys of a budget: vLLM's, SGLang's and Qwen's, SGLang's in /generate, and llama.cpp's."""

MARKS: Mapping[str, str] = {
    "reasoning_budget_start_tag": "start",
    "reasoning_budget_end_tag": "end",
    "reasoning_budget_end_tags": "end",
    "reasoning_budget_message": "message",
}
"""llama.cpp's keys for the marks, and what they are in `thinking`."""

_SWITCHES = ("enable_thinking", "thinking")
"""The variables of chat templates that turn thoughts on and off."""

_KINDS = ("enabled", "disabled", "adaptive", "auto")
_LEVELS = ("low", "medium", "high", "max")
"""What Ollama's `think` may be besides a switch: how much, which is left to the server."""


def thoughts_are_off(body: Mapping[str, Any]) -> bool:
    """Whether a body turns thoughts off, by any of its keys: a false `enable_thinking`, Ollama's `think`,
    `thinking` that is false or of Anthropic's type disabled, OpenRouter's and OpenAI's `reasoning` with a
    false `enabled` or the effort none, the `reasoning_effort` none, and the variables of chat templates.

    Raises `ParameterError` for values of other kinds.
    """
    thinking = body.get("thinking")
    if isinstance(thinking, Mapping) and "type" in thinking:
        one_of(_KINDS, "thinking.type", thinking["type"])
        thinking = thinking["type"] != "disabled"
    think = body.get("think")
    if think is not None and not isinstance(think, bool):
        one_of(_LEVELS, "think", think)
    plain = body.get("enable_thinking")
    if plain is not None and not isinstance(plain, bool):
        raise not_allowed("enable_thinking", plain, "true or false")
    reasoning = mapping("reasoning", body.get("reasoning") or {})
    variables = body.get("chat_template_kwargs")
    switches = [variables.get(name) for name in _SWITCHES] if isinstance(variables, Mapping) else []
    switches += [thinking, think, plain, reasoning.get("enabled")]
    efforts = (body.get("reasoning_effort"), reasoning.get("effort"))
    has_none = any(isinstance(one, str) and one == "none" for one in efforts)
    return has_none or any(one is False for one in switches)


def take_thinking(
    body: dict[str, Any],
    thinking: Any = None,
    family: str | None = None,
    *,
    covers: bool = False,
    is_off: bool | None = None,
) -> dict[str, Any]:
    """The parameters `thinking` and `thinking_token_budget` of a body; removes their keys, and only reads
    `chat_template_kwargs`.

    thinking  the marks of the model that is served; None: those of `family`, if there is a budget.
    family    the family of the model that is served.
    covers    whether the grammar covers the thoughts, too.
    is_off    what `thoughts_are_off` says of the body; None: it is asked.

    Where the body turns thoughts off, there are none of these parameters, and those in `answer` are the
    request's own. Raises `ParameterError` for values of other kinds, and for budgets that contradict each
    other.
    """
    is_off = thoughts_are_off(body) if is_off is None else is_off
    asked = _asked(body)
    budget = _budget(body, asked)
    of_body = _marks(body)
    if is_off:
        body |= mapping("answer", body.pop("answer", None) or {})  # all of the text is the answer
        return {}
    marks = asked.pop("marks") or thinking
    if marks is None and (of_body or budget not in (None, -1)):
        marks = family if family in TOOL_FAMILIES and TOOL_FAMILIES[family].thinking else None
    if marks is None and of_body.keys() & {"start", "end"}:
        marks = {}
    parameters: dict[str, Any] = {} if budget is None else {"thinking_token_budget": budget}
    if marks is not None:
        known = {"family": marks} if isinstance(marks, str) else dict(mapping("thinking", marks))
        parameters["thinking"] = {**known, **of_body, **({"grammar": "all"} if covers else {})}
    return parameters


def _asked(body: dict[str, Any]) -> dict[str, Any]:
    """What `thinking`, ours or Anthropic's, and OpenRouter's `reasoning` say; removes the switches, too."""
    for name in ("enable_thinking", "think"):
        body.pop(name, None)
    value = body.pop("thinking", None)
    said: dict[str, Any] = {"marks": None, "budget": None}
    if isinstance(value, Mapping) and "type" in value:
        said["budget"] = value.get("budget_tokens")
    elif not isinstance(value, bool):
        said["marks"] = value
    reasoning = mapping("reasoning", body.pop("reasoning", None) or {})
    if reasoning.get("max_tokens") is not None:
        said["budget"] = reasoning["max_tokens"]
    return said


def _budget(body: dict[str, Any], asked: dict[str, Any]) -> Any:
    """The budget of a body; several keys must agree."""
    budgets = {key: body.pop(key) for key in BUDGETS if key in body}
    budgets["thinking.budget_tokens"] = asked.pop("budget")
    stated = [(key, value) for key, value in budgets.items() if value is not None]
    for key, value in stated[1:]:
        if value != stated[0][1]:
            raise ParameterError(
                f"{key}={quoted(value)} is not allowed: {stated[0][0]} says {quoted(stated[0][1])}"
            )
    return stated[0][1] if stated else None


def _marks(body: dict[str, Any]) -> dict[str, Any]:
    given = {name: body.pop(key, None) for key, name in MARKS.items() if body.get(key) is not None}
    for key in MARKS:
        body.pop(key, None)
    return {name: value for name, value in given.items() if value not in ("", [])}
