"""The `engine-sampler` command, run as a user runs it: explain, plugins, demo, and what is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from engine_sampler.cli.main import main

from .running import needs_extra, run, run_apart, run_without

# --- explain -------------------------------------------------------------------------------------


def test_explain_shows_every_step_for_a_row_of_logits(row):
    needs_extra()
    settings = ("--top-k", "10", "--temperature", "0.5", "--seed", "1")
    done = run("explain", "--logits", row, "--backend", "numpy", *settings)
    assert done.returncode == 0
    for word in ("row.npy", "logits", "top_k 10", "temperature 0.5", "dist", "numpy", "chosen"):
        assert word in done.stdout
    assert "\x1b" not in done.stdout


def test_explain_accepts_a_row_with_a_batch_dimension_and_in_half_precision(tmp_path):
    needs_extra()
    np.save(tmp_path / "half.npy", np.zeros((1, 9), np.float16))
    done = run("explain", "--logits", tmp_path / "half.npy")
    assert done.returncode == 0
    assert "3.17" in done.stdout


def test_explain_shows_every_step_for_a_prompt(corpus):
    needs_extra()
    done = run("explain", "--prompt", "The cat", "--corpus", corpus, "--min-p", "0.1", "--top", "3")
    assert done.returncode == 0
    assert "“The cat”" in done.stdout
    assert "␣sat" in done.stdout


def test_explain_says_what_became_of_a_token(corpus):
    needs_extra()
    options = ("--prompt", "The cat", "--corpus", corpus, "--top-k", "2", "--seed", "1")
    done = run("explain", *options, "--token", " sat", "--token", "5")
    assert done.returncode == 0
    first, second = done.stdout.splitlines()[-2:]
    assert first.startswith("␣sat (#")
    assert "(#5) is number " in second
    assert "top_k removed it when it had " in second


def test_explain_draws_png_and_svg(row, tmp_path):
    needs_extra()
    for name in ("picture.png", "picture.svg"):
        done = run("explain", "--logits", row, "--min-p", "0.1", "--plot", tmp_path / name)
        assert (done.returncode, done.stderr) == (0, f"the picture is in {tmp_path / name}\n")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert ET.parse(tmp_path / "picture.svg").getroot().tag.endswith("svg")


# --- plugins -------------------------------------------------------------------------------------


def test_plugins_are_listed_as_json():
    done = run_apart("plugins", "--json")
    listed = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert {"name": "top_k", "state": "loaded"}.items() <= next(
        entry for entry in listed["samplers"] if entry["name"] == "top_k"
    ).items()
    assert [p["state"] for p in listed["plugins"][:3]] == ["loaded"] * 3


def test_plugins_are_listed_as_tables():
    needs_extra()
    done = run_apart("plugins")
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    for word in ("samplers", "selectors", "backends", "min_p", "mirostat", "numpy", "in effect"):
        assert word in done.stdout


@pytest.fixture
def broken_plugin(tmp_path) -> dict[str, str]:
    """An environment with an installed distribution whose plugin cannot be imported."""
    information = tmp_path / "broken_beads-1.2.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-beads\nVersion: 1.2\n")
    (information / "entry_points.txt").write_text("[engine_sampler]\nbeads = broken_beads\n")
    (tmp_path / "broken_beads.py").write_text("raise RuntimeError('no beads left')\n")
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    return {"PYTHONPATH": path, "ENGINE_SAMPLER_PLUGINS": "beads"}


def test_a_plugin_that_cannot_be_loaded_is_listed_with_the_reason(broken_plugin):
    done = run_apart("plugins", "--json", **broken_plugin)
    assert (done.returncode, done.stderr) == (0, "")
    status = next(p for p in json.loads(done.stdout)["plugins"] if p["name"] == "beads")
    assert (status["distribution"], status["version"], status["state"]) == ("broken-beads", "1.2", "failed")
    assert status["error"] == "RuntimeError: no beads left"


def test_a_plugin_that_cannot_be_loaded_does_not_stop_the_tables(broken_plugin):
    needs_extra()
    done = run_apart("plugins", **broken_plugin)
    assert (done.returncode, done.stderr) == (0, "")
    assert "RuntimeError: no" in done.stdout
    assert "top_k" in done.stdout


def test_a_plugin_that_is_not_selected_is_listed_as_disabled(broken_plugin):
    listed = json.loads(
        run_apart("plugins", "--json", **{**broken_plugin, "ENGINE_SAMPLER_PLUGINS": ""}).stdout
    )
    assert next(p["state"] for p in listed["plugins"] if p["name"] == "beads") == "disabled"


def test_in_strict_mode_a_failing_plugin_ends_the_command_with_the_reason(broken_plugin):
    done = run_apart("plugins", "--json", **broken_plugin, ENGINE_SAMPLER_STRICT="1")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "no beads left" in done.stderr


# --- demo ----------------------------------------------------------------------------------------


def test_the_demo_prints_plain_lines_without_a_terminal(corpus):
    needs_extra()
    done = run("demo", "--corpus", corpus, "--prompt", "The cat", "--seed", "3")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    for word in ("greedy joins", "KoboldAI order ends", "Mirostat 2", "tokens/s", "groups", "sampling"):
        assert word in done.stdout


def test_the_demo_aborts_running_requests_after_the_given_steps(corpus):
    needs_extra()
    done = run("demo", "--corpus", corpus, "--steps", "2")
    assert done.returncode == 0
    assert "abort after 2 tokens" in done.stdout
    assert "waiting" in done.stdout


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="this system has no pseudo-terminals")
def test_the_demo_draws_panels_on_a_terminal(corpus):
    needs_extra()
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "engine_sampler", "demo", "--corpus", str(corpus), "--steps", "4"]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        output = b""
        while chunk := _read(ours):
            output += chunk
    os.close(ours)
    assert process.returncode == 0
    assert b"\x1b[" in output
    assert "╭─".encode() in output


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # how Linux reports the end of a terminal's output
        return b""


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sing"], "invalid choice: 'sing'"),
        (["generate"], "the following arguments are required: --prompt"),
        (["generate", "--prompt", "x", "--top-p", "2"], "top_p=2 is not allowed: "),
        (["generate", "--prompt", "x", "--topk", "2"], "unknown parameter 'topk'; did you mean"),
        (["generate", "--prompt", "x", "y"], "unexpected argument 'y'"),
        (
            ["generate", "--prompt", "x", "--n", "2", "--best-of", "1"],
            "best_of=1 is not allowed: at least n=2",
        ),
        (["generate", "--prompt", "x", "--corpus", "no-such-file"], "no-such-file"),
        (
            ["generate", "--prompt", "x", "--corpus", __file__, "--backend", "abacus"],
            "backend='abacus' is not allowed",
        ),
        (["explain"], "one of the arguments --prompt --logits is required"),
        (["explain", "--logits", "no-such-file.npy"], "no-such-file.npy"),
        (["explain", "--logits", __file__], "test_main.py"),
        (["explain", "--logits", __file__, "--model", "x"], "--engine and --model are not allowed with"),
        (["explain", "--prompt", "x", "--corpus", __file__, "--token", "no such"], "or the text of a token"),
        (
            ["explain", "--prompt", "x", "--corpus", __file__, "--token", "99999"],
            "'99999' is not allowed: an id below",
        ),
        (["explain", "--prompt", "x", "--corpus", __file__, "--plot", "x.gif"], "x.gif is not allowed"),
        (["demo", "--steps", "many"], "argument --steps: invalid int value: 'many'"),
        (["demo", "--top-k", "3"], "unexpected argument '--top-k'"),
        (["plugins", "--jsn"], "unexpected argument '--jsn'"),
    ],
)
def test_an_error_that_the_user_can_fix_is_reported_in_one_line(arguments, message):
    needs_extra()
    done = run(*arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert message in done.stderr


def test_the_command_alone_prints_its_commands():
    done = run()
    assert (done.returncode, done.stderr) == (0, "")
    for name in ("demo", "generate", "plugins", "explain", "new", "check", "grammar", "bench"):
        assert f"\n    {name} " in done.stdout


@pytest.mark.parametrize("arguments", [["sing"], ["generate", "--prompt", "x", "--topk", "2"]])
def test_an_error_ends_the_process_as_it_ends_the_command(arguments):
    apart, here = run_apart(*arguments), run(*arguments)
    assert apart.returncode == here.returncode == 2
    assert (apart.stdout, apart.stderr) == (here.stdout, here.stderr)


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (np.zeros((2, 3), np.float32), "wrong.npy has 2 rows of logits: one is allowed"),
        (np.zeros(3, np.int64), "wrong.npy has no rows of logits: floats"),
        (np.float32(1), "wrong.npy has no rows of logits: floats"),
    ],
)
def test_an_array_that_is_not_a_row_is_refused(array, reason, tmp_path):
    needs_extra()
    np.save(tmp_path / "wrong.npy", array)
    done = run("explain", "--logits", tmp_path / "wrong.npy")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert reason in done.stderr


def crafted(header: bytes) -> bytes:
    """A .npy file with this header, and no data."""
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x93NUMPY",
        crafted(b"{'descr': '<f4', 'fortran_order': False, 'shape': (" + b"(" * 5000),
        crafted(b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000000000000000,)}"),
        crafted(b"{'descr': '<f4', 'fortran_order': False, 'shape': (-5,)}"),
        crafted(b"{'descr': '<f4', 'fortran_order': False, 'shape': ('a',)}"),
        crafted(b"{'descr': 'O', 'fortran_order': False, 'shape': (3,)}"),
        crafted(b"{'descr': [('a',)], 'fortran_order': False, 'shape': (3,)}"),
        crafted(b"{'descr': '<f4', 'fortran_order': 3, 'shape': (3,)}"),
        crafted(b"[" * 9000),
        crafted(b"\xff\xfe"),
        b"PK\x03\x04" + bytes(40),
    ],
)
def test_a_crafted_file_is_not_a_row(data, tmp_path, capsys):
    (tmp_path / "crafted.npy").write_bytes(data)
    assert main(["explain", "--logits", str(tmp_path / "crafted.npy")]) == 2
    assert "crafted.npy has no rows of logits" in capsys.readouterr().err


@pytest.mark.parametrize("dtype", [">f4", "<f8", "longdouble"])
def test_floats_of_every_kind_are_rows(dtype, tmp_path, capsys):
    np.save(tmp_path / "row.npy", np.linspace(4, -4, 9).astype(dtype))
    assert main(["explain", "--logits", str(tmp_path / "row.npy"), "--seed", "1"]) == 0


def test_a_row_without_a_token_to_draw_is_refused_with_the_reason(tmp_path):
    needs_extra()
    np.save(tmp_path / "nan.npy", np.array([0, np.nan], np.float32))
    done = run("explain", "--logits", tmp_path / "nan.npy")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


@pytest.mark.quick_share(3)
@pytest.mark.parametrize("command", [["demo"], ["generate", "--prompt", "x"], ["explain", "--prompt", "x"]])
def test_a_missing_extra_is_reported_with_what_to_install(command):
    done = run_without("rich", "tokenizers", "matplotlib", arguments=tuple(command))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "pip install rich tokenizers matplotlib" in done.stderr


def test_a_missing_matplotlib_is_reported_before_anything_is_printed(row, tmp_path):
    needs_extra()
    done = run_without(
        "matplotlib", arguments=("explain", "--logits", row, "--plot", tmp_path / "picture.png")
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "matplotlib" in done.stderr


def test_plugins_explain_and_check_print_plain_lines_without_the_extra(row):
    absent = ("rich", "tokenizers", "matplotlib")
    listed = run_without(*absent, arguments=("plugins",))
    assert (listed.returncode, listed.stderr) == (0, "")
    assert {"top_k,", "numpy"} <= set(listed.stdout.split())
    assert max(map(len, listed.stdout.splitlines())) <= 80
    explained = run_without(*absent, arguments=("explain", "--logits", row, "--top-k", "3", "--seed", "1"))
    assert (explained.returncode, explained.stderr) == (0, "")
    assert {"logits", "top_k", "dist", "chosen"} <= set(explained.stdout.split())
    checked = run_without(*absent, arguments=("check", "none.so"))
    assert (checked.returncode, checked.stderr) == (1, "")
    assert "failed" in checked.stdout


def test_a_plugin_that_is_selected_in_vain_is_named(tmp_path):
    (tmp_path / "text").write_text("[]")
    command = ("grammar", "--name", "json", "--text", tmp_path / "text")
    done = run_apart(*command, ENGINE_SAMPLER_PLUGINS="nosuch")
    assert done.returncode == 0
    assert "plugin nosuch is not used: selected by ENGINE_SAMPLER_PLUGINS, but no" in done.stderr


def test_json_needs_no_extra():
    done = run_without("rich", "tokenizers", "matplotlib", arguments=("plugins", "--json"))
    assert done.returncode == 0
    assert json.loads(done.stdout)["selectors"]


def test_an_import_error_unrelated_to_the_extras_is_not_hidden():
    done = run_without("pluggy", arguments=("plugins", "--json"))
    assert done.returncode == 1
    assert "No module named 'pluggy'" in done.stderr


def test_a_closed_pipe_is_not_an_error(corpus):
    needs_extra()
    program = f"{sys.executable} -m engine_sampler plugins --json | head -c 10"
    done = subprocess.run(program, shell=True, capture_output=True, encoding="utf-8", check=False)
    assert (done.stdout, done.stderr) == ('{\n  "backe', "")


def test_help_lists_every_parameter():
    done = run("generate", "--help")
    assert done.returncode == 0
    for option in ("--top-k N", "--min-p X", "--logit-bias VALUE", "--ignore-eos, --no-ignore-eos"):
        assert option in done.stdout
