"""For backends: what those are built from that run rows elsewhere, on another device or on several machines.

With `engine_sampler`, its `contract` and its `arithmetic` this is all that such a backend imports. Three
kinds:

the host   `LibraryBackend` for a C library, `HostRun` for the rows that are left to it, `NumpyBackend` as the
           reference, how plugins are found and called.
formulas   what samplers compute on the host from parameters, states and histories, and the constants of their
           formulas; the docstrings of the samplers describe them.
requests   what a scheduler checks and collects, for one that is divided over several machines.
"""

from typing import TYPE_CHECKING

from .backends.choose import best_backend
from .backends.host_run import HostRun
from .backends.numpy import NumpyBackend
from .base.arrays import padded
from .base.cached import lazy_names
from .base.errors import INTERRUPTIONS, failure, quoted, text_of
from .base.forking import fork_safe
from .grammar.plugin.grammar_bias import favoured_ids
from .registry import GRAMMAR_OPTIONS, default_registry, objects_in, structured_in
from .requests.results.fields import PerRow, entries_at_end, entries_of, entries_said, put_entry
from .samplers.adaptive_p import (
    ADAPTIVE_PEAK,
    ADAPTIVE_SHARPNESS,
    ADAPTIVE_WIDTH,
    corrected_adaptive_target,
)
from .samplers.bad_words import ids_completing_bad_words
from .samplers.dry import dry_penalties
from .samplers.min_k import RANGE_FLOOR
from .samplers.min_p import min_p_depth
from .samplers.min_tokens import is_below_min_tokens
from .samplers.mirostat import MIROSTAT_HEAD, MIROSTAT_STEP_SQUARES, MIROSTAT_STEPS, current_mu
from .samplers.no_repeat_ngram import ids_completing_ngrams
from .samplers.penalties import (
    PenaltyWindows,
    counted_shifts,
    occurrence_shift,
    repetition_factors,
)
from .samplers.smoothing import smoothing_cube, smoothing_square
from .samplers.temperature import (
    MAX_TEMPERATURE,
    highest_temperature,
    is_temperature_dynamic,
    is_temperature_greedy,
    lowest_temperature,
    temperature_scale,
)
from .samplers.top_n_sigma import SIGMA_CHUNK
from .scheduler import RequestId
from .scheduler.arguments import all_drafts_in, chosen_tokens_in
from .scheduler.beam_groups import check_beam_rows
from .scheduler.logprobs import DetailsCollector, LogprobsCollector, LogprobsPlan
from .scheduler.membership.joining import Newcomers, check_single, checked_count

if TYPE_CHECKING:
    from .backends.library import LibraryBackend

__all__ = [
    "ADAPTIVE_PEAK",
    "ADAPTIVE_SHARPNESS",
    "ADAPTIVE_WIDTH",
    "GRAMMAR_OPTIONS",
    "INTERRUPTIONS",
    "MAX_TEMPERATURE",
    "MIROSTAT_HEAD",
    "MIROSTAT_STEPS",
    "MIROSTAT_STEP_SQUARES",
    "RANGE_FLOOR",
    "SIGMA_CHUNK",
    "DetailsCollector",
    "HostRun",
    "LibraryBackend",
    "LogprobsCollector",
    "LogprobsPlan",
    "Newcomers",
    "NumpyBackend",
    "PenaltyWindows",
    "PerRow",
    "RequestId",
    "all_drafts_in",
    "best_backend",
    "check_beam_rows",
    "check_single",
    "checked_count",
    "chosen_tokens_in",
    "corrected_adaptive_target",
    "counted_shifts",
    "current_mu",
    "default_registry",
    "dry_penalties",
    "entries_at_end",
    "entries_of",
    "entries_said",
    "failure",
    "favoured_ids",
    "fork_safe",
    "highest_temperature",
    "ids_completing_bad_words",
    "ids_completing_ngrams",
    "is_below_min_tokens",
    "is_temperature_dynamic",
    "is_temperature_greedy",
    "lowest_temperature",
    "min_p_depth",
    "objects_in",
    "occurrence_shift",
    "padded",
    "put_entry",
    "quoted",
    "repetition_factors",
    "smoothing_cube",
    "smoothing_square",
    "structured_in",
    "temperature_scale",
    "text_of",
]

# What loads cffi.
__getattr__ = lazy_names(__name__, {".backends.library": "LibraryBackend"})
