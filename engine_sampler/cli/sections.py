"""What `engine-sampler plugins` prints, as rows: first what is in effect, then what there is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

Inventory = Mapping[str, Sequence[Mapping[str, Any]]]

KINDS = ("samplers", "selectors", "stopping_criteria", "grammars", "drafters", "observers", "backends")

USABLE = ("loaded", "usable", "in effect")
"""States of objects that can be used."""


class Section(NamedTuple):
    """A title, the headings of the columns, and rows of text."""

    title: str
    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def sections(inventory: Inventory, details: bool = False) -> Iterator[Section]:
    """The sections of a listing; with `details` every object has a row with its origin, its state and what it
    does, otherwise only those that cannot be used."""
    yield Section("in effect", ("", "", "why, or what it does"), [*_in_effect(inventory)])
    if inventory["bridges"]:
        rows = [_bridge_row(bridge) for bridge in inventory["bridges"]]
        yield Section("bridges", ("engine", "release", "tested", "state", "how, or what is wrong"), rows)
    rows = [_plugin_row(plugin) for plugin in inventory["plugins"]]
    yield Section("plugins", ("plugin", "origin", "state", "provides, or what failed"), rows)
    objects = {kind: inventory[kind] for kind in KINDS if inventory[kind]}
    headings = ("name", "origin", "state", "what it does, or what is wrong")
    if details:
        for kind, entries in objects.items():
            yield Section(kind.replace("_", " "), headings, [_object_row(entry) for entry in entries])
        return
    broken = [entry for entries in objects.values() for entry in entries if state_of(entry) not in USABLE]
    if broken:
        yield Section("cannot be used", headings, [_object_row(entry) for entry in broken])
    names: list[tuple[str, ...]] = [
        (kind.replace("_", " "), ", ".join(map(title_of, entries))) for kind, entries in objects.items()
    ]
    yield Section("names", ("", "--details says what each does"), names)


def _in_effect(inventory: Inventory) -> Iterator[tuple[str, ...]]:
    """The backend for logits on the host, why each other one is not taken, and the variables that are set."""
    taken = [entry for entry in inventory["backends"] if entry["in_effect"]]
    yield from (("backend", _with_target(entry), entry["why"]) for entry in taken)
    if not taken:
        yield "backend", "none", "what the environment names cannot be used"
    for entry in inventory["backends"]:
        if entry not in taken and (why := entry["why"] or entry["reason"]):
            yield "not taken", entry["name"], why
    for variable in inventory["environment"]:
        yield "variable", f"{variable['name']}={variable['value']}", variable["effect"]


def _with_target(entry: Mapping[str, Any]) -> str:
    return f"{entry['name']} ({entry['target']})" if entry["target"] else str(entry["name"])


def _bridge_row(bridge: Mapping[str, Any]) -> tuple[str, ...]:
    return bridge["name"], bridge["installed"], bridge["tested"], bridge["state"], bridge["why"]


def _plugin_row(plugin: Mapping[str, Any]) -> tuple[str, ...]:
    origin = f"{plugin['distribution']} {plugin['version']}".strip()
    return plugin["name"], origin, plugin["state"], plugin["error"] or provided(plugin)


def _object_row(entry: Mapping[str, Any]) -> tuple[str, ...]:
    return title_of(entry), entry["origin"], state_of(entry), about(entry)


def about(entry: Mapping[str, Any]) -> str:
    """What an object of the inventory does, or why it is unavailable."""
    _, _, fault = str(entry["state"]).partition(": ")
    return str(entry.get("reason") or fault or entry["summary"])


def state_of(entry: Mapping[str, Any]) -> str:
    """The state of an object of the inventory in few words; a backend may be in effect."""
    return "in effect" if entry.get("in_effect") else str(entry["state"]).partition(": ")[0]


def title_of(entry: Mapping[str, Any]) -> str:
    """The name of an object of the inventory; of a backend also whether it is inexact."""
    return f"{entry['name']} (inexact)" if entry.get("exact") is False else str(entry["name"])


def provided(plugin: Mapping[str, Any]) -> str:
    """The names of what a plugin provides, or the number of each kind if there are more than five."""
    names = plugin["provides"]
    if len(names) <= 5:
        return ", ".join(name.partition("/")[2] for name in names)
    kinds = Counter(name.partition("/")[0].replace("_", " ") for name in names)
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items())
