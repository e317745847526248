"""The default chain by other libraries, if they are installed: from the same logits to a token per row."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

Peer: TypeAlias = Callable[[np.ndarray, Mapping[str, Any]], Callable[[], Any]]
"""Makes a call for float32 logits [rows, vocab] and the settings of the chain."""


def installed() -> Iterator[tuple[str, Peer]]:
    """The names of the peers that are installed, and what makes their calls."""
    for name, (module, peer) in PEERS.items():
        if importlib.util.find_spec(module) is not None:
            yield name, peer


def _transformers(logits: np.ndarray, settings: Mapping[str, Any]) -> Callable[[], Any]:
    """transformers' logits processors on one thread, softmax, and `torch.multinomial`, as in `generate`."""
    import torch  # type: ignore[import-not-found,unused-ignore]
    import transformers as hf  # type: ignore[import-not-found,unused-ignore]

    torch.set_num_threads(1)
    processors = hf.LogitsProcessorList(
        [
            hf.TemperatureLogitsWarper(settings["temperature"]),
            hf.TopKLogitsWarper(settings["top_k"]),
            hf.TopPLogitsWarper(settings["top_p"]),
            hf.MinPLogitsWarper(settings["min_p"]),
        ]
    )
    scores = torch.from_numpy(logits.copy())
    history = torch.zeros((len(logits), 1), dtype=torch.int64)

    def draw() -> Any:
        with torch.inference_mode():
            return torch.multinomial(processors(history, scores).softmax(dim=-1), num_samples=1)

    return draw


_TOKEN = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])


def _llama_cpp(logits: np.ndarray, settings: Mapping[str, Any]) -> Callable[[], Any]:
    """llama.cpp's samplers in C++, one call for each row, whose array of candidates is filled by one copy."""
    import llama_cpp.llama_cpp as lib  # type: ignore[import-not-found,unused-ignore]

    chain = lib.llama_sampler_chain_init(lib.llama_sampler_chain_default_params())
    for sampler in (
        lib.llama_sampler_init_top_k(settings["top_k"]),
        lib.llama_sampler_init_top_p(settings["top_p"], 1),
        lib.llama_sampler_init_min_p(settings["min_p"], 1),
        lib.llama_sampler_init_temp(settings["temperature"]),
        lib.llama_sampler_init_dist(1),
    ):
        lib.llama_sampler_chain_add(chain, sampler)
    filled = np.zeros(logits.shape, _TOKEN)
    filled["id"], filled["logit"] = np.arange(logits.shape[1]), logits
    tokens = filled[0].copy()
    data = tokens.ctypes.data_as(lib.llama_token_data_p)

    def draw() -> list[int]:
        chosen = []
        for row in filled:
            tokens[:] = row
            array = lib.llama_token_data_array(data=data, size=len(tokens), selected=-1, sorted=False)
            lib.llama_sampler_apply(chain, ctypes.byref(array))
            chosen.append(array.data[array.selected].id)
        return chosen

    return draw


PEERS: Mapping[str, tuple[str, Peer]] = {
    "transformers": ("transformers", _transformers),
    "llama.cpp": ("llama_cpp", _llama_cpp),
}
"""Peers by name: the module that must be there, and what makes their calls."""
