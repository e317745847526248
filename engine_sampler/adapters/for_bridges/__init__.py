"""For bridges: what packages share that put this library into an engine that runs already.

With `engine_sampler` and `engine_sampler.arithmetic` this is all that they import of it.
"""

from __future__ import annotations

from .drafts import ngram_draft, tokens_of_drafts
from .grammar_text import GrammarText, fill_texts, structured_grammar
from .parameters import child_seed_of, parameters_among, params_or_plain, refused_with
from .places import PeerError, PeerPlaces, Signatures, overriding
from .rows import (
    BridgeSampler,
    EngineRequest,
    follow_slots,
    follow_update,
    processed_by,
    tokens_beside,
)

__all__ = [
    "BridgeSampler",
    "EngineRequest",
    "GrammarText",
    "PeerError",
    "PeerPlaces",
    "Signatures",
    "child_seed_of",
    "fill_texts",
    "follow_slots",
    "follow_update",
    "ngram_draft",
    "overriding",
    "parameters_among",
    "params_or_plain",
    "processed_by",
    "refused_with",
    "structured_grammar",
    "tokens_beside",
    "tokens_of_drafts",
]
