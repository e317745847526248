"""Terminal output: tables of plugins, lines of checks. Needs rich, from the extra `demo`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from ..explain.terminal import make_table

if TYPE_CHECKING:
    from ..testing.results import CheckResult
    from .sections import Section

STATE_STYLES = {
    **dict.fromkeys(("loaded", "usable", "ready", "on"), "green"),
    "in effect": "bold green",
    **dict.fromkeys(("off", "not installed", "disabled"), "yellow"),
}
"""Other states are red."""

_WIDEST_ORIGIN = 28
_WIDEST = 34

OUTCOME_STYLES = {"passed": "green", "failed": "bold red", "not promised": "dim"}


def section_table(section: Section) -> Table:
    """A section as a table: states have colours, the last column is folded."""
    table = make_table(title=section.title)
    *before, last = section.headings
    for number, heading in enumerate(before):
        if heading == "origin":
            table.add_column(heading, max_width=_WIDEST_ORIGIN, overflow="fold", style="dim")
        else:
            table.add_column(heading, max_width=_WIDEST, overflow="fold", style="" if number else "bold")
    table.add_column(last, ratio=1, overflow="fold")
    at = section.headings.index("state") if "state" in section.headings else None
    for row in section.rows:
        table.add_row(*(_state(cell) if number == at else cell for number, cell in enumerate(row)))
    return table


def check_line(check: CheckResult) -> Text:
    """One check as a line."""
    state = Text(f"{check.outcome:<12}", style=OUTCOME_STYLES[check.outcome])
    name = f"{check.name:<22} " if check.detail else check.name
    return Text.assemble(state, " ", (name, "bold"), check.detail)


def _state(state: str) -> Text:
    return Text(state, style=STATE_STYLES.get(state, "bold red"))
