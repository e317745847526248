"""The settings of a page: parameters, presets, ranges of sliders, and the link that restores a page."""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from engine_sampler import ParameterError, SamplingParams
from engine_sampler.contract import Param
from engine_sampler.for_bridges import STRUCTURED_PARAMS

MOST_PROMPT, MOST_GRAMMAR, MOST_LINK = 8192, 20_000, 16_000
"""Characters of a prompt, of a grammar or settings as JSON, of the state in a link."""
MOST_STATE = 100_000
"""Bytes of the state behind a link."""

_TABLES = json.loads((Path(__file__).parent / "tables.json").read_text(encoding="utf-8"))
PRESETS: Mapping[str, Mapping[str, Any]] = _TABLES["presets"]
"""What these systems do with a request that says nothing: llama.cpp's and koboldcpp's chain; vLLM and
transformers (with do_sample=True) draw from the model's own distribution, the latter from its 50 best."""
SPANS: Mapping[str, tuple[float, float]] = _TABLES["spans"]
"""Where sliders go, of parameters whose bounds are wider than what people try. The number beside a slider
takes all that is allowed."""
GRAMMARS: Mapping[str, str] = _TABLES["grammars"]
"""An example of each kind of grammar, by the parameter that takes it."""


def span(param: Param) -> tuple[float, float, float]:
    """Least and greatest value of a slider, and its step."""
    neutral = param.neutral or 0
    low, high = SPANS.get(param.name, (param.low, param.high))
    low = min(neutral, 0) if low is None else low
    if high is None or high > low + 1000:
        high = max(low + (512 if param.type is int else 10), neutral)
    return low, high, 1 if param.type is int else 10.0 ** math.floor(math.log10((high - low) / 200))


@dataclass
class PageSettings:
    """All that a link restores.

    values   the parameters that were given, by name, as `SamplingParams` takes them.
    other    those of the second chain of a comparison.
    length   how many tokens are wanted.
    chosen   the token whose row is shown; −1: the last one.
    """

    prompt: str = "A class method"
    values: dict[str, Any] = field(default_factory=lambda: {"seed": 7, **PRESETS["llama.cpp"]})
    other: dict[str, Any] = field(default_factory=lambda: {"seed": 7, **PRESETS["transformers"]})
    length: int = 40
    chosen: int = 0

    @property
    def params(self) -> SamplingParams:
        """The parameters, checked."""
        return SamplingParams(**self.values)

    @property
    def constraint(self) -> str | None:
        """The parameter that gives a grammar, if one does."""
        return next((name for name in STRUCTURED_PARAMS if self.values.get(name)), None)

    def set(self, name: str, value: Any) -> None:
        """Set a parameter; its neutral value removes it. Raises `ParameterError`, and changes nothing."""
        values = {**self.values, name: value}
        if SamplingParams(**values)[name] == SamplingParams.parameters()[name].neutral:
            del values[name]
        self.use(values)

    def use(self, values: Mapping[str, Any]) -> None:
        """Take these parameters in place of all others, but keep the seed if they do not name one: a
        page always has one."""
        kept = {"seed": self.values.get("seed") or 0, **values}
        if SamplingParams(**kept).seed is None:
            kept["seed"] = 0
        self.values = kept

    def link(self) -> str:
        """The state as text for an address."""
        text = json.dumps(asdict(self), default=list, separators=(",", ":"))
        return base64.urlsafe_b64encode(zlib.compress(text.encode(), 9)).decode().rstrip("=")


def restored(state: str) -> PageSettings:
    """The settings of `link`, or of an address that has it. Raises ValueError for any other text."""
    if "state=" in state:
        state = parse_qs(urlsplit(state).query).get("state", [""])[0]
    try:
        packed = base64.urlsafe_b64decode(state[:MOST_LINK] + "=" * (-len(state) % 4))
        text = zlib.decompressobj().decompress(packed, MOST_STATE)
        settings = PageSettings(**json.loads(text))
        kinds = [type(value) for value in vars(settings).values()]
        if kinds != [str, dict, dict, int, int] or len(settings.prompt) > MOST_PROMPT:
            raise ValueError
        SamplingParams(**settings.other)
        settings.use(settings.values)
    except ParameterError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, zlib.error, RecursionError):
        raise ValueError("this link is not one that the workbench has made") from None
    return settings
