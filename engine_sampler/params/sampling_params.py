"""`SamplingParams`: the settings of one request, checked on construction."""

from __future__ import annotations

import contextlib
import inspect
from abc import ABCMeta
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from ..base.calling import call_for_add, guarded
from ..base.errors import quoted
from ..contract import Param, ParameterError, Selector
from ..registry import (
    CORE_PARAMS,
    GRAMMAR_OPTIONS,
    PHASE_PARAMS,
    Catalogue,
    default_registry,
    drafters_named,
    structured_in,
    unknown,
)
from .costs import MAX_PASSES, check_cost
from .families import Reasoning
from .lookups import Lookup, lookup_of
from .orders import resolve_order

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .phases import PhasePlan
    from .typed import Parameters
    from .unknown_keys import Unknown

T = TypeVar("T")

_PHASE_NAMES = frozenset(param.name for param in PHASE_PARAMS)


class _WithSignature(ABCMeta):
    """Shows the parameters in `help` and `inspect.signature`: plugins add to them, so they are read late."""

    @property
    def __signature__(cls) -> inspect.Signature:
        kind = inspect.Parameter.KEYWORD_ONLY
        known = default_registry().catalogue.params.values()
        listed = [inspect.Parameter(p.name, kind, default=p.neutral, annotation=p.annotation) for p in known]
        return inspect.Signature(listed)


class SamplingParams(Mapping[str, Any], metaclass=_WithSignature):
    """The immutable settings of one request, under the names used by OpenAI and vLLM.

    Every parameter belongs to one sampler, selector or criterion, whether built in or from a plugin.
    All are given in the same way and can be read as attributes or items: the value, or the neutral
    value if it is not given; `SamplingParams.parameters()` lists them.

        SamplingParams(temperature=0.8, top_p=0.95, seed=7).top_p

    Raises `ParameterError`, which names the parameter, the value and what is allowed; for an unknown
    name, also similar names and the plugins that failed to load. How much a request may ask for is the
    scheduler's decision: `RequestLimits`.

    Type checkers know the built-in parameters; those of plugins pass them in a `dict[str, Any]`:
    `SamplingParams(temperature=0.8, **own)`.

    A token whose probability, after all else, is below 2^−31 of the likeliest one's is never drawn.
    """

    __slots__ = ("_chosen", "_given", "_kept", "_phase_plan", "_values")
    _chosen: Mapping[str, Any]
    """The values that differ from the defaults under this `order`: enough to construct an equal object."""
    _given: Mapping[str, Any]
    _kept: tuple[Any, Any]
    _values: Mapping[str, Any]
    _phase_plan: PhasePlan | None

    def __init__(self, /, **parameters: Unpack[Parameters]) -> None:
        known = lookup_of(default_registry().catalogue)
        chosen = {name: _checked(known, name, value) for name, value in parameters.items()}
        values = known.neutral | chosen
        rules = resolve_order(values, known.catalogue.samplers)
        if rules:
            values |= {name: rule for name, rule in rules.items() if name not in chosen}
        for part, check in known.checks:
            if any(param.name in chosen for param in part.params):
                call_for_add(part.name, check, MappingProxyType(values))
        named = sorted({*chosen, *rules}, key=known.numbers.__getitem__)
        changed = known.differing({name: values[name] for name in named})
        _check_together(values, known.selectors.active(changed, values))
        if values["drafter"]:
            drafters_named(values["drafter"])
        if known.passes > MAX_PASSES or not isinstance(values["order"], str):
            check_cost(known.order(values["order"]), known.catalogue.samplers, values)
        defaults = {**known.neutral, **rules} if rules else known.neutral
        differing = {name: values[name] for name in named if values[name] != defaults[name]}
        object.__setattr__(self, "_values", values)
        object.__setattr__(self, "_given", MappingProxyType(changed))
        object.__setattr__(self, "_chosen", differing)
        object.__setattr__(self, "_kept", (None, None))
        object.__setattr__(self, "_phase_plan", None)
        if not _PHASE_NAMES.isdisjoint(changed):
            object.__setattr__(self, "_phase_plan", _plan_of(self, known.catalogue))

    @classmethod
    def from_dict(
        cls,
        body: Mapping[str, Any],
        *,
        tool_family: str | None = None,
        chat_template: Any = None,
        reasoning: Reasoning = "disabled",
        thinking: Any = None,
        unknown: Unknown = "error",
    ) -> SamplingParams:
        """Settings from the JSON body of an OpenAI or vLLM request.

        tool_family  how the model that is served writes calls of tools, one of
                     `engine_sampler.grammar.TOOL_FAMILIES`, or "auto": as `chat_template` says, which the log
                     tells; None: only calls that `tool_choice` forces are constrained, as JSON
        chat_template  the text of the model's chat template, or a tokenizer that has one
        reasoning    whether the grammar of such calls covers the thoughts before them, as in `tool_calls`
        thinking     how the model that is served marks its thoughts, as in the parameter of this name; None:
                     as the body says, or as in `tool_family` if the body has a budget for them. A body that
                     turns thoughts off (`chat_template_kwargs.enable_thinking`) has none
        unknown      "error", "log" or "ignore": what becomes of keys that are not known here. The log names
                     each once in a process, and at most a hundred. Values with which a feature that is
                     missing here is off are no error

        The order is "vllm" (temperature before the truncations) unless the body gives another; null means the
        default. Keys that concern the transport only, such as `model` and `messages`, are left to the server;
        of those that a client would miss, such as `echo`, the log says so once in a process.
        `params.openai.parameters_of` describes what is converted. Raises `ParameterError`, and nothing else,
        whatever the body contains.
        """
        from .families.templates import family_named
        from .openai import parameters_of

        family = None if tool_family is None else family_named("tool_family", tool_family, chat_template)
        return guarded(
            lambda: cls(**parameters_of(body, family, reasoning, thinking, unknown)), "the request"
        )

    @staticmethod
    def parameters() -> Mapping[str, Param]:
        """Every parameter by name, built in or from a plugin: its type, neutral value, bounds and meaning."""
        return MappingProxyType(default_registry().catalogue.params)

    @property
    def given(self) -> Mapping[str, Any]:
        """The non-neutral parameters."""
        return self._given

    def replace(self, /, **changes: Unpack[Parameters]) -> SamplingParams:
        """A copy with some parameters changed."""
        return SamplingParams(**{**self._chosen, **changes})

    def to_dict(self) -> dict[str, Any]:
        """The settings as values of JSON, for `from_dict` and for `SamplingParams(**settings)`.

        Only what is not the default is given, and the order always. Biases of −inf stay so: Python's `json`
        writes them as -Infinity. Raises `ParameterError` for parameters that hold objects, as
        `logits_processors` does.
        """
        known, chosen = SamplingParams.parameters(), {"order": self.order, **self._chosen}
        if structured_in(chosen):
            chosen["key_order"] = self.key_order  # `from_dict` has another default
        return {name: _as_json(known[name], value) for name, value in chosen.items()}

    def __copy__(self) -> SamplingParams:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> SamplingParams:
        return self

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"SamplingParams has no parameter {name!r}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("SamplingParams is immutable; use replace()")

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *self._values})

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


def kept_with(params: SamplingParams, source: Any, build: Callable[[], T]) -> T:
    """The result of `build`, which depends on `params` and `source` only: the same object until another
    source is given."""
    made_for, result = params._kept
    if made_for is not source:
        result = build()
        object.__setattr__(params, "_kept", (source, result))
    return result


def _plan_of(params: SamplingParams, catalogue: Catalogue) -> PhasePlan | None:
    from .phases import plan_of  # few requests need it

    return plan_of(params, catalogue)


def phases_of(params: SamplingParams) -> PhasePlan | None:
    """What `thinking` or `phases` mean; None without them."""
    return params._phase_plan


def _as_json(param: Param, value: Any) -> Any:
    """A value in normal form as JSON that the parameter reads as the same; pairs become an object where it
    reads that, too."""
    plain = _plain(param.name, value)
    if isinstance(value, tuple) and value and all(isinstance(v, tuple) and len(v) == 2 for v in value):
        members = {str(key): _plain(param.name, member) for key, member in value}
        with contextlib.suppress(ParameterError):
            return members if param.check(members) == value else plain
    return plain


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(name, member) for member in value]
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise ParameterError(f"{name}={quoted(value)} cannot be written as JSON")


def _restore(chosen: dict[str, Any]) -> SamplingParams:
    return SamplingParams(**chosen)


def _checked(known: Lookup, name: str, value: Any) -> Any:
    param = known.catalogue.params.get(name)
    if param is None:
        raise unknown(name)
    return param.check(value)


def _check_together(values: Mapping[str, Any], selectors: Sequence[Selector]) -> None:
    best_of = values["best_of"]
    if best_of is not None and best_of < values["n"]:
        raise ParameterError(f"best_of={best_of} is not allowed: at least n={values['n']}")
    _check_structured(values)
    _check_beams(values)
    if len(selectors) > 1:
        names = ", ".join(selector.name for selector in selectors)
        raise ParameterError(f"the parameters request several selectors: {names}; one is allowed")
    if selectors and values["use_beam_search"]:
        raise ParameterError(f"use_beam_search=True is not allowed with the selector {selectors[0].name}")


def _check_beams(values: Mapping[str, Any]) -> None:
    width = values["beam_width"]
    if width is not None and width < values["n"]:
        raise ParameterError(f"beam_width={quoted(width)} is not allowed: at least n={values['n']}")
    if values["use_beam_search"]:
        for name, neutral in (("logprobs", None), ("logprob_token_ids", None), ("return_sampling_mask", 0)):
            if values[name] != neutral:
                raise ParameterError(
                    f"{name}={quoted(values[name])} is not allowed with use_beam_search=True"
                )


def _check_structured(params: Mapping[str, Any]) -> None:
    """Raise `ParameterError` if more than one grammar is requested, or an option without its grammar."""
    names = structured_in(params)
    if len(names) > 1:
        raise ParameterError(f"{', '.join(names)} are not allowed together: at most one of them")
    for option, owners in GRAMMAR_OPTIONS.items():
        if params[option] != CORE_PARAMS[option].neutral and not set(names) & set(owners):
            allowed = ", ".join(owners)
            raise ParameterError(
                f"{option}={quoted(params[option])} is not allowed here: it needs one of {allowed}"
            )
