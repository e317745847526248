"""Where vLLM is told to use other objects."""

from __future__ import annotations

from engine_sampler.for_bridges import PeerPlaces

PLACES = PeerPlaces("vLLM", "engine-sampler-vllm")
"""Those of all parts of this package."""
