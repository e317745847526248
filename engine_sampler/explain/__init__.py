"""What each step of a chain does to one row: as data (`trace`), in the terminal, as a picture."""

from .tracing import Step, TopToken, notable_tokens, probabilities, trace

__all__ = [
    "Step",
    "TopToken",
    "notable_tokens",
    "probabilities",
    "trace",
]
