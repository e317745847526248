"""What steps and prompts report of the distributions: `collector` has the logprobs of a step, `details` what
few requests want beside them, `prompts` those of prompts."""

from .collector import LogprobsCollector, LogprobsPlan
from .details import Penalized

__all__ = ["LogprobsCollector", "LogprobsPlan", "Penalized"]
