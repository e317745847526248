"""The page about the grammar engine: its commands print what it shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from engine_sampler.cli.main import main

from .pages import DOCS

PAGE = (DOCS / "grammar-engine.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"^```text\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What each command that the reader is told to try prints, in a folder with the files of the page."""
    schema, tokens = re.findall(r"^```json\n(.*?)\n```", PAGE, re.DOTALL | re.MULTILINE)
    (tmp_path / "person.json").write_text(schema)
    (tmp_path / "tokens.json").write_text(tokens)
    monkeypatch.chdir(tmp_path)
    outputs = []
    for command in re.findall(r"^engine-sampler (grammar person\.json .*)$", PAGE, re.MULTILINE):
        engine = ["--engine", "reference"] if "--mask" in command else []
        assert main([*shlex.split(command), *engine]) == 0
        outputs.append(capsys.readouterr().out)
    return outputs


def test_the_commands_print_what_the_page_shows(printed: list[str]) -> None:
    rules, mask = printed
    assert set(filter(None, SHOWN[0].splitlines())) <= set(rules.splitlines())
    assert mask.startswith(SHOWN[1])


def test_what_the_text_says_about_the_example_holds(printed: list[str]) -> None:
    assert "the row and its registers allow COMMA and OBJECT_END" in PAGE
    rules, mask = printed
    assert "  3: COMMA → 4 [b0 = 0 or b1 = 0], OBJECT_END → 2 [b0 = 1]" in rules
    assert {'3:",', '4:"}'} <= set(mask.split())
    assert '5:":' not in mask.split()
    tables = re.findall(r"^\| `\{.*?` \| \d+ \| (.*) \|$", PAGE, re.MULTILINE)
    first, again, other, longer = [tuple(map(int, line.split(" | "))) for line in tables]
    assert first == again != other == longer
