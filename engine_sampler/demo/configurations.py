"""The configurations that the demo runs side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..grammar import tool_calls


@dataclass(frozen=True)
class DemoConfiguration:
    """One request of the demo.

    name        for people.
    max_tokens  the maximum number of tokens.
    parameters  the others of the request.
    settings    what is said of the parameters, if it is not their values.
    runs_alone  whether the request also runs alone, before the demo, to compare the tokens.
    """

    name: str
    max_tokens: int
    parameters: Mapping[str, Any]
    settings: str = ""
    runs_alone: bool = False


_SCHEMA = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["function", "class", "method"]},
        "name": {"type": "string", "pattern": "^[a-z_]{3,12}$"},
        "says": {"type": "string", "pattern": "^[A-Z][a-z ,]{20,60}[.]$"},
        "arguments": {"type": "integer", "minimum": 0, "maximum": 9},
    },
    "required": ["kind", "name", "says", "arguments"],
    "additionalProperties": False,
}

_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "look_up",
            "parameters": {
                "type": "object",
                "properties": {
                    "term": {"type": "string", "pattern": "^[a-z ]{4,24}$"},
                    "pages": {"type": "integer", "minimum": 1, "maximum": 20},
                },
                "required": ["term", "pages"],
                "additionalProperties": False,
            },
        },
    }
]

CONFIGURATIONS = (
    DemoConfiguration("greedy", 56, {"temperature": 0}),
    DemoConfiguration(
        "llama.cpp default", 120, {"top_k": 40, "top_p": 0.95, "min_p": 0.05, "temperature": 0.8}
    ),
    DemoConfiguration(
        "JSON under a schema",
        90,
        {
            "json_schema": _SCHEMA,
            "key_order": "schema",
            "whitespace": "[ ]?",
            "temperature": 0.7,
            "min_p": 0.05,
        },
        settings="json_schema={kind, name, says, arguments}",
    ),
    DemoConfiguration(
        "a tool call",
        90,
        {
            "whitespace": "compact",
            "structural_tag": tool_calls(
                "hermes", _TOOLS, "required", parallel_tool_calls=False, preamble=False
            ),
            "temperature": 0.7,
            "top_p": 0.9,
        },
        settings="tools=[look_up] tool_choice=required",
    ),
    DemoConfiguration(
        "KoboldAI order",
        110,
        {
            "order": "koboldai",
            "repetition_penalty": 1.1,
            "repetition_penalty_range": 256,
            "repetition_penalty_slope": 0.7,
            "top_p": 0.9,
            "top_a": 0.05,
            "tfs": 0.95,
            "temperature": 0.7,
        },
    ),
    DemoConfiguration("Mirostat 2", 90, {"mirostat": 2, "mirostat_tau": 3.0, "mirostat_eta": 0.1}),
    DemoConfiguration(
        "DRY + XTC",
        120,
        {"dry_multiplier": 0.8, "xtc_probability": 0.5, "xtc_threshold": 0.1, "min_p": 0.05},
    ),
    DemoConfiguration(
        "alone, and here", 100, {"top_k": 40, "top_p": 0.95, "temperature": 0.9}, runs_alone=True
    ),
    DemoConfiguration("hot with min-p", 70, {"temperature": 1.8, "min_p": 0.1}),
    DemoConfiguration("top-n-sigma", 100, {"top_n_sigma": 1.0, "temperature": 1.5}),
    DemoConfiguration("typical", 80, {"typical_p": 0.5, "temperature": 0.9}),
    DemoConfiguration("Adaptive-p", 80, {"adaptive_target": 0.4, "min_p": 0.05}),
)
"""The last ones wait until a panel is free. Configurations that differ only in values share a group."""
