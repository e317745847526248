"""Where vLLM is told to use other objects, and what these places must look like."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

_ORIGINALS: list[tuple[Any, str, Any]] = []
"""What has been replaced: the holder, the name, and the object."""


class PeerError(RuntimeError):
    """vLLM is not as this package knows it; the message names what has changed."""


Signatures = Mapping[str, str]
"""The names of parameters by the dotted names of functions; "" for what is no function."""


def check_peer(expected: Iterable[tuple[Any, Signatures]]) -> None:
    """Raise `PeerError`, which names every difference, unless these modules have these signatures."""
    wrong = [
        name
        for module, signatures in expected
        for name, parameters in signatures.items()
        if _parameters(module, name) != parameters.split()
    ]
    if wrong:
        raise PeerError(f"vLLM has changed, and keeps what it has: {', '.join(wrong)}")


def peer_module(name: str) -> Any:
    """A module of vLLM's. Raises `PeerError` if it is not there."""
    try:
        return import_module(name)
    except ImportError as error:
        raise PeerError(f"vLLM has changed, and keeps what it has: {name}: {error}") from error


def replace(holder: Any, name: str, mine: Any) -> None:
    """Put `mine` where `holder` has an object, until `put_back`."""
    _ORIGINALS.append((holder, name, getattr(holder, name)))
    setattr(holder, name, mine)


def is_replaced(holder: Any, name: str) -> bool:
    """Whether there is something of ours."""
    return any(held is holder and replaced == name for held, replaced, _ in _ORIGINALS)


def put_back() -> None:
    """Restore all of vLLM's objects."""
    while _ORIGINALS:
        setattr(*_ORIGINALS.pop())


def _parameters(module: Any, name: str) -> list[str] | None:
    """The names of the parameters of what a module has under a name; None if it has nothing there."""
    at = module
    for part in name.split("."):
        at = None if at is None else getattr(at, part, None)
    if at is None:
        return None
    return list(inspect.signature(at).parameters) if callable(at) else []
