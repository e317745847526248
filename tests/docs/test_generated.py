"""The generated pages and pictures are those that the library, its docstrings and its tables give now."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from docs.generate.docstrings import body
from docs.generate.pictures import bars, speed
from docs.generate.site import DOCS, files
from docs.generate.svg import Drawing
from docs.generate.tables import source, table
from engine_sampler.registry import CORE_PARAMS, Catalogue, Registry

MAX_BYTES = 30_000
"""The size of a picture, so that a page loads at once."""

REGENERATE = "run: python -m docs.generate"


@pytest.fixture(scope="module")
def generated() -> Mapping[str, str]:
    return files()


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Registry(CORE_PARAMS).catalogue


def test_the_committed_files_are_up_to_date(generated: Mapping[str, str]) -> None:
    stale = [
        name for name, text in generated.items()
        if not (DOCS / name).exists() or (DOCS / name).read_text(encoding="utf-8") != text
    ]  # fmt: skip
    assert not stale, REGENERATE


def test_nothing_is_left_of_parts_that_are_gone(generated: Mapping[str, str]) -> None:
    folders = ("pictures", "samplers", "criteria", "reference")
    present = {
        path.relative_to(DOCS).as_posix()
        for folder in folders
        for path in (DOCS / folder).rglob("*")
        if path.is_file() and path.parent.name != "workbench"  # screens, by `python -m docs.screens`
    }
    assert present <= set(generated), REGENERATE


def test_every_part_has_a_page_and_a_picture(generated: Mapping[str, str], catalogue: Catalogue) -> None:
    for name in (*catalogue.samplers, *catalogue.selectors):
        assert {f"samplers/{name}.md", f"pictures/{name}.svg"} <= set(generated)
    for name in catalogue.stopping_criteria:
        assert {f"criteria/{name}.md", f"pictures/{name}.svg"} <= set(generated)


def test_a_new_page_of_a_part_or_of_the_reference_is_in_the_navigation_by_itself(
    generated: Mapping[str, str],
) -> None:
    navigation = generated["../zensical.toml"]
    for name in generated:
        if name.startswith(("samplers/", "criteria/", "reference/")) and not name.endswith("index.md"):
            assert navigation.count(f'"{name}"') == 1, name


def test_every_parameter_is_on_the_page_of_parameters(
    generated: Mapping[str, str], catalogue: Catalogue
) -> None:
    rows = [line for line in generated["parameters.md"].splitlines() if line.startswith('| <a id="')]
    assert sorted(row.split('"')[1] for row in rows) == sorted(catalogue.params)


def test_pictures_are_small_and_load_nothing(generated: Mapping[str, str]) -> None:
    for name, text in generated.items():
        if name.endswith(".svg"):
            assert len(text.encode()) <= MAX_BYTES, name
            assert text.count("http") == 1, name  # the name of the format


def test_a_picture_shows_what_the_sampler_does(catalogue: Catalogue) -> None:
    picture = bars.draw(catalogue.samplers["top_k"])
    assert "top_k=2" in picture
    assert picture.count("2 of 12 words left") == 2
    assert picture.count("line-through") == 20


def test_the_figure_of_speed_has_the_numbers_of_the_benchmarks() -> None:
    text = (DOCS / "benchmarks" / "samplers.md").read_text(encoding="utf-8")
    for name, times in speed.results().items():
        assert times["native"] > 0
        assert f"| {name} |" in text


class Documented:
    """One line.

    Formula, with x a number: l > x_max, then
    a_term   what it means,
             in two lines
    Source: nobody.
    """


def test_a_docstring_becomes_markdown() -> None:
    assert body(Documented).split("\n\n") == [
        "> **Formula**, with x a number: l &gt; `x_max`, then",
        "| name | meaning |\n| --- | --- |\n| `a_term` | what it means, in two lines |",
        "**Source**: nobody.",
    ]


def test_tables_leave_out_empty_columns_and_escape_bars() -> None:
    assert table(["a", "b"], [["1|2", ""]]) == "| a |\n| --- |\n| 1\\|2 |"


def test_values_are_python(catalogue: Catalogue) -> None:
    for value in (0.5, float("-inf"), [1, "a"], {"a": (1.0, "\n")}, "it's", True, None):
        assert eval(source(value)) == ({"a": [1, "\n"]} if isinstance(value, dict) else value)


def test_numbers_in_drawings_have_few_digits() -> None:
    drawing = Drawing(10, 10, "a < b")
    drawing.rect(1 / 3, -0.0, 12.3456, 2, "#fff")
    assert '<rect x="0.33" y="0" width="12.3" height="2" fill="#fff"/>' in drawing.svg()
    assert "<title>a &lt; b</title>" in drawing.svg()
