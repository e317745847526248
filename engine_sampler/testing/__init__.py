"""For authors of plugins and tests: run a single sampler, and the contract kits.

    class TestRobustZ(SamplerContract):
        sampler = RobustZ()
        params = [dict(robust_z=0.5), dict(robust_z=2.0)]

`SamplerContract`, `SelectorContract`, `StoppingContract`, `BackendContract`, `GrammarContract`,
`DrafterContract` and `ObserverContract` (what a plugin registers), and `MatcherContract` (anything that
constrains a text) hold the laws as methods that pytest collects from such a subclass; the built-in parts are
tested by the same kits.
`LibraryContract` is for compiled libraries. `failing_laws` runs laws without pytest, and so does
`engine-sampler check NAME`.
ENGINE_SAMPLER_TEST_ROUNDS=20 lets the first pass of every kit try twenty times as much, and
ENGINE_SAMPLER_TEST_SECONDS=600 lets it go on at random for so long; `search` has what is drawn.

`registered` adds a plugin to this process for a test. `make_case`, `random_settings` and `vocabulary_of` give
random rows and chains on which backends are compared.
"""

from .backends import BackendContract
from .batches import packed
from .cases import KINDS, Case, make_case, times
from .chains import random_settings, vocabulary_of
from .drafters import DrafterContract
from .grammars import GrammarContract
from .laws import Contract, failing_laws
from .library import LibraryContract
from .matchers import MatcherContract
from .observers import ObserverContract
from .plugins import registered
from .samplers import SamplerContract
from .selectors import SelectorContract
from .single import apply_sampler, make_rows, select
from .stopping import StoppingContract

__all__ = [
    "KINDS",
    "BackendContract",
    "Case",
    "Contract",
    "DrafterContract",
    "GrammarContract",
    "LibraryContract",
    "MatcherContract",
    "ObserverContract",
    "SamplerContract",
    "SelectorContract",
    "StoppingContract",
    "apply_sampler",
    "failing_laws",
    "make_case",
    "make_rows",
    "packed",
    "random_settings",
    "registered",
    "select",
    "times",
    "vocabulary_of",
]
