"""`SamplingParams`: the settings of one request, checked on construction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from ..contract import ParameterError, Sampler, Selector
from ..registry import STRUCTURED_PARAMS, default_registry, structured_in, unknown
from .orders import resolve_order


class SamplingParams(Mapping[str, Any]):
    """The immutable settings of one request, under the names used by OpenAI and vLLM.

    Every parameter belongs to one sampler, selector or criterion, whether built in or from a plugin.
    All are given in the same way and can be read as attributes or items: the value, or the neutral
    value if it is not given.

        SamplingParams(temperature=0.8, top_p=0.95, seed=7).top_p

    Raises `ParameterError`, which names the parameter, the value and what is allowed; for an unknown
    name, also similar names and the plugins that failed to load.
    """

    __slots__ = ("_chosen", "_given", "_values")
    _chosen: Mapping[str, Any]
    """The values that differ from the defaults under this `order`: enough to construct an equal object."""
    _given: Mapping[str, Any]
    _values: Mapping[str, Any]

    def __init__(self, **parameters: Any) -> None:
        catalogue = default_registry().catalogue
        values = {name: param.neutral for name, param in catalogue.params.items()}
        for name, value in parameters.items():
            if name not in values:
                raise unknown(name)
            values[name] = catalogue.params[name].check(value)
        rules = resolve_order(values, catalogue.samplers)
        values |= {name: rule for name, rule in rules.items() if name not in parameters}
        parts: list[Sampler | Selector] = [*catalogue.samplers.values(), *catalogue.selectors.values()]
        for part in parts:
            part.check(values)
        _check_together(values, catalogue.selectors.values())
        neutral = {name: param.neutral for name, param in catalogue.params.items()}
        for name, defaults in (("_given", neutral), ("_chosen", {**neutral, **rules})):
            differing = {n: v for n, v in values.items() if v != defaults[n]}
            object.__setattr__(self, name, MappingProxyType(differing))
        object.__setattr__(self, "_values", MappingProxyType(values))

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> SamplingParams:
        """Settings from the body of an OpenAI or vLLM request; see `params.openai`."""
        from .openai import parameters_of

        return cls(**parameters_of(body))

    @property
    def given(self) -> Mapping[str, Any]:
        """The non-neutral parameters."""
        return self._given

    def replace(self, **changes: Any) -> SamplingParams:
        """A copy with some parameters changed."""
        return SamplingParams(**{**self._chosen, **changes})

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"SamplingParams has no parameter {name!r}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("SamplingParams is immutable; use replace()")

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SamplingParams) and self._chosen == other._chosen

    def __hash__(self) -> int:
        return hash(frozenset(self._chosen.items()))

    def __reduce__(self) -> Any:
        return _restore, (dict(self._chosen),)

    def __repr__(self) -> str:
        return f"SamplingParams({', '.join(f'{n}={v!r}' for n, v in self._chosen.items())})"


def _restore(chosen: dict[str, Any]) -> SamplingParams:
    return SamplingParams(**chosen)


def _check_together(values: Mapping[str, Any], selectors: Iterable[Selector]) -> None:
    best_of = values["best_of"]
    if best_of is not None and best_of < values["n"]:
        raise ParameterError(f"best_of={best_of} is not allowed: at least n={values['n']}")
    _check_structured(values)
    _check_beams(values)
    active = [s.name for s in selectors if s.is_active(values)]
    if len(active) > 1:
        raise ParameterError(f"the parameters request several selectors: {', '.join(active)}; one is allowed")
    if active and values["use_beam_search"]:
        raise ParameterError(f"use_beam_search=True is not allowed with the selector {active[0]}")


def _check_beams(values: Mapping[str, Any]) -> None:
    width = values["beam_width"]
    if width is not None and width < values["n"]:
        raise ParameterError(f"beam_width={width} is not allowed: at least n={values['n']}")
    if values["use_beam_search"] and values["logprobs"] is not None:
        raise ParameterError(f"logprobs={values['logprobs']} is not allowed with use_beam_search=True")


def _check_structured(params: Mapping[str, Any]) -> None:
    """Raise `ParameterError` if more than one grammar is requested, or a grammar bias without a grammar."""
    names = structured_in(params)
    if len(names) > 1:
        raise ParameterError(f"{', '.join(names)} are not allowed together: at most one of them")
    if params.get("grammar_bias") is not None and not names:
        given, allowed = params["grammar_bias"], ", ".join(STRUCTURED_PARAMS)
        raise ParameterError(f"grammar_bias={given} is not allowed alone: it needs one of {allowed}")
