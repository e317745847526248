"""The registry of samplers, criteria, backends, grammars, drafters and observers, built in and plugged in."""

from .catalogue import EVENTS, Catalogue, PluginError, check_object, handler_of
from .core_params import (
    CORE_PARAMS,
    GRAMMAR_OPTIONS,
    LOGPROBS_MODES,
    MAX_COUNT,
    STRUCTURED_PARAMS,
    structured_in,
)
from .familiar_names import FAMILIAR_NAMES
from .loading import (
    PluginStatus,
    Registry,
    check_taken,
    constraint_reader,
    default_registry,
    drafters_named,
    mask_filler,
    objects_in,
    unknown,
)
from .phase_params import PHASE_PARAMS
