"""What a step and a request report.

step_result  the outcome of a step; `fields` says what its fields hold, `tensors` puts it beside the logits
record       everything known about a request
prompt_scores  the logprobs of a prompt, as its rows come
details      what few requests want to know of each of their steps
sampling_mask  the tokens that each row was drawn from; `packing` makes them small
"""

from .details import StepDetails, modes_of
from .prompt_scores import PromptScores, PromptScoring
from .record import CapturedTokens, NoCaptures, Parts, Record
from .sampling_mask import SamplingMask
from .step_result import BegunStep, RequestId, StepResult
from .tensors import ResultTensors, WithTensors
