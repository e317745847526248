"""Names of a module that are imported when they are first asked for."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(module: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a module.

    places  the names that each module gives, separated by blanks, by the module's path relative to the
            package
    """
    module_of = {name: place for place, names in places.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        here = sys.modules[module]
        value = getattr(importlib.import_module(module_of[name], here.__package__), name)
        setattr(here, name, value)
        return value

    return get
