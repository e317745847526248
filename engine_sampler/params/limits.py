"""`RequestLimits`: how much one request may ask of a scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.arguments import instance_of
from ..base.errors import quoted
from ..contract import Param, ParameterError
from ..registry import Catalogue, default_registry, unknown
from .sampling_params import SamplingParams, phases_of


class RequestLimits:
    """The greatest number, or the greatest size, of each parameter of a request: clients may be hostile.

        Scheduler(vocab_size, limits=RequestLimits(logprobs=100, stop=16_384, n=None))

    A number bounds a parameter in the terms of `Param.size`: a count by its value, where `logprobs=-1` counts
    as the vocabulary, and texts and lists by their bytes and ids altogether. None means no limit. Parameters
    that are not named keep the default that they declare (`Param.limit`), those of plugins too;
    `SamplingParams.parameters()` lists them. `RequestLimits.none()` has no limits at all, for
    programs that write their requests themselves.

    Raises `ParameterError` for names that are not parameters, and for limits that are not integers of at
    least 0, or None.
    """

    def __init__(self, **limits: int | None) -> None:
        known = default_registry().catalogue.params
        for name, limit in limits.items():
            if name not in known:
                raise unknown(name)
            if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
                raise ParameterError(
                    f"the limit {name}={quoted(limit)} is not allowed: an integer of at least 0, or None"
                )
        self._limits: Mapping[str, int | None] = limits
        self._bounded = True
        self._bounds: tuple[Catalogue, Mapping[str, tuple[Param, int]]] | None = None
        """The parameters of a catalogue that have limits."""

    @classmethod
    def none(cls) -> RequestLimits:
        """No limits."""
        limits = cls()
        limits._bounded = False
        return limits

    def limit_of(self, param: Param) -> int | None:
        """The limit of a parameter; None if it has none."""
        if not self._bounded:
            return None
        return self._limits.get(param.name, param.default_limit)

    def check(self, params: SamplingParams, vocab_size: int) -> None:
        """Raise `ParameterError` for the first parameter beyond its limit; the message names the limit."""
        if not self._bounded:
            return
        self.check_values(params.given, vocab_size)
        if phases_of(params) is not None:
            self._check_phases(params, vocab_size)
        bounds = self._bounds_in(default_registry().catalogue)
        if params["use_beam_search"] and params.beam_width is None and "beam_width" in bounds:
            param, limit = bounds["beam_width"]
            if (width := params.best_of or params.n) > limit:
                raise _beyond(param, None, width, limit)

    def check_values(self, values: Mapping[str, Any], vocab_size: int) -> None:
        """`check` some parameters in normal form, by name."""
        if not self._bounded:
            return
        bounds = self._bounds_in(default_registry().catalogue)
        for name, value in values.items():
            if name in bounds:
                param, limit = bounds[name]
                if (size := param.size(value, vocab_size)) > limit:
                    raise _beyond(param, value, size, limit)

    def _check_phases(self, params: SamplingParams, vocab_size: int) -> None:
        """`check` the values that a client has given for phases only."""
        plan = phases_of(params)
        assert plan is not None
        whole = params.given
        for phase in plan.phases:
            changed = {name: phase.params[name] for name in phase.changed}
            own = {name: value for name, value in changed.items() if value is not whole.get(name)}
            self.check_values(own, vocab_size)

    def _bounds_in(self, catalogue: Catalogue) -> Mapping[str, tuple[Param, int]]:
        if self._bounds is None or self._bounds[0] is not catalogue:
            limits = ((param, self.limit_of(param)) for param in catalogue.params.values())
            bounds = {param.name: (param, limit) for param, limit in limits if limit is not None}
            self._bounds = catalogue, bounds
        return self._bounds[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_bounds": None}

    def __repr__(self) -> str:
        if not self._bounded:
            return "RequestLimits.none()"
        return f"RequestLimits({', '.join(f'{name}={limit}' for name, limit in self._limits.items())})"

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, RequestLimits) and self._bounded == other._bounded
        return same and self._limits == other._limits  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((self._bounded, frozenset(self._limits.items())))


def limits_of(value: Any) -> RequestLimits:
    """The limits that a caller gives, or the default ones for None. Raises `ParameterError` for others."""
    return (
        RequestLimits()
        if value is None
        else instance_of(RequestLimits, "limits", value, "RequestLimits(name=limit, …)")
    )


def _beyond(param: Param, value: Any, size: float, limit: int) -> ParameterError:
    is_number = param.type in (int, float)
    measure = f", which has {size:,} bytes and ids,"
    if is_number:
        measure = "" if size == value else f", which means {size:,},"
    return ParameterError(
        f"{param.name}={quoted(value)}{measure} is not allowed: this scheduler's limit is {limit:,} "
        f"(RequestLimits({param.name}=…))"
    )
