"""vLLM: this library's samplers as a logits processor, for requests that enable them.

    from vllm import LLM, SamplingParams

    llm = LLM("model", logits_processors=["engine_sampler_vllm.logits_processor:EngineSampler"])
    params = SamplingParams(temperature=0.8, extra_args={"dry_multiplier": 0.8, "top_n_sigma": 1.5})
    llm.generate("Once upon a time", params)

Or `vllm serve model --logits-processors engine_sampler_vllm.logits_processor:EngineSampler`, and in a
request's body `"vllm_xargs": {"xtc_probability": 0.5, "min_keep": 2}`.
It is not loaded unless it is named there.

Keys of `extra_args` are ours if they name a parameter of this library:

- The parameters of every sampler that vLLM lacks, of plugins too: dry_*, xtc_*, top_n_sigma, top_a, top_h,
  tfs, typical_p, no_repeat_ngram_size, smoothing_*, epsilon_cutoff, eta_cutoff, infill, …; `order` and
  `min_keep`.
- temperature, top_p, top_k, min_p and the three penalties, which vLLM has as well, may be given on either
  side, but not on both. Given to vLLM, which is the usual way, vLLM applies them itself: after our chain,
  except for V2's penalties, which come before it. Given here, they run in our chain, in its `order`, and the
  request is refused unless vLLM's are neutral. The same applies to parameters that only modify them:
  dynatemp_* belong to temperature, top_p_cut to top_p, repetition_penalty_range, repetition_penalty_slope,
  penalty_last_n, penalty_scope and penalize_nl to the penalties.
- seed is vLLM's, and seeds our random numbers too. logit_bias, allowed_token_ids, bad_words, min_tokens,
  ignore_eos, grammars and everything that ends a request belong to vLLM alone, and are refused here. So are
  mirostat and adaptive_p, which draw tokens: vLLM draws.

A key that only begins like ours ("dry_multplier") is refused with near matches, as HTTP 400; all other keys
belong to other processors.

Each row equals `process_logits` of that row with the request's parameters, prompt and output, in whatever
order requests arrive, move and leave, and after speculative drafts. Tokens that a grammar has masked stay
masked. Only the rows of requests with our keys are copied to the host and back; with engine-sampler-torch
installed they stay on their device. A row that our chain cannot process (NaN, no token left) stays unchanged,
and the reason is logged. V1's runner refuses all processors
together with speculative decoding.

The calls that vLLM makes, written out:

>>> from types import SimpleNamespace
>>> import numpy as np
>>> processor = EngineSampler(None, "cpu", False)
>>> params = SimpleNamespace(extra_args={"dry_multiplier": 1.0, "dry_base": 2.0})
>>> joins = SimpleNamespace(removed=[], added=[(0, params, [1, 2, 3, 0], [1, 2])], moved=[])
>>> processor.update_state(joins)
>>> processor.apply(np.full((2, 4), 3.0, np.float32)).tolist()
[[3.0, 3.0, 3.0, 2.0], [3.0, 3.0, 3.0, 3.0]]

With `ENGINE_SAMPLER_VLLM=1` the whole sampler of both runners is replaced instead: then this library draws.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .processor import Processor
from .settings import settings_of

__all__ = ["EngineSampler", "settings_of"]


def _interfaces() -> list[Any]:
    """vLLM's abstract processor classes, V1 and V2, those that are installed."""
    interfaces = []
    for runner in ("vllm.v1.sample", "vllm.v1.worker.gpu.sample"):
        try:
            interfaces.append(import_module(f"{runner}.logits_processor.interface").LogitsProcessor)
        except ImportError:
            continue
    return interfaces


class EngineSampler(Processor, *_interfaces()):  # type: ignore[misc]
    """The processor class to name to vLLM: a subclass of both of its interfaces, so that either model runner
    accepts it. Without vLLM it has no such base class."""
