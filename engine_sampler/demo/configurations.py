"""The configurations that the demo runs side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class DemoConfiguration:
    """A display name, the maximum number of tokens, and the request's parameters."""

    name: str
    max_tokens: int
    parameters: Mapping[str, Any]


CONFIGURATIONS = (
    DemoConfiguration("greedy", 56, {"temperature": 0}),
    DemoConfiguration(
        "llama.cpp default", 120, {"top_k": 40, "top_p": 0.95, "min_p": 0.05, "temperature": 0.8}
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
    DemoConfiguration("hot with min-p", 70, {"temperature": 1.8, "min_p": 0.1}),
    DemoConfiguration("top-n-sigma", 100, {"top_n_sigma": 1.0, "temperature": 1.5}),
    DemoConfiguration("typical", 80, {"typical_p": 0.5, "temperature": 0.9}),
    DemoConfiguration("dynamic temperature", 90, {"temperature": 0.9, "dynatemp_range": 0.6, "min_p": 0.05}),
    DemoConfiguration("Adaptive-p", 80, {"adaptive_target": 0.4, "min_p": 0.05}),
    DemoConfiguration(
        "llama.cpp, cooler", 100, {"top_k": 40, "top_p": 0.95, "min_p": 0.05, "temperature": 0.4}
    ),
    DemoConfiguration("greedy with DRY", 90, {"temperature": 0, "dry_multiplier": 0.8}),
)
"""The last ones wait until a panel is free. Configurations that differ only in values share a group."""
