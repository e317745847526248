"""`files`: everything in `docs/` that is generated."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from engine_sampler import arithmetic
from engine_sampler.registry import CORE_PARAMS, Catalogue, Registry

from . import command_line, excerpts, grammar_engine, parameters, parts, recipes, releases
from .copies import copies
from .docstrings import outline
from .limits import limit_tables
from .pictures import bars, exactness, speed, timelines
from .reference import HERE, Reference
from .reference_pages import GROUPS
from .request_fields import FIELDS, field_table

DOCS = Path(__file__).resolve().parents[1]

_MARKED = re.compile(r"(<!-- generated: ([\w. -]+) -->\n).*?(\n<!-- end -->)", re.DOTALL)
"""A part of a hand-written page that is generated, with its name."""

_NAVIGATION = re.compile(r"(    # generated: (\w+)\n).*?(    # end\n)", re.DOTALL)
"""The same in the navigation of the site."""


def files() -> Mapping[str, str]:
    """The text of every generated file by its path in `docs/`, of the built-in parts alone."""
    catalogue = Registry(CORE_PARAMS).catalogue
    tables: dict[str, Callable[[], str]] = {
        **limit_tables(catalogue),
        "parameters": lambda: parameters.sections(catalogue),
        "costs": lambda: parameters.cost_table(catalogue),
        "keys of a body": parameters.body_table,
        "missing features": lambda: parameters.missing_table(catalogue),
        **{f"fields of {peer}": partial(field_table, peer, catalogue) for peer in FIELDS},
        "arithmetic": lambda: outline(arithmetic.__doc__ or ""),
        "samplers": lambda: parts.sampler_list(catalogue),
        "criteria": lambda: parts.criterion_list(catalogue),
        "llama.cpp": lambda: parameters.request_table("llama.cpp"),
        "koboldai": lambda: parameters.request_table("koboldai"),
        "commands": command_line.sections,
        "releases": releases.releases_table,
        "recipes": recipes.recipe_list,
        **grammar_engine.SECTIONS,
    }

    def section(name: str) -> str:
        code = name.removeprefix("code of ")
        return tables[name]() if code == name else excerpts.code_of(code)

    texts: dict[str, str] = {}
    for part in parts.in_chain_order(catalogue):
        texts[f"samplers/{part.name}.md"] = parts.sampler_page(part, catalogue)
        texts[f"pictures/{part.name}.svg"] = bars.draw(part)
        texts[f"pictures/narrow/{part.name}.svg"] = bars.draw(part, narrow=True)
    for criterion in catalogue.stopping_criteria.values():
        texts[f"criteria/{criterion.name}.md"] = parts.criterion_page(criterion)
        texts[f"pictures/{criterion.name}.svg"] = timelines.draw(criterion)
    texts |= Reference().files()
    texts |= copies()
    texts["pictures/order_of_sums.svg"] = exactness.draw()
    texts["pictures/speed.svg"] = speed.draw()
    texts["pictures/narrow/speed.svg"] = speed.draw(speed.NARROW)
    for path in sorted(DOCS.rglob("*.md")):
        name = path.relative_to(DOCS).as_posix()
        if name not in texts and _MARKED.search(text := path.read_text(encoding="utf-8")):
            texts[name] = _MARKED.sub(lambda match: f"{match[1]}\n{section(match[2])}\n{match[3]}", text)
    configuration = (DOCS.parent / "zensical.toml").read_text(encoding="utf-8")
    lists = navigation(catalogue)
    texts["../zensical.toml"] = _NAVIGATION.sub(
        lambda match: f"{match[1]}{lists[match[2]]}{match[3]}", configuration
    )
    return texts


def navigation(catalogue: Catalogue) -> Mapping[str, str]:
    """The lists of pages in the navigation: of the reference and of samplers by group, of criteria in one."""
    members = parts.by_group(catalogue)
    return {
        "reference": _groups({title: [page.file for page in pages] for title, pages in GROUPS.items()}, HERE),
        "samplers": _groups(
            {title: [p.name for p in members[group]] for group, title in parts.GROUPS.items()}, "samplers"
        ),
        "criteria": "".join(f'    "criteria/{name}.md",\n' for name in catalogue.stopping_criteria),
    }


def _groups(groups: Mapping[str, Sequence[str]], folder: str) -> str:
    """Headings with the pages below each, as lines of TOML."""
    lines = []
    for title, names in groups.items():
        lines += [f'    {{ "{title}" = [', *(f'      "{folder}/{name}.md",' for name in names), "    ] },"]
    return "".join(f"{line}\n" for line in lines)
