"""From nothing to a sampler of one's own in use, in a fresh environment, as the templates tell a newcomer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from ..conftest import ROUNDS

NAME = "gap"
FORMULA = "stays: np.ndarray = logits >= logits.max(axis=1, keepdims=True) - margin"
OWN = "stays: np.ndarray = logits >= logits.max(axis=1, keepdims=True) - margin / 2"
IN_AN_ENGINE = """
import numpy as np
from engine_sampler import SamplingParams, Scheduler

scheduler = Scheduler(6)
scheduler.add(SamplingParams(gap=2.0, seed=1, max_tokens=200))
print(scheduler.explain())
tokens = set()
while scheduler.request_ids:
    tokens |= set(scheduler.step(np.array([[0, 3, 2.1, 1.9, -1, 2.5]], np.float32)).tokens(0))
print(sorted(tokens))
"""


class Newcomer:
    """Somebody with an environment of their own, in an empty folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        builder = venv.EnvBuilder(symlinks=os.name != "nt")
        builder.create(folder / "env")
        scripts = "Scripts" if os.name == "nt" else "bin"
        self.python = folder / "env" / scripts / Path(sys.executable).name
        # What the newcomer has installed: the engine-sampler under test, and what its tests need.
        [packages] = (folder / "env").rglob("site-packages")
        installed = sysconfig.get_path("purelib")
        (packages / "installed.pth").write_text(f"import site; site.addsitedir({installed!r})\n", "utf-8")

    def runs(self, *command: str | Path, expect: int = 0) -> str:
        """The standard output of a command, which ends with the exit status `expect`."""
        environment = {
            **os.environ,
            "PYTHONUTF8": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "ENGINE_SAMPLER_PLUGINS": NAME,
        }
        done = subprocess.run(
            [self.python, *map(str, command)],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == expect, done.stdout + done.stderr
        return done.stdout

    def types(self, *command: str | Path, expect: int = 0) -> str:
        """The output of `engine-sampler COMMAND`."""
        return self.runs("-m", "engine_sampler", *command, expect=expect)


@pytest.mark.skipif(ROUNDS < 2, reason="only with ENGINE_SAMPLER_TEST_ROUNDS=2")
def test_a_newcomer_writes_tests_and_uses_a_sampler(tmp_path: Path) -> None:
    newcomer = Newcomer(tmp_path)
    assert "engine-sampler check gap" in newcomer.types("new", "sampler", NAME)
    project = tmp_path / "engine-sampler-gap"
    pip = ("-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation")
    newcomer.runs(*pip, "--disable-pip-version-check", "-e", project)
    assert " passed" in newcomer.runs("-m", "pytest", "-q", project)

    module = project / "engine_sampler_gap.py"
    text = module.read_text("utf-8")
    assert FORMULA in text
    module.write_text(text.replace(FORMULA, OWN), "utf-8")
    refused = newcomer.types("check", NAME, "--only", "examples_hold", expect=1)
    assert "failed" in refused
    text = module.read_text("utf-8").replace('{"gap": 1.5}', '{"gap": 3.0}')  # the example, too
    module.write_text(text, "utf-8")
    assert "failed" not in newcomer.types("check", NAME)

    listed = json.loads(newcomer.types("plugins", "--json"))
    [plugin] = [entry for entry in listed["plugins"] if entry["name"] == NAME]
    assert (plugin["distribution"], plugin["state"]) == ("engine-sampler-gap", "loaded")
    assert any(entry["name"] == NAME for entry in listed["samplers"])

    pytest.importorskip("tokenizers")
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("The cat sat on the mat. The rat saw the cat.\n" * 3, "utf-8")
    common = ("generate", "--prompt", "The", "--corpus", corpus, "--max-tokens", "5", "--seed", "1")
    assert newcomer.types(*common, "--gap", "0.01") == newcomer.types(*common, "--temperature", "0")
    chain, tokens = newcomer.runs("-c", IN_AN_ENGINE).splitlines()
    assert "gap" in chain
    assert tokens == "[1, 2, 5]"
