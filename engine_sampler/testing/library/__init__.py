"""Whether a compiled backend keeps the contract of `engine_sampler.h`: for `engine-sampler check`.

A library makes promises; each is tried on rows of all kinds. A promise that it does not make is not a
failure: the host runs what the library does not promise.

checking         all checks in order, here or in a process of their own; results: what they found.
table            the table of functions; promises: each promise of the header.
situations       where libraries go wrong; random_programs: anything, for a chosen time.
passes           maxima, sums and logprobs; contexts: several at once; drawing: libraries that are not exact.
bench            requests and steps to try; observing: one call from all sides; memory: what it may read.
"""

from ..results import FAILED, NOT_PROMISED, PASSED, CheckResult
from .checking import MEMORY, check_apart, check_library
from .drawing import p_value
from .promises import PROMISES
from .situations import SITUATIONS

__all__ = [
    "FAILED",
    "MEMORY",
    "NOT_PROMISED",
    "PASSED",
    "PROMISES",
    "SITUATIONS",
    "CheckResult",
    "check_apart",
    "check_library",
    "p_value",
]
