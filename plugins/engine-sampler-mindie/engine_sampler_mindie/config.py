"""`SamplerConfig`: how MindIE's generator makes its sampler."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class HandlingBackend(str, Enum):
    """Where MindIE runs a part of its sampler."""

    ATB = "atb"
    CPU = "cpu"
    PTA = "pta"


@dataclass
class SamplerConfig:
    """What MindIE's generator tells its sampler at the start.

    num_threads  how many threads sample on the host, at most.

    The other fields are accepted and stored for MindIE's callers, and have no effect: one implementation
    does everything, on the host or on the device of the logits, and grammars come as bitmasks.
    """

    backend_type: Any = None
    npu_id: int = 0
    num_threads: int = 8
    rank: int = 0
    splitfuse_enabled: bool = False
    layerwise_disaggregated: bool = False
    handling_policy: dict[str, HandlingBackend] = field(default_factory=dict)
    selection_policy: dict[str, HandlingBackend] = field(default_factory=dict)
    enable_guided_decoding: bool = True
    guided_decoding_backend: str = "xgrammar"
