"""The releases of engines that the bridges in `plugins/` are tested with, from their `pyproject.toml`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from .tables import table

ROOT = Path(__file__).resolve().parents[2]

_ENGINE = re.compile(r'^\[project\.entry-points\."engine_sampler\.bridges"\]\n"?(.+?)"? = ', re.MULTILINE)
_TESTED = re.compile(r'^tested = \["(.+)==(.+)"\]', re.MULTILINE)


class Release(NamedTuple):
    """A bridge, its engine, and the engine's distribution and release that it is tested with."""

    bridge: str
    engine: str
    distribution: str
    release: str

    def __str__(self) -> str:
        is_named_alike = self.engine.lower() == self.distribution
        return f"{self.engine if is_named_alike else self.distribution} {self.release}"


def releases() -> list[Release]:
    """Those of all bridges that are tested with a release, by the engine's name."""
    listed = []
    for path in ROOT.glob("plugins/*/pyproject.toml"):
        text = path.read_text(encoding="utf-8")
        engine, tested = _ENGINE.search(text), _TESTED.search(text)
        if engine and tested:
            listed.append(Release(path.parent.name, engine[1], *tested.groups()))
    return sorted(listed, key=lambda entry: entry.engine.lower())


def releases_table() -> str:
    """The bridges with the releases that they are tested with, as Markdown."""
    rows = ([entry.engine, f"`{entry.bridge}`", str(entry)] for entry in releases())
    return table(["system", "bridge", "tested with"], rows)


def releases_text() -> str:
    """The engines with their releases, as a part of a sentence."""
    *names, last = map(str, releases())
    return f"{', '.join(names)} and {last}"
