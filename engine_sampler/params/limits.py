"""`RequestLimits`: how much one request may ask of a scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..base.arguments import instance_of
from ..base.errors import quoted
from ..contract import Param, ParameterError
from ..registry import Catalogue, default_registry, unknown
from .chain import build_chain
from .costs import (
    HISTORIES,
    MAX_HISTORIES,
    MAX_PASSES,
    MAX_ROW_PASSES,
    ROW_PASSES,
    check_rows,
    row_count,
    row_parameter,
)
from .sampling_params import SamplingParams, phases_of

if TYPE_CHECKING:
    from .phases import PhasePlan


class RequestLimits:
    """The greatest number, or the greatest size, of each parameter of a request: clients may be hostile.

        Scheduler(vocab_size, limits=RequestLimits(logprobs=100, stop=16_384, n=None))

    passes  the most that the samplers of all rows of a request (`n`, `best_of`, `beam_width`) may cost
            together, in passes over the vocabulary at worst (`Sampler.cost`), as for an `order`; default
            1,440, ten times what one row may cost
    histories  the most tokens that the prompts of all rows may have together if phases of the request, or
            rules of its grammar, change penalties and the like, which are counted anew with each change;
            default 4,194,304

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
            if name not in known and name not in (ROW_PASSES, HISTORIES):
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
        plan = phases_of(params)
        if plan is not None:
            self._check_phases(plan, params.given, vocab_size)
        bounds = self._bounds_in(default_registry().catalogue)
        if params["use_beam_search"] and params.beam_width is None and "beam_width" in bounds:
            param, limit = bounds["beam_width"]
            if (width := params.best_of or params.n) > limit:
                raise _beyond(param, None, width, limit)
        self.check_rows(params, [params] if plan is None else [phase.params for phase in plan.phases])

    def check_rows(self, params: SamplingParams, of_rows: Iterable[SamplingParams]) -> None:
        """Raise `ParameterError` if the rows of a request cost too much together, under one of the parameters
        that a row may have."""
        limit = self._of_rows(ROW_PASSES, MAX_ROW_PASSES)
        if limit is not None and row_count(params) * MAX_PASSES > limit:
            check_rows(params, map(build_chain, of_rows), limit)

    def check_histories(self, params: SamplingParams, prompt_length: int) -> None:
        """Raise `ParameterError` if the prompts of all rows, which are counted anew whenever a phase changes
        penalties, are too long together."""
        rows, limit = row_count(params), self._of_rows(HISTORIES, MAX_HISTORIES)
        if limit is not None and rows * prompt_length > limit:
            raise ParameterError(
                f"{row_parameter(params)}={rows} is not allowed with a prompt of {prompt_length:,} tokens "
                f"and phases that change penalties: this scheduler's limit is {limit:,} tokens for all rows "
                f"together, which allows {limit // prompt_length} (RequestLimits({HISTORIES}=…))"
            )

    def _of_rows(self, name: str, default: int) -> int | None:
        """A limit on what all rows of a request cost together."""
        return self._limits.get(name, default) if self._bounded else None

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

    def _check_phases(self, plan: PhasePlan, whole: Mapping[str, Any], vocab_size: int) -> None:
        """`check` the values that a client has given for phases only."""
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
