"""The example in the package's documentation."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PLUGIN = Path(__file__).parents[1]


def test_the_documented_example_runs():
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    import engine_sampler_transformers as transformers

    (example,) = re.findall(r"(?:^ {4}.*\n|^\n)+(?=^\S)", transformers.__doc__, re.MULTILINE)
    exec(textwrap.dedent(example), {})


def test_importing_the_package_imports_no_torch():
    program = "import engine_sampler_transformers, sys; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=PLUGIN, check=True, capture_output=True, text=True
    )
    assert done.stdout == "False\n"
