"""The effect of each step of a chain on one row: as data (`trace`), in the terminal, and as a picture."""

from .tracing import TopToken, TraceStep, notable_tokens, probabilities, trace

__all__ = [
    "TopToken",
    "TraceStep",
    "notable_tokens",
    "probabilities",
    "trace",
]
