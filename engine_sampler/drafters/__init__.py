"""The built-in drafters, one file each. A new file here is discovered automatically."""

from collections.abc import Callable
from typing import Any

from ..contract import Drafter, hookimpl
from ..registry import objects_in


@hookimpl
def register_drafters(register: Callable[[Any], None]) -> None:
    for drafter in objects_in(__name__, __path__, Drafter):
        register(drafter)
