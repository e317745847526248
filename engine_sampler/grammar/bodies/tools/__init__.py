"""Calls of tools: from OpenAI's `tools` and `tool_choice` to the structural tag of a family of models."""

from .building import formatted_answer, tool_calls
from .openapi import openapi_tools
from .requests import Function, call_list, chosen_functions, take_tools
