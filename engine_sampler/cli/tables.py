"""Terminal output: tables of plugins, lines of checks. Needs rich, from the extra `demo`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from ..explain.terminal import make_table
from .listing import NO_VARIABLES, about, provided, state_of, title_of

if TYPE_CHECKING:
    from ..testing.results import CheckResult

STATE_STYLES = {"loaded": "green", "usable": "green", "in effect": "bold green", "disabled": "yellow"}
"""Other states are red."""

_WIDEST_ORIGIN = 28

OUTCOME_STYLES = {"passed": "green", "failed": "bold red", "not promised": "dim"}


def plugin_tables(inventory: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[Table]:
    """One table per kind of object, then the plugins, and the environment variables that are set."""
    for kind, entries in inventory.items():
        if kind == "plugins":
            yield _plugins_table(entries)
        elif kind == "environment":
            yield _environment_table(entries)
        elif entries:
            yield _objects_table(kind, entries)


def _objects_table(kind: str, entries: Sequence[Mapping[str, Any]]) -> Table:
    table = make_table(title=kind.replace("_", " "))
    table.add_column("name", no_wrap=True, style="bold")
    table.add_column("origin", max_width=_WIDEST_ORIGIN, overflow="fold", style="dim")
    table.add_column("state", no_wrap=True)
    table.add_column("what it does, or what is wrong", ratio=1, overflow="fold")
    for entry in entries:
        table.add_row(title_of(entry), entry["origin"], _state(state_of(entry)), about(entry))
    return table


def _environment_table(entries: Sequence[Mapping[str, Any]]) -> Table:
    table = make_table(title="environment")
    table.add_column("variable", no_wrap=True, style="bold")
    table.add_column("value", overflow="fold")
    table.add_column("what it does", ratio=1, overflow="fold")
    for entry in entries:
        table.add_row(entry["name"], entry["value"], entry["effect"])
    if not entries:
        table.add_row("none", "", NO_VARIABLES)
    return table


def _plugins_table(entries: Sequence[Mapping[str, Any]]) -> Table:
    table = make_table(title="plugins")
    table.add_column("plugin", no_wrap=True, style="bold")
    table.add_column("origin", no_wrap=True, style="dim")
    table.add_column("state", no_wrap=True)
    table.add_column("provides, or what failed", ratio=1, overflow="fold")
    for entry in entries:
        origin = f"{entry['distribution']} {entry['version']}".strip()
        table.add_row(entry["name"], origin, _state(entry["state"]), entry["error"] or provided(entry))
    return table


def check_line(check: CheckResult) -> Text:
    """One check as a line."""
    state = Text(f"{check.outcome:<12}", style=OUTCOME_STYLES[check.outcome])
    name = f"{check.name:<22} " if check.detail else check.name
    return Text.assemble(state, " ", (name, "bold"), check.detail)


def _state(state: str) -> Text:
    return Text(state, style=STATE_STYLES.get(state, "bold red"))
