"""The registered objects as plain data, which `engine-sampler plugins` prints as tables or JSON."""

from __future__ import annotations

import itertools
from dataclasses import asdict
from typing import Any

from ..base.packaged import grammar_names, grammar_text
from ..contract import Backend, Sampler
from ..grammar import Grammar, GrammarError
from ..registry import Catalogue, Registry

KINDS = ("samplers", "selectors", "stopping_criteria", "backends", "grammars", "observers")


def inventory(registry: Registry) -> dict[str, list[dict[str, Any]]]:
    """Every object by kind, with origin and state, and every plugin with its state and the reason for it.

    All values are JSON-serialisable.
    """
    catalogue = registry.catalogue
    listed = {kind: [_entry(catalogue, kind, name) for name in getattr(catalogue, kind)] for kind in KINDS}
    listed["grammars"] += _library_grammars(registry)
    return {**listed, "plugins": [asdict(status) for status in registry.plugins]}


def summary_of(value: object) -> str:
    """The first sentence of a class's docstring."""
    return _first_sentence(type(value).__doc__)


def _first_sentence(text: str | None) -> str:
    paragraph = (text or "").strip().partition("\n\n")[0]
    sentence, _, rest = " ".join(paragraph.split()).partition(". ")
    return f"{sentence}." if rest else sentence


def _grammar_summary(value: Any) -> str:
    """The first sentence of the comment that opens a Lark text, or of a docstring; else the kind of a
    `Grammar`."""
    if isinstance(value, Grammar):
        return _grammar_summary(value.text or "") or f"A grammar of the kind {value.kind}."
    if not isinstance(value, str):
        return _first_sentence(value.__doc__)
    comment = itertools.takewhile(lambda line: line.startswith("//"), value.strip().splitlines())
    return _first_sentence(" ".join(line.removeprefix("//") for line in comment))


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
        _grammar_summary(value) if kind == "grammars" else summary_of(value),
        [param.name for param in getattr(value, "params", ())],
    )
    if isinstance(value, Sampler):
        entry["role"] = value.role
    if isinstance(value, Backend):
        entry["exact"] = value.exact
        entry["reason"] = value.reason
    return entry


def _description(name: str, origin: str, state: str, summary: str, parameters: Any = ()) -> dict[str, Any]:
    return {
        "name": name,
        "origin": origin,
        "state": state,
        "summary": summary,
        "parameters": list(parameters),
    }


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
