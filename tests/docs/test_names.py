"""The names on hand-written pages exist: parameters in tables, links, pictures, the pages of the site."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine_sampler.grammar import TOOL_FAMILIES
from engine_sampler.registry import CORE_PARAMS, Registry
from engine_sampler.scheduler import Scheduler

from .pages import DOCS, PAGES, READ_BY_PEOPLE, ROOT, name_of

PARAMS = Registry(CORE_PARAMS).catalogue.params
CODE = re.compile(r"`([^`]+)`")

TABLE_OF_NAMES = re.compile(
    r"^\| (?:in [^|]+|MindIE|ATB|key) \| (?:here|in a `SamplingParams`) \|.*\n\|[-| ]+\n((?:\|.*\n)+)",
    re.MULTILINE,
)
"""A table whose second column names what this library calls something."""


def names_in(cell: str) -> list[str]:
    """The identifiers in a cell that can be parameters: `top_p`, and those of `top_p_cut="below"`."""
    return [match[1] for text in CODE.findall(cell) if (match := re.match(r"^([a-z][a-z0-9_]*)(=|$)", text))]


@pytest.mark.parametrize("page", sorted((DOCS / "coming-from").glob("*.md")), ids=name_of)
def test_our_names_in_the_tables_of_other_systems_are_parameters(page: Path) -> None:
    named = 0
    section = page.read_text(encoding="utf-8").partition("## Names\n")[2].partition("\n## ")[0] + "\n"
    for table in TABLE_OF_NAMES.findall(section):
        for line in table.splitlines():
            theirs, ours = [cell.strip() for cell in line.strip("|").split("|")][:2]
            names = names_in(theirs) if ours == "the same" else names_in(ours)
            named += len(names)
            assert not [n for n in names if n not in PARAMS and not hasattr(Scheduler, n)], line
    assert named >= 4 or page.name == "index.md"


@pytest.mark.parametrize("page", READ_BY_PEOPLE, ids=name_of)
def test_links_and_pictures_exist(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target, anchor in re.findall(r"(?:\]\(|(?:src|srcset)=\")(?!https?:)([^)#\s\"]*)#?([^)\s\"]*)", text):
        place = page.parent / target if target else page
        assert place.exists(), target
        assert not anchor or anchor in anchors_of(place), f"{target}#{anchor}"


def anchors_of(page: Path) -> set[str]:
    """The places of a page to which links lead: its headings, as the site and repositories name them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*?) *$", text, re.MULTILINE)
    words = (re.sub(r"[^\w\s-]", "", re.sub(r"<[^>]*>|\]\([^)]*\)", "", heading)) for heading in headings)
    return {re.sub(r"\s+", "-", word.strip().lower()) for word in words} | set(
        re.findall(r'id="([\w-]+)"', text)
    )


def test_the_site_shows_every_page() -> None:
    listed = re.findall(r'"([\w./-]+\.md)"', (DOCS.parent / "zensical.toml").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(map(name_of, PAGES))


def test_what_is_named_in_the_repository_exists() -> None:
    root = DOCS.parent
    paths = re.compile(r"`((?:plugins|benchmarks|native|engine_sampler|tests)/(?!\S*my_)[\w./-]+)`")
    for page in PAGES:
        for path in paths.findall(page.read_text(encoding="utf-8")):
            assert (root / path).exists(), f"{name_of(page)}: {path}"


def test_every_family_of_models_is_listed() -> None:
    section = (
        (DOCS / "messages.md").read_text(encoding="utf-8").partition("## Families\n")[2].partition("\n\n#")[0]
    )
    first = [line.strip("|").split("|")[0] for line in section.splitlines() if line.startswith("| `")]
    assert sorted(name for cell in first for name in CODE.findall(cell)) == sorted(TOOL_FAMILIES)


def test_the_first_pages_claim_the_same_speed() -> None:
    claim = re.compile(r"(\d+ µs)\*\*.*?(\d+ times faster than llama.cpp)", re.DOTALL)
    found = [
        claim.search(page.read_text(encoding="utf-8")) for page in (DOCS / "index.md", ROOT / "README.md")
    ]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0].groups() == found[1].groups()
