"""Requests in, steps, results: the object an engine holds, and all that a step does."""

from .report import GroupReport
from .request import RequestError
from .results import LogprobsByMode, Record, RequestId, StepResult
from .scheduler import Scheduler
from .siblings import sibling_count

__all__ = [
    "GroupReport",
    "LogprobsByMode",
    "Record",
    "RequestError",
    "RequestId",
    "Scheduler",
    "StepResult",
    "sibling_count",
]
