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


def test_the_first_example_of_the_page_runs(capsys):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from transformers_models import EOS, byte_tokenizer, llama

    page = PLUGIN.parents[1] / "docs" / "coming-from" / "transformers.md"
    example, *_ = re.findall(r"^```py\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    tokenizer = byte_tokenizer()
    inputs = tokenizer(["ab", "cd"], return_tensors="pt")
    exec(example, {"model": llama(len(tokenizer), EOS), "tokenizer": tokenizer, "inputs": inputs})
    first, *_ = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"[a-z ]+ (stop|length)", first)
