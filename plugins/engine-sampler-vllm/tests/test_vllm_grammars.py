"""Grammars in vLLM's own manager of structured outputs, and in its validation of requests."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from engine_sampler_vllm import switch_off, switch_on
from engine_sampler_vllm.places import PLACES
from vllm_engine import SamplingParams, torch

pytest.importorskip("vllm.v1.structured_output", reason="vLLM's grammars cannot be imported")

import vllm.v1.structured_output as managing
from vllm.config import StructuredOutputsConfig
from vllm.exceptions import VLLMValidationError
from vllm.sampling_params import StructuredOutputsParams
from vllm.v1.request import Request
from vllm.v1.structured_output import backend_guidance, backend_types

from engine_sampler.contract import unpack_bitmask
from engine_sampler.for_bridges import PeerError

WORDS = ["true", "false", "null", '{"', '":', "ab", "12"]
END, OTHER_END = 256 + len(WORDS), 257 + len(WORDS)
VOCAB = OTHER_END + 30
"""A padded head: the last tokens are none of the tokenizer's."""


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    tokenizers, transformers = pytest.importorskip("tokenizers"), pytest.importorskip("transformers")
    letters = _byte_letters()
    vocab = {letter: i for i, letter in enumerate(letters)}
    merges = []
    for word in WORDS:
        for end in range(2, len(word) + 1):
            if word[:end] not in vocab:
                vocab[word[:end]] = len(vocab)
                merges.append((word[: end - 1], word[end - 1]))
    model = tokenizers.Tokenizer(tokenizers.models.BPE(vocab, merges))
    model.decoder = tokenizers.decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=model, eos_token="<end>", pad_token="<other>"
    )


def _byte_letters() -> list[str]:
    """GPT-2's letters of the 256 bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = (chr(256 + i) for i in range(256))
    return [chr(byte) if byte in plain else next(others) for byte in range(256)]


@pytest.fixture
def manager(tokenizer: Any) -> Iterator[Any]:
    """vLLM's manager, whose requests for "guidance" are ours."""
    switch_on("grammars")
    yield new_manager(tokenizer)
    PLACES.put_back()


def new_manager(tokenizer: Any, drafts: int = 0, rows: int = 8, **settings: Any) -> Any:
    config = SimpleNamespace(
        model_config=SimpleNamespace(
            skip_tokenizer_init=True, get_vocab_size=lambda: len(tokenizer) + 30, is_diffusion=False
        ),
        parallel_config=SimpleNamespace(distributed_executor_backend="external_launcher"),
        scheduler_config=SimpleNamespace(max_num_seqs=rows),
        structured_outputs_config=StructuredOutputsConfig(backend="guidance", **settings),
        num_speculative_tokens=drafts,
        speculative_config=None,
    )
    manager = managing.StructuredOutputManager(config)
    manager.tokenizer = tokenizer
    return manager


def validated(tokenizer: Any, backend: str = "guidance", **constraint: Any) -> SamplingParams:
    """Parameters that vLLM's server has admitted."""
    params = SamplingParams(structured_outputs=StructuredOutputsParams(**constraint), max_tokens=99)
    params._validate_structured_outputs(
        SimpleNamespace(is_diffusion=False), StructuredOutputsConfig(backend=backend), tokenizer
    )
    params.update_from_generation_config({}, eos_token_id=tokenizer.eos_token_id)
    return params


def request_for(manager: Any, name: str = "a", **constraint: Any) -> Request:
    request = Request(name, [1], validated(manager.tokenizer, **constraint), None)
    manager.grammar_init(request)
    grammar = request.structured_output_request.grammar
    assert type(grammar).__module__ == "engine_sampler_vllm.grammars"
    return request


def masks_of(manager: Any, requests: list[Request], drafts: dict[str, list[int]] | None = None) -> np.ndarray:
    """bool [rows, vocab] as vLLM's manager fills them."""
    by_name = {request.request_id: request for request in requests}
    words = manager.grammar_bitmask(by_name, list(by_name), drafts or {})
    return np.stack([unpack_bitmask(row, words.shape[1] * 32) for row in words])


CONSTRAINTS: dict[str, dict[str, Any]] = {
    "json": {"json": {"type": "object", "properties": {"ab": {"enum": [1, 12, True]}}, "required": ["ab"],
                      "additionalProperties": False}},
    "json_object": {"json_object": True},
    "regex": {"regex": "(ab|12){1,3}"},
    "choice": {"choice": ["true", "trueab", "12"]},
    "lark": {"grammar": 'start: "ab" ("12" | "true")+'},
    "gbnf": {"grammar": 'root ::= "ab" [0-9]+'},
    "tag": {"structural_tag": json.dumps({
        "structures": [{"begin": "<f>", "schema": {"type": "boolean"}, "end": "</f>"}], "triggers": ["<f"]})},
    "format": {"structural_tag": json.dumps({"type": "structural_tag", "format": {
        "type": "json_schema", "json_schema": {"enum": [True, "ab"]}}})},
}  # fmt: skip


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_random_texts_under_every_kind_of_constraint_end_as_texts_of_it(manager: Any, name: str) -> None:
    request, draw = request_for(manager, **CONSTRAINTS[name]), random.Random(name)
    grammar = request.structured_output_request.grammar
    for _ in range(6):
        grammar.reset()
        tokens: list[int] = []
        while not grammar.is_terminated() and len(tokens) < 60:
            allowed = np.flatnonzero(masks_of(manager, [request])[0])
            assert len(allowed) > 0
            assert allowed.max() < len(manager.tokenizer)
            end = manager.tokenizer.eos_token_id
            token_id = end if end in allowed and draw.random() < 0.7 else int(draw.choice(allowed))
            assert grammar.validate_tokens([token_id]) == [token_id]
            assert manager.accept_tokens(request, [token_id])
            tokens.append(token_id)
        refused = sorted({*range(len(manager.tokenizer))} - {*allowed.tolist()})
        if not grammar.is_terminated():
            assert not refused or not grammar.accept_tokens("a", [int(refused[0])])
        elif name == "choice":
            assert manager.tokenizer.decode(tokens[:-1]) in {"true", "trueab", "12"}


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_rolling_back_undoes_tokens_and_the_end(manager: Any, name: str) -> None:
    request, draw = request_for(manager, **CONSTRAINTS[name]), random.Random(3)
    grammar, seen = request.structured_output_request.grammar, []
    for _ in range(12):
        mask = masks_of(manager, [request])[0]
        seen.append(mask)
        token_id = int(draw.choice(np.flatnonzero(mask)))
        assert grammar.accept_tokens("a", [token_id])
        if grammar.is_terminated():
            break
    for mask in reversed(seen):
        grammar.rollback(1)
        assert not grammar.is_terminated()
        assert np.array_equal(masks_of(manager, [request])[0], mask)


def test_drafts_have_the_masks_of_their_places(tokenizer: Any, manager: Any) -> None:
    manager = new_manager(tokenizer, drafts=3)
    first, second = request_for(manager, "a", regex="ab12"), request_for(manager, "b", choice=["12"])
    ids = tokenizer.convert_tokens_to_ids
    drafts = {"a": [ids("ab"), ids("1"), -1], "b": [ids("12"), tokenizer.eos_token_id]}
    masks = masks_of(manager, [first, second], drafts)
    assert masks.shape[0] == 8
    assert sorted(np.flatnonzero(masks[1])) == sorted([ids("1"), ids("12")])
    assert np.flatnonzero(masks[2]).tolist() == [ids("2")]
    assert np.flatnonzero(masks[5]).tolist() == [tokenizer.eos_token_id]
    assert not first.structured_output_request.grammar.is_terminated()  # nothing of it stays
    assert np.array_equal(masks_of(manager, [first, second], drafts), masks)
    assert manager.validate_tokens(first, [ids("ab"), ids("12"), tokenizer.eos_token_id, 5]) == [
        ids("ab"), ids("12"), tokenizer.eos_token_id
    ]  # fmt: skip
    assert manager.validate_tokens(first, [ids("ab"), ids("ab")]) == [ids("ab")]


def test_the_stops_of_a_request_end_its_text_where_it_may_end(manager: Any) -> None:
    other = manager.tokenizer.pad_token_id
    params = validated(manager.tokenizer, regex="(ab)+")
    params._all_stop_token_ids = {manager.tokenizer.eos_token_id, other}
    request = Request("a", [1], params, None)
    manager.grammar_init(request)
    assert not masks_of(manager, [request])[0][other]
    assert not request.structured_output_request.grammar.accept_tokens("a", [other])
    ab = manager.tokenizer.convert_tokens_to_ids("ab")
    assert manager.accept_tokens(request, [ab])
    assert masks_of(manager, [request])[0][[other, ab, manager.tokenizer.eos_token_id]].all()
    assert manager.accept_tokens(request, [other, ab])  # what comes behind the end is not looked at
    assert request.structured_output_request.grammar.is_terminated()
    assert masks_of(manager, [request])[0].all()


def test_many_requests_are_filled_from_threads(tokenizer: Any, manager: Any) -> None:
    manager = new_manager(tokenizer, rows=200)
    manager.executor_for_fillmask = ThreadPoolExecutor(4)
    requests = [request_for(manager, str(i), regex="ab" if i % 2 else "12") for i in range(150)]
    masks = masks_of(manager, requests)
    assert [bool(mask[ord("a")]) for mask in masks] == [i % 2 == 1 for i in range(150)]


def test_the_engines_options_of_json_hold(tokenizer: Any, manager: Any) -> None:
    schema = {"type": "object", "properties": {"ab": {"type": "integer"}}}
    manager = new_manager(tokenizer, disable_any_whitespace=True, disable_additional_properties=True)
    grammar = request_for(manager, json=schema).structured_output_request.grammar

    def accepted(text: str) -> str:
        return bytes(grammar.validate_tokens([*text.encode()])).decode()  # the first tokens are the bytes

    assert accepted('{"ab":12}') == '{"ab":12}'
    assert accepted('{"ab": 12}') == '{"ab":'
    assert accepted('{"12":12}') == '{"'


def test_a_grammar_beyond_its_limits_ends_its_request_alone(manager: Any, caplog: Any) -> None:
    class BeyondItsLimits:
        def __getattr__(self, name: str) -> Any:
            def give_up(*arguments: Any) -> Any:
                raise ValueError("the limit of work is reached")

            return give_up

    first, second = request_for(manager, "a", regex="ab"), request_for(manager, "b", regex="ab")
    first.structured_output_request.grammar.matcher = BeyondItsLimits()
    first.structured_output_request.grammar.is_terminated = lambda: False
    masks = masks_of(manager, [first, second])
    assert masks[0].all()
    assert masks[1].sum() == 2
    ab = manager.tokenizer.convert_tokens_to_ids("ab")
    assert not manager.accept_tokens(first, [ab])
    assert manager.accept_tokens(second, [ab])
    assert "the limit of work is reached" in caplog.text


# --- validation -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "constraint",
    [
        {"json": {"type": "integer", "multipleOf": "ab"}},
        {"json": "{"},
        {"json": {"type": "string", "unevaluatedThings": 3, "$ref": "#/nowhere"}},
        {"regex": "(ab"},
        {"grammar": 'start: "ab" missing'},
        {"grammar": 'root ::= "ab'},
        {"structural_tag": json.dumps({"structures": [{"begin": "<f>"}], "triggers": ["<g"]})},
        {"structural_tag": '{"type": "structural_tag", "format": {"type": "unknown"}}'},
    ],
    ids=["json", "no json", "reference", "regex", "lark", "gbnf", "tag", "format"],
)
def test_what_cannot_be_read_is_refused_when_the_request_arrives(
    manager: Any, constraint: dict[str, Any]
) -> None:
    with pytest.raises(VLLMValidationError):
        validated(manager.tokenizer, **constraint)


def test_a_grammar_that_xgrammar_lacks_is_ours_under_auto(manager: Any) -> None:
    pytest.importorskip("xgrammar")
    schema = {"type": "object", "patternProperties": {"^a": {"type": "integer", "multipleOf": 3}}}
    params = validated(manager.tokenizer, "auto", json=schema)
    assert params.structured_outputs._backend == "guidance"


# --- the switch -----------------------------------------------------------------------------------


def test_switching_it_off_restores_vllms_backend(manager: Any) -> None:
    assert managing.GuidanceBackend.__module__ == "engine_sampler_vllm.grammars"
    switch_on("grammars")  # a second time
    switch_off()
    assert managing.GuidanceBackend is backend_guidance.GuidanceBackend
    assert managing.GuidanceBackend.__module__ == "vllm.v1.structured_output.backend_guidance"
    assert backend_guidance.validate_guidance_grammar.__module__ == managing.GuidanceBackend.__module__
    pytest.importorskip("llguidance")
    request = Request("a", [1], validated(manager.tokenizer, regex="ab"), None)
    new_manager(manager.tokenizer).grammar_init(request)
    assert type(request.structured_output_request.grammar).__name__ in ("GuidanceGrammar", "Future")


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (managing, "GuidanceBackend"),
        (backend_guidance, "validate_guidance_grammar"),
        (backend_types, "StructuredOutputGrammar"),
    ],
    ids=["backend", "validation", "grammar"],
)
def test_a_changed_signature_fails_by_name(module: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, name, lambda other: None)
    with pytest.raises(PeerError, match=name):
        switch_on("grammars")
    monkeypatch.delattr(module, name)
    with pytest.raises(PeerError, match=name):
        switch_on("grammars")
    assert not PLACES.is_replaced(managing, "GuidanceBackend")


def test_masks_are_as_wide_as_the_tokenizer_at_least(manager: Any) -> None:
    backend = managing.GuidanceBackend(manager.vllm_config, manager.tokenizer, 100)
    mask = backend.allocate_token_bitmask(3)
    assert mask.shape == (3, (len(manager.tokenizer) + 31) // 32)
    assert mask.dtype == torch.int32
    backend.destroy()
