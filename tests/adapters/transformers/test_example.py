"""The example in the package's documentation."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap

import pytest


def test_the_documented_example_runs():
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from engine_sampler.adapters import transformers

    (example,) = re.findall(r"(?:^ {4}.*\n|^\n)+(?=^\S)", transformers.__doc__, re.MULTILINE)
    exec(textwrap.dedent(example), {})


def test_importing_the_adapter_imports_no_torch():
    program = "import engine_sampler.adapters.transformers, sys; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"
