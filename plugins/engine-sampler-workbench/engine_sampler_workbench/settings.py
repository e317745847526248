"""The settings of a page: parameters, presets, ranges of sliders, and the link that restores a page."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from engine_sampler import ParameterError, SamplingParams
from engine_sampler.contract import Param

MOST_PROMPT, MOST_GRAMMAR, MOST_LINK = 8192, 20_000, 16_000
"""Characters of a prompt, of a grammar, of the state in a link."""
MOST_STATE = 100_000
"""Bytes of the state behind a link."""

START = {"top_k": 40, "top_p": 0.95, "min_p": 0.05, "temperature": 0.8}

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "llama.cpp": START,
    "KoboldAI": {
        "order": "koboldai",
        "temperature": 0.75,
        "top_k": 100,
        "top_p": 0.92,
        "repetition_penalty": 1.1,
        "penalty_last_n": 320,
        "penalty_scope": "all",
    },
    "vLLM": {"order": "vllm"},
    "transformers": {"order": "transformers", "top_k": 50},
    "greedy": {"temperature": 0.0},
}
"""What these systems do with a request that says nothing: llama.cpp's and koboldcpp's chain; vLLM and
transformers (with do_sample=True) draw from the model's own distribution, the latter from its 50 best."""

SPANS: Mapping[str, tuple[float, float]] = {
    "temperature": (0, 2),
    "dynatemp_range": (0, 2),
    "dynatemp_exponent": (0, 4),
    "smoothing_factor": (0, 4),
    "smoothing_curve": (0, 4),
    "top_k": (0, 200),
    "top_n_sigma": (0, 5),
    "top_a": (0, 1),
    "epsilon_cutoff": (0, 0.1),
    "eta_cutoff": (0, 0.1),
    "repetition_penalty": (0.5, 2),
    "repetition_penalty_slope": (0, 10),
    "frequency_penalty": (-2, 2),
    "presence_penalty": (-2, 2),
    "dry_multiplier": (0, 4),
    "dry_base": (1, 4),
    "mirostat_tau": (0, 10),
    "grammar_bias": (0, 20),
}
"""Where sliders go, of parameters whose bounds are wider than what people try. The number beside a slider takes
all that is allowed."""


def span(param: Param) -> tuple[float, float, float]:
    """Least and greatest value of a slider, and its step."""
    low, high = SPANS.get(param.name, (param.low, param.high))
    neutral = param.neutral if isinstance(param.neutral, (int, float)) else 0
    low = min(neutral, 0) if low is None else low
    most = 512 if param.type is int else 10
    high = max(low + most, neutral) if high is None or high > low + 1000 else high
    if param.type is int:
        return low, high, 1
    step = 10.0 ** _exponent((high - low) / 200)
    return low, high, step


def _exponent(value: float) -> int:
    """That of the power of ten at or below `value`."""
    return int(f"{value:e}".partition("e")[2])


@dataclass
class Settings:
    """All that a link restores.

    values   the parameters that were given, by name, as `SamplingParams` takes them.
    other    those of the second chain of a comparison.
    length   how many tokens are wanted.
    chosen   the token whose row is shown; −1: the last one.
    """

    prompt: str = "A class method"
    values: dict[str, Any] = field(default_factory=lambda: {"seed": 7, **START})
    other: dict[str, Any] = field(default_factory=lambda: {"seed": 7, **PRESETS["transformers"]})
    length: int = 40
    chosen: int = 0

    def set(self, name: str, value: Any) -> None:
        """Set a parameter; its neutral value removes it. Raises `ParameterError`, and keeps the old values then."""
        values = {**self.values, name: value}
        checked = SamplingParams(**values)
        if name != "seed" and checked[name] == SamplingParams.parameters()[name].neutral:
            del values[name]
        self.values = values

    def use(self, values: Mapping[str, Any]) -> None:
        """Take these parameters in place of all others, but keep the seed if they have none."""
        kept = {"seed": self.values.get("seed", 0), **values}
        SamplingParams(**kept)
        self.values = kept

    def move(self, order: list[str], name: str, before: str) -> list[str]:
        """Run `name` directly before or, if it was there already, after another sampler of `order`."""
        here, there = order.index(name), order.index(before)
        moved = [one for one in order if one != name]
        moved.insert(there if here >= there else moved.index(before) + 1, name)
        self.set("order", moved)
        return moved

    def link(self) -> str:
        """The state as text for an address."""
        text = json.dumps(asdict(self), default=list, separators=(",", ":"))
        return base64.urlsafe_b64encode(zlib.compress(text.encode(), 9)).decode().rstrip("=")


def restored(state: str) -> Settings:
    """The settings of `link`, or of an address that has it. Raises ValueError for any other text."""
    if "state=" in state:
        state = parse_qs(urlsplit(state).query).get("state", [""])[0]
    try:
        if len(state) > MOST_LINK:
            raise ValueError
        packed = base64.urlsafe_b64decode(state + "=" * (-len(state) % 4))
        unpacking = zlib.decompressobj()
        text = unpacking.decompress(packed, MOST_STATE)
        if unpacking.unconsumed_tail:
            raise ValueError
        settings = Settings(**json.loads(text))
        _check(settings)
    except ParameterError:
        raise
    except (ValueError, TypeError, AttributeError, binascii.Error, zlib.error, RecursionError):
        raise ValueError("this link is not one that the workbench has made") from None
    return settings


def _check(settings: Settings) -> None:
    kinds = (str, dict, dict, int, int)
    if not all(type(value) is kind for value, kind in zip(vars(settings).values(), kinds, strict=True)):
        raise ValueError
    if len(settings.prompt) > MOST_PROMPT:
        raise ValueError
    for values in (settings.values, settings.other):
        values["seed"] = values.get("seed") or 0
        SamplingParams(**values)
