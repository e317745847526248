"""The site: code has colours, nothing is loaded from the network, an opened file can be searched."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.generate.copies import page_of

from .pages import DOCS, PAGES, name_of

SEARCHED = (
    "asyncio", "benchmarks", "contributing", "fastapi", "install", "notebooks?", "performance", "security",
    "speculative", "streaming", "versions",
)  # fmt: skip
"""The search has no stemming, and looks at titles and headings first."""

CONFIGURATION = (DOCS.parent / "zensical.toml").read_text(encoding="utf-8")


SOUGHT = {
    "install": "deploy.md",
    "streaming": "start.md",
    "fastapi": "index.md",
    "asyncio": "index.md",
    "notebook": "start.md",
    "security": "security.md",
    "versions": "policies.md",
    "speculative": "exactness.md",
    "memory": "deploy.md",
    "deprecation": "policies.md",
}
"""What people look for, and a page that helps them."""


@pytest.mark.parametrize(("word", "page"), SOUGHT.items())
def test_what_people_look_for_is_found(word: str, page: str) -> None:
    assert word in (DOCS / page).read_text(encoding="utf-8").lower()


def test_every_block_of_code_names_its_language() -> None:
    for page in PAGES:
        fences = re.findall(r"^```.*$", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert len(fences) % 2 == 0, name_of(page)
        assert all(len(opening) > 3 for opening in fences[::2]), name_of(page)


def test_no_block_of_code_is_merely_indented() -> None:
    for page in PAGES:
        text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        assert re.findall(r"^\n    .*", text, re.MULTILINE) == [], name_of(page)


def test_a_site_that_is_opened_as_a_file_can_be_searched() -> None:
    assert "[project.plugins.offline]\nenabled = true" in CONFIGURATION
    scripts = re.findall(r"^polyfills = \[\"(.*)\"\]$", CONFIGURATION, re.MULTILINE)
    assert scripts == ["iframe-worker.js"]  # by this name, zensical leaves out the one in the network
    assert (DOCS / scripts[0]).exists()


def test_nothing_of_the_site_is_loaded_from_the_network() -> None:
    for path in (*DOCS.glob("*.css"), *DOCS.glob("*.js")):
        assert "http" not in path.read_text(encoding="utf-8"), path.name
    assert "http" not in CONFIGURATION
    assert "font = false" in CONFIGURATION


def test_a_name_in_a_table_stays_in_one_piece() -> None:
    style = (DOCS / "site.css").read_text(encoding="utf-8")
    rule = re.search(r"table:not\(\[class\]\) :is\(th, td\) code {([^}]*word-break[^}]*)}", style)
    assert rule
    assert "word-break: normal" in rule[1]


def test_a_narrow_screen_shows_both_rows_of_a_sampler() -> None:
    for page in (DOCS / "samplers").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        if page.stem != "index":
            source = f'<source media="(max-width: 45em)" srcset="../pictures/narrow/{page.stem}.svg">'
            assert source in text, page.name
            narrow, wide = (DOCS / "pictures" / folder / f"{page.stem}.svg" for folder in ("narrow", "."))
            assert width_of(narrow) <= 360 < width_of(wide)
            assert [narrow.read_text("utf-8").count(row) for row in (">peaked<", ">flat<")] == [
                wide.read_text("utf-8").count(row) for row in (">peaked<", ">flat<")
            ]


def width_of(picture: Path) -> float:
    """The width of a picture in pixels."""
    found = re.search(r' width="([\d.]+)"', picture.read_text(encoding="utf-8"))
    assert found
    return float(found[1])


def test_a_page_of_the_repository_is_shown_with_links_that_lead_to_pages_of_the_site() -> None:
    links = "[a](docs/b.md#c) [d](CHANGELOG.md) [e](plugins/f) [g](#h)"
    code = "```python\ndef f():\n\n    x\n```\n"
    text = f"{links}\n\n    make it\n\n{code}"
    shown = "[a](b.md#c) [d](changelog.md) e [g](#h)\n\n```sh\nmake it\n```\n\n"
    assert page_of(text) == shown + code.replace("python", "py")


def test_words_that_people_search_for_are_in_headings() -> None:
    headings = " ".join(
        heading.lower()
        for page in PAGES
        if page.parent.name != "reference"
        for heading in re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert [word for word in SEARCHED if not re.search(rf"\b{word}\b", headings)] == []


def test_pictures_lie_where_the_style_finds_them() -> None:
    for page in PAGES:
        shown = re.findall(r"!\[[^\]]*\]\((.*?)\)", page.read_text(encoding="utf-8"))
        assert [picture for picture in shown if "pictures/" not in picture] == [], name_of(page)
