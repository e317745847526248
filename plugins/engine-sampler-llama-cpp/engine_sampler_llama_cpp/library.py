"""The functions of llama.cpp that llama-cpp-python wraps."""

from __future__ import annotations

from functools import cache
from typing import Any

from engine_sampler.for_bridges import Peer

PEER = Peer("llama-cpp-python", "engine-sampler-llama-cpp")

NAMES = [
    f"llama_{name}"
    for name in (
        "batch_free batch_init context_default_params decode free get_logits get_logits_ith get_memory "
        "init_from_model memory_seq_rm model_default_params model_free model_get_vocab model_load_from_file "
        "model_n_ctx_train sampler_chain_get sampler_chain_n sampler_name token token_to_piece tokenize "
        "vocab_eos vocab_eot vocab_get_attr vocab_is_eog vocab_n_tokens"
    ).split()
]
"""What this package uses of llama.cpp."""


@cache
def library() -> Any:
    """The module `llama_cpp`. Raises `PeerError` if it cannot be imported, or lacks what is used here."""
    with PEER.compared():
        import llama_cpp  # type: ignore[import-not-found,unused-ignore]
    if lost := [name for name in NAMES if not hasattr(llama_cpp, name)]:
        raise PEER.error(f"there is no {', '.join(lost)}")
    return llama_cpp
