"""The built-in samplers and selectors, one file each. A new file here is found by itself."""

from collections.abc import Callable
from typing import Any

from ..contract import Sampler, Selector
from ..discovery import objects_in
from ..hookspecs import hookimpl


@hookimpl
def register_samplers(register: Callable[[Any], None]) -> None:
    for sampler in objects_in(__name__, __path__, (Sampler, Selector)):
        register(sampler)
