"""LMDeploy's PyTorch engine: our chain among the `logits_processors` of a `GenerationConfig`.

    from engine_sampler import SamplingParams
    from engine_sampler_lmdeploy import NEUTRAL, LMDeployLogitsProcessor
    from lmdeploy import GenerationConfig, PytorchEngineConfig, pipeline

    processor = LMDeployLogitsProcessor(SamplingParams(min_p=0.05, dry_multiplier=0.8))
    config = GenerationConfig(logits_processors=[processor], **NEUTRAL)
    pipeline(path, backend_config=PytorchEngineConfig())(prompts, gen_config=config)

TurboMind, LMDeploy's engine in C++, calls no processors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from engine_sampler_transformers import ChainLogitsProcessor

from engine_sampler import SamplingParams
from engine_sampler.contract import Param
from engine_sampler.for_bridges import MAX_COUNT, array_of, instance_of, not_allowed, to_numpy

if TYPE_CHECKING:
    import torch  # type: ignore[import-not-found]

NEUTRAL = {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
"""Keywords that keep a `GenerationConfig` from truncating a second time."""

_PAD = Param("pad_token_id", int, 0, low=0, high=MAX_COUNT)


class LMDeployLogitsProcessor:
    """The samplers of `params`, in their order and after the mask of a grammar, for one sequence.

    `processor(input_ids int64 [length], logits [width]) -> logits`: a new tensor of the same dtype on the
    same device, −inf = removed. LMDeploy draws the token, by its `random_seed`: the selector (dist, mirostat)
    is left out, and temperature 0 leaves only the best token.

    pad_token_id   what LMDeploy fills shorter sequences with on the left: its model's, else 0. Leading tokens
                   with this id belong to no history.
    tokenizer, eos_token_ids, grammar  as for `engine_sampler_transformers.ChainLogitsProcessor`.

    LMDeploy copies a `GenerationConfig` for each request: each copy of a processor begins anew.
    """

    def __init__(
        self,
        params: SamplingParams,
        *,
        tokenizer: Any = None,
        eos_token_ids: Any = (),
        grammar: Any = None,
        pad_token_id: int = 0,
    ) -> None:
        self._params = instance_of(SamplingParams, "params", params, "a SamplingParams")
        self._pad = _PAD.check(pad_token_id)
        self._options = {"tokenizer": tokenizer, "eos_token_ids": eos_token_ids, "grammar": grammar}
        self._chain = ChainLogitsProcessor(params, **self._options)
        self._length = 0
        """How many tokens the last call had, without padding."""

    def __deepcopy__(self, memo: dict[int, Any]) -> LMDeployLogitsProcessor:
        return type(self)(self._params, **self._options, pad_token_id=self._pad)

    def __call__(self, input_ids: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        """The logits after the chain; see the class. Raises ValueError if no token is left to draw."""
        if logits.ndim != 1:
            raise not_allowed("logits", logits, "a tensor [width]")
        ids = array_of("input_ids", to_numpy(input_ids), "iu", 1, "integers [length]")
        padding = self._padding(ids)
        self._length = len(ids) - padding
        return self._chain(input_ids[padding:][None], logits[None])[0]

    def _padding(self, ids: np.ndarray) -> int:
        """How many tokens on the left are none of the sequence: once it has begun, it grows by one."""
        others = np.flatnonzero(ids != self._pad)
        leading = int(others[0]) if len(others) else len(ids)
        return leading if not self._length else min(leading, max(len(ids) - self._length - 1, 0))
