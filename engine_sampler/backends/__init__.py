"""The built-in backends, one file each. A new file here is found automatically."""

from collections.abc import Callable
from typing import Any

from ..contract import Backend, hookimpl
from ..registry import objects_in


@hookimpl
def register_backends(register: Callable[[Any], None]) -> None:
    for backend in objects_in(__name__, __path__, Backend):
        register(backend)
