"""A token selector for MindIE's own sampler, which then draws with this library."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from engine_sampler.for_bridges import Peer, one_of

from .config import HandlingBackend, SamplerConfig
from .metadata import SamplingMetadata
from .output import SamplingOutput
from .sampler import Sampler

_NAME = "top_k_top_p_sampling"
_MINDIE = "mindie_llm.text_generator"


class TopKTopPTokenSelector:
    """Draws in the place of MindIE's "top_k_top_p_sampling": top_k, top_p and the draw.

    selector_params  MindIE's `SelectorParams`; `num_threads` counts.

    MindIE's handlers have applied penalties, temperature and grammar masks to the logits before.
    """

    def __init__(self, selector_params: Any) -> None:
        self.params = selector_params
        self._sampler = Sampler(SamplerConfig(num_threads=selector_params.num_threads), mode="observed")

    def __call__(self, logits: Any, metadata: Any) -> Any:
        """The drawn tokens of MindIE's `SamplingMetadata` as its `SamplingOutput`."""
        output = self._sampler.sample(logits, _translated(metadata))
        assert isinstance(output, SamplingOutput)
        kind = importlib.import_module(f"{_MINDIE}.utils.sampling_output").SamplingOutput
        fields = vars(output) | {"seeds": output.seeds.astype(np.int64)}
        return kind(**fields)

    def configure(self, metadata: Any) -> None:
        """Store the settings of sequences whose first token another node draws."""
        self._sampler.configure(_translated(metadata))

    def clear(self, sequence_ids: Any) -> None:
        """Forget sequences that have ended."""
        self._sampler.clear_cache(sequence_ids)


def register_token_selector(backend: str = "cpu") -> None:
    """Let MindIE's samplers that are initialised from now on draw with `TopKTopPTokenSelector`.

    backend  the registry: that of MindIE's policy for "top_k_top_p_sampling", which is "cpu" unless changed.

    Raises `ParameterError` for another backend, `PeerError` if MindIE cannot be imported.
    """
    policy = one_of([kind.value for kind in HandlingBackend], "backend", backend)
    with Peer("MindIE", "engine-sampler-mindie").compared():
        selectors = importlib.import_module(f"{_MINDIE}.samplers.token_selectors")
        kinds = importlib.import_module(f"{_MINDIE}.utils.config").HandlingBackend
        registry = selectors.get_selector_registry(kinds(policy))
    registry[_NAME] = TopKTopPTokenSelector


def _translated(metadata: Any) -> SamplingMetadata:
    """MindIE's metadata as ours, of what its handlers have left to do."""
    return SamplingMetadata.from_numpy(
        metadata.batch_sequence_ids,
        metadata.reserved_sequence_ids,
        metadata.is_prefill,
        top_k=metadata.top_k_array,
        top_p=metadata.top_p_array,
        do_sample=metadata.do_sample_array,
        top_logprobs=metadata.top_logprobs_array,
        seeds=metadata.seed_array,
        num_top_tokens=metadata.num_top_tokens,
        best_of=metadata.best_of_array,
        to_tensor=metadata.to_tensor,
        is_seq_prefill=_flags(metadata.is_seq_prefill),
        is_mix=metadata.is_mix,
    )


def _flags(values: Any) -> np.ndarray | None:
    return None if values is None else np.asarray(values).astype(np.bool_)
