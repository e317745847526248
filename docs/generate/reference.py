"""The API reference: every public name once, with its signature and its docstring."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from typing import Any

import engine_sampler

from .docstrings import first_sentence, markdown
from .reference_pages import GROUPS, HOOKS, PAGES, Entry, contents
from .signatures import attribute_docs, call_line, class_line
from .tables import table

HERE = "reference"


class Reference:
    """All pages."""

    def __init__(self) -> None:
        self.contents = contents()
        self.places: dict[str, str] = {}
        """The link to each entry and to each section of one, "Scheduler" or "Scheduler.step"; to the page
        alone where another section has the same address."""
        for file, entries in self.contents.items():
            for entry in entries:
                is_class = inspect.isclass(entry.value) and not entry.is_constant
                members = [name for name, _ in _members(entry.value)] if is_class else []
                for name in (entry.label, *(f"{entry.label}.{member}" for member in members)):
                    place = f"{file}.md#{_slug(name)}"
                    self.places[name] = f"{file}.md" if place in self.places.values() else place

    def files(self) -> dict[str, str]:
        """The text of each page by its path in `docs/`."""
        pages = {f"{HERE}/index.md": self._index()}
        for page in PAGES:
            sections = [f"# {page.title}", self._linked(page.about, page.file)]
            for entry in self.contents[page.file]:
                text = "\n\n".join(filter(None, self._entry(entry)))
                sections.append(self._linked(text, page.file, entry.label))
            pages[f"{HERE}/{page.file}.md"] = "\n\n".join(sections) + "\n"
        return pages

    def _index(self) -> str:
        """The list of all names, after those that everybody needs."""
        first = [entry for entries in self.contents.values() for entry in entries if _is_first(entry)]
        sections = [
            "# API reference",
            "Every public name, with its signature and its docstring, as `help` has it.",
            "- *stable*: it keeps its name, its parameters and its meaning from 0.1 to 1.0, or warns for one "
            "release first.\n"
            "- *experimental*: it may change in any release, as the changelog then says.",
            "## What an engine holds",
            "All of `engine_sampler`. What plugins subclass is in `engine_sampler.contract`; the kits that "
            "prove them are in `engine_sampler.testing`.",
            self._table(first),
        ]
        for title, pages in GROUPS.items():
            sections.append(f"## {title}")
            for page in pages:
                names = (self._name(entry) for entry in self.contents[page.file])
                sections += [f"### [{page.title}]({page.file}.md)", page.about, "; ".join(names)]
        return "\n\n".join(sections) + "\n"

    def _name(self, entry: Entry) -> str:
        return f"[`{entry.label}`]({self.places[entry.label]})"

    def _table(self, entries: Sequence[Entry]) -> str:
        rows = [[self._name(entry), _state(entry), first_sentence(entry.doc)] for entry in entries]
        return table(["name", "state", "what it is"], rows)

    def _entry(self, entry: Entry) -> Iterator[str]:
        """The section of a name."""
        name, value = entry.name, entry.value
        yield f"## `{entry.label}`"
        yield f"*{_state(entry)}*"
        if entry.is_constant:
            shown = f"{name}{entry.written[0]}"
            shown = shown if len(shown) <= LONGEST_VALUE else f"{name}: {type(value).__name__}"
        else:
            shown = class_line(value, name) if inspect.isclass(value) else call_line(value, name)
        yield (
            _code("@hookimpl", f"def {shown}: ...")
            if entry.module == HOOKS and not entry.is_constant
            else _code(f"from {entry.module} import {name}", "", shown)
        )
        yield markdown(entry.doc)
        if inspect.isclass(value) and not entry.is_constant:
            yield from self._inside(entry.label, value)

    def _inside(self, name: str, cls: type) -> Iterator[str]:
        """What the section of a class says beside its docstring."""
        constructor = vars(cls).get("__init__")
        if inspect.isfunction(constructor) and constructor.__doc__ and _is_ours(constructor):
            yield markdown(constructor.__doc__)
        if bases := [f"`{base.__name__}`" for base in cls.__bases__ if self._has(base)]:
            yield f"A subclass of {', '.join(bases)}."
        laws = []
        for member, value in _members(cls):
            if member.startswith("test_"):
                laws.append(f"- {member.removeprefix('test_').replace('_', ' ')}")
            else:
                yield from _member(name, member, value)
        if laws:
            yield "Its laws:"
            yield "\n".join(laws)

    def _has(self, cls: type) -> bool:
        return _is_ours(cls) and cls.__name__ in self.places

    def _linked(self, text: str, file: str, owner: str = "") -> str:
        """Names in code lead to their entries, a method of the class `owner` also by its name alone."""

        def link(match: re.Match[str]) -> str:
            place = self.places.get(f"{owner}.{match[1]}") or self.places.get(match[1])
            is_here = place is None or match[1] == owner
            return match[0] if is_here else f"[{match[0]}]({place.removeprefix(f'{file}.md') or place})"  # type: ignore[union-attr]

        parts = _UNLINKED.split(text)
        parts[::2] = [re.sub(r"`([A-Za-z_][\w.]*)(?:\(\))?`", link, part) for part in parts[::2]]
        return "".join(parts)


def _is_first(entry: Entry) -> bool:
    return entry.label == entry.name and entry.name in engine_sampler.__all__


def _state(entry: Entry) -> str:
    return "stable" if entry.stable else "experimental"


LONGEST_VALUE = 400
"""The most characters of a constant's value; longer ones are left to `help`."""

_UNLINKED = re.compile(r"(^```.*?^```$|^#.*?$|^\| `.*?\| |\[[^\]\n]*\]\([^)\n]*\))", re.MULTILINE | re.DOTALL)
"""Where names lead nowhere: code, headings, the first cells of tables, links."""


def _is_ours(value: Any) -> bool:
    return str(getattr(value, "__module__", "")).startswith("engine_sampler")


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    """The documented public methods, properties and attributes of a class, those of its private bases too; an
    attribute as its type or value, and its docstring. What has no docstring is in that of its class, or in
    that of the base class which declares it."""
    seen = set[str]()
    for base in cls.__mro__:
        if base is not cls and not (_is_ours(base) and base.__name__.startswith("_")):
            continue
        yield from (
            (name, written) for name, written in attribute_docs(base).items()
            if written[1] and not name.startswith("_")
        )  # fmt: skip
        for name, value in vars(base).items():
            if not name.startswith("_") or name == "__call__":
                function = inspect.unwrap(getattr(value, "__func__", value))
                is_ours = isinstance(value, property) or (inspect.isfunction(function) and _is_ours(function))
                if is_ours and name not in seen and (function.__doc__ or name.startswith("test_")):
                    seen.add(name)
                    yield name, function


def _member(owner: str, name: str, value: Any) -> Iterator[str]:
    """The section of a method, a property or an attribute."""
    yield f"### `{owner}.{name}`"
    if isinstance(value, tuple):
        text, doc = value
        yield _code(f"{name}{text}")
    elif isinstance(value, property):
        doc = value.__doc__
        yield _code(f"{name}: {inspect.signature(value.fget).return_annotation}" if value.fget else name)
    else:
        doc = value.__doc__
        yield _code(call_line(value, name))
    yield markdown(doc)


def _code(*lines: str) -> str:
    return "\n".join(["```py", *lines, "```"])


def _slug(name: str) -> str:
    return re.sub(r"[^\w\s-]", "", name).lower()
