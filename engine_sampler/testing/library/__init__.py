"""Whether a compiled backend keeps the contract of `engine_sampler.h`: for `engine-sampler check`.

A library makes promises; each is tried on rows of all kinds. A promise that it does not make is not a
failure: the host runs what the library does not promise.

checking         all checks in order, here or in a process of their own; results: what they found.
kit              all checks as a test class.
table            the table of functions; promises: each promise of the header.
situations       where libraries go wrong.
random_programs  anything, for a chosen time: programs, requests, and boundaries (of parameters);
                 random_steps, settings: what they are drawn from; probes: their row functions.
passes           maxima, sums and logprobs; contexts: several at once; drawing: libraries that are not exact.
bench            requests and steps to try; observing: one call from all sides; memory: what it may read;
                 surroundings: the process around it.
"""

from ..results import FAILED, NOT_PROMISED, PASSED, CheckResult
from .checking import MEMORY, check_apart, check_library
from .drawing import p_value
from .kit import LibraryContract
from .promises import PROMISES
from .situations import SITUATIONS
