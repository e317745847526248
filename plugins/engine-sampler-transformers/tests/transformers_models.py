"""Small transformers models with random weights, built when needed, and calls of their `generate`."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from engine_sampler_transformers import custom_generate

EOS = 1
PAD = 0
WORDS = ["<pad>", "<eos>"]
"""The special tokens of the vocabulary that `save_model` writes; all single bytes follow them."""


@cache
def llama(vocab_size: int = 40, eos_token_id: int | None = None) -> Any:
    """A Llama whose logits differ enough for greedy choices not to depend on rounding."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=vocab_size, hidden_size=32, intermediate_size=64,
        num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=128, bos_token_id=None,
        eos_token_id=eos_token_id, pad_token_id=PAD,
    )  # fmt: skip
    return _random(torch, transformers.LlamaForCausalLM, config)


@cache
def gpt2(vocab_size: int = 40) -> Any:
    """A GPT-2, which has learnt positions."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        vocab_size=vocab_size, n_positions=128, n_embd=32, n_layer=2, n_head=4,
        bos_token_id=None, eos_token_id=None, pad_token_id=PAD,
    )  # fmt: skip
    return _random(torch, transformers.GPT2LMHeadModel, config)


@cache
def t5(vocab_size: int = 40) -> Any:
    """An encoder and a decoder."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config = transformers.T5Config(
        vocab_size=vocab_size, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
        decoder_start_token_id=PAD, eos_token_id=EOS, pad_token_id=PAD,
    )  # fmt: skip
    return _random(torch, transformers.T5ForConditionalGeneration, config)


def _random(torch: Any, model_class: Any, config: Any) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = model_class(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.randn_like(parameter) * 0.3)
    return model


def save_model(folder: Any) -> Any:
    """Write a Llama and a byte-level tokenizer to `folder`; returns the model."""
    tokenizer = byte_tokenizer()
    tokenizer.save_pretrained(folder)
    model = llama(len(tokenizer), EOS)
    model.save_pretrained(folder)
    return model


@cache
def byte_tokenizer() -> Any:
    """A fast tokenizer with a token for each byte."""
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocab = {piece: i for i, piece in enumerate([*WORDS, *letters])}
    backend = tokenizers.Tokenizer(tokenizers.models.BPE(vocab, []))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<eos>", pad_token="<pad>", padding_side="left"
    )


PROMPTS = [[5, 6, 7, 8], [9, 10, 11, 12], [30, 4]]


def padded(prompts: list[list[int]] = PROMPTS) -> dict[str, Any]:
    """(input_ids, attention_mask), padded on the left."""
    torch = pytest.importorskip("torch")
    width = max(map(len, prompts))
    ids = [[PAD] * (width - len(p)) + p for p in prompts]
    mask = [[0] * (width - len(p)) + [1] * len(p) for p in prompts]
    return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}


def ours(model: Any, inputs: Any = None, **settings: Any) -> Any:
    return model.generate(**(inputs or padded()), custom_generate=custom_generate, **settings)


def theirs(model: Any, inputs: Any = None, **settings: Any) -> Any:
    return model.generate(**(inputs or padded()), **settings)
