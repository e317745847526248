"""Models of random weights with the vocabulary of a real tokenizer, as a GGUF file and in transformers.

The vocabulary is mistral-common's tekken, of which a smaller one is the start. The models have few small
layers and a large output matrix. Their logits have a standard deviation of about 4, so a row has about 4
nats. Those of special tokens are so low that no text ends by itself, and so are those of parts of
characters, at which llama-cpp-python does not check the length.

Needs mistral_common, and gguf or transformers.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from engine_sampler import Tokenizer
from engine_sampler.tokenizer.pieces import byte_level_alphabet

WIDTH, HEADS, LAYERS, HIDDEN, CONTEXT = 256, 4, 2, 512, 1024
NORM_EPSILON = 1e-5
DEVIATION = 3.6
"""That of the output matrix times the length of its rows; the logits have a slightly greater one."""
SPECIAL, EOS = 1000, 2
"""The first tokens of tekken are special; one of them ends a text."""
CONSTANT, NEVER = 4.0, -10.0
"""The first component of every embedding, which no layer changes, and its weight in the logits of tokens that
are never drawn."""


@cache
def tokenizer(vocab_size: int) -> Tokenizer:
    """The first `vocab_size` tokens of tekken."""
    import mistral_common

    path = Path(mistral_common.__file__).parent / "data" / "tekken_240911.json"
    whole = Tokenizer.from_mistral_common(path)
    return Tokenizer(whole.token_bytes[:vocab_size], [EOS], range(SPECIAL))


@cache
def weights(vocab_size: int) -> dict[str, np.ndarray]:
    """The matrices of the model by transformers' names, float32, the same at every call."""
    random = np.random.default_rng(vocab_size)

    def matrix(rows: int, columns: int, scale: float) -> np.ndarray:
        return random.standard_normal((rows, columns), np.float32) * np.float32(scale)

    embeddings = matrix(vocab_size, WIDTH, 1.0)
    embeddings[:, 0] = CONSTANT
    output = matrix(vocab_size, WIDTH, DEVIATION / WIDTH**0.5)
    output[:, 0] = 0.0
    pieces = tokenizer(vocab_size).token_bytes
    output[[i for i, piece in enumerate(pieces) if _is_never_drawn(i, piece)], 0] = NEVER
    matrices = {"model.embed_tokens": embeddings, "lm_head": output}
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        for part in "qkvo":
            matrices[f"{prefix}self_attn.{part}_proj"] = matrix(WIDTH, WIDTH, WIDTH**-0.5)
        for part in ("gate", "up"):
            matrices[f"{prefix}mlp.{part}_proj"] = matrix(HIDDEN, WIDTH, WIDTH**-0.5)
        matrices[f"{prefix}mlp.down_proj"] = matrix(WIDTH, HIDDEN, HIDDEN**-0.5)
        for name in ("self_attn.o_proj", "mlp.down_proj"):
            matrices[prefix + name][0] = 0.0
    return matrices


def _is_never_drawn(token_id: int, piece: bytes) -> bool:
    """Whether a token is special or not whole characters."""
    return token_id < SPECIAL or "\ufffd" in piece.decode("utf-8", "replace")


def norms() -> list[str]:
    """transformers' names of the vectors that scale normed states; here they are ones."""
    names = ("input_layernorm", "post_attention_layernorm")
    return ["model.norm", *(f"model.layers.{i}.{name}" for i in range(LAYERS) for name in names)]


def write_gguf(path: Path, vocab_size: int) -> Path:
    """Write the model to `path`, its matrices in float16."""
    import gguf

    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(NORM_EPSILON)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(vocab_size)
    _add_vocabulary(writer, vocab_size)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, LAYERS)
    tensors = {name: matrix.astype(np.float16) for name, matrix in weights(vocab_size).items()}
    tensors |= {name: np.ones(WIDTH, np.float32) for name in norms()}
    for name, tensor in tensors.items():
        writer.add_tensor(f"{names.get_name(name)}.weight", tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_vocabulary(writer: Any, vocab_size: int) -> None:
    """A byte-level vocabulary without merges: texts are split into bytes."""
    from gguf import TokenType

    characters = byte_level_alphabet()
    pieces = tokenizer(vocab_size).token_bytes
    own = ["".join(characters[byte] for byte in piece) for piece in pieces[SPECIAL:]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("tekken")
    writer.add_token_list([piece.decode() for piece in pieces[:SPECIAL]] + own)
    writer.add_token_types([TokenType.CONTROL] * SPECIAL + [TokenType.NORMAL] * len(own))
    writer.add_token_merges([f"{own[0]} {own[0]}"])  # llama.cpp refuses an empty list
    writer.add_eos_token_id(EOS)
    writer.add_add_bos_token(False)


def transformers_model(vocab_size: int) -> Any:
    """The model in transformers, in float32."""
    import torch
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=vocab_size, hidden_size=WIDTH, intermediate_size=HIDDEN, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, max_position_embeddings=CONTEXT, rms_norm_eps=NORM_EPSILON,
        bos_token_id=None, eos_token_id=EOS, pad_token_id=EOS,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    state = {f"{name}.weight": torch.from_numpy(matrix) for name, matrix in weights(vocab_size).items()}
    state |= {f"{name}.weight": torch.ones(WIDTH) for name in norms()}
    model.load_state_dict(state)
    return model
