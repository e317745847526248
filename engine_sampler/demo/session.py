"""The embedded engine in a loop with a scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..scheduler import RequestId, Scheduler
from ..session import Session as AnySession
from .engine import Engine


class Session(AnySession):
    """One `Scheduler` fed by the embedded engine."""

    def __init__(self, engine: Engine, backend: str = "auto") -> None:
        super().__init__(Scheduler(len(engine.tokenizer), engine.tokenizer, backend=backend))
        self.engine = engine

    def encode(self, prompt: str) -> list[int]:
        """The prompt as token ids of the vocabulary that was learnt."""
        return self.engine.tokenizer.encode(prompt)

    def forward(self, contexts: Mapping[RequestId, list[int]]) -> Any:
        """The model's logits behind each context."""
        return self.engine.model.logits(contexts.values())
