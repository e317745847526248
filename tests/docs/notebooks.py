"""The notebooks of the documentation: `python -m tests.docs.notebooks` writes what they print and draw."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

from .pages import DOCS

NOTEBOOKS = sorted(set((DOCS / "notebooks").glob("*.md")) - {DOCS / "notebooks" / "index.md"})

CELL = re.compile(
    r"^(```python\n(.*?)^```\n)(\n```text\n.*?^```\n)?(\n!\[[^\]]*\]\(([^)]*)\)\n)?", re.DOTALL | re.MULTILINE
)
"""A cell, what it prints, and the picture that it draws."""


def run(page: Path, draw: bool = False) -> str:
    """The text of a page with what its cells print now; `draw` also writes their pictures."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    names: dict[str, Any] = {"__name__": "notebook"}
    drawn = []

    def run_cell(cell: re.Match[str]) -> str:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(cell[2], page.name, "exec", dont_inherit=True), names)
        lines = [line.rstrip() for line in printed.getvalue().splitlines()]
        output = "".join(f"{line}\n" for line in ("", "```text", *lines, "```")) if lines else ""
        if cell[5]:
            drawn.append(cell[5])
        return cell[1] + output + (cell[4] or "")

    def show() -> None:
        drawing = pyplot.gcf()
        pictures = re.findall(r"\]\((pictures/[^)]*)\)", page.read_text(encoding="utf-8"))
        if draw:
            with pyplot.rc_context({"svg.hashsalt": page.stem, "svg.fonttype": "none"}):
                drawing.savefig(page.parent / pictures[len(drawn)], metadata={"Date": None})
        pyplot.close(drawing)

    original, pyplot.show = pyplot.show, show
    try:
        return CELL.sub(run_cell, page.read_text(encoding="utf-8"))
    finally:
        pyplot.show = original


if __name__ == "__main__":
    for notebook in NOTEBOOKS:
        notebook.write_text(run(notebook, draw=True), encoding="utf-8")
