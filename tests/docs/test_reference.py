"""The API reference has every public name once, with what its docstring says."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Mapping

import pytest

from docs.generate.docstrings import first_sentence, markdown
from docs.generate.reference import Reference
from docs.generate.reference_pages import PAGES, PUBLIC, Entry, contents, prefix, public_names
from docs.generate.signatures import call_line, class_line, constant


@pytest.fixture(scope="module")
def pages() -> Mapping[str, str]:
    return Reference().files()


def headings(text: str) -> list[str]:
    """The names in the headings of a page: "Scheduler" and "Scheduler.step"."""
    return re.findall(r"^#{2,3} `(.*)`$", text, re.MULTILINE)


def test_every_public_name_has_one_section_on_one_page(pages: Mapping[str, str]) -> None:
    names = Counter(name for text in pages.values() for name in headings(text))
    labels = {Entry(module, name).label for module in PUBLIC for name in public_names(module)}
    members = {name.rpartition(".")[0] for name in names} - {""}
    assert labels <= set(names)
    assert {name for name in set(names) - labels if name.rpartition(".")[0] not in labels} == set()
    assert members <= labels | {prefix(module).removesuffix(".") for module in PUBLIC}
    assert set(names.values()) == {1}


@pytest.mark.parametrize("module", PUBLIC)
def test_a_name_leads_to_the_object_that_its_module_exports(module: str) -> None:
    listed = {entry.label: entry for entries in contents().values() for entry in entries}
    exporting = importlib.import_module(module)
    for name in public_names(module):
        if not name.startswith("register_"):  # plugins, this package's too, have functions of these names
            assert listed[Entry(module, name).label].value is getattr(exporting, name), name


def test_every_name_is_described() -> None:
    assert [entry for entries in contents().values() for entry in entries if not entry.doc.strip()] == []


def test_no_two_sections_are_linked_by_one_address() -> None:
    places = [place for place in Reference().places.values() if "#" in place]
    assert len(set(places)) == len(places) > 500


def test_links_within_the_reference_lead_to_sections(pages: Mapping[str, str]) -> None:
    for file, text in pages.items():
        for target, address in re.findall(
            r"\]\((\w+\.md)?#([\w-]+)\)", re.sub(r"```.*?```", "", text, flags=re.S)
        ):
            page = pages[f"reference/{target}" if target else file]
            assert address in [re.sub(r"\W", "", name).lower() for name in headings(page)], (file, address)


def test_the_pages_are_those_of_the_list(pages: Mapping[str, str]) -> None:
    assert list(pages) == ["reference/index.md", *(f"reference/{page.file}.md" for page in PAGES)]


def test_a_page_can_be_read_in_one_sitting(pages: Mapping[str, str]) -> None:
    assert [file for file, text in pages.items() if len(text.split()) > 2500] == []


def test_a_method_is_shown_with_its_signature_its_parameters_and_links(
    pages: Mapping[str, str],
) -> None:
    text = pages["reference/scheduler.md"].partition("### `Scheduler.add`\n")[2].partition("\n### ")[0]
    assert "    request_id: RequestId | None = None,\n" in text
    assert "\n| `output_token_ids` | output that it already has: " in text
    assert "[`suspend`](#schedulersuspend)" in text
    assert "[`GrammarCompiler.submit`](compiling.md#grammarcompilersubmit)" in text


# --- signatures ----------------------------------------------------------------------------------


def marked(a: int, /, b: str = "x", *more: int, c: float | None = None, **rest: object) -> None:
    """Every kind of parameter."""


def test_signatures_have_all_marks_types_and_defaults() -> None:
    line = 'marked(a: int, /, b: str = "x", *more: int, c: float | None = None, **rest: object)'
    assert call_line(marked, "marked") == line
    assert call_line(lambda a, *, b=1: None, "f") == "f(a, *, b=1)"


def test_a_long_signature_has_a_line_for_each_parameter() -> None:
    def function(parameter: Mapping[str, int], other_parameter: Mapping[str, int]) -> Mapping[str, int]:
        return parameter

    assert call_line(function, "function_of_a_long_name").splitlines() == [
        "function_of_a_long_name(",
        "    parameter: Mapping[str, int],",
        "    other_parameter: Mapping[str, int],",
        ") -> Mapping[str, int]",
    ]


def test_an_exception_is_shown_with_its_base() -> None:
    assert class_line(KeyError, "KeyError") == "class KeyError(LookupError)"


def test_a_constant_is_shown_as_it_is_written_where_it_is_defined() -> None:
    module = importlib.import_module("engine_sampler.arithmetic")
    assert constant(module, "ONE_WEIGHT") == (" = 1 << 30", "The weight of the likeliest token.")


# --- docstrings ----------------------------------------------------------------------------------


def test_terms_become_tables_and_indented_code_gets_colours() -> None:
    text = """Sum two. Ignored.

    a, b   numbers,
           both of them
    c()    a call
    After the terms:

        add(1, 2)
    """
    assert markdown(text).split("\n\n") == [
        "Sum two. Ignored.",
        "| name | meaning |\n| --- | --- |\n| `a`, `b` | numbers, both of them |\n| `c()` | a call |",
        "After the terms:",
        "```py\nadd(1, 2)\n```",
    ]
    assert first_sentence(text) == "Sum two."


def test_terms_that_say_more_than_fits_a_cell_become_points() -> None:
    long = "word " * 41
    assert markdown(f"a  a number\nb  {long}") == f"- `a`: a number\n- `b`: {long.strip()}"


@pytest.mark.parametrize(
    ("written", "set_as"),
    [
        ("2^−20 of it", "2<sup>−20</sup> of it"),
        ("p·2^(n + 30), then", "p·2<sup>n + 30</sup>, then"),
        ("V·2^31.", "V·2<sup>31</sup>."),
        ("`2^3`", "`2^3`"),
    ],
)
def test_powers_are_set_as_powers(written: str, set_as: str) -> None:
    assert markdown(written) == set_as
