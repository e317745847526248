"""The places of an engine at which a bridge puts objects of its own."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from .peers import Peer, PeerError

Signatures = Mapping[str, str]
"""The names of parameters, between blanks, by the dotted names of functions; "" for anything else."""


class PeerPlaces(Peer):
    """The places of an engine at which a bridge puts objects of its own; arguments as for `Peer`."""

    def __init__(self, name: str, bridge: str) -> None:
        super().__init__(name, bridge)
        self._originals: list[tuple[Any, str, Any]] = []
        """What has been replaced: the holder, the name, and the object."""

    def module(self, name: str) -> Any:
        """A module of the engine. Raises `PeerError` if it is not there."""
        with self.compared():
            return import_module(name)

    def check(self, expected: Iterable[tuple[Any, Signatures]]) -> None:
        """Raise `PeerError`, which names every difference, unless these objects (modules, their names,
        classes, …) have what is expected of them."""
        with self.compared():
            wrong = [
                name
                for holder, signatures in expected
                for at in [import_module(holder) if isinstance(holder, str) else holder]
                for name, parameters in signatures.items()
                if _parameters(at, name) != parameters.split()
            ]
        if wrong:
            raise self.error(f"other signatures of {', '.join(wrong)}")

    def replace(self, holder: Any, name: str, mine: Any) -> None:
        """Put `mine` where `holder` has an object, until `put_back`; what is replaced already stays so."""
        if not self.is_replaced(holder, name):
            self._originals.append((holder, name, getattr(holder, name)))
            setattr(holder, name, mine)

    def follow(self, owner: Any, name: str, addition: Callable[..., Any]) -> None:
        """Let a function of a module, or a method of a class, call `addition` with what it returns, and then
        with its arguments."""
        original = getattr(owner, name)

        @functools.wraps(original)
        def followed(*arguments: Any, **keywords: Any) -> Any:
            result = original(*arguments, **keywords)
            addition(result, *arguments, **keywords)
            return result

        self.replace(owner, name, followed)

    def is_replaced(self, holder: Any, name: str) -> bool:
        """Whether something of the bridge's is there."""
        return any(held is holder and replaced == name for held, replaced, _ in self._originals)

    @contextmanager
    def compared(self) -> Iterator[None]:
        """As `Peer.compared`; what has been replaced until then is put back."""
        try:
            with super().compared():
                yield
        except PeerError:
            self.put_back()
            raise

    def put_back(self) -> None:
        """Restore all objects of the engine."""
        while self._originals:
            setattr(*self._originals.pop())


def overriding(mine: type, name: str, methods: str | None = None) -> dict[str, str]:
    """The signatures that methods of a class of an engine must have which a class of the bridge overrides.

    name     of the engine's class.
    methods  their names, between blanks; default: those that this class, a base of `mine`, leaves abstract.
    """
    if methods is None:
        base = next(base for base in mine.__mro__ if base.__name__ == name)
        methods = " ".join(sorted(base.__abstractmethods__))  # type: ignore[attr-defined]
    return {
        f"{name}.{method}": " ".join(inspect.signature(getattr(mine, method)).parameters)
        for method in methods.split()
    }


def _parameters(holder: Any, name: str) -> list[str] | None:
    """The names of the parameters of what `holder` has under a name; None if it has nothing there."""
    at = holder
    for part in name.split("."):
        at = None if at is None else getattr(at, part, None)
    if at is None:
        return None
    return list(inspect.signature(at).parameters) if callable(at) else []
