"""`engine-sampler new`: a plugin from a template, whose tests pass at once.

The templates are working distributions called my_plugin: a new one is such a folder under another name.
"""

from __future__ import annotations

import argparse
import importlib.resources
import keyword
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import engine_sampler

from ..registry import default_registry
from ..registry.catalogue import KINDS as REGISTERED
from ..registry.catalogue import RESERVED

PARTS: dict[str, tuple[str, ...]] = {
    **{
        kind: ("common", "python", kind)
        for kind in ("sampler", "selector", "criterion", "backend", "grammar", "observer")
    },
    "library": ("common", "library"),
}
"""The kinds of plugins → the folders of templates that make one."""

SUFFIX = ".template"
LONGEST = 24
"""Characters of a name: its lines stay short."""


def create(arguments: argparse.Namespace) -> list[str]:
    """Write a distribution; returns lines to print: what was written, and what to do next.

    Raises ValueError for a name that no plugin can have and for a folder that is not empty.
    """
    name = checked_name(arguments.name)
    dashed = name.replace("_", "-")
    folder = Path(arguments.directory or f"engine-sampler-{dashed}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} exists already: nothing is overwritten; choose another --directory")
    files = dict(_files(arguments.kind, name))
    for path, text in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8", newline="\n")
    extra = "" if arguments.kind == "library" else "[test]"
    install = f'pip install -e "{folder}{extra}"'
    if arguments.kind == "library":
        install = f"pip install hatchling pytest && pip install --no-build-isolation -e {folder}"
    return [
        f"{folder}: {', '.join(sorted(files))}",
        "",
        *(f"    {line}" for line in (install, f"pytest {folder}", f"engine-sampler check {name}")),
    ]


def checked_name(name: str) -> str:
    """`name`, if a plugin can be called so; raises ValueError, which says what is allowed."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or len(name) > LONGEST or keyword.iskeyword(name):
        similar = re.sub(r"\W+", "_", name).strip("_").lower()
        hint = f", such as {similar}" if similar != name and re.fullmatch(r"[a-z][a-z0-9_]*", similar) else ""
        raise ValueError(
            f"NAME={name!r} is not allowed: up to {LONGEST} lower-case letters, digits and _, letter first, "
            f"and no keyword of Python{hint}"
        )
    catalogue = default_registry().catalogue
    for kind in (*REGISTERED, "params"):
        if origin := catalogue.origins.get(f"{kind}/{name}"):
            raise ValueError(f"NAME={name!r} is not allowed: {origin} has {kind}/{name} already")
    if name in RESERVED or class_name(name) in {*engine_sampler.__all__, "Any", "Callable"}:
        raise ValueError(f"NAME={name!r} is not allowed: engine_sampler uses this name itself")
    return name


def class_name(name: str) -> str:
    """The class of a plugin: my_plugin → MyPlugin."""
    return "".join(part.capitalize() for part in name.split("_"))


def _files(kind: str, name: str) -> Iterator[tuple[str, str]]:
    """The path and the text of every file of a new distribution."""
    names = {"my_plugin": name, "my-plugin": name.replace("_", "-"), "MyPlugin": class_name(name)}

    def renamed(text: str) -> str:
        return re.sub("|".join(names), lambda found: names[found[0]], text)

    templates = importlib.resources.files(__package__) / "templates"
    for part in PARTS[kind]:
        for path, text in _texts(templates / part, ""):
            yield renamed(path.removesuffix(SUFFIX)), renamed(text)


def _texts(folder: Any, path: str) -> Iterator[tuple[str, str]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _texts(entry, f"{path}{entry.name}/")
        elif entry.name.endswith(SUFFIX):
            yield path + entry.name, entry.read_text(encoding="utf-8")
