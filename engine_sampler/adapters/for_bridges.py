"""For bridges: what packages share that put this library into an engine that runs already.

With `engine_sampler` and `engine_sampler.arithmetic` this is all that they import of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from importlib import import_module
from typing import Any

from ..contract import ParameterError
from ..params import RequestLimits, SamplingParams
from ..stateless import RowResult

__all__ = ["PeerError", "PeerPlaces", "Signatures", "parameters_among", "tokens_beside"]

Signatures = Mapping[str, str]
"""The names of parameters, between blanks, by the dotted names of functions; "" for what is no function."""


class PeerError(RuntimeError):
    """An engine is not as its bridge knows it; the message names what has changed."""


class PeerPlaces:
    """The places of an engine at which a bridge puts objects of its own.

    engine  its name, for messages.
    """

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._originals: list[tuple[Any, str, Any]] = []
        """What has been replaced: the holder, the name, and the object."""

    def module(self, name: str) -> Any:
        """A module of the engine. Raises `PeerError` if it is not there."""
        try:
            return import_module(name)
        except ImportError as error:
            raise self._changed([f"{name}: {error}"]) from error

    def check(self, expected: Iterable[tuple[Any, Signatures]]) -> None:
        """Raise `PeerError`, which names every difference, unless these objects (modules, classes, …) have
        what is expected of them."""
        wrong = [
            name
            for holder, signatures in expected
            for name, parameters in signatures.items()
            if _parameters(holder, name) != parameters.split()
        ]
        if wrong:
            raise self._changed(wrong)

    def replace(self, holder: Any, name: str, mine: Any) -> None:
        """Put `mine` where `holder` has an object, until `put_back`."""
        self._originals.append((holder, name, getattr(holder, name)))
        setattr(holder, name, mine)

    def follow(self, owner: Any, name: str, addition: Callable[..., Any]) -> None:
        """Let a method of a class call `addition` with what it returns, and then its arguments."""
        original = getattr(owner, name)

        def followed(self: Any, *arguments: Any, **keywords: Any) -> Any:
            result = original(self, *arguments, **keywords)
            addition(result, self, *arguments, **keywords)
            return result

        self.replace(owner, name, followed)

    def is_replaced(self, holder: Any, name: str) -> bool:
        """Whether something of the bridge's is there."""
        return any(held is holder and replaced == name for held, replaced, _ in self._originals)

    def put_back(self) -> None:
        """Restore all objects of the engine."""
        while self._originals:
            setattr(*self._originals.pop())

    def _changed(self, names: Iterable[str]) -> PeerError:
        return PeerError(f"{self._engine} has changed, and keeps what it has: {', '.join(names)}")


def _parameters(holder: Any, name: str) -> list[str] | None:
    """The names of the parameters of what `holder` has under a name; None if it has nothing there."""
    at = holder
    for part in name.split("."):
        at = None if at is None else getattr(at, part, None)
    if at is None:
        return None
    return list(inspect.signature(at).parameters) if callable(at) else []


def parameters_among(
    extra: Mapping[str, Any], request: Any, engine: str, where: str, others: Collection[str] = ()
) -> dict[str, Any]:
    """The parameters of this library in the free part of a request of an engine. Other keys may belong to
    processors of others, and None stands for a key that is not there.

    request  the engine's parameters. What it has itself is not allowed in `where`, the name of the free part,
             and neither are `others`, which it calls differently.

    Raises `ParameterError` for that, for wrong values and for those beyond `RequestLimits`.
    """
    known = SamplingParams.parameters()
    ours = {name: value for name, value in extra.items() if name in known and value is not None}
    for name in ours:
        if name in others or hasattr(request, name):
            raise ParameterError(f"{name} is not allowed in {where}: {engine} has it itself, outside")
    RequestLimits().check(SamplingParams(**ours), 2**31 - 1)
    return ours


def tokens_beside(drawn: RowResult, logits: Any) -> Any:
    """int64 [rows], the tokens that have been drawn for torch's `logits` [rows, width], on their device.

    In the first row of a key, where none was drawn because of a fault, stands the likeliest one that is a
    number: an engine cannot end a request from within its sampler. Rows behind a refused draft have −1.
    """
    tokens = drawn.tensors(logits).token_ids
    faulty = [int(row) for row in drawn.first_rows if drawn.token_ids[row] < 0]
    if not faulty:
        return tokens
    tokens = tokens.clone()
    for row in faulty:
        tokens[row] = logits[row].float().nan_to_num(nan=-float("inf")).argmax()
    return tokens
