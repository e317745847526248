"""A tiny llama model with random weights and a byte-fallback vocabulary, as a GGUF file.

Importing this module needs gguf.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np

WIDTH, HEADS, LAYERS, HIDDEN, CONTEXT = 32, 2, 2, 64, 256
WORDS = [
    "▁the",
    "▁cat",
    "▁sat",
    "▁on",
    "▁a",
    "▁mat",
    "s",
    ".",
    "▁",
    "\n",
    ":",
    '"',
    "*",
    "ca",
    "t",
    "{",
    "}",
    "é",
]
PIECES = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), *WORDS, "<|turn|>"]
EOS, TURN = 2, len(PIECES) - 1


PROMPT = "the cat sat on a mat."
SETTINGS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0},
    "plain": {"seed": 7},
    "truncated": {"seed": 7, "temperature": 1.2, "top_k": 40, "top_p": 0.9, "min_p": 0.01},
    "penalised": {"seed": 8, "repetition_penalty": 1.2, "penalty_scope": "all", "dry_multiplier": 0.8},
    "xtc": {"seed": 9, "xtc_probability": 0.5, "xtc_threshold": 0.05},
    "mirostat": {"seed": 9, "mirostat": 2},
    "typical": {"seed": 9, "typical_p": 0.6, "top_n_sigma": 1.5},
    "grammar": {"seed": 3, "regex": "[a-z ]{5,30}\\."},
}
"""How the model continues the prompt."""


def _type_of(i: int) -> gguf.TokenType:
    if i == 0:
        return gguf.TokenType.UNKNOWN
    if i in (1, EOS, TURN):
        return gguf.TokenType.CONTROL
    return gguf.TokenType.BYTE if i < 259 else gguf.TokenType.NORMAL


def write_model(path: Path, seed: int = 0, chat_template: str | None = None) -> Path:
    """Write the model to `path`; the same seed gives the same weights."""
    random = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(PIECES)
    writer.add_token_scores([-1000.0 if i < 259 else -float(i) for i in range(len(PIECES))])
    writer.add_token_types([_type_of(i) for i in range(len(PIECES))])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(EOS)
    writer.add_eot_token_id(TURN)
    if chat_template is not None:
        writer.add_chat_template(chat_template)

    def add(name: str, *shape: int, scale: float = 0.6) -> None:
        writer.add_tensor(name, (random.normal(size=shape) * scale).astype(np.float32))

    def add_norm(name: str) -> None:
        writer.add_tensor(name, np.ones(WIDTH, np.float32))

    add("token_embd.weight", len(PIECES), WIDTH, scale=1.0)
    add_norm("output_norm.weight")
    add("output.weight", len(PIECES), WIDTH)
    for layer in range(LAYERS):
        for part in ("q", "k", "v", "output"):
            add(f"blk.{layer}.attn_{part}.weight", WIDTH, WIDTH)
        add_norm(f"blk.{layer}.attn_norm.weight")
        add_norm(f"blk.{layer}.ffn_norm.weight")
        add(f"blk.{layer}.ffn_gate.weight", HIDDEN, WIDTH)
        add(f"blk.{layer}.ffn_up.weight", HIDDEN, WIDTH)
        add(f"blk.{layer}.ffn_down.weight", WIDTH, HIDDEN)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
