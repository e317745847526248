"""ATB's TopkToppSampling operator: probabilities in, one drawn token per row out.

`TopkToppSamplingParam` is ATB's struct with its nested `TopkToppSamplingType`, as documented;
`TopkToppLogprobsSamplingParam` is the later revision of that struct, with two more types that return
logprobs. `TopkToppSampling` is the operator and accepts either. It takes and returns NumPy arrays,
tensors of torch or MindSpore, or MLX arrays, on the CPU or another device.

>>> import numpy as np
>>> probs = np.array([[0.5, 0.25, 0.125, 0.125], [0.125, 0.125, 0.25, 0.5]], np.float16)
>>> topp = np.full((2, 1), 0.75, np.float16)
>>> operator = TopkToppSampling(TopkToppSamplingParam(topk=3, randSeed=7))
>>> sampled_indices, sampled_probs = operator(probs, topp)
>>> sampled_indices.shape, sampled_probs.dtype
((2, 1), dtype('float16'))

With a seed for each row, and top-k for each row:

>>> seeded = TopkToppSamplingParam.TopkToppSamplingType.BATCH_TOPK_MULTINOMIAL_SAMPLING
>>> operator.param = TopkToppSamplingParam(seeded, randSeeds=[1, 2])
>>> sampled_indices, _ = operator(probs, topp, topk=np.array([[1], [1]], np.int32))
>>> sampled_indices.tolist()
[[0], [3]]
"""

from .operator import REMOVED, TopkToppSampling
from .param import (
    TopkToppLogprobsSamplingParam,
    TopkToppLogprobsSamplingType,
    TopkToppSamplingParam,
    TopkToppSamplingType,
)

__all__ = [
    "REMOVED",
    "TopkToppLogprobsSamplingParam",
    "TopkToppLogprobsSamplingType",
    "TopkToppSampling",
    "TopkToppSamplingParam",
    "TopkToppSamplingType",
]
