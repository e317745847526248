"""Requests in, steps, results: the object an engine holds, and all that a step does."""

from ..requests.ending import RequestError
from ..requests.results import BegunStep, PromptScores, Record, RequestId, SamplingMask, StepResult
from .membership.siblings import sibling_count
from .report import GroupReport
from .scheduler import Scheduler
