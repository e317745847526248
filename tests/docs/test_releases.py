"""Every page names the releases that the bridges are tested with, and install lines that work without an
index."""

from __future__ import annotations

import re

import pytest

from docs.generate.releases import ROOT, Release, releases, releases_text

FOLDERS = ("engine_sampler", "plugins", "docs")
SOURCES = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
PAGES = [
    path
    for path in (*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md*")))
    if path.name != "CHANGELOG.md"
]

FROM_AN_INDEX = re.compile(r"""pip install (?![^\n`]*-e )(?:[^\n`]* )?["']*engine[-_]sampler(?!-gap)""")
"""An install line that asks an index for a distribution of this repository."""


@pytest.mark.parametrize("entry", releases(), ids=lambda entry: entry.engine)
def test_a_bridge_is_tested_with_the_release_that_the_checks_install(entry: Release) -> None:
    installed = (ROOT / ".ci" / "peers.txt").read_text(encoding="utf-8").splitlines()
    assert f"{entry.distribution}=={entry.release}" in installed


@pytest.mark.parametrize("entry", releases(), ids=lambda entry: entry.engine)
def test_the_readme_of_a_bridge_names_that_release(entry: Release) -> None:
    text = (ROOT / "plugins" / entry.bridge / "README.md").read_text(encoding="utf-8")
    assert re.search(rf"\b{re.escape(entry.release)}\b", text)


def test_the_readme_names_all_of_them() -> None:
    words = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert releases_text() in words, f"the README lacks: {releases_text()}"


def test_every_engine_of_the_readme_has_a_bridge() -> None:
    assert len(releases()) >= 8


def test_no_page_and_no_error_asks_an_index_for_this_library() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in (*PAGES, *SOURCES)
        for match in FROM_AN_INDEX.finditer(path.read_text(encoding="utf-8"))
    ]
    assert not wrong


@pytest.mark.parametrize(
    ("line", "is_wrong"),
    [
        ("pip install engine-sampler", True),
        ('pip install "engine-sampler[demo]"', True),
        ("pip install torch engine_sampler_torch", True),
        ("pip install ./plugins/engine-sampler-vllm", False),
        ('pip install . "./plugins/engine-sampler-mlx[mlx]"', False),
        ('pip install -e "engine-sampler-gap[test]"', False),
    ],
)
def test_install_lines_are_told_apart(line: str, is_wrong: bool) -> None:
    assert bool(FROM_AN_INDEX.search(line)) == is_wrong
