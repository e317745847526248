"""The available samplers, criteria, backends and grammars, where they come from, and their state.

Built-in and third-party plugins register through the same hooks. Every plugin is loaded separately:
its objects are staged, checked, and accepted all together or not at all, so a broken plugin does not
affect the others and is listed with the reason.

Environment: ENGINE_SAMPLER_PLUGINS selects third-party plugins by entry-point name ("a,b"; "" =
none); ENGINE_SAMPLER_STRICT=1 raises on the first plugin that fails.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
import inspect
import logging
import os
import pkgutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import pluggy

from ..base.errors import close_matches, quoted, text_of
from ..base.forking import fork_safe
from ..contract import (
    Backend,
    ConstraintReader,
    Drafter,
    Param,
    ParameterError,
    Sampler,
    Selector,
    StoppingCriteria,
    hookspecs,
)
from ..contract.constraints import fill_each
from .catalogue import (
    EVENTS,
    Catalogue,
    MissingSamplerError,
    PluginError,
    check_identifier,
    check_neutral,
    check_object,
)
from .core_params import CORE_PARAMS, GRAMMAR_OPTIONS
from .familiar_names import FAMILIAR_NAMES

GROUP = "engine_sampler"
DISTRIBUTION = "engine-sampler"
BUILT_IN = tuple(f"engine_sampler.{part}" for part in ("samplers", "stopping", "drafters", "backends"))
ABOVE = ("engine_sampler.grammar.plugin",)
"""What this package adds to the core as a plugin does; the core runs without it."""

GRAMMAR_ENGINE, OWN_ENGINE = "ENGINE_SAMPLER_GRAMMAR_ENGINE", "engine_sampler"

logger = logging.getLogger("engine_sampler")


@dataclass(frozen=True)
class PluginStatus:
    """One plugin: entry-point name, distribution and version, state, and what it provides."""

    name: str
    distribution: str
    version: str
    state: Literal["loaded", "failed", "disabled"] = "loaded"
    error: str | None = None
    provides: tuple[str, ...] = ()

    @property
    def origin(self) -> str:
        return f"{self.distribution} {self.version}".strip()


class Registry:
    """All plugins of a process: built-ins from the start, third-party plugins after `load_entry_points`."""

    def __init__(self, core_params: Mapping[str, Param]) -> None:
        self.catalogue = Catalogue()
        """Replaced as a whole whenever a plugin loads, never changed in place."""
        self.plugins: list[PluginStatus] = []
        built_in = PluginStatus("", DISTRIBUTION, _version_of(DISTRIBUTION))
        self._built_in_origin = built_in.origin
        for param in core_params.values():
            self.catalogue.add_param(param, built_in.origin)
        for module in (*BUILT_IN, *filter(_is_there, ABOVE)):
            load = functools.partial(importlib.import_module, module)
            stage = functools.partial(_staged, load, built_in.origin)
            self._load(replace(built_in, name=module), stage, strict=True)

    def is_built_in(self, part: Sampler | Selector | Backend) -> bool:
        """Whether `part` is of a class that this package registers itself."""
        kind = "selectors" if isinstance(part, Selector) else "samplers"
        kind = "backends" if isinstance(part, Backend) else kind
        registered = getattr(self.catalogue, kind).get(part.name)
        if type(registered) is not type(part):
            return False
        return self.catalogue.origins[f"{kind}/{part.name}"] == self._built_in_origin

    def observes(self, event: str) -> bool:
        """Whether any observer handles `event`."""
        return event in self.catalogue.handlers

    def notify(self, event: str, *values: Any, scheduler: str) -> None:
        """Call the observers, with the name of the scheduler whose event this is; one that fails is logged,
        and changes nothing. So is one that would end the program: what it is told has been done, and the
        caller must learn of it, too."""
        for name, handle in self.catalogue.handlers.get(event, ()):
            try:
                handle(scheduler, values)
            except KeyboardInterrupt:
                raise
            except BaseException:
                logger.exception("observer %s failed at %s", name, event)

    def register(self, plugin: Any, name: str | None = None) -> PluginStatus:
        """Register a plugin object or module of this process; raises `PluginError` if it is refused."""
        plugin_name = str(name or getattr(plugin, "__name__", type(plugin).__name__))
        status = PluginStatus(plugin_name, "this process", "")
        loaded = self._load(status, lambda: _staged(lambda: plugin, status.origin), strict=True)
        assert loaded is not None
        return loaded

    def load_entry_points(self) -> None:
        """Load the third-party plugins of the entry-point group, sorted by distribution and name."""
        strict = os.environ.get("ENGINE_SAMPLER_STRICT") == "1"
        installed = [(_status_of(e), e) for e in importlib.metadata.entry_points(group=GROUP)]
        installed.sort(key=lambda pair: (pair[0].distribution.lower(), pair[0].name, pair[1].value))
        selected = _selected_plugins({status.name for status, _ in installed})
        deferred: list[tuple[PluginStatus, Callable[[], Catalogue]]] = []
        for status, entry_point in installed:
            if status.name in selected:
                stage = functools.cache(functools.partial(_staged, entry_point.load, status.origin))
                if self._load(status, stage, strict=strict, waits=True) is None:
                    deferred.append((status, stage))
            else:
                reason = "not selected by ENGINE_SAMPLER_PLUGINS"
                self.plugins.append(replace(status, state="disabled", error=reason))
        for name in sorted(selected - {status.name for status, _ in installed}):
            self._load(PluginStatus(name, "not installed", ""), _not_installed, strict=strict)
        self._load_waiting(deferred, strict)

    def _load(
        self, status: PluginStatus, stage: Callable[[], Catalogue], *, strict: bool, waits: bool = False
    ) -> PluginStatus | None:
        """Accept everything that a plugin has staged, or nothing, and list it. None, without listing it, if
        it `waits` and names a sampler that is not registered yet."""
        try:
            self._check_name(status)
            staged = stage()
            merged = self.catalogue.merged(staged)
            merged.check_places(staged)
            check_neutral(staged, merged.params)
        except BaseException as error:  # a plugin may even raise SystemExit on import
            if isinstance(error, (KeyboardInterrupt, GeneratorExit)):
                raise
            if waits and isinstance(error, MissingSamplerError):
                return None
            text = text_of(error)
            if not isinstance(error, PluginError):
                text = f"{type(error).__name__}: {text}"
            if strict:
                raise PluginError(f"plugin {status.name} ({status.origin}): {text}") from error
            logger.warning("plugin %s (%s) is not used: %s", status.name, status.origin, text)
            status = replace(status, state="failed", error=text)
        else:
            self.catalogue = merged
            status = replace(status, provides=tuple(staged.names()))
        self.plugins.append(status)
        return status

    def _load_waiting(
        self, waiting: list[tuple[PluginStatus, Callable[[], Catalogue]]], strict: bool
    ) -> None:
        """Load the plugins that name samplers of others, each after those that it names."""
        while waiting:
            left = [one for one in waiting if self._load(*one, strict=strict, waits=True) is None]
            if len(left) == len(waiting):
                for status, stage in left:
                    self._load(status, stage, strict=strict)
                return
            waiting = left

    def _check_name(self, status: PluginStatus) -> None:
        for other in self.plugins:
            if other.state == "loaded" and other.name == status.name:
                raise PluginError(
                    f"the name {status.name} is used by both {other.origin} and {status.origin}"
                )


# --- staging -------------------------------------------------------------------------------------


def _staged(load: Callable[[], Any], origin: str) -> Catalogue:
    """Everything that the plugin `load()` registers, checked, in its own catalogue."""
    plugin = load()
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    try:
        manager.register(plugin)
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        hooks = ", ".join(name for name in vars(hookspecs) if name.startswith("register_"))
        raise PluginError(f"{error}; hooks are {hooks}, with the argument register") from error
    if not manager.get_hookcallers(plugin):
        raise PluginError(
            f"{plugin!r} implements no hook; is it marked with engine_sampler.contract.hookimpl?"
        )
    staged = Catalogue()

    def adder(kind: str, *classes: type) -> Callable[[Any], None]:
        def add(value: Any) -> None:
            check_object(value, classes)
            staged.add("selectors" if isinstance(value, Selector) else kind, value.name, value, origin)

        return add

    def add_grammar(name: str, value: Any = None) -> None:
        if value is None:
            raise PluginError(f"register({quoted(name)}) is not allowed: register(name, grammar)")
        check_identifier("a grammar", name)
        staged.add("grammars", name, value, origin)

    def add_observer(value: Any) -> None:
        if not any(hasattr(value, event) for event in EVENTS):
            raise PluginError(f"{value!r} is not an observer: it has none of {', '.join(EVENTS)}")
        staged.add("observers", getattr(value, "name", type(value).__name__), value, origin)

    manager.hook.register_samplers(register=adder("samplers", Sampler, Selector))
    manager.hook.register_stopping_criteria(register=adder("stopping_criteria", StoppingCriteria))
    manager.hook.register_backends(register=adder("backends", Backend))
    manager.hook.register_grammars(register=add_grammar)
    manager.hook.register_constraints(register=adder("constraints", ConstraintReader))
    manager.hook.register_drafters(register=adder("drafters", Drafter))
    manager.hook.register_observers(register=add_observer)
    return staged


# --- entry points --------------------------------------------------------------------------------


def _status_of(entry_point: importlib.metadata.EntryPoint) -> PluginStatus:
    """The status before loading; a distribution with damaged metadata is called "unknown"."""
    try:
        dist: Any = entry_point.dist
        name, version = str(dist.name or "unknown"), str(dist.version or "")
    except Exception:
        name, version = "unknown", ""
    return PluginStatus(entry_point.name, name, version)


def _selected_plugins(installed: set[str]) -> set[str]:
    """The names in ENGINE_SAMPLER_PLUGINS; if it is unset, all `installed` ones."""
    selection = os.environ.get("ENGINE_SAMPLER_PLUGINS")
    return installed if selection is None else {name.strip() for name in selection.split(",")} - {""}


def _not_installed() -> Catalogue:
    raise PluginError("selected by ENGINE_SAMPLER_PLUGINS, but no distribution provides it")


def _is_there(module: str) -> bool:
    """Whether a part of this package is installed: a deployment may leave it out."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ModuleNotFoundError, ValueError):  # its parent is missing, or has been made unimportable
        return False


def _version_of(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:  # a source tree on the path, not installed
        return ""


_loading = fork_safe(threading.RLock())
_default: Registry | None = None
_loaded: Registry | None = None
"""`_default`, once it is complete: from then on no lock is taken, which an interruption might leave held."""


def default_registry() -> Registry:
    """The registry of this process: built-ins and installed plugins, loaded on first use.

    A plugin that calls this while it is being loaded sees what has been loaded so far.
    """
    global _default, _loaded
    if _default is not None and _default is _loaded:
        return _default
    with _loading:
        if _default is None:
            _default = Registry(CORE_PARAMS)
            try:
                _default.load_entry_points()
            except BaseException:
                _default = None
                raise
            _loaded = _default
        return _default


def constraint_reader(name: str | None = None, wanted_by: str = "grammar") -> ConstraintReader:
    """What reads the constraints of requests: the grammar engine of a name, or else the one that
    `ENGINE_SAMPLER_GRAMMAR_ENGINE` names, or else this package's own. Raises `ParameterError` if there is
    none for the parameter that asks for it."""
    readers = default_registry().catalogue.constraints
    set_to = os.environ.get(GRAMMAR_ENGINE)
    wanted = name or set_to or OWN_ENGINE
    if wanted in readers:
        return readers[wanted]
    if wanted == OWN_ENGINE and name is None:
        raise ParameterError(f"{wanted_by} is not allowed: no grammar engine is installed")
    by = "grammar_engine" if name else GRAMMAR_ENGINE
    allowed = f"one of {', '.join(sorted(readers))}" if readers else "none is installed"
    raise ParameterError(f"{by}={quoted(wanted)} is not allowed: {allowed}")


def check_taken(reader: ConstraintReader, structured: str, params: Mapping[str, Any]) -> None:
    """Raise `ParameterError` if a reader does not take the structured parameter that is set in `params`, or
    one of its options that is."""
    if reader.takes is None:
        return
    options = (name for name, owners in GRAMMAR_OPTIONS.items() if structured in owners)
    for name in (structured, *options):
        if name not in reader.takes and params[name] != CORE_PARAMS[name].neutral:
            allowed = f"the grammar engine {reader.name} does not take it"
            raise ParameterError(f"{name}={quoted(params[name])} is not allowed: {allowed}")


def mask_filler(name: str | None = None) -> Callable[..., dict[int, BaseException]]:
    """`fill_masks` of the `constraint_reader` of this name; without one, matchers are filled one by one."""
    try:
        return constraint_reader(name).fill_masks
    except ParameterError:
        return fill_each


def drafters_named(names: Sequence[str]) -> list[Drafter]:
    """The drafters of these names; raises `ParameterError` for one that no plugin registers."""
    known = default_registry().catalogue.drafters
    for name in names:
        if name not in known:
            allowed = f"some of {', '.join(known)}"
            raise ParameterError(f"drafter={quoted(name)} is not allowed: {allowed}")
    return [known[name] for name in names]


_SHORTEST_PREFIX = 3
"""Fewer letters begin too many names to suggest them all."""


def unknown(name: str, others: Iterable[str] = ()) -> ParameterError:
    """The error for a name that is not a parameter. It says what another system's name is called here, or
    else names similar parameters and `others`."""
    registry = default_registry()
    known = {**dict.fromkeys(others), **registry.catalogue.params}
    if name in FAMILIAR_NAMES:
        similar = [FAMILIAR_NAMES[name]]
    else:
        longer = [other for other in known if len(name) >= _SHORTEST_PREFIX and other.startswith(name)]
        similar = list(dict.fromkeys([*close_matches(name, known), *longer]))[:3]
    message = f"unknown parameter {quoted(name)}"
    if similar:
        message += "; did you mean " + " or ".join(map(repr, similar)) + "?"
    failed = [f"{p.name} ({p.origin}): {p.error}" for p in registry.plugins if p.state == "failed"]
    if failed:
        message += "; plugins that failed to load: " + "; ".join(failed)
    return ParameterError(message)


T = TypeVar("T")


def objects_in(package: str, path: Sequence[str], base: type[T] | tuple[type[T], ...]) -> Iterator[T]:
    """One object of every subclass of `base` that has a `name` and is defined in a module of `package`."""
    for module in pkgutil.iter_modules(path):
        namespace = vars(importlib.import_module(f"{package}.{module.name}"))
        for value in namespace.values():
            if (
                inspect.isclass(value)
                and issubclass(value, base)
                and value.__module__ == f"{package}.{module.name}"
                and hasattr(value, "name")
            ):
                yield value()
