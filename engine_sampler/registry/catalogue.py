"""`Catalogue`: named samplers, criteria, backends and grammars, and the checks that they must pass."""

from __future__ import annotations

import difflib
import inspect
import keyword
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from ..arithmetic import stream_of
from ..contract import (
    Backend,
    ConstraintReader,
    Drafter,
    Param,
    ParameterError,
    Sampler,
    Selector,
    StoppingCriteria,
    Truncation,
)
from ..contract.samplers import PLUGIN_API, Cost, Role

KINDS = (
    "samplers",
    "selectors",
    "stopping_criteria",
    "backends",
    "grammars",
    "constraints",
    "drafters",
    "observers",
)
EVENTS = (
    "request_added",
    "first_token",
    "request_suspended",
    "request_resumed",
    "step_finished",
    "step_measured",
    "request_finished",
    "grammar_compiled",
    "rows_on_host",
)
"""The events that an observer may handle, see `hookspecs.register_observers`."""


class PluginError(RuntimeError):
    """A plugin cannot be used; the message says which one and why."""


class MissingSamplerError(PluginError):
    """A sampler names another in its `after` that is not registered, or not yet."""


_EDITS_FIRST = "edits come before all others"


Handler = Callable[[str, tuple[Any, ...]], None]
"""Tells an observer of an event: of the scheduler's name, and the values."""


def handler_of(method: Callable[..., Any]) -> Handler:
    """What calls the method of an observer, with the name of the scheduler if it takes that."""
    try:
        parameters = inspect.signature(method).parameters
    except (TypeError, ValueError):  # some functions of C tell nothing
        parameters = {}  # type: ignore[assignment]
    keywords = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    if keywords or "scheduler" in parameters:
        return lambda scheduler, values: method(*values, scheduler=scheduler)
    return lambda scheduler, values: method(*values)


@dataclass
class Catalogue:
    """Named objects by kind, and the parameters that they own."""

    samplers: dict[str, Sampler] = field(default_factory=dict)
    selectors: dict[str, Selector] = field(default_factory=dict)
    stopping_criteria: dict[str, StoppingCriteria] = field(default_factory=dict)
    backends: dict[str, Backend] = field(default_factory=dict)
    grammars: dict[str, Any] = field(default_factory=dict)
    constraints: dict[str, ConstraintReader] = field(default_factory=dict)
    """The readers of constraints: grammar engines."""
    drafters: dict[str, Drafter] = field(default_factory=dict)
    observers: dict[str, Any] = field(default_factory=dict)
    handlers: dict[str, tuple[tuple[str, Handler], ...]] = field(default_factory=dict)
    """The methods of the observers, each with the name of its observer, by the event that they handle."""
    params: dict[str, Param] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    """The distribution that registered "kind/name" or "params/name"."""

    def add(self, kind: str, name: str, value: Any, origin: str) -> None:
        """Add an object and its parameters; raises for a name that exists already and names both origins."""
        self._claim(kind, name, origin)
        if kind == "samplers":
            self._claim_stream(name, origin)
        elif kind == "observers":
            self._add_handlers(name, value)
        getattr(self, kind)[name] = value
        for param in getattr(value, "params", ()):
            self.add_param(param, origin)

    def add_param(self, param: Param, origin: str) -> None:
        """Add a parameter; raises for a name that exists already and names both origins."""
        self._claim("params", param.name, origin)
        self.params[param.name] = param

    def _add_handlers(self, name: str, observer: Any) -> None:
        for event in EVENTS:
            if method := getattr(observer, event, None):
                self.handlers[event] = *self.handlers.get(event, ()), (name, handler_of(method))

    def merged(self, other: Catalogue) -> Catalogue:
        """A new catalogue with the contents of both; raises if a name is in both."""
        both = replace(self, **{name: dict(value) for name, value in vars(self).items()})
        for kind in KINDS:
            for name, value in getattr(other, kind).items():
                both.add(kind, name, value, other.origins[f"{kind}/{name}"])
        return both

    def names(self) -> Iterator[str]:
        """ "kind/name" of every object."""
        for kind in KINDS:
            yield from (f"{kind}/{name}" for name in getattr(self, kind))

    def _claim(self, kind: str, name: str, origin: str) -> None:
        # Samplers and selectors share one namespace: both are parts of chains and have states.
        kinds = ("samplers", "selectors") if kind in ("samplers", "selectors") else (kind,)
        for other in kinds:
            if owner := self.origins.get(f"{other}/{name}"):
                raise PluginError(f"{kind}/{name} is declared by both {owner} and {origin}")
        self.origins[f"{kind}/{name}"] = origin

    def _claim_stream(self, name: str, origin: str) -> None:
        for other in self.samplers:
            if stream_of(other) == stream_of(name):
                raise PluginError(
                    f"samplers/{name} of {origin} has the random stream of {other} "
                    f"({self.origins[f'samplers/{other}']}); choose another name"
                )

    def check_places(self, staged: Catalogue) -> None:
        """Raise unless every sampler of `staged` that names another as its place can be put there.

        Raises `MissingSamplerError` if there is no such sampler, `PluginError` for an edit, which has no
        place, and for samplers that follow each other.
        """
        for sampler in staged.samplers.values():
            seen, at = [sampler.name], sampler
            if sampler.role == "edit" and sampler.after is not None:
                raise PluginError(
                    f"{sampler.name} has role='edit' and after={sampler.after!r}: {_EDITS_FIRST}"
                )
            base = sampler.instead_of
            if base is not None and base not in self.samplers:
                raise MissingSamplerError(f"{sampler.name} has instead_of={base!r}, {self._hint(base)}")
            if base is not None and (sampler.role == "edit" or self.samplers[base].role != sampler.role):
                raise PluginError(
                    f"{sampler.name} has role={sampler.role!r} and instead_of={base!r}: both must be "
                    "penalties, or both warps"
                )
            while at.after is not None:
                if at.after not in self.samplers:
                    raise MissingSamplerError(f"{at.name} has after={at.after!r}, {self._hint(at.after)}")
                at = self.samplers[at.after]
                if at.role == "edit":
                    raise PluginError(f"{seen[-1]} has after={at.name!r}, an edit: {_EDITS_FIRST}")
                if at.name in seen:
                    raise PluginError(
                        f"{' → '.join((*seen, at.name))}: samplers follow each other by `after`"
                    )
                seen.append(at.name)

    def _hint(self, name: str) -> str:
        similar = difflib.get_close_matches(name, self.samplers, n=2)
        text = "which no plugin registers"
        return text + (f"; did you mean {' or '.join(map(repr, similar))}?" if similar else "")


# --- checks --------------------------------------------------------------------------------------

_REQUIRED = (
    (Sampler, "apply"),
    (Truncation, "keep"),
    (Selector, "select"),
    (StoppingCriteria, "check"),
    (Backend, "run"),
    (ConstraintReader, "compiled"),
    (Drafter, "draft"),
)
"""The method that every subclass must define."""


def check_object(value: Any, classes: tuple[type, ...]) -> None:
    """Raise `PluginError` unless `value` is a correctly declared object of one of `classes`."""
    if not any(isinstance(value, c) for c in classes):
        names = " or ".join(c.__name__ for c in classes)
        is_class = isinstance(value, type) and issubclass(value, classes)
        hint = f": register {value.__name__}(), not the class" if is_class else ""
        raise PluginError(f"{value!r} is registered but is not a {names} object{hint}")
    owner = type(value).__name__
    if value.api != PLUGIN_API:
        raise PluginError(f"{owner} has api={value.api!r}; this version takes {PLUGIN_API}")
    check_identifier(owner, getattr(value, "name", None))
    for base, method in _REQUIRED:
        if isinstance(value, base) and getattr(type(value), method) is getattr(base, method):
            raise PluginError(f"{owner} has no method {method}")
    if isinstance(value, Sampler) and value.role not in get_args(Role):
        raise PluginError(f"{owner} has role={value.role!r}; allowed are {', '.join(get_args(Role))}")
    if isinstance(value, Sampler) and value.cost not in get_args(Cost):
        raise PluginError(f"{owner} has cost={value.cost!r}; allowed are {', '.join(get_args(Cost))}")
    if isinstance(value, Sampler) and value.takes_grammar and value.role != "edit":
        raise PluginError(f"{owner} has takes_grammar and role={value.role!r}; allowed is edit")
    for param in getattr(value, "params", ()):
        _check_param(owner, param)


def check_identifier(owner: str, name: Any) -> None:
    """Raise `PluginError` unless `name` is an identifier, so that it can be read as an attribute."""
    if not isinstance(name, str) or not name.isidentifier():
        raise PluginError(f"{owner} has name={name!r}; it must be an identifier")


RESERVED = frozenset(dir(Mapping)) | {"from_dict", "given", "parameters", "replace", "self", "to_dict"}
"""Names that mean something else as a keyword or an attribute of `SamplingParams`."""


def _check_param(owner: str, param: Any) -> None:
    if not isinstance(param, Param):
        raise PluginError(f"{owner} has {param!r} among its params, which is not a Param object")
    check_identifier(f"a parameter of {owner}", param.name)
    if param.name in RESERVED or param.name.startswith("_") or keyword.iskeyword(param.name):
        raise PluginError(
            f"{owner} has a parameter named {param.name!r}, which SamplingParams cannot have: it is a "
            "keyword, begins with _, or is the name of a method"
        )
    try:
        checked = param.check(param.neutral)
    except ParameterError as error:
        raise PluginError(f"the neutral value of {owner} is refused: {error}") from None
    if checked != param.neutral:
        raise PluginError(f"{param.name}: the neutral value {param.neutral!r} is not in normal form")


def check_neutral(staged: Catalogue, params: Mapping[str, Param]) -> None:
    """Refuse a sampler or selector that neutral parameters turn on: it would run for every request."""
    neutral = {name: param.neutral for name, param in params.items()}
    parts: list[Sampler | Selector] = [*staged.samplers.values(), *staged.selectors.values()]
    for part in parts:
        part.check(neutral)
        if part.is_active(neutral):
            raise PluginError(f"{part.name} is on at neutral parameters, so it would run for every request")
