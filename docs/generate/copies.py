"""Pages of the repository that the site shows, too: `CHANGELOG.md` and `CONTRIBUTING.md`."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

COPIES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
"""The file in the repository and its page in `docs/`."""

_LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s]*)(#[^)\s]*)?\)")
_FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?<=\n\n)(?:    .*\n)+(?=\n|\Z)")


def copies() -> dict[str, str]:
    """The text of each page by its path in `docs/`."""
    return {page: page_of((ROOT / name).read_text(encoding="utf-8")) for name, page in COPIES.items()}


def page_of(text: str) -> str:
    """A page of the repository as one of the site: links as they are seen from `docs/`, code in fences. Its
    Python is a sketch there, since what it needs is not on the page."""
    parts = _FENCED.split(text)
    parts[::2] = [_LINK.sub(_seen_from_docs, _INDENTED.sub(_fenced, part)) for part in parts[::2]]
    return "".join(parts).replace("```python\n", "```py\n")


def _fenced(block: re.Match[str]) -> str:
    """An indented block of commands, in a fence."""
    return f"```sh\n{re.sub('(?m)^    ', '', block[0])}```\n"


def _seen_from_docs(match: re.Match[str]) -> str:
    """A link from the site; what the site does not have is only named."""
    label, target, place = match[1], match[2], match[3] or ""
    if "://" in target or not target:
        return match[0]
    page = COPIES.get(target) or posixpath.relpath(target, "docs")
    return label if page.startswith("../") else f"[{label}]({page}{place})"
