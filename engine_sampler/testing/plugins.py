"""Whether installed plugins keep the laws of their kits, without pytest: for `engine-sampler check NAME`.

The kits are given what the plugins declare: the parameters of their examples, a small tokenizer, texts that a
grammar itself produces. A plugin's own tests know more.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..backends.library import LibraryBackend
from ..base.packaged import grammar_names
from ..contract import ParameterError, Sampler, Selector
from ..grammar.plugin.constraints import grammar_named
from ..registry import PluginStatus, Registry, default_registry
from .backends import BackendContract
from .chains import vocabulary_of
from .drafters import DrafterContract
from .grammars import GrammarContract
from .laws import Contract, laws_of, result_of
from .library import check_apart
from .observers import ObserverContract
from .results import FAILED, NOT_PROMISED, CheckResult
from .samplers import SamplerContract
from .selectors import SelectorContract
from .single import open_slots
from .stopping import StoppingContract

KINDS = {
    "samplers": (SamplerContract, "sampler"),
    "selectors": (SelectorContract, "selector"),
    "stopping_criteria": (StoppingContract, "criterion"),
    "backends": (BackendContract, "backend"),
    "grammars": (GrammarContract, "grammar"),
    "drafters": (DrafterContract, "drafter"),
    "observers": (ObserverContract, "observer"),
}
"""The kit of each kind of object, and the attribute that takes the object."""

WAIVED = {
    "test_neutral_values_change_nothing": "`apply` is never called with neutral values",
}
"""Laws that need not hold, with the reason: a kit has an attribute for each."""

TRIES, LENGTH, TEXTS = 200, 60, 3
"""How many random texts of a grammar are tried, their length in bytes, and how many of them the kit gets."""

SEARCHES = ("test_requests_beside_others_do_as_alone", "test_random_steps_are_those_of_the_reference")
"""Laws that are tried with Hypothesis."""

VOCAB_SIZES = Contract.vocab_sizes


@contextmanager
def registered(plugin: Any, name: str | None = None) -> Iterator[PluginStatus]:
    """Register a plugin, an object or a module with hooks, in this process for a while: for tests.

    Raises `PluginError` if it is refused, as another one of the same name would be.
    """
    registry = default_registry()
    before = registry.catalogue, registry.plugins.copy()
    try:
        yield registry.register(plugin, name)
    finally:
        registry.catalogue, registry.plugins = before


class Checked(NamedTuple):
    """An object of a plugin: its kind in words, its name, its origin, and what is found, law by law."""

    kind: str
    name: str
    origin: str
    results: Iterator[CheckResult]


class Search(NamedTuple):
    """What is tried: the laws or checks of these names, all if there are none; and how long more is tried at
    random, from a seed on: in seconds, of processor time for the laws of kits."""

    only: Collection[str] = ()
    seconds: float = 0.0
    seed: int = 0


def check_plugin(name: str, registry: Registry, search: Search) -> list[Checked]:
    """Every object that is registered under `name`, or by the plugin or distribution of that name.

    Raises ValueError if nothing has this name, or nothing that has it what `search.only` names.
    """
    objects = _objects(name, registry)
    failed = [s for s in registry.plugins if name in (s.name, s.distribution) and s.state != "loaded"]
    if not objects and not failed:
        raise ValueError(_unknown(name, registry))
    if objects:
        _check_search(objects, search)
    checked = [
        Checked("plugin", s.name, s.origin, iter([CheckResult("loads", FAILED, s.error or "")]))
        for s in failed
    ]
    built_in = registry.plugins[0].origin
    for (kind, own), value in objects.items():
        origin = registry.catalogue.origins.get(f"{kind}/{own}", built_in)
        checked.append(Checked(_words(kind), own, origin, _results(kind, value, search)))
    return checked


Objects: TypeAlias = "dict[tuple[str, str], Any]"
"""Objects by kind and name."""


def _objects(name: str, registry: Registry) -> Objects:
    catalogue = registry.catalogue
    provided = {one for s in registry.plugins if name in (s.name, s.distribution) for one in s.provides}
    provided |= {f"{kind}/{name}" for kind in KINDS if name in getattr(catalogue, kind)}
    pairs = [(kind, own) for kind, _, own in (one.partition("/") for one in sorted(provided))]
    found: Objects = {(kind, own): getattr(catalogue, kind)[own] for kind, own in pairs}
    if name in grammar_names() and name not in catalogue.grammars:
        found["grammars", name] = grammar_named(name)
    return found


def _unknown(name: str, registry: Registry) -> str:
    plugins = {known for status in registry.plugins for known in (status.name, status.distribution)}
    names = {one.partition("/")[2] for one in registry.catalogue.names()} | plugins | set(grammar_names())
    close = difflib.get_close_matches(name, names, n=3)
    hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
    return f"no plugin, distribution or registered object is called {name!r}, nor is it a file{hint}"


def _check_search(found: Objects, search: Search) -> None:
    if any(isinstance(value, LibraryBackend) for value in found.values()):
        return  # which has checks of its own
    laws = {_short(law) for kind, _ in found for law in laws_of(KINDS[kind][0])}
    for law in search.only:
        if law not in laws:
            raise ValueError(f"--only {law} is not allowed: one of {', '.join(sorted(laws))}")


def _results(kind: str, value: Any, search: Search) -> Iterator[CheckResult]:
    if kind == "backends" and value.reason:
        return iter([CheckResult("usable", NOT_PROMISED, value.reason)])
    if isinstance(value, LibraryBackend):
        return check_apart(value.library.path, search.seconds, search.seed, search.only)
    return _laws(kind, value, search)


def _laws(kind: str, value: Any, search: Search) -> Iterator[CheckResult]:
    base, attribute = KINDS[kind]
    attributes, waived = _attributes(kind, value)
    if find_spec("hypothesis") is None:
        waived |= dict.fromkeys(SEARCHES, "it needs Hypothesis: pip install hypothesis")
    laws, only = laws_of(base), search.only
    share = search.seconds * len(laws) / (len(set(only)) or len(laws))
    attributes |= {"seconds": share, "seed": search.seed}
    kit = type(f"Check{base.__name__}", (base,), {attribute: value, **attributes})
    for law in laws:
        if not only or _short(law) in only:
            if law in waived:
                yield CheckResult(_short(law), NOT_PROMISED, waived[law])
                continue
            result = result_of(kit, law)
            if result.outcome == FAILED and law in WAIVED:
                result = CheckResult(law, NOT_PROMISED, WAIVED[law])
            yield replace(result, name=_short(law))


def _attributes(kind: str, value: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """What the kit of an object is given, and the laws that cannot be tried, with the reason."""
    if isinstance(value, (Sampler, Selector)):
        may_empty = {"may_empty": value.role == "edit"} if isinstance(value, Sampler) else {}
        sizes = _vocab_sizes(value)
        return {**may_empty, "vocab_sizes": sizes, "eos_token_ids": (0, 2), "tokenizer": _tokenizer}, {}
    if kind == "grammars":
        waived = {"test_other_texts_are_refused": "no text that is not in the language is known"}
        try:
            texts = _texts(value)
        except Exception:  # the laws will tell
            texts = []
        if not texts:
            waived["test_whole_texts_are_accepted_in_any_tokens"] = f"none of {TRIES} random texts ends"
        return {"texts": texts}, waived
    return {}, {}


def _tokenizer(kit: Any, vocab_size: int) -> Any:
    return vocabulary_of(vocab_size).tokenizer


def _vocab_sizes(part: Sampler | Selector) -> list[int]:
    """The sizes that have all token ids of the examples."""
    sizes = []
    for size in VOCAB_SIZES:
        try:
            open_slots(part, [e.params for e in part.examples], size, tokenizer=_tokenizer(None, size))
        except ParameterError:
            continue
        except Exception:  # the laws will tell
            return list(VOCAB_SIZES)
        sizes.append(size)
    return sizes or list(VOCAB_SIZES)


def _texts(grammar: Any) -> list[bytes]:
    """Some texts of a grammar, found by chance."""
    kit: Any = type("Texts", (GrammarContract,), {"grammar": grammar})()
    texts: set[bytes] = set()
    for number in range(TRIES):
        random, matcher, text = np.random.default_rng(number), kit.matcher(), b""
        while len(text) < LENGTH and len(texts) < TEXTS:
            view = kit.view(matcher)
            letters = [token for token in view.tokens if token < 256]
            if view.accepting and text and (not letters or random.random() < 0.3):
                texts.add(text)
                break
            plain = [token for token in letters if 32 <= token < 127] or letters
            if not plain:
                break
            text += bytes([int(random.choice(plain))])
            matcher.accept(text[-1])
    return sorted(texts)


def _short(law: str) -> str:
    return law.removeprefix("test_")


def _words(kind: str) -> str:
    return {"stopping_criteria": "stopping criterion"}.get(kind, kind.removesuffix("s"))
