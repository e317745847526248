"""`engine-sampler bench`."""

from __future__ import annotations

import json

import pytest

from engine_sampler.cli.main import main

QUICK = ["bench", "--vocab-size", "512", "--rows", "1", "--seconds", "0"]


def test_a_table_is_printed_that_can_be_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(QUICK) == 0
    out = capsys.readouterr().out
    assert "backend " in out.splitlines()[0]
    assert "| one step, 512 tokens | 1 row, µs | passes |" in out
    assert "| default chain |" in out


def test_the_measurements_are_printed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*QUICK, "--json", "--backend", "numpy"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert {"name", "rows", "seconds", "passes", "ratio"} == printed["results"][0].keys()


@pytest.mark.parametrize("option", [["--rows", "0"], ["--vocab-size", "511"], ["--rows", "x"]])
def test_a_number_out_of_range_is_refused(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["bench", *option])
    assert option[0] in capsys.readouterr().err
