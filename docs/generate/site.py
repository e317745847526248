"""`files`: everything in `docs/` that is generated."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from engine_sampler import arithmetic
from engine_sampler.registry import CORE_PARAMS, Registry

from . import grammar_engine, parameters, parts
from .docstrings import outline
from .excerpts import code_of
from .pictures import bars, exactness, speed, timelines
from .recipes import recipe_list
from .reference import Reference

DOCS = Path(__file__).resolve().parents[1]

_MARKED = re.compile(r"(<!-- generated: ([\w. -]+) -->\n).*?(\n<!-- end -->)", re.DOTALL)
"""A part of a hand-written page that is generated, with its name."""


def files() -> Mapping[str, str]:
    """The text of every generated file by its path in `docs/`, of the built-in parts alone."""
    catalogue = Registry(CORE_PARAMS).catalogue
    tables: dict[str, Callable[[], str]] = {
        "parameters": lambda: parameters.sections(catalogue),
        "keys of a body": parameters.body_table,
        "arithmetic": lambda: outline(arithmetic.__doc__ or ""),
        "samplers": lambda: parts.sampler_list(catalogue),
        "criteria": lambda: parts.criterion_list(catalogue),
        "llama.cpp": lambda: parameters.request_table("llama.cpp"),
        "koboldai": lambda: parameters.request_table("koboldai"),
        "recipes": recipe_list,
        **grammar_engine.SECTIONS,
    }

    def section(name: str) -> str:
        code = name.removeprefix("code of ")
        return tables[name]() if code == name else code_of(code)

    texts: dict[str, str] = {}
    for part in parts.in_chain_order(catalogue):
        texts[f"samplers/{part.name}.md"] = parts.sampler_page(part, catalogue)
        texts[f"pictures/{part.name}.svg"] = bars.draw(part)
    for criterion in catalogue.stopping_criteria.values():
        texts[f"criteria/{criterion.name}.md"] = parts.criterion_page(criterion)
        texts[f"pictures/{criterion.name}.svg"] = timelines.draw(criterion)
    texts |= Reference().files()
    texts["pictures/order_of_sums.svg"] = exactness.draw()
    texts["pictures/speed.svg"] = speed.draw()
    for path in sorted(DOCS.rglob("*.md")):
        name = path.relative_to(DOCS).as_posix()
        if name not in texts and _MARKED.search(text := path.read_text(encoding="utf-8")):
            texts[name] = _MARKED.sub(lambda match: f"{match[1]}\n{section(match[2])}\n{match[3]}", text)
    return texts
