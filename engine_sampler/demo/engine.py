"""The embedded engine: a vocabulary and a model, learnt from text in a few seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..tokenizer import Tokenizer
from .corpus import read_corpus
from .model import NGramModel
from .vocabulary import END_ID, START_ID, learn_vocabulary, wrap


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
