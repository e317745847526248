"""What a step and a request report.

step_result  the outcome of a step; `fields` says what its fields hold, `tensors` puts it beside the logits
record       everything known about a request
sampling_mask  the tokens that each row was drawn from; `packing` makes them small
"""

from .record import CapturedTokens, NoCaptures, Parts, Record
from .sampling_mask import SamplingMask
from .step_result import BegunStep, RequestId, StepResult
from .tensors import ResultTensors, WithTensors

__all__ = [
    "BegunStep",
    "CapturedTokens",
    "NoCaptures",
    "Parts",
    "Record",
    "RequestId",
    "ResultTensors",
    "SamplingMask",
    "StepResult",
    "WithTensors",
]
