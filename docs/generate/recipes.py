"""The list of all recipes."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "recipes"
PAGES = ("text", "structure", "measure", "serve", "extend")


def recipe_list() -> str:
    """The recipes of each page, with links."""
    lines: list[str] = []
    for page in PAGES:
        text = (FOLDER / f"{page}.md").read_text(encoding="utf-8")
        title, *recipes = re.findall(
            r"^##? (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE
        )
        lines += [f"## [{title}]({page}.md)", ""]
        lines += [f"- [{recipe}]({page}.md#{_address(recipe)})" for recipe in recipes]
        lines.append("")
    return "\n".join(lines[:-1])


def _address(heading: str) -> str:
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip())
