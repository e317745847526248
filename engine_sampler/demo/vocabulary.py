"""The demo's vocabulary: byte-level BPE, learnt from the corpus in about a second."""

from __future__ import annotations

from collections.abc import Sequence

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from ..tokenizer import Tokenizer

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
