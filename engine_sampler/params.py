"""`SamplingParams`: the settings of one request, checked when they are made."""

from __future__ import annotations

import difflib
import numbers
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from .beams import early_stopping
from .contract import Param, ParameterError, Sampler, Selector
from .orders import resolve_order
from .registry import default_registry
from .structured import PARAMS as STRUCTURED_PARAMS
from .structured import check as check_structured

LOGPROBS_MODES = ("raw", "penalized", "processed")
MOST = 2**31 - 1
"""The greatest count a parameter takes."""


def _seed(value: Any) -> int | None:
    number = isinstance(value, (numbers.Integral, float)) and not isinstance(value, bool)
    if not number or not -1 <= value < 2**64 or value % 1:
        raise ValueError("an integer from 0 to 2^64 - 1, or None or -1 for a random seed")
    return None if value == -1 else int(value)


def _modes(value: Any) -> str | tuple[str, ...]:
    modes = (value,) if isinstance(value, str) else _tuple(value)
    if not modes or any(mode not in LOGPROBS_MODES for mode in modes):
        raise ValueError("one of 'raw', 'penalized', 'processed', or a tuple of them")
    return value if isinstance(value, str) else tuple(dict.fromkeys(modes))


def _order(value: Any) -> str | tuple[str | int, ...]:
    names = (value,) if isinstance(value, str) else _tuple(value)
    if any(isinstance(name, bool) or not isinstance(name, (str, int)) for name in names):
        raise ValueError("a named order, or a list of sampler names or of KoboldAI's ids")
    return value if isinstance(value, str) else names


def _tuple(value: Any) -> tuple[Any, ...]:
    """The entries of a list; for what is no list an entry that is refused."""
    return tuple(value) if isinstance(value, Iterable) else (None,)


CORE_PARAMS = {
    param.name: param
    for param in (
        Param("seed", object, None, convert=_seed, doc="64 bits; None or -1: random, and reported"),
        Param("n", int, 1, low=1, high=MOST, doc="completions per prompt (add_group)"),
        Param("best_of", int, None, low=1, doc="siblings drawn, of which the n best are kept"),
        Param("use_beam_search", bool, False, doc="follow the beam_width likeliest texts (add_group)"),
        Param("beam_width", int, None, low=1, high=8192,
        doc="texts a beam search follows; None: best_of, or n"), Param("length_penalty", float, 1.0,
        doc="a beam's score is its logprob / length^length_penalty"), Param("early_stopping", object, False,
        convert=early_stopping,
              doc="end a beam search when beam_width texts have ended; or never before the best is certain"),
        Param("min_keep", int, 0, low=0, high=MOST,
              doc="tokens top_p, min_p, typical_p, tfs and xtc leave at least"),
        Param("order", object, "llama.cpp", convert=_order, doc="a named order or a list of samplers"),
        Param("logprobs", int, None, low=-1, doc="logprobs of so many top tokens; 0 chosen only, -1 all"),
        Param("logprobs_mode", object, "raw", convert=_modes, doc="raw, penalized, processed, or several"),
        Param("prompt_logprobs", int, None, low=-1, doc="logprobs wanted for the prompt's tokens"),
        Param("skip_special_tokens", bool, True, doc="leave special tokens out of the text"),
        *STRUCTURED_PARAMS.values(),
    )
}  # fmt: skip


class SamplingParams(Mapping[str, Any]):
    """The immutable settings of one request, under OpenAI's and vLLM's names.

    Every parameter belongs to one sampler, selector or criterion, built in or plugged in; all are
    given alike, and read as attributes or items: the value, or the neutral value if not given.

        SamplingParams(temperature=0.8, top_p=0.95, seed=7).top_p

    Raises `ParameterError` naming the parameter, the value and what is allowed; for an unknown name
    also near matches, and plugins that failed to load.
    """

    __slots__ = ("_chosen", "_given", "_values")
    _chosen: Mapping[str, Any]
    """What differs from the defaults under this `order`: enough to make an equal object."""
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
        for name, usual in (("_given", neutral), ("_chosen", {**neutral, **rules})):
            differing = {n: v for n, v in values.items() if v != usual[n]}
            object.__setattr__(self, name, MappingProxyType(differing))
        object.__setattr__(self, "_values", MappingProxyType(values))

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> SamplingParams:
        """Settings from the body of an OpenAI or vLLM request; see `requests.parameters_of`."""
        from .requests import parameters_of

        return cls(**parameters_of(body))

    @property
    def given(self) -> Mapping[str, Any]:
        """The parameters that are not neutral."""
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
    check_structured(values)
    _check_beams(values)
    asked = [s.name for s in selectors if s.is_active(values)]
    if len(asked) > 1:
        raise ParameterError(f"the parameters ask for several selectors: {', '.join(asked)}; one is allowed")
    if asked and values["use_beam_search"]:
        raise ParameterError(f"use_beam_search=True is not allowed with the selector {asked[0]}")


def _check_beams(values: Mapping[str, Any]) -> None:
    width = values["beam_width"]
    if width is not None and width < values["n"]:
        raise ParameterError(f"beam_width={width} is not allowed: at least n={values['n']}")
    if values["use_beam_search"] and values["logprobs"] is not None:
        raise ParameterError(f"logprobs={values['logprobs']} is not allowed with use_beam_search=True")


def unknown(name: str, others: Iterable[str] = ()) -> ParameterError:
    """The error for a name that is no parameter, with those near it, also among `others`."""
    registry = default_registry()
    near = difflib.get_close_matches(name, {**dict.fromkeys(others), **registry.catalogue.params}, n=3)
    text = f"unknown parameter {name!r}"
    if near:
        text += "; did you mean " + " or ".join(map(repr, near)) + "?"
    failed = [f"{p.name} ({p.origin}): {p.error}" for p in registry.plugins if p.state == "failed"]
    if failed:
        text += "; plugins that failed to load: " + "; ".join(failed)
    return ParameterError(text)
