"""The table of wrong plugins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

ANY = "*"
"""Accepted in place of a list of further laws: the mistake shows nearly everywhere."""

T = TypeVar("T", bound=type)


class Wrong(NamedTuple):
    """A wrong plugin, the law that must find it, further laws that may, what the failure says, and attributes
    of its kit."""

    plugin: type
    law: str
    also: tuple[str, ...]
    says: str
    kit: Mapping[str, Any]


COLLECTION: dict[str, Wrong] = {}
"""The wrong plugins by name."""


def breaks(law: str, *also: str, says: str = "", **kit: Any) -> Callable[[T], T]:
    """Mark a class as wrong: it breaks `test_LAW`, and perhaps the laws in `also`; the failure `says` so."""

    def mark(plugin: T) -> T:
        name = f"{plugin.__module__.rpartition('.')[2]}-{plugin.__name__}"
        assert name not in COLLECTION
        assert plugin.__doc__, f"{name} does not say what is wrong"
        COLLECTION[name] = Wrong(plugin, f"test_{law}", tuple(f"test_{other}" for other in also), says, kit)
        return plugin

    return mark
