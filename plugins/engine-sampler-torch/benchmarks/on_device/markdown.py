"""Tables for people."""

from __future__ import annotations

from typing import Any


def markdown(rows: list[dict[str, Any]]) -> list[str]:
    """The lines of a table with one row for each dict, under an empty line; nothing for no rows. All have the
    names of the first."""
    if not rows:
        return []
    names = list(rows[0])
    lines = ["", "| " + " | ".join(names) + " |", "| " + " | ".join("---" for _ in names) + " |"]
    return lines + ["| " + " | ".join(str(row.get(name, "")) for name in names) + " |" for row in rows]
