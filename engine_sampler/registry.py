"""Which samplers, criteria, backends and grammars there are, where they come from, and their state.

Built-ins and third parties register through the same hooks. Every plugin is loaded on its own: its
objects are staged, checked, and taken over whole or not at all, so a broken plugin changes nothing
for the others and is listed with its reason.

Environment: ENGINE_SAMPLER_PLUGINS selects third-party plugins by entry-point name ("a,b"; "" =
none), ENGINE_SAMPLER_STRICT=1 raises on the first plugin that fails.
"""

from __future__ import annotations

import functools
import importlib.metadata
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pluggy

from . import hookspecs
from .arithmetic import SELECTOR_STREAM, stream_of
from .contract import (
    PLUGIN_API,
    Backend,
    Param,
    ParameterError,
    Sampler,
    Selector,
    StoppingCriteria,
)

GROUP = "engine_sampler"
KINDS = ("samplers", "selectors", "stopping_criteria", "backends", "grammars", "observers")
BUILT_IN = ("engine_sampler.samplers", "engine_sampler.stopping", "engine_sampler.backends")

logger = logging.getLogger("engine_sampler")


class PluginError(RuntimeError):
    """A plugin cannot be used; the text says which one and why."""


@dataclass(frozen=True)
class PluginStatus:
    """One plugin: entry-point name, distribution and version, state, and what it provides."""

    name: str
    distribution: str
    version: str
    state: Literal["loaded", "failed", "disabled"]
    error: str | None = None
    provides: tuple[str, ...] = ()

    @property
    def origin(self) -> str:
        return f"{self.distribution} {self.version}".strip()


@dataclass
class Catalogue:
    """Named objects by kind, and the parameters they own."""

    samplers: dict[str, Sampler] = field(default_factory=dict)
    selectors: dict[str, Selector] = field(default_factory=dict)
    stopping_criteria: dict[str, StoppingCriteria] = field(default_factory=dict)
    backends: dict[str, Backend] = field(default_factory=dict)
    grammars: dict[str, Any] = field(default_factory=dict)
    observers: dict[str, Any] = field(default_factory=dict)
    params: dict[str, Param] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    """Who registered "kind/name" and "params/name"."""

    def add(self, kind: str, name: str, value: Any, origin: str) -> None:
        """Add an object and its parameters; a name that exists already raises, naming both origins."""
        self._claim(kind, name, origin)
        if kind == "samplers":
            self._claim_stream(name, origin)
        getattr(self, kind)[name] = value
        for param in getattr(value, "params", ()):
            self._claim("params", param.name, origin)
            self.params[param.name] = param

    def merge(self, other: Catalogue) -> None:
        """Take over everything of `other`, or raise and change nothing."""
        merged = self.copy()
        for kind in KINDS:
            for name, value in getattr(other, kind).items():
                merged.add(kind, name, value, other.origins[f"{kind}/{name}"])
        self.__dict__.update(merged.__dict__)

    def copy(self) -> Catalogue:
        return replace(self, **{name: dict(value) for name, value in self.__dict__.items()})

    def names(self) -> Iterator[str]:
        """ "kind/name" of every object."""
        for kind in KINDS:
            yield from (f"{kind}/{name}" for name in getattr(self, kind))

    def _claim(self, kind: str, name: str, origin: str) -> None:
        kinds = ("samplers", "selectors") if kind in ("samplers", "selectors") else (kind,)
        for other in kinds:
            if owner := self.origins.get(f"{other}/{name}"):
                raise PluginError(f"{kind}/{name} is declared by both {owner} and {origin}")
        self.origins[f"{kind}/{name}"] = origin

    def _claim_stream(self, name: str, origin: str) -> None:
        stream = stream_of(name)
        for other in self.samplers:
            if stream_of(other) == stream:
                raise PluginError(
                    f"samplers/{name} of {origin} has the random stream of {other} "
                    f"({self.origins[f'samplers/{other}']}); choose another name"
                )
        if stream == SELECTOR_STREAM:
            raise PluginError(f"samplers/{name} of {origin} has the selectors' random stream")


class Registry:
    """All plugins of a process. `Registry()` loads the built-ins; `load_entry_points` third parties."""

    def __init__(self, core_params: Mapping[str, Param]) -> None:
        self.catalogue = Catalogue()
        self.plugins: list[PluginStatus] = []
        self.version = 0
        """Grows with every plugin, so that what was derived from the registry can be renewed."""
        for name, param in core_params.items():
            self.catalogue.origins[f"params/{name}"] = "engine-sampler"
            self.catalogue.params[name] = param
        version = _version_of("engine-sampler")
        for module in BUILT_IN:
            status = PluginStatus(module, "engine-sampler", version, "loaded")
            self._load(status, functools.partial(importlib.import_module, module), strict=True)

    def register(self, plugin: Any, name: str | None = None) -> PluginStatus:
        """Register a plugin object or module of this process; raises `PluginError` if it is refused."""
        name = name or getattr(plugin, "__name__", type(plugin).__name__)
        status = PluginStatus(name, "this process", "", "loaded")
        return self._load(status, lambda: plugin, strict=True)

    def load_entry_points(self) -> None:
        """Load third-party plugins of the entry-point group, sorted by distribution and name."""
        wanted = os.environ.get("ENGINE_SAMPLER_PLUGINS")
        selected = None if wanted is None else {w.strip() for w in wanted.split(",")}
        strict = os.environ.get("ENGINE_SAMPLER_STRICT") == "1"
        for entry_point in sorted(
            importlib.metadata.entry_points(group=GROUP), key=lambda e: (_dist_of(e), e.name, e.value)
        ):
            distribution = _dist_of(entry_point)
            status = PluginStatus(entry_point.name, distribution, _version_of(distribution), "loaded")
            if selected is not None and entry_point.name not in selected:
                reason = "not selected by ENGINE_SAMPLER_PLUGINS"
                self.plugins.append(replace(status, state="disabled", error=reason))
            else:
                self._load(status, entry_point.load, strict=strict)

    def _load(self, status: PluginStatus, load: Callable[[], Any], *, strict: bool) -> PluginStatus:
        try:
            staged = _stage(load(), status.origin)
            self.catalogue.merge(staged)
        except BaseException as error:
            if isinstance(error, (KeyboardInterrupt, GeneratorExit)):
                raise
            text = str(error) if isinstance(error, PluginError) else f"{type(error).__name__}: {error}"
            status = replace(status, state="failed", error=text)
            if strict:
                raise PluginError(f"plugin {status.name} ({status.origin}): {text}") from error
            logger.warning("plugin %s (%s) is not used: %s", status.name, status.origin, text)
        else:
            status = replace(status, provides=tuple(staged.names()))
        self.plugins.append(status)
        self.version += 1
        return status


def _stage(plugin: Any, origin: str) -> Catalogue:
    """Everything `plugin` registers, checked, in a catalogue of its own."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(plugin)
    manager.check_pending()
    staged = Catalogue()

    def add_sampler(value: Any) -> None:
        kind = "selectors" if isinstance(value, Selector) else "samplers"
        _check_object(value, (Sampler, Selector), origin)
        staged.add(kind, value.name, value, origin)

    def add_criterion(value: Any) -> None:
        _check_object(value, (StoppingCriteria,), origin)
        staged.add("stopping_criteria", value.name, value, origin)

    def add_backend(value: Any) -> None:
        _check_object(value, (Backend,), origin)
        staged.add("backends", value.name, value, origin)

    def add_grammar(name: str, value: Any) -> None:
        staged.add("grammars", name, value, origin)

    def add_observer(value: Any) -> None:
        name = getattr(value, "name", None) or type(value).__name__
        staged.add("observers", name, value, origin)

    manager.hook.register_samplers(register=add_sampler)
    manager.hook.register_stopping_criteria(register=add_criterion)
    manager.hook.register_backends(register=add_backend)
    manager.hook.register_grammars(register=add_grammar)
    manager.hook.register_observers(register=add_observer)
    return staged


def _check_object(value: Any, classes: tuple[type, ...], origin: str) -> None:
    names = " or ".join(c.__name__ for c in classes)
    if not isinstance(value, classes):
        raise PluginError(f"{origin} registers {value!r}, which is no {names} object")
    api = getattr(value, "api", None)
    if api != PLUGIN_API:
        raise PluginError(f"{type(value).__name__} has api={api!r}; this version takes {PLUGIN_API}")
    name = getattr(value, "name", None)
    if not isinstance(name, str) or not name.isidentifier():
        raise PluginError(f"{type(value).__name__} has name={name!r}; it must be an identifier")
    for param in getattr(value, "params", ()):
        try:
            same = param.check(param.neutral) == param.neutral
        except ParameterError as error:
            raise PluginError(f"the neutral value of {name} is refused: {error}") from None
        if not same:
            raise PluginError(f"{param.name}: the neutral value {param.neutral!r} is not in normal form")


def _dist_of(entry_point: importlib.metadata.EntryPoint) -> str:
    return str(entry_point.dist.name) if entry_point.dist else "unknown"


def _version_of(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


@functools.cache
def default_registry() -> Registry:
    """The registry of this process: built-ins and installed plugins, loaded at first use."""
    from .params import CORE_PARAMS  # params needs the registry; only this start-up call goes back

    registry = Registry(CORE_PARAMS)
    registry.load_entry_points()
    return registry
