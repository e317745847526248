"""Our grammars inside outlines' generators."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import pytest
from engine_sampler_outlines import MatcherLogitsProcessor, OutlinesBackend, switch_off, switch_on
from transformers_models import EOS, byte_tokenizer, llama

from engine_sampler import Grammar, GrammarError
from engine_sampler.for_bridges import PeerError
from tests.random_chains import tokenizer

# --- the processor --------------------------------------------------------------------------------

VOCABULARY = tokenizer(40)


def allowed_after(processor: Any, columns: Any, width: int = 44) -> list[set[int]]:
    masked = processor(np.array(columns), np.zeros((len(columns), width), np.float32))
    return [{*np.flatnonzero(row == 0).tolist()} for row in masked]


def test_each_row_follows_the_grammar_from_its_prompt_on() -> None:
    newline, letter, ends = 1, 3, {0}
    assert [VOCABULARY.text_bytes(i) for i in (newline, letter)] == [b"\n", b"b"]
    processor = MatcherLogitsProcessor(Grammar.from_choices(["\nb", "b"]), VOCABULARY)
    assert allowed_after(processor, [[3, 4], [5, 6]]) == [{newline, letter}] * 2
    assert allowed_after(processor, [[3, 4, newline], [5, 6, letter]]) == [{letter}, ends]
    # The second row has left its grammar, the first has ended after more than one token.
    assert allowed_after(processor, [[3, 4, newline, letter, *ends], [5, 6, letter, newline, newline]]) == [
        ends,
        ends,
    ]
    processor.reset()
    assert allowed_after(processor, [[newline]]) == [{newline, letter}]


def test_logits_keep_their_shape_and_dtype_and_the_callers_stay_as_they_are() -> None:
    processor = MatcherLogitsProcessor(Grammar.from_regex("[^x]+"), VOCABULARY)
    row = np.random.default_rng(1).normal(0, 1, 40).astype(np.float16)
    before = row.copy()
    masked = processor(np.array([1, 2]), row)
    assert masked.shape == (40,)
    assert masked.dtype == np.float16
    assert np.array_equal(row, before)
    assert np.array_equal(masked[masked > -np.inf], row[masked > -np.inf])


@pytest.mark.parametrize("method", ["json_schema", "regex", "cfg"])
def test_a_wrong_grammar_is_refused_when_the_generator_is_made(method: str) -> None:
    make = getattr(OutlinesBackend(VOCABULARY), f"get_{method}_logits_processor")
    with pytest.raises(GrammarError):
        make({"json_schema": '{"type": 3}', "regex": "(", "cfg": "start: missing"}[method])


# --- outlines -------------------------------------------------------------------------------------


@pytest.fixture
def outlines() -> Iterator[Any]:
    pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = pytest.importorskip("outlines")
        pytest.importorskip("outlines.backends")
    switch_on()
    yield module
    switch_off()


@pytest.fixture
def model(outlines: Any) -> Any:
    """A model of outlines with random weights, whose tokens are bytes."""
    hf_tokenizer = byte_tokenizer()
    return outlines.from_transformers(llama(len(hf_tokenizer), EOS), hf_tokenizer)


def written(outlines: Any, model: Any, output_type: Any, backend: str | None, **settings: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write = outlines.Generator(model, output_type, backend=backend)
        return write("ab", max_new_tokens=24, **settings)


REGULAR = {
    "regex": lambda o: o.types.Regex("[a-f]{3}-[0-9]+x"),
    "literals": lambda o: Literal["left", "right", "straight on"],
    "integer": lambda o: int,
    "date": lambda o: o.types.date,
    "choices": lambda o: o.types.Choice(["one", "three"]),
}


@pytest.mark.parametrize(
    ("backend", "name"),
    [
        (backend, name)
        for backend in ("outlines_core", "llguidance")
        for name in REGULAR
        # Where tokens are bytes, outlines_core leaves out the digits of other scripts, which \d admits.
        if (backend, name) != ("outlines_core", "date")
    ],
)
def test_greedy_texts_are_those_of_outlines_own_backends(
    outlines: Any, model: Any, name: str, backend: str
) -> None:
    pytest.importorskip(backend)
    output_type = REGULAR[name](outlines)
    own = written(outlines, model, output_type, backend, do_sample=False)
    assert written(outlines, model, output_type, "engine_sampler", do_sample=False) == own


SCHEMA = {
    "type": "object",
    "properties": {"a": {"enum": [1, 22]}, "b": {"type": "boolean"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("seed", range(3))
def test_texts_are_valid_for_their_types(outlines: Any, model: Any, seed: int) -> None:
    import torch

    torch.manual_seed(seed)
    settings = {"do_sample": True, "temperature": 1.5}
    types = outlines.types
    text = written(
        outlines, model, types.JsonSchema(SCHEMA, whitespace_pattern=""), "engine_sampler", **settings
    )
    assert json.loads(text)["a"] in (1, 22)
    assert " " not in text
    nested = types.CFG('start: "(" start ")" | "x" | "y"')
    assert re.fullmatch(r"\(*[xy]?\)*", written(outlines, model, nested, "engine_sampler", **settings))


def test_rows_of_a_batch_end_at_different_times(outlines: Any, model: Any) -> None:
    import torch

    torch.manual_seed(1)
    write = outlines.Generator(model, outlines.types.Regex("a|b{12}"), backend="engine_sampler")
    for _ in range(2):
        texts = write.batch(["ab", "c", "defg", "h"], max_new_tokens=16, do_sample=True)
        assert {*texts} == {"a", "b" * 12}


def test_other_backends_are_found_as_before(outlines: Any, model: Any) -> None:
    from outlines import backends

    with pytest.raises(ValueError, match="Backend other not supported"):
        backends._get_backend("other", model)
    found = backends._get_backend
    switch_on()  # a second time
    assert backends._get_backend is found
    switch_off()
    switch_off()
    with pytest.raises(ValueError, match="Backend engine_sampler not supported"):
        backends._get_backend("engine_sampler", model)


def test_a_changed_signature_fails_by_name(outlines: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from outlines import backends

    switch_off()
    monkeypatch.setattr(backends, "_get_backend", lambda name: None)
    with pytest.raises(PeerError, match="other signatures of _get_backend"):
        switch_on()
