"""MLX: the interfaces of mlx-lm's samplers and logits processors, and one scheduler for its `BatchGenerator`.

`sampling` has mlx-lm's `make_sampler` and `make_logits_processors`; `batches` the sampler of a
`BatchGenerator`. Importing this package imports no mlx.
"""

from .batches import MlxBatchSampler, MlxRequest
from .sampling import MlxLogitsProcessor, MlxSampler, make_logits_processors, make_sampler

__all__ = [
    "MlxBatchSampler",
    "MlxLogitsProcessor",
    "MlxRequest",
    "MlxSampler",
    "make_logits_processors",
    "make_sampler",
]
