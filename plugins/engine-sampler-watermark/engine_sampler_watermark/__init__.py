"""Text watermarks: three ways to mark a text by how its tokens are drawn, each with its detector.

    params = params.replace(watermark_gumbel_key=KEY)          # the server adds it; the client need not know
    GumbelDetector(KEY).detect(token_ids).p_value              # how likely a text without the mark looks so

| mark | parameter that turns it on | what it does | compatible with |
|---|---|---|---|
| `watermark_gumbel` | `watermark_gumbel_key` | draws by keyed noise; the distribution stays | vLLM, SGLang |
| `watermark_green` | `watermark_green_bias` | favours half-random "green" tokens | transformers |
| `watermark_synthid` | `watermark_synthid_keys` | tournaments draw; the distribution stays | transformers |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine_sampler.contract import hookimpl

from .detection import Detection
from .green_list import GreenList, GreenListDetector
from .gumbel import Gumbel, GumbelDetector
from .synthid import SynthID, SynthIDDetector

__all__ = ["Detection", "GreenListDetector", "GumbelDetector", "SynthIDDetector"]


@hookimpl
def register_samplers(register: Callable[[Any], None]) -> None:
    """Called once when engine-sampler loads plugins."""
    register(Gumbel())
    register(GreenList())
    register(SynthID())
