"""The built-in stopping criteria, one file each. A new file here is discovered automatically."""

from collections.abc import Callable
from typing import Any

from ..contract import StoppingCriteria, TextCriteria, hookimpl
from ..registry import objects_in
from ._scores import newest_logprobs
from .banned_strings import BannedStringsCriteria
from .confidence import ConfidenceCriteria
from .criteria_list import StoppingCriteriaList, validate_stopping_criteria
from .deepconf import DeepConfCriteria
from .eos import EosTokenCriteria
from .loop import LoopCriteria
from .max_length import MaxLengthCriteria
from .max_time import MaxTimeCriteria
from .max_tokens import MaxTokensCriteria
from .repetition import RepetitionCriteria
from .stop import StopStringCriteria
from .stop_token_ids import StopTokenIdsCriteria

__all__ = [
    "BannedStringsCriteria",
    "ConfidenceCriteria",
    "DeepConfCriteria",
    "EosTokenCriteria",
    "LoopCriteria",
    "MaxLengthCriteria",
    "MaxTimeCriteria",
    "MaxTokensCriteria",
    "RepetitionCriteria",
    "StopStringCriteria",
    "StopTokenIdsCriteria",
    "StoppingCriteria",
    "StoppingCriteriaList",
    "TextCriteria",
    "newest_logprobs",
    "register_stopping_criteria",
    "validate_stopping_criteria",
]


@hookimpl
def register_stopping_criteria(register: Callable[[Any], None]) -> None:
    for criterion in objects_in(__name__, __path__, StoppingCriteria):
        register(criterion)
