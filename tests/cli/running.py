"""The command run within this process, or as a user runs it: in one of its own, which takes half a second."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine_sampler.cli.main import main

Done = subprocess.CompletedProcess[str]

TRANSFORMERS = Path(__file__).parents[2] / "plugins" / "engine-sampler-transformers"
"""What runs `--engine transformers`; it need not be installed."""

CORPUS = """\
The cat sat on the mat. The cat saw the rat, and the rat saw the cat.

A rat ran over the mat and the cat ran after it. Then the cat sat down again.

The dog slept under the table. The cat and the rat did not see the dog.
"""
"""Enough to learn from."""

WITHOUT_EXTRA = """\
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent!r}:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)
sys.meta_path.insert(0, Absent())
from engine_sampler.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
"""A program that runs the command while some modules cannot be imported."""


def run(*arguments: str | Path) -> Done:
    """What the command returns and prints in this process, to which no terminal is attached."""
    command = list(map(str, arguments))
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="", write_through=True) for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main(command)
        except SystemExit as stop:  # how argparse ends
            status = int(str(stop.code or 0))
    printed = (stream.buffer.getvalue().decode() for stream in (out, err))  # type: ignore[attr-defined]
    return Done(command, status, *printed)


def run_apart(
    *arguments: str | Path, program: tuple[str, ...] = ("-m", "engine_sampler"), **environment: str
) -> Done:
    """What the command returns and prints in a process of its own, with some environment variables."""
    return subprocess.run(
        [sys.executable, *program, *map(str, arguments)],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
        env={
            **os.environ,
            "PYTHONIOENCODING": "utf-8",
            "PYTHONPATH": str(TRANSFORMERS),
            "ENGINE_SAMPLER_PLUGINS": "",
            "COLUMNS": "",
            **environment,
        },
    )


def run_without(*absent: str, arguments: tuple[str | Path, ...]) -> Done:
    return run_apart(*arguments, program=("-c", WITHOUT_EXTRA.format(absent=set(absent))))


def needs_extra() -> None:
    for module in ("rich", "tokenizers", "matplotlib"):
        pytest.importorskip(module)
