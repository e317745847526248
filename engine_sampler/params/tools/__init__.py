"""Calls of tools: from OpenAI's `tools` and `tool_choice` to the structural tag of a family of models."""

from .building import Reasoning, check_reasoning, formatted_answer, tool_calls
from .families import TOOL_FAMILIES, Family
from .openapi import openapi_tools
from .requests import Function, call_list, chosen_functions, take_tools

__all__ = [
    "TOOL_FAMILIES",
    "Family",
    "Function",
    "Reasoning",
    "call_list",
    "check_reasoning",
    "chosen_functions",
    "formatted_answer",
    "openapi_tools",
    "take_tools",
    "tool_calls",
]
