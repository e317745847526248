"""The embedded engine: a vocabulary and a model, learnt from text in a few seconds, and the loop between it
and a scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from ..params import RequestLimits
from ..scheduler import RequestId, Scheduler
from ..session import Session
from ..tokenizer import Tokenizer
from .corpus import read_corpus
from .model import NGramModel

END_OF_TEXT, START_OF_TEXT = "<|endoftext|>", "<|startoftext|>"
END_ID, START_ID = 0, 1


def learn_vocabulary(documents: Sequence[str], size: int = 4096) -> tokenizers.Tokenizer:
    """A byte-level BPE of at most `size` tokens; ids 0 and 1 are the special tokens."""
    bpe = tokenizers.Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[END_OF_TEXT, START_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(documents, trainer)
    return bpe


def wrap(bpe: tokenizers.Tokenizer) -> Tokenizer:
    """The vocabulary as a `Tokenizer` of this library."""
    return Tokenizer.from_tokenizers(bpe, eos_token_ids=[END_ID])


@dataclass(frozen=True)
class Engine:
    """A stand-in for an inference engine; `model.logits(contexts)` is its forward pass."""

    tokenizer: Tokenizer
    model: NGramModel

    @classmethod
    def learn(cls, documents: Sequence[str]) -> Engine:
        """Learn a vocabulary and a model from `documents`."""
        bpe = learn_vocabulary(documents)
        encoded = (encoding.ids for encoding in bpe.encode_batch(list(documents), add_special_tokens=False))
        return cls(wrap(bpe), NGramModel(encoded, bpe.get_vocab_size(), END_ID, START_ID))

    @classmethod
    def load(cls, corpus: str | Path | None = None) -> Engine:
        """Learn from the file at `corpus`, or from the embedded text."""
        return cls.learn(read_corpus(corpus))


class DemoSession(Session):
    """One `Scheduler` fed by the embedded engine."""

    def __init__(self, engine: Engine, backend: str = "auto") -> None:
        tokenizer = engine.tokenizer
        super().__init__(Scheduler(len(tokenizer), tokenizer, backend=backend, limits=RequestLimits.none()))
        self.engine, self.backend = engine, backend

    def apart(self) -> DemoSession:
        """A new session of the same engine."""
        return DemoSession(self.engine, self.backend)

    def encode(self, prompt: str) -> list[int]:
        """The prompt as token ids of the learnt vocabulary."""
        return self.engine.tokenizer.encode(prompt)

    def forward(self, contexts: Mapping[RequestId, list[int]]) -> Any:
        """The model's logits after each context."""
        return self.forward_drafts(contexts, {})

    def forward_drafts(
        self, contexts: Mapping[RequestId, list[int]], drafts: Mapping[RequestId, Sequence[int]]
    ) -> Any:
        """The model's logits after each context, and after each of its drafts."""
        return self.engine.model.logits(
            [*context, *drafts.get(r, ())[:n]]
            for r, context in contexts.items()
            for n in range(1 + len(drafts.get(r, ())))
        )
