"""Type checkers know every built-in parameter."""

from __future__ import annotations

from typing import Any, Literal, get_type_hints

from engine_sampler import SamplingParams
from engine_sampler.params.typed import Parameters

from .typed_parameters import FILE, text


def test_the_file_for_type_checkers_is_that_of_the_registry() -> None:
    assert FILE.read_text("utf-8") == text(), "python -m tests.params.typed_parameters writes it anew"


def test_numbers_choices_and_what_is_converted_have_their_types() -> None:
    hints = get_type_hints(Parameters)
    assert hints["temperature"] is float
    assert hints["max_tokens"] == int | None
    assert hints["mirostat"] == Literal[0, 1, 2]
    assert hints["stop"] is Any
    assert set(hints) <= set(SamplingParams.parameters())
