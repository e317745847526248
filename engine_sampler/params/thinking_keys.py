"""How request bodies ask for thoughts: the keys of vLLM, SGLang, llama.cpp, Anthropic and others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.errors import quoted
from ..contract import ParameterError
from .bodies import mapping
from .families import TOOL_FAMILIES

BUDGETS = ("thinking_token_budget", "thinking_budget", "reasoning_budget_tokens", "reasoning_budget")
"""The keys of a budget: vLLM's, SGLang's and Qwen's, and llama.cpp's."""

MARKS: Mapping[str, str] = {
    "reasoning_budget_start_tag": "start",
    "reasoning_budget_end_tag": "end",
    "reasoning_budget_end_tags": "end",
    "reasoning_budget_message": "message",
}
"""llama.cpp's keys for the marks, and what they are in `thinking`."""

_SWITCHES = ("enable_thinking", "thinking")
"""The variables of chat templates that turn thoughts on and off."""


def take_thinking(
    body: dict[str, Any], thinking: Any = None, family: str | None = None, *, covers: bool = False
) -> dict[str, Any]:
    """The parameters `thinking` and `thinking_token_budget` of a body; removes their keys, and only reads
    `chat_template_kwargs`.

    thinking  the marks of the model that is served; None: those of `family`, if there is a budget.
    family    the family of the model that is served.
    covers    whether the grammar covers the thoughts, too.

    Where the body turns thoughts off, there are none of these parameters, and those in `answer` are the
    request's own. Raises `ParameterError` for values
    of other kinds, and for budgets that contradict each other.
    """
    asked = _asked(body)
    budget = _budget(body, asked)
    of_body = _marks(body)
    if asked.pop("is_off") or _is_off(body):
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
    """What `thinking`, ours or Anthropic's, and OpenRouter's `reasoning` say."""
    value = body.pop("thinking", None)
    said: dict[str, Any] = {"is_off": False, "marks": None, "budget": None}
    if isinstance(value, Mapping) and "type" in value:
        kind = value["type"]
        if kind not in ("enabled", "disabled", "adaptive", "auto"):
            raise ParameterError(
                f"thinking.type={quoted(kind)} is not allowed: enabled, disabled or adaptive"
            )
        said |= {"is_off": kind == "disabled", "budget": value.get("budget_tokens")}
    elif isinstance(value, bool):
        said["is_off"] = not value
    else:
        said["marks"] = value
    reasoning = mapping("reasoning", body.pop("reasoning", None) or {})
    if reasoning.get("enabled") is False:
        said["is_off"] = True
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


def _is_off(body: Mapping[str, Any]) -> bool:
    """Whether the variables of the chat template turn thoughts off."""
    variables = body.get("chat_template_kwargs")
    if not isinstance(variables, Mapping):
        return False
    return any(variables.get(name) is False for name in _SWITCHES)
