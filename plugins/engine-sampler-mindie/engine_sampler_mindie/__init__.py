"""MindIE-LLM's `sample` interface: `Sampler` with `SamplingData` and `SamplingParam`, or `SamplingMetadata`.

Code that calls MindIE's sampler imports these names from here, or from the modules of the same path in
`text_generator`; logits are NumPy's, torch's or MindSpore's. docs/coming-from/mindie.md says what of MindIE's
generator runs unchanged.

    >>> import numpy as np
    >>> from engine_sampler_mindie import Sampler, SamplingData, SamplingParam
    >>> sampler = Sampler(pad_token_id=0)
    >>> requests = np.array([7, 8])
    >>> prompts = np.array([[3, 1, 4], [2, 5, 0]])  # the second one is shorter and padded
    >>> param = SamplingParam.from_numpy(
    ...     repetition_penalty=np.array([1.0, 2.0]), temperature=np.array([0.8, 0.0]),
    ...     top_k=np.array([3, 0]), seed=np.array([11, 12]))
    >>> logits = np.array([[0, 9, 1, 8, 0, 0], [1, 2, 9, 0, 0, 4]], np.float32)
    >>> first = SamplingData.from_numpy(prompts, is_prefill=True, request_ids=requests)
    >>> tokens, scores = sampler.sample(logits, first, param)
    >>> tokens[1], scores[1]  # the second row is greedy: 9 / 2 is the best logit, though token 2 is penalised
    (np.int64(2), np.float32(4.5))
    >>> later = SamplingData.from_numpy(is_prefill=False, request_ids=requests)
    >>> tokens, scores = sampler.sample(logits, later)  # tokens, seeds and settings are cached
    >>> sampler.clear_cache(requests)

The order is MindIE's: repetition, frequency and presence penalty, temperature, top_k, top_p. The random
numbers are this library's: a row's token depends only on its logits, settings, history, seed and position
(the number of tokens drawn for its request). So a seed does not give the tokens that it gives in MindIE,
which draws from mt19937, but it gives the same tokens in any batch and on any machine.
"""

from .config import HandlingBackend, SamplerConfig
from .fields import InconsistencyError, OutOfBoundsError, UnsupportedTypeError, ValidationError
from .inputs import SamplingData, SamplingParam
from .metadata import SamplingMetadata
from .output import SamplingOutput
from .sampler import Sampler
from .token_selector import TopKTopPTokenSelector, register_token_selector

__all__ = [
    "HandlingBackend",
    "InconsistencyError",
    "OutOfBoundsError",
    "Sampler",
    "SamplerConfig",
    "SamplingData",
    "SamplingMetadata",
    "SamplingOutput",
    "SamplingParam",
    "TopKTopPTokenSelector",
    "UnsupportedTypeError",
    "ValidationError",
    "register_token_selector",
]
