"""Structured output: every parameter that requests a grammar, from the request to the text."""

from __future__ import annotations

import json
import pickle
import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, SamplingParams, Scheduler, Tokenizer, process_logits, sample
from engine_sampler.contract import hookimpl
from engine_sampler.grammar import Grammar, allocate_bitmask
from engine_sampler.scheduler.membership.joining import matcher_for

from ...bytewise import (
    CALL,
    EOS,
    PIECES,
    TOKENIZER,
    VOCAB,
    allowed,
    every_backend,
    every_engine,
    fresh_tokenizer,
    generate,
    model_row,
    run_to_end,
    tokenizer_for,
)
from ...engines import registered_plugin

SCHEMA = {
    "type": "object",
    "properties": {"size": {"type": "integer", "minimum": 0, "maximum": 999}, "kind": {"enum": ["a", "b"]}},
    "required": ["size", "kind"],
    "additionalProperties": False,
}
LIST = '{"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3}'
LARK = 'start: item ("," item)*\nitem: "x" | "(" start ")"'
TRIGGERED = {
    "structures": [{"begin": "<tool>", "schema": {"type": "boolean"}, "end": "</tool>"}],
    "triggers": ["<tool"],
}
SEQUENCE = {
    "type": "structural_tag",
    "format": {
        "type": "tag",
        "begin": "<tool>",
        "content": {"type": "json_schema", "json_schema": {"enum": [1, 22]}},
        "end": "</tool>",
    },
}


def fits_schema(text: str) -> bool:
    value = json.loads(text)
    return set(value) == {"size", "kind"} and value["size"] in range(1000) and value["kind"] in ("a", "b")


def fits_list(text: str) -> bool:
    value = json.loads(text)
    return isinstance(value, list) and 1 <= len(value) <= 3 and all(isinstance(v, bool) for v in value)


def fits_lark(text: str) -> bool:
    while text != (text := text.replace("(x)", "x").replace("x,x", "x")):
        pass
    return text == "x"


def fits_tags(text: str) -> bool:
    rest = re.sub(r"<tool>[ \t\r\n]*(true|false)[ \t\r\n]*</tool>", "", text)
    return "<tool" not in rest


def fits_tag(text: str) -> bool:
    return json.loads(text.removeprefix("<tool>").removesuffix("</tool>")) in (1, 22)


CASES: dict[str, tuple[dict[str, Any], Callable[[str], Any]]] = {
    "schema": ({"json_schema": SCHEMA}, fits_schema),
    "schema as text": ({"json_schema": LIST}, fits_list),
    "any JSON": ({"json_schema": True}, lambda text: [json.loads(text)]),
    "regex": ({"regex": r"[a-f]{3,5}\d+(é|ß)?"}, re.compile(r"[a-f]{3,5}\d+(é|ß)?").fullmatch),
    "choice": ({"choice": ["red", "redder", "green"]}, {"red", "redder", "green"}.__contains__),
    "Lark": ({"grammar": LARK}, fits_lark),
    "grammar by name": ({"grammar": "json"}, lambda text: [json.loads(text)]),
    "JSON object": ({"json_object": True}, lambda text: isinstance(json.loads(text), dict)),
    "tags after triggers": ({"structural_tag": TRIGGERED}, fits_tags),
    "a tag": ({"structural_tag": SEQUENCE}, fits_tag),
}

# --- texts ---------------------------------------------------------------------------------------


@pytest.mark.quick_share(4)
@every_engine
@every_backend
@pytest.mark.parametrize("name", CASES)
def test_texts_are_in_the_language_and_end_on_their_own(name: str, backend: str, engine: str) -> None:
    given, fits = CASES[name]
    many = [SamplingParams(**given, seed=seed) for seed in range(4)]
    for record in generate(many, tokenizer_for(engine), backend=backend):
        assert record.text is not None
        assert fits(record.text), record.text
        assert (record.finish_reason, record.stop_reason, record.error) == ("stop", None, None)
        assert record.token_ids[-1] == EOS


@every_engine
def test_the_engines_and_the_backends_give_the_same_tokens(engine: str) -> None:
    many = [SamplingParams(**given, seed=7, temperature=1.3, top_p=0.98) for given, _ in CASES.values()]
    expected = generate(many, backend="numpy")
    found = generate(many, tokenizer_for(engine))
    assert [record.token_ids for record in found] == [record.token_ids for record in expected]


def test_the_environment_chooses_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINE_SAMPLER_MASK_ENGINE", "reference")
    assert Grammar.from_regex("a").compile(fresh_tokenizer()).engine == "reference"
    monkeypatch.setenv("ENGINE_SAMPLER_MASK_ENGINE", "steam")
    with pytest.raises(
        ParameterError, match="regex: ENGINE_SAMPLER_MASK_ENGINE='steam' is not allowed: auto"
    ):
        Scheduler(VOCAB, fresh_tokenizer()).add(SamplingParams(regex="a"))


def test_other_samplers_work_on_the_tokens_that_the_grammar_allows() -> None:
    row = np.zeros(VOCAB, np.float32)
    row[ord("z")], row[ord("b")], row[ord("c")] = 9, 3, 2
    params = SamplingParams(regex="[a-c]x", top_k=2, logit_bias={ord("c"): -5})
    processed = process_logits(row[None], params, tokenizer=TOKENIZER)
    assert np.flatnonzero(processed[0] > -np.inf).tolist() == [ord("a"), ord("b")]


def test_the_stateless_calls_continue_after_the_output() -> None:
    params = SamplingParams(choice=["red", "rude"], temperature=0)
    outputs = [[ord("r")], [ord("r"), ord("u")]]
    found = sample(np.zeros((2, VOCAB), np.float32), params, output_token_ids=outputs, tokenizer=TOKENIZER)
    assert found.token_ids.tolist() == [ord("e"), ord("d")]


def test_max_tokens_and_stop_tokens_end_a_text_before_its_grammar_allows_it() -> None:
    (short,) = generate(SamplingParams(regex="a{50}", max_tokens=3))
    assert (short.finish_reason, short.stop_reason, len(short.token_ids)) == ("length", "max_tokens", 3)
    (stopped,) = generate(SamplingParams(regex="ac{50}", stop_token_ids=[ord("c")]))
    assert (stopped.text, stopped.finish_reason, stopped.stop_reason) == ("a", "stop", ord("c"))


def test_a_grammar_at_its_end_overrides_ignore_eos_and_min_tokens() -> None:
    for more in ({"ignore_eos": True}, {"min_tokens": 9}):
        (record,) = generate(SamplingParams(regex="xyz", **more))
        assert (record.text, record.finish_reason, record.token_ids[-1]) == ("xyz", "stop", EOS)


def test_special_tokens_are_allowed_only_by_a_grammar_that_names_them() -> None:
    (spelled,) = generate(SamplingParams(regex=re.escape("<|call|>"), skip_special_tokens=False))
    assert CALL not in spelled.token_ids
    named = SamplingParams(grammar='start: <|call|> "x"', skip_special_tokens=False)
    (record,) = generate(named)
    assert (record.token_ids, record.text) == ([CALL, ord("x"), EOS], "<|call|>x")


# --- grammars by name ----------------------------------------------------------------------------


class Grammars:
    """A plugin with grammars of every kind."""

    @hookimpl
    def register_grammars(self, register: Any) -> None:
        register("numerals", 'start: ("I" | five)+\nfive: "V"')
        register("gbnf_numerals", 'root ::= ("I" | "V")+')
        register("a_number", Grammar.from_regex(r"\d\d"))
        register("compiled", Grammar.from_regex("yes").compile(TOKENIZER))
        register("function", lambda tokenizer: Grammar.from_choices([f"{len(tokenizer)}"]).compile(tokenizer))
        register("json", Grammar.from_choices(["mine"]))
        register("broken", "start: nothing")


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("numerals", "[IV]+"),
        ("a_number", r"\d\d"),
        ("compiled", "yes"),
        ("function", str(VOCAB)),
        ("json", "mine"),
    ],
)
def test_a_registered_grammar_is_requested_by_name(name: str, pattern: str) -> None:
    with registered_plugin(Grammars()):
        (by_parameter,) = generate(SamplingParams(grammar=name, seed=1))
        (by_argument,) = generate(SamplingParams(seed=1), grammar=name)
    assert by_parameter.text is not None
    assert re.fullmatch(pattern, by_parameter.text)
    assert by_argument.token_ids == by_parameter.token_ids


@pytest.mark.parametrize(
    ("parameters", "good", "bad"),
    [
        ({"grammar": "numerals", "start": "five"}, "V", "I"),
        ({"grammar": "gbnf_numerals"}, "IV", "X"),
        ({"grammar": "arithmetic", "start": "call"}, "f(1)", "1+2"),
    ],
)
def test_the_options_of_a_grammar_reach_one_that_is_named(
    parameters: dict[str, Any], good: str, bad: str
) -> None:
    with registered_plugin(Grammars()):
        scheduler = Scheduler(VOCAB, TOKENIZER)
        params = SamplingParams(**parameters)
        scheduler.add(params, [1], request_id="good", output_token_ids=TOKENIZER.encode(good))
        with pytest.raises(ParameterError):
            scheduler.add(params, [1], request_id="bad", output_token_ids=TOKENIZER.encode(bad))


@pytest.mark.parametrize("options", [{"lexer": "contextual"}, {"start": "top"}])
def test_options_of_a_registered_object_are_refused(options: dict[str, str]) -> None:
    with registered_plugin(Grammars()), pytest.raises(ParameterError, match="'a_number' is registered as"):
        Scheduler(VOCAB, TOKENIZER).add(SamplingParams(grammar="a_number", **options))


def test_a_registered_grammar_that_cannot_be_read_is_named() -> None:
    with registered_plugin(Grammars()), pytest.raises(ParameterError, match="grammar: Rule 'nothing' used"):
        Scheduler(VOCAB, TOKENIZER).add(SamplingParams(grammar="broken"))


def test_an_unknown_name_is_refused_and_the_known_ones_are_listed() -> None:
    with registered_plugin(Grammars()), pytest.raises(ParameterError) as caught:
        Scheduler(VOCAB, TOKENIZER).add(SamplingParams(grammar="jsn"))
    assert str(caught.value).startswith(
        "grammar='jsn' is not allowed: Lark text, or one of a_number, arithmetic"
    )
    assert "numerals" in str(caught.value)


# --- values that are not allowed -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"regex": "a", "choice": ["b"]}, "regex, choice are not allowed together: at most one of them"),
        ({"json_object": True, "json_schema": {}}, "json_schema, json_object are not allowed together"),
        ({"json_schema": [1]}, r"json_schema=\[1\] is not allowed: an object, or JSON text"),
        ({"json_schema": {"a": {1, 2}}}, "is not allowed: an object of JSON values, or JSON text"),
        ({"choice": "red"}, "choice='red' is not allowed: a list of one or more texts"),
        ({"choice": []}, r"choice=\[\] is not allowed: a list of one or more texts"),
        ({"choice": ["a", 1]}, "is not allowed: a list of one or more texts"),
        ({"choice": 5}, "choice=5 is not allowed: a list of one or more texts"),
        ({"regex": 5}, "regex=5 is not allowed: a string, or None"),
        ({"grammar": b"x"}, "grammar=b'x' is not allowed: a string, or None"),
        ({"json_object": 1}, "json_object=1 is not allowed: True or False"),
        ({"structural_tag": 1}, "structural_tag=1 is not allowed: an object, or JSON text"),
        ({"grammar_bias": 2}, "grammar_bias=2.0 is not allowed alone: it needs one of json_schema, regex"),
    ],
)
def test_values_that_are_not_allowed_are_refused_when_parameters_are_built(given: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        SamplingParams(**given)


UNREADABLE = [
    ({"regex": "("}, "regex: not a regular expression: missing )"),
    (
        {"regex": "a" * (2**21 + 1)},
        "regex='" + "a" * 80 + "'…, which has 2,097,153 bytes and ids, is not allowed: this scheduler",
    ),
    ({"grammar": "start: nothing"}, "grammar: Rule 'nothing' used but not defined"),
    ({"grammar": ""}, "grammar: there is no rule 'start'"),
    (
        {"grammar": "start: <|absent|>"},
        "grammar: the grammar names the special token '<|absent|>', which the",
    ),
    ({"json_schema": {"type": "nothing"}}, "json_schema: type 'nothing' is not one of"),
    ({"json_schema": "{"}, "json_schema: the JSON Schema is not JSON"),
    ({"json_schema": False}, "json_schema: "),
    ({"structural_tag": {"tag": 1}}, "structural_tag: the structural tag has the unknown field 'tag'"),
]


@every_engine
@pytest.mark.parametrize(("parameters", "message"), UNREADABLE)
def test_a_grammar_that_cannot_be_used_is_refused_before_anything_changes(
    parameters: Any, message: str, engine: str
) -> None:
    scheduler = Scheduler(VOCAB, tokenizer_for(engine))
    scheduler.add(SamplingParams(), request_id="other")
    for params in (SamplingParams(**parameters), SamplingParams(**parameters, grammar_bias=1)):
        with pytest.raises(ParameterError) as caught:
            scheduler.add(params, request_id="new")
        assert str(caught.value).startswith(message)
    with pytest.raises(ParameterError):
        scheduler.add_group(SamplingParams(**parameters, n=2))
    assert scheduler.request_ids == ["other"]
    assert scheduler.add(SamplingParams(), request_id="new") == "new"


@pytest.mark.parametrize("name", CASES)
def test_a_grammar_needs_a_tokenizer(name: str) -> None:
    given, _ = CASES[name]
    scheduler = Scheduler(VOCAB, eos_token_ids=[EOS])
    with pytest.raises(
        ParameterError, match=f"{next(iter(given))} is given as text, which needs a tokenizer"
    ):
        scheduler.add(SamplingParams(**given))
    assert scheduler.request_ids == []


def test_output_to_resume_from_must_be_in_the_language() -> None:
    scheduler = Scheduler(VOCAB, TOKENIZER)
    with pytest.raises(ParameterError, match=f"output_token_ids: the grammar refuses token {ord('b')}"):
        scheduler.add(SamplingParams(regex="ac"), output_token_ids=[ord("a"), ord("b")])
    request_id = scheduler.add(SamplingParams(regex="ac"), output_token_ids=[ord("a")])
    run_to_end(scheduler)
    assert scheduler.record(request_id).text == "ac"


# --- request bodies ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "given"),
    [
        ({"response_format": {"type": "text"}}, {}),
        ({"response_format": {"type": "json_object"}}, {"json_object": True}),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}},
            {"json_schema": SCHEMA},
        ),
        ({"response_format": {"type": "structural_tag", **TRIGGERED}}, {"structural_tag": TRIGGERED}),
        ({"structured_outputs": {"json": SCHEMA}}, {"json_schema": SCHEMA}),
        ({"structured_outputs": {"json": LIST}}, {"json_schema": LIST}),
        ({"structured_outputs": {"regex": "a+"}}, {"regex": "a+"}),
        ({"structured_outputs": {"choice": ["a", "b"]}}, {"choice": ["a", "b"]}),
        ({"structured_outputs": {"grammar": LARK}}, {"grammar": LARK}),
        ({"structured_outputs": {"json_object": True}}, {"json_object": True}),
        ({"structured_outputs": {"json_object": False, "regex": "a"}}, {"regex": "a"}),
        ({"structured_outputs": {"structural_tag": json.dumps(SEQUENCE)}}, {"structural_tag": SEQUENCE}),
        ({"vllm_xargs": {"regex": "a+", "grammar_bias": 2}}, {"regex": "a+", "grammar_bias": 2}),
    ],
)
def test_request_bodies_request_grammars(body: Any, given: Any) -> None:
    in_order = {"key_order": "schema"} if {"json_schema", "structural_tag"} & given.keys() else {}
    assert SamplingParams.from_dict(body) == SamplingParams(**given, **in_order, order="vllm")


def test_both_forms_of_structural_tags_can_be_requested_in_a_request_body() -> None:
    for tag, fits in ((TRIGGERED, fits_tags), (SEQUENCE, fits_tag)):
        params = SamplingParams.from_dict({"response_format": {**tag, "type": "structural_tag"}, "seed": 3})
        (record,) = generate(params)
        assert record.text is not None
        assert fits(record.text)


def test_a_body_that_requests_two_grammars_is_refused() -> None:
    body = {"response_format": {"type": "json_object"}, "structured_outputs": {"regex": "a"}}
    with pytest.raises(ParameterError, match="regex, json_object are not allowed together"):
        SamplingParams.from_dict(body)


@pytest.mark.filterwarnings("ignore:uniqueItems")
@pytest.mark.parametrize("unsupported", ["warn", "ignore"])
def test_a_record_lists_what_its_schema_requires_in_vain(unsupported: str) -> None:
    schema = {"type": "array", "items": {"type": "array"}, "uniqueItems": True, "minItems": 2}
    body = {"structured_outputs": {"json": schema, "unsupported": unsupported}}
    scheduler = Scheduler(VOCAB, TOKENIZER)
    request_id = scheduler.add(SamplingParams.from_dict(body))
    other = scheduler.fork(request_id)
    plain = scheduler.add(SamplingParams(json_schema={"type": "array"}))
    for known in (request_id, other):
        assert [text.split()[0] for text in scheduler.record(known).unenforced] == ["uniqueItems"]
    assert scheduler.record(plain).unenforced == []
    with pytest.raises(ParameterError, match="json_schema: uniqueItems is not supported here"):
        scheduler.add(SamplingParams(json_schema=schema))


@pytest.mark.parametrize(
    "resources", [{"urn:flag": {"type": "boolean"}}, '{"urn:flag": {"type": "boolean"}}']
)
def test_a_reference_of_a_request_leads_to_a_document_handed_in(resources: Any) -> None:
    schema = {"properties": {"a": {"$ref": "urn:flag"}, "b": {"items": [{"const": 1}]}}}
    body = {"structured_outputs": {"json": schema, "resources": resources, "draft": "7"}}
    scheduler = Scheduler(VOCAB, TOKENIZER)
    scheduler.add(SamplingParams.from_dict(body))
    scheduler.add(SamplingParams(json_schema=schema, resources=resources, draft="7"))
    with pytest.raises(ParameterError, match="urn:flag"):
        scheduler.add(SamplingParams(json_schema=schema))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"draft": "3"}, "draft='3' is not allowed"),
        ({"resources": 1}, "resources=1 is not allowed"),
        ({"resources": "{"}, "json_schema: resources is not JSON"),
        ({"resources": "[1]"}, "json_schema: resources=.* is not allowed: schemas by URI"),
        ({"resources": "[" * 100_000}, "json_schema: resources is nested too deep"),
    ],
)
def test_documents_and_drafts_of_a_request_are_checked(options: Any, message: str) -> None:
    scheduler = Scheduler(VOCAB, TOKENIZER)
    with pytest.raises(ParameterError, match=message):
        scheduler.add(SamplingParams(json_schema={}, **options))


# --- parameters as values ------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_parameters_can_be_pickled_hashed_compared_and_written_out(name: str) -> None:
    given, _ = CASES[name]
    params, again = (SamplingParams(**given, seed=1) for _ in range(2))
    assert params == again == pickle.loads(pickle.dumps(params)) == params.replace(seed=1)
    assert len({params, again, params.replace(seed=2)}) == 2
    assert params != SamplingParams(seed=1)
    assert next(iter(given)) in repr(params)


def test_changing_a_schema_afterwards_does_not_change_the_parameters() -> None:
    schema: dict[str, Any] = {"type": "object"}
    params = SamplingParams(json_schema=schema)
    schema["type"] = "array"
    assert json.loads(params.json_schema) == {"type": "object"}
    assert params == SamplingParams(json_schema='{"type": "object"}')


# --- grammars passed to add ----------------------------------------------------------------------


@every_engine
def test_a_grammar_may_be_passed_in_any_form(engine: str) -> None:
    tokenizer = tokenizer_for(engine)
    grammar = Grammar.from_lark(LARK)
    compiled = grammar.compile(tokenizer)
    (expected,) = generate(SamplingParams(grammar=LARK, seed=5), tokenizer)
    for form in (grammar, compiled, compiled.matcher(), LARK, lambda known: grammar.compile(known)):
        (record,) = generate(SamplingParams(seed=5), tokenizer, grammar=form)
        assert record == expected
    assert fits_lark(str(expected.text))


def test_a_grammar_compiled_on_another_thread_serves_many_requests() -> None:
    compiled: list[Any] = []
    thread = threading.Thread(
        target=lambda: compiled.append(Grammar.from_json_schema(SCHEMA).compile(TOKENIZER))
    )
    thread.start()
    thread.join()
    for record in generate([SamplingParams(seed=seed) for seed in range(8)], grammar=compiled[0]):
        assert fits_schema(str(record.text))


def test_requests_of_one_schema_share_one_compiled_grammar() -> None:
    scheduler = Scheduler(VOCAB, TOKENIZER)
    for _ in range(3):
        scheduler.add(SamplingParams(json_schema=SCHEMA))
    matchers = [request.grammar.matcher for request in scheduler._requests.known.values()]
    assert len({id(matcher) for matcher in matchers}) == 3
    assert len({id(matcher.grammar) for matcher in matchers}) == 1


def test_a_grammar_together_with_a_structured_parameter_is_refused() -> None:
    scheduler = Scheduler(VOCAB, TOKENIZER)
    for given in ({"regex": "a"}, {"regex": "a", "grammar_bias": 1}):
        with pytest.raises(ParameterError, match="grammar and regex are not allowed together"):
            scheduler.add(SamplingParams(**given), grammar=Grammar.from_regex("b"))
    assert scheduler.request_ids == []


@pytest.mark.parametrize("value", [7, object(), [1], {"type": "object"}])
def test_a_value_that_is_not_a_grammar_is_refused(value: Any) -> None:
    with pytest.raises(
        ParameterError, match="is not allowed: a compiled grammar, a matcher, Lark text or a name"
    ):
        Scheduler(VOCAB, TOKENIZER).add(SamplingParams(), grammar=value)


@pytest.mark.parametrize("value", ["", "(", "start: nothing"])
def test_text_that_is_not_a_grammar_is_refused(value: str) -> None:
    with pytest.raises(ParameterError, match=r"^grammar: "):
        Scheduler(VOCAB, TOKENIZER).add(SamplingParams(), grammar=value)


# --- vocabularies --------------------------------------------------------------------------------


@every_backend
@pytest.mark.parametrize("more", [1, 40, 1000])
def test_tokens_that_the_tokenizer_lacks_are_never_drawn(more: int, backend: str) -> None:
    scheduler = Scheduler(VOCAB + more, TOKENIZER, backend=backend)
    row = np.zeros(VOCAB + more, np.float32)
    row[VOCAB:] = 50
    scheduler.add(SamplingParams(regex="[xy]{4}", seed=1))
    while scheduler.request_ids:
        scheduler.step(row[None])
    assert re.fullmatch("[xy]{4}", str(scheduler.record(0).text))


@every_engine
@pytest.mark.parametrize("size", [160, 256, 260])
def test_tokens_beyond_a_smaller_vocabulary_are_never_drawn(size: int, engine: str) -> None:
    scheduler = Scheduler(size, tokenizer_for(engine), eos_token_ids=[0])
    scheduler.add(SamplingParams(regex="(ab)+red", seed=1))
    for _ in range(200):
        if scheduler.request_ids:
            scheduler.step(model_row(scheduler.record(0).token_ids)[None, :size].copy())
    record = scheduler.record(0)
    assert record.finish_reason == "stop"
    assert record.token_ids[-1] == 0
    assert max(record.token_ids) < size
    assert re.fullmatch("(ab)+red", TOKENIZER.decode(record.token_ids[:-1]))


@every_engine
def test_the_eos_ids_of_the_scheduler_end_a_text_and_not_those_of_the_tokenizer(engine: str) -> None:
    scheduler = Scheduler(VOCAB, tokenizer_for(engine), eos_token_ids=[3, CALL])
    scheduler.add(SamplingParams(regex="x?"))
    (request,) = scheduler._requests.known.values()
    assert allowed(request.grammar.matcher) == [3, ord("x"), CALL]
    row = np.zeros(VOCAB, np.float32)
    row[CALL] = 99
    assert scheduler.step(row[None]).finish_reasons == ["stop"]


def test_a_tokenizer_that_fits_is_used_unchanged_and_another_is_resized_once() -> None:
    Scheduler(VOCAB, TOKENIZER).add(SamplingParams(regex="abc"))
    schedulers = [Scheduler(VOCAB, TOKENIZER, eos_token_ids=[3]) for _ in range(3)]
    matchers = [matcher_for(SamplingParams(regex="abc"), None, one.vocabulary) for one in schedulers]
    assert len({matcher.grammar for matcher in matchers}) == 1


def test_a_token_without_bytes_is_never_allowed() -> None:
    tokenizer = Tokenizer([*PIECES, b"", b""], [EOS], [CALL])
    compiled = Grammar.from_regex("(?s:.)*").compile(tokenizer)
    mask = allocate_bitmask(1, len(tokenizer))
    compiled.matcher().fill_bitmask(mask)
    bits = np.unpackbits(mask.view(np.uint8)[0], bitorder="little")
    assert not bits[VOCAB:].any()
    assert bits[EOS]


def test_without_an_eos_token_a_complete_text_stops() -> None:
    tokenizer = Tokenizer([b"a", b"b", b"c"])
    scheduler = Scheduler(3, tokenizer)
    request_id = scheduler.add(SamplingParams(regex="[ab]c", seed=1))
    while scheduler.request_ids:
        scheduler.step(np.zeros((1, 3), np.float32))
    record = scheduler.record(request_id)
    assert (record.text in ("ac", "bc"), record.finish_reason) == (True, "stop")


def test_a_grammar_compiled_for_more_tokens_than_the_vocabulary_has_is_refused() -> None:
    compiled = Grammar.from_regex("a+").compile(Tokenizer([b"a", b"b", b"c", b"d"]))
    with pytest.raises(ParameterError, match="compiled for 4 tokens, the vocabulary has 3"):
        Scheduler(3).add(SamplingParams(), grammar=compiled)


@pytest.mark.parametrize(
    ("parameters", "good", "bad"),
    [
        ({"json_schema": SCHEMA, "whitespace": "compact"}, '{"size":1,"kind":"a"}', '{\n"size"'),
        ({"json_schema": SCHEMA}, '{\n  "size": 1,\n  "kind": "a"\n}', "{\n\n"),
        ({"json_schema": SCHEMA, "key_order": "schema"}, '{"size":1,"kind":"a"}', '{"kind"'),
        ({"json_schema": {"type": "integer"}, "numbers": "any"}, "1.0", "1.5"),
        ({"json_schema": {"type": "integer"}, "numbers": 2}, "12", "123"),
        ({"json_object": True, "numbers": 1}, '{"a":1.5e2}', '{"a":12'),
        ({"json_object": True, "whitespace": 0}, '{"a":[]}', "{ "),
        ({"structural_tag": TRIGGERED, "whitespace": 0}, "<tool>true</tool>", "<tool> "),
        ({"grammar": 'root ::= "a" my_b\nmy_b ::= "b"'}, "ab", "b"),
        ({"grammar": 'root ::= "a" my_b\nmy_b ::= "b"', "start": "my_b"}, "b", "a"),
        ({"grammar": 'start: A B?\nA: /a+/\nB: "ab"', "lexer": "contextual"}, "aa", "aab"),
    ],
)
def test_the_options_of_a_grammar_reach_it(parameters: dict[str, Any], good: str, bad: str) -> None:
    scheduler = Scheduler(VOCAB, TOKENIZER)
    params = SamplingParams(**parameters)
    scheduler.add(params, [1], request_id="good", output_token_ids=TOKENIZER.encode(good))
    with pytest.raises(ParameterError):
        scheduler.add(params, [1], request_id="bad", output_token_ids=TOKENIZER.encode(bad))
