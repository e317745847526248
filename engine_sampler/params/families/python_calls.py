"""Families that write calls as Python does."""

from __future__ import annotations

from .family import Family

_PYTHON = "{name}(", ")", "pythonic"

PYTHON_FAMILIES: dict[str, Family] = {
    "llama_4": Family(
        *_PYTHON,
        section=("[", "]"),
        separator=", ",
        thinking=None,
        reads=(Family(*_PYTHON, section=("<|python_start|>[", "]<|python_end|>")),),
        layout="whole",
    ),
    "lfm_2": Family(
        *_PYTHON,
        section=("<|tool_call_start|>[", "]<|tool_call_end|>"),
        separator=", ",
        thinking=None,
        reads=(Family('{"name": "{name}", "arguments": ', "}"),),
    ),
    "olmo_3": Family(
        *_PYTHON, section=("<function_calls>\n", "\n</function_calls>"), separator="\n", thinking=None
    ),
}
"""By name."""
