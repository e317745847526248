"""Properties that are computed, and names of modules that are imported, once and when they are first asked
for."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class cached_property(Generic[T]):
    """`functools.cached_property` as it is from Python 3.12 on, without a lock.

    Before, all objects of a class share the lock of a property: a thread waits for what another one computes
    for another object, and the child of a fork for a thread that it does not have. Without it two threads may
    compute the same value; the first one is kept.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> cached_property[T]: ...

    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...

    def __get__(self, instance: object | None, owner: type | None = None) -> cached_property[T] | T:
        if instance is None:
            return self
        value: T = instance.__dict__.setdefault(self._name, self._compute(instance))
        return value


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
