"""The built-in samplers and selectors, one file each. A new file here is discovered automatically.

Their counterparts in C must produce the same bits: in native/src/kernels, masks and biases are in edits.h,
penalties in penalties.h, truncations and transforms in samplers.h and min_k.h, selectors in selectors.h.
tests/native compares them with these. A sampler without a counterpart runs here, in the middle of a native
chain.
"""

from collections.abc import Callable
from typing import Any

from ..contract import Sampler, Selector, hookimpl
from ..registry import objects_in


@hookimpl
def register_samplers(register: Callable[[Any], None]) -> None:
    for sampler in objects_in(__name__, __path__, (Sampler, Selector)):
        register(sampler)
