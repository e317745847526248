"""The engines that are measured, and with which cases. An engine whose libraries are missing is left out."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from .cases import Case

LLAMA_CPP, TRANSFORMERS = "llama.cpp", "transformers"
NEEDED = {
    LLAMA_CPP: ("llama_cpp", "gguf", "mistral_common"),
    TRANSFORMERS: ("torch", "transformers", "xgrammar", "mistral_common"),
}
"""Engine → the modules that it needs."""
CASES: Mapping[str, Sequence[Case]] = {
    LLAMA_CPP: (
        Case(1, 64),
        Case(1, 64, grammar=True),
        Case(1, 16, logprobs=True),
        Case(1, 16, grammar=True, logprobs=True),
        Case(32, 16),
        Case(32, 16, grammar=True),
        Case(32, 16, logprobs=True),
        Case(32, 16, grammar=True, logprobs=True),
    ),
    TRANSFORMERS: tuple(
        Case(rows, tokens, grammar, logprobs)
        for rows, tokens in ((1, 32), (16, 12))
        for logprobs in (False, True)
        for grammar in (False, True)
    ),
}
"""Texts are short where an engine takes seconds for them."""


def missing(engine: str) -> list[str]:
    """The modules that the engine needs and that are not installed."""
    return [module for module in NEEDED[engine] if importlib.util.find_spec(module) is None]


@contextmanager
def opened(engine: str, vocab_size: int, settings: Mapping[str, Any]) -> Iterator[Any]:
    """The engine with a model of this vocabulary size; `settings` are those of its chain."""
    from . import models

    if engine == TRANSFORMERS:
        from . import of_transformers

        model, tokenizer = models.transformers_model(vocab_size), models.tokenizer(vocab_size)
        with closing(of_transformers.Engine(model, tokenizer, settings)) as opened_engine:
            yield opened_engine
        return
    from . import of_llama_cpp

    with TemporaryDirectory() as folder:
        path = models.write_gguf(Path(folder) / "model.gguf", vocab_size)
        with closing(of_llama_cpp.Engine(path, settings)) as opened_engine:
            yield opened_engine
