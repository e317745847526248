"""The configurations that the demo runs side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Configuration:
    """A name for people, the most tokens it may take, and its parameters."""

    name: str
    max_tokens: int
    parameters: Mapping[str, Any]


CONFIGURATIONS = (
    Configuration("greedy", 56, {"temperature": 0}),
    Configuration("llama.cpp default", 120, {"top_k": 40, "top_p": 0.95, "min_p": 0.05, "temperature": 0.8}),
    Configuration(
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
    Configuration("Mirostat 2", 90, {"mirostat": 2, "mirostat_tau": 3.0, "mirostat_eta": 0.1}),
    Configuration(
        "DRY + XTC",
        120,
        {"dry_multiplier": 0.8, "xtc_probability": 0.5, "xtc_threshold": 0.1, "min_p": 0.05},
    ),
    Configuration("hot with min-p", 70, {"temperature": 1.8, "min_p": 0.1}),
    Configuration("top-n-sigma", 100, {"top_n_sigma": 1.0, "temperature": 1.5}),
    Configuration("typical", 80, {"typical_p": 0.5, "temperature": 0.9}),
    Configuration("dynamic temperature", 90, {"temperature": 0.9, "dynatemp_range": 0.6, "min_p": 0.05}),
    Configuration("Adaptive-p", 80, {"adaptive_target": 0.4, "min_p": 0.05}),
    Configuration("llama.cpp, cooler", 100, {"top_k": 40, "top_p": 0.95, "min_p": 0.05, "temperature": 0.4}),
    Configuration("greedy with DRY", 90, {"temperature": 0, "dry_multiplier": 0.8}),
)
"""The last ones wait until a place is free. Those that differ in values only share a group."""
