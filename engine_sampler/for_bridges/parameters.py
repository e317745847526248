"""Parameters of this library in the requests of an engine."""

from __future__ import annotations

import copy
import functools
import hashlib
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any, ParamSpec

from ..arithmetic import child_seed
from ..base.errors import text_of
from ..contract import ParameterError, TextCriteria
from ..params import RequestLimits, SamplingParams
from ..registry import default_registry

logger = logging.getLogger("engine_sampler")

P = ParamSpec("P")


def parameters_among(
    extra: Mapping[str, Any], request: Any, engine: str, where: str, others: Collection[str] = ()
) -> dict[str, Any]:
    """The parameters of this library in the free part of a request of an engine. Other keys may belong to
    processors of others, and None stands for a key that is not there.

    request  the engine's parameters. What it has itself is not allowed in `where`, the name of the free part,
             and neither are `others`, which it calls differently.

    Raises `ParameterError` for that, for wrong values and for those beyond `RequestLimits`, and for bans: an
    engine that has a sampler in its place does not take tokens back.
    """
    known = SamplingParams.parameters()
    ours = {name: value for name, value in extra.items() if name in known and value is not None}
    for name in ours:
        if name in others or hasattr(request, name):
            raise ParameterError(f"{name} is not allowed in {where}: {engine} has it itself, outside")
        if name in _taking_back():
            raise ParameterError(f"{name} is not allowed in {where}: {engine} does not take tokens back")
    RequestLimits().check(SamplingParams(**ours), 2**31 - 1)
    return ours


@functools.cache
def _taking_back() -> Collection[str]:
    """The parameters that take tokens back, of the output or of the prompt."""
    criteria = default_registry().catalogue.stopping_criteria.values()
    banning = [c for c in criteria if isinstance(c, TextCriteria) and c.takes_back]
    return {"token_healing", *(param.name for criterion in banning for param in criterion.params)}


def params_or_plain(params_of: Callable[[Any], SamplingParams], request: Any, where: str) -> SamplingParams:
    """`params_of(request)`. If that is not allowed, it is logged, and the result is that of a copy of the
    request without its free part: an engine cannot end a request from within its sampler.

    where  the attribute that the free part is.
    """
    try:
        return params_of(request)
    except ParameterError as error:
        logger.error("a request continues without its %s: %s", where, error)
        plain = copy.copy(request)
        setattr(plain, where, None)
        return params_of(plain)


def child_seed_of(seed: int, request_id: str) -> int:
    """The seed of a request without one: it follows from that of the engine and from the request's id, in
    whatever order requests arrive."""
    digest = hashlib.blake2b(request_id.encode(), digest_size=4).digest()
    return child_seed(seed, int.from_bytes(digest, "little"))


def refused_with(kind: type[Exception]) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """A decorator of a function that checks a request: its TypeError or ValueError becomes an error of the
    kind with which the engine refuses requests."""

    def decorate(check: Callable[P, None]) -> Callable[P, None]:
        @functools.wraps(check)
        def refuse(*arguments: P.args, **keywords: P.kwargs) -> None:
            try:
                check(*arguments, **keywords)
            except (TypeError, ValueError) as error:
                raise kind(text_of(error)) from error

        return refuse

    return decorate
