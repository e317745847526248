"""The loop between the embedded engine and a scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..params import RequestLimits
from ..scheduler import RequestId, Scheduler
from ..session import Session
from .engine import Engine


class DemoSession(Session):
    """One `Scheduler` fed by the embedded engine."""

    def __init__(self, engine: Engine, backend: str = "auto") -> None:
        tokenizer = engine.tokenizer
        super().__init__(Scheduler(len(tokenizer), tokenizer, backend=backend, limits=RequestLimits.none()))
        self.engine = engine

    def encode(self, prompt: str) -> list[int]:
        """The prompt as token ids of the learnt vocabulary."""
        return self.engine.tokenizer.encode(prompt)

    def forward(self, contexts: Mapping[RequestId, list[int]]) -> Any:
        """The model's logits after each context."""
        return self.engine.model.logits(contexts.values())
