"""`engine-sampler new`: a plugin from a template, whose tests pass at once.

The templates are working distributions called my_plugin: a new one is such a folder under another name.
"""

from __future__ import annotations

import argparse
import ast
import importlib.resources
import keyword
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..registry import default_registry
from ..registry.catalogue import KINDS as GROUPS
from ..registry.catalogue import RESERVED

PARTS: dict[str, tuple[str, ...]] = {
    **{
        kind: ("common", "python", kind)
        for kind in ("sampler", "selector", "criterion", "backend", "grammar", "drafter", "observer")
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
    name = checked_name(arguments.name, arguments.kind)
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


def checked_name(name: str, kind: str) -> str:
    """`name`, if a plugin of a kind can be called so; raises ValueError, which says what is allowed."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or len(name) > LONGEST or keyword.iskeyword(name):
        similar = re.sub(r"\W+", "_", name).strip("_").lower()
        hint = f", such as {similar}" if similar != name and re.fullmatch(r"[a-z][a-z0-9_]*", similar) else ""
        raise ValueError(
            f"NAME={name!r} is not allowed: up to {LONGEST} lower-case letters, digits and _, letter first, "
            f"and no keyword of Python{hint}"
        )
    origins = default_registry().catalogue.origins
    for registered in (f"{group}/{name}" for group in (*GROUPS, "params")):
        if registered in origins:
            raise ValueError(f"NAME={name!r} is not allowed: {origins[registered]} has {registered} already")
    if name in RESERVED:
        raise ValueError(f"NAME={name!r} is not allowed: SamplingParams has a method or keyword of this name")
    used = {one for path, text in _templates(kind) if path.endswith(".py") for one in _names_in(text)}
    if class_name(name) in used - {"MyPlugin"} or keyword.iskeyword(class_name(name)):
        raise ValueError(f"NAME={name!r} is not allowed: its class, {class_name(name)}, would hide another")
    return name


def _names_in(text: str) -> Iterator[str]:
    """The names that Python code uses, defines and imports."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, (ast.ClassDef, ast.alias)):
            yield node.name


def class_name(name: str) -> str:
    """The class of a plugin: my_plugin → MyPlugin."""
    return "".join(part.capitalize() for part in name.split("_"))


def _files(kind: str, name: str) -> Iterator[tuple[str, str]]:
    """The path and the text of every file of a new distribution."""
    names = {"my_plugin": name, "my-plugin": name.replace("_", "-"), "MyPlugin": class_name(name)}

    def renamed(text: str) -> str:
        return re.sub("|".join(names), lambda found: names[found[0]], text)

    return ((renamed(path), renamed(text)) for path, text in _templates(kind))


def _templates(kind: str) -> Iterator[tuple[str, str]]:
    """The path and the text of every template of a kind, called my_plugin."""
    templates = importlib.resources.files(__package__) / "templates"
    for part in PARTS[kind]:
        for path, text in _texts_in(templates / part, ""):
            yield path.removesuffix(SUFFIX), text


def _texts_in(folder: Any, path: str) -> Iterator[tuple[str, str]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _texts_in(entry, f"{path}{entry.name}/")
        elif entry.name.endswith(SUFFIX):
            yield path + entry.name, entry.read_text(encoding="utf-8")
