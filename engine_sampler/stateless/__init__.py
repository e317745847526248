"""Single calls that need no long-lived scheduler."""

from .sampling import Sampled, process_logits, sample
from .scoring import logprobs

__all__ = ["Sampled", "logprobs", "process_logits", "sample"]
