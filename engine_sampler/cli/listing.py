"""The registered objects as plain data, which `engine-sampler plugins` prints as tables or JSON."""

from __future__ import annotations

import itertools
import os
from dataclasses import asdict
from typing import Any

from ..backends.choose import BackendChoice, automatic_choice, named_choice, target_of
from ..backends.library import LibraryBackend, LibraryError
from ..base.environment import PREFIX, VARIABLES
from ..base.packaged import grammar_names, grammar_text
from ..contract import Backend, DeferredBackend, Sampler, Selector
from ..explain.labels import first_sentence
from ..for_bridges.peers import bridges
from ..grammar import Grammar, GrammarError
from ..registry import Catalogue, Registry

KINDS = ("samplers", "selectors", "stopping_criteria", "grammars", "drafters", "observers")


def inventory(registry: Registry) -> dict[str, list[dict[str, Any]]]:
    """Of each backend whether it is taken for logits on the host, and why, or why not; the environment
    variables that are set; the bridges beside their engines. Then every plugin with its state and the reason
    for it, and every object by kind, with origin and state.

    All values are JSON-serialisable.
    """
    catalogue = registry.catalogue
    listed = {kind: [_entry(catalogue, kind, name) for name in getattr(catalogue, kind)] for kind in KINDS}
    listed["grammars"] += _library_grammars(registry)
    backends, fault = _backends(registry)
    beside = [asdict(state) for state in bridges()]
    return {
        "backends": backends,
        "environment": _environment(fault, beside),
        "bridges": beside,
        "plugins": [asdict(status) for status in registry.plugins],
        **listed,
    }


def summary_of(value: object) -> str:
    """The first sentence of a class's docstring."""
    return first_sentence(type(value).__doc__)


def _summary(catalogue: Catalogue, kind: str, value: Any) -> str:
    if kind == "grammars":
        return _grammar_summary(value)
    if isinstance(value, LibraryBackend) and (type(value) is LibraryBackend or not type(value).__doc__):
        return _library_summary(catalogue, value)
    return summary_of(value.loaded() if isinstance(value, DeferredBackend) and not value.reason else value)


def _library_summary(catalogue: Catalogue, library: LibraryBackend) -> str:
    """What a library says about itself, and which of the registered parts it runs."""
    parts: list[Sampler | Selector] = [*catalogue.samplers.values(), *catalogue.selectors.values()]
    try:
        runs = ", ".join(part.name for part in parts if library.supports(part))
    except LibraryError as error:
        return str(error)
    return f"{library.description} It runs {runs or 'nothing'}; the host runs the rest."


def _grammar_summary(value: Any) -> str:
    """The first sentence of the comment that opens a Lark text, or of a docstring; else the kind of a
    `Grammar`."""
    if isinstance(value, Grammar):
        return _grammar_summary(value.text or "") or f"A grammar of the kind {value.kind}."
    if not isinstance(value, str):
        return first_sentence(value.__doc__)
    comment = itertools.takewhile(lambda line: line.startswith("//"), value.strip().splitlines())
    return first_sentence(" ".join(line.removeprefix("//") for line in comment))


def _library_grammars(registry: Registry) -> list[dict[str, Any]]:
    """The grammars that come with the package, except those that a plugin overrides."""
    origin = registry.plugins[0].origin
    names = [name for name in grammar_names() if name not in registry.catalogue.grammars]
    return [_description(name, origin, "loaded", _grammar_summary(grammar_text(name))) for name in names]


def _entry(catalogue: Catalogue, kind: str, name: str) -> dict[str, Any]:
    value = getattr(catalogue, kind)[name]
    entry = _description(
        name,
        catalogue.origins[f"{kind}/{name}"],
        _state(kind, value),
        _summary(catalogue, kind, value),
        [param.name for param in getattr(value, "params", ())],
    )
    if isinstance(value, Sampler):
        entry["role"] = value.role
    return entry | _facts(value) if isinstance(value, Backend) else entry


def _facts(backend: Backend) -> dict[str, Any]:
    return {"exact": backend.exact, "reason": backend.reason, "target": target_of(backend)}


def _description(name: str, origin: str, state: str, summary: str, parameters: Any = ()) -> dict[str, Any]:
    return {
        "name": name,
        "origin": origin,
        "state": state,
        "summary": summary,
        "parameters": list(parameters),
    }


def _backends(registry: Registry) -> tuple[list[dict[str, Any]], str]:
    """The backends, and why what the environment names cannot be used, empty if it can."""
    catalogue = registry.catalogue
    listed = [(backend, _entry(catalogue, "backends", name)) for name, backend in catalogue.backends.items()]
    try:
        choice = named_choice("auto", registry) or automatic_choice("cpu", registry)
    except (ValueError, LibraryError) as error:
        return [entry | _standing(backend, None) for backend, entry in listed], str(error)
    chosen = choice.backend
    if chosen not in catalogue.backends.values():  # library:PATH
        origin, state = os.environ["ENGINE_SAMPLER_BACKEND"], _backend_state(chosen)
        summary = _summary(catalogue, "backends", chosen)
        listed.append((chosen, _description(chosen.name, origin, state, summary) | _facts(chosen)))
    return [entry | _standing(backend, choice) for backend, entry in listed], ""


def _standing(backend: Backend, choice: BackendChoice | None) -> dict[str, Any]:
    """Whether `backend` is in effect for logits on the host, and why, or why not."""
    if choice is None or backend is not choice.backend:
        return {"in_effect": False, "why": choice.others.get(backend.name, "") if choice else ""}
    return {"in_effect": True, "why": choice.why}


def _environment(fault: str, beside: list[dict[str, Any]]) -> list[dict[str, str]]:
    """The variables of this package's family that are set; `fault` is that of the one that is
    wrong. Bridges may have variables of their own, which say why they are on."""
    names = sorted(name for name in os.environ if name.startswith(PREFIX))
    effects = {name: VARIABLES.get(name, "not one of this package's") for name in names}
    effects |= {name: f"of {b['bridge']}" for b in beside for name in names if name in b["why"]}
    if fault:
        named = fault.partition("=")[0]
        effects[named if named in effects else "ENGINE_SAMPLER_BACKEND"] = fault
    return [{"name": name, "value": os.environ[name], "effect": effects[name]} for name in names]


def _state(kind: str, value: Any) -> str:
    """Whether an object can be used here: a backend by its score, the text of a grammar by reading it."""
    if isinstance(value, Backend):
        return _backend_state(value)
    if kind == "grammars" and isinstance(value, str):
        try:
            Grammar.from_lark(value)
        except GrammarError as error:
            return f"failed: {error}"
    return "loaded"


def _backend_state(backend: Backend) -> str:
    """Whether a backend can be used here for logits on the CPU."""
    try:
        return "usable" if backend.score("cpu") > 0 else "not usable here"
    except Exception as error:  # a plugin may raise anything
        return f"failed: {type(error).__name__}: {error}"
