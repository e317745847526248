"""Parts of our own files on pages, so that there is one text of them."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def code_of(name: str) -> str:
    """The lines of a class or function, by its full name, as a block of code. Nothing is imported."""
    *parents, last = name.split(".")
    path = ROOT
    while (path / parents[0]).is_dir():
        path /= parents.pop(0)
    lines = (path / f"{parents[0]}.py").read_text(encoding="utf-8")
    node: Any = ast.parse(lines)
    for part in (*parents[1:], last):
        node = next(one for one in node.body if getattr(one, "name", None) == part)
    first = min(one.lineno for one in (node, *node.decorator_list))
    code = "\n".join(lines.splitlines()[first - 1 : node.end_lineno])
    return f"```py\n{textwrap.dedent(code)}\n```"
