"""What each step of a chain does to one row: as data (`trace`), in the terminal, as a picture."""

from .tracing import TopToken, TraceStep, notable_tokens, probabilities, trace

__all__ = [
    "TopToken",
    "TraceStep",
    "notable_tokens",
    "probabilities",
    "trace",
]
