"""The site: code has colours, nothing is loaded from the network, an opened file can be searched."""

from __future__ import annotations

import re
from pathlib import Path

from .pages import DOCS, PAGES, name_of

CONFIGURATION = (DOCS.parent / "zensical.toml").read_text(encoding="utf-8")


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


def test_pictures_lie_where_the_style_finds_them() -> None:
    for page in PAGES:
        shown = re.findall(r"!\[[^\]]*\]\((.*?)\)", page.read_text(encoding="utf-8"))
        assert [picture for picture in shown if "pictures/" not in picture] == [], name_of(page)
