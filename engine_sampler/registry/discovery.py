"""Discovery of built-in plugins: every plugin class defined in any module of a package."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def objects_in(package: str, path: Sequence[str], base: type[T] | tuple[type[T], ...]) -> Iterator[T]:
    """One object of every subclass of `base` that has a `name` and is defined in a module of `package`."""
    for module in pkgutil.iter_modules(path):
        namespace = vars(importlib.import_module(f"{package}.{module.name}"))
        for value in namespace.values():
            if (
                inspect.isclass(value)
                and issubclass(value, base)
                and value.__module__ == f"{package}.{module.name}"
                and hasattr(value, "name")
            ):
                yield value()
