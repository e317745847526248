"""What `engine_sampler_torch.arithmetic` does not have: keys that travel between ranks, and values below a
maximum that may lie on another rank."""

from __future__ import annotations

import torch
from torch import Tensor

from engine_sampler.arithmetic import LOG2_E

from ...arithmetic import NEGATIVE_INFINITY, settled, weights

NO_KEY = -(2**63)
"""Below the key of every token."""
NAN_KEY = 2**63 - 1
"""Above the key of every token: that of a row with NaN."""
LEVELS = 2**32
"""How many float32 numbers there are, in order."""

_LOW = 0xFFFFFFFF
_MAGNITUDE = 0x7FFFFFFF


# --- order ---------------------------------------------------------------------------------------


def levels(logits: Tensor) -> Tensor:
    """int64 of the same shape that ascends with float32 `logits`, 0 to `LEVELS` − 1; −0 counts as +0."""
    bits = (logits + 0.0).view(torch.int32)
    return (bits ^ (bits >> 31 & _MAGNITUDE)).to(torch.int64) + LEVELS // 2


def level_logits(level: Tensor) -> Tensor:
    """The float32 logits of levels."""
    ascending = (level - LEVELS // 2).to(torch.int32)
    return (ascending ^ (ascending >> 31 & _MAGNITUDE)).view(torch.float32)


def keys(logits: Tensor, ids: Tensor) -> Tensor:
    """int64 keys that descend in (logit desc, id asc) order: (level − 2^31) · 2^32 + ~id."""
    return (levels(logits) - LEVELS // 2 << 32) | (_LOW - ids)


def key_logits(key: Tensor) -> Tensor:
    """The float32 logits of keys."""
    return level_logits((key >> 32) + LEVELS // 2)


def key_ids(key: Tensor) -> Tensor:
    """The token ids of keys, int64."""
    return _LOW - (key & _LOW)


# --- values --------------------------------------------------------------------------------------


def weights_below(logits: Tensor, peak: Tensor) -> Tensor:
    """The weights, int64, of float32 `logits` [n, m] in rows whose maxima `peak` [n, 1] are finite."""
    return weights((logits - peak).mul_(float(LOG2_E)))


def edited(values: Tensor, before: Tensor) -> Tensor:
    """Edited logits within ±FLT_MAX, and −inf where they were so `before`."""
    return settled(values).masked_fill_(before == NEGATIVE_INFINITY, NEGATIVE_INFINITY)
