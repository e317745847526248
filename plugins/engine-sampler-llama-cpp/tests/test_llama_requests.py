"""Request bodies of llama.cpp's server, read into parameters."""

from __future__ import annotations

import copy
import doctest
import json
import math
import re
from typing import Any

import pytest
from engine_sampler_llama_cpp import from_request, requests
from engine_sampler_llama_cpp.requests import (
    FIELDS,
    RENAMED,
    SAMPLERS,
    SPECIAL,
    TRANSPORT,
)

from engine_sampler import ParameterError, SamplingParams, Scheduler, Tokenizer
from engine_sampler.grammar import Grammar, tool_calls
from engine_sampler.messages import error_body
from engine_sampler.params import build_chain

DEFAULTS: dict[str, Any] = {
    "temperature": 0.8,
    "top_k": 40,
    "top_p": 0.95,
    "min_p": 0.05,
    "penalty_last_n": 64,
    "penalty_scope": "all",
    "dry_penalty_last_n": 64,
}
"""The server's defaults for a request without settings, in our terms."""

TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
]

CALLABLE: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "ls",
            "parameters": {
                "type": "object",
                "properties": {"path": {"type": "string"}},
                "required": ["path"],
            },
        },
    }
]

CLIENT: dict[str, Any] = {
    "prompt": "Hello",
    "stream": True,
    "n_predict": -1,
    "temperature": 0.7,
    "dynatemp_range": 0.1,
    "dynatemp_exponent": 1.2,
    "top_k": 20,
    "top_p": 0.9,
    "min_p": 0.02,
    "top_n_sigma": -1,
    "xtc_probability": 0.1,
    "xtc_threshold": 0.2,
    "typical_p": 0.97,
    "repeat_last_n": 128,
    "repeat_penalty": 1.05,
    "presence_penalty": 0.1,
    "frequency_penalty": 0.2,
    "dry_multiplier": 0.5,
    "dry_base": 1.5,
    "dry_allowed_length": 3,
    "dry_penalty_last_n": 256,
    "dry_sequence_breakers": ["\n"],
    "mirostat": 0,
    "mirostat_tau": 5,
    "mirostat_eta": 0.1,
    "seed": 42,
    "ignore_eos": False,
    "n_keep": 0,
    "cache_prompt": True,
    "id_slot": -1,
    "n_probs": 0,
    "min_keep": 1,
    "stop": ["</s>", ""],
    "samplers": ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"],
    "logit_bias": [],
    "grammar": "",
    "timings_per_token": True,
    "post_sampling_probs": False,
    "n_indent": 0,
    "grammar_lazy": False,
    "grammar_triggers": [],
    "t_max_predict_ms": -1,
    "speculative.n_max": 16,
}


def read(**body: Any) -> SamplingParams:
    return from_request(body)


def test_an_empty_body_has_the_servers_defaults() -> None:
    assert read() == SamplingParams(**DEFAULTS)


def test_a_clients_body_becomes_parameters() -> None:
    assert from_request(CLIENT) == SamplingParams(
        temperature=0.7,
        dynatemp_range=0.1,
        dynatemp_exponent=1.2,
        top_k=20,
        top_p=0.9,
        min_p=0.02,
        xtc_probability=0.1,
        xtc_threshold=0.2,
        typical_p=0.97,
        penalty_last_n=128,
        penalty_scope="all",
        repetition_penalty=1.05,
        presence_penalty=0.1,
        frequency_penalty=0.2,
        dry_multiplier=0.5,
        dry_base=1.5,
        dry_allowed_length=3,
        dry_penalty_last_n=256,
        dry_sequence_breakers=["\n"],
        seed=42,
        min_keep=1,
        stop=["</s>"],
        order=(
            "penalties",
            "dry",
            "top_n_sigma",
            "top_k",
            "typical_p",
            "top_p",
            "min_p",
            "xtc",
            "temperature",
        ),
    )


def test_the_settings_that_the_server_tells_and_ollamas_options_come_back() -> None:
    told = {"speculative.type": "none", "speculative.ngram_size_n": 12, "speculative.ngram_m_hits": 1}
    options = {"num_keep": 5, "num_predict": 100, "penalize_newline": True, "numa": False, "num_ctx": 1024,
               "num_batch": 2, "num_gpu": 1, "main_gpu": 0, "use_mmap": True, "num_thread": 8}  # fmt: skip
    assert from_request({**told, **options}) == SamplingParams(**DEFAULTS, max_tokens=100)
    assert not from_request({"penalize_newline": False}).penalize_nl


def test_the_body_itself_is_not_changed() -> None:
    before = copy.deepcopy(CLIENT)
    from_request(CLIENT)
    assert before == CLIENT


def test_null_means_the_default() -> None:
    assert from_request(dict.fromkeys([*FIELDS, *SPECIAL, *RENAMED])) == read()


def test_transport_keys_are_left_out_and_are_not_parameters() -> None:
    assert from_request(dict.fromkeys(TRANSPORT, "anything")) == read()
    assert not TRANSPORT & {*SamplingParams(), *FIELDS, *SPECIAL, *RENAMED}


def test_the_examples_of_the_docstrings_hold() -> None:
    assert doctest.testmod(requests).attempted


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"temperature": -1}, {"temperature": 0.0}),
        ({"temp": 0.5}, {"temperature": 0.5}),
        ({"top_k": -1}, {"top_k": 0}),
        ({"top_p": 2}, {"top_p": 1.0}),
        ({"min_p": -0.5}, {"min_p": 0.0}),
        ({"typical_p": 1.5}, {"typical_p": 1.0}),
        ({"top_n_sigma": 2}, {"top_n_sigma": 2.0}),
        ({"xtc_threshold": 3}, {"xtc_threshold": 1.0}),
        ({"dynatemp_range": -1}, {"dynatemp_range": 0.0}),
        ({"temperature": 0, "dynatemp_range": 0.5}, {"temperature": 0.25, "dynatemp_range": 0.25}),
        ({"temperature": 0, "dynatemp_range": 0.5, "mirostat": 1}, {"temperature": 0, "dynatemp_range": 0}),
        ({"rep_pen": 1.5, "typical": 0.5, "nsigma": 2},
         {"repetition_penalty": 1.5, "typical_p": 0.5, "top_n_sigma": 2}),
        ({"custom_token_bans": "3", "logit_bias": [[3, False]]}, {"logit_bias": ((3, -math.inf),)}),
        ({"dry_base": 0.5}, {"dry_base": 1.75}),
        ({"dry_penalty_last_n": -1}, {"dry_penalty_last_n": -1}),
        ({"repeat_last_n": 0}, {"penalty_last_n": 0}),
        ({"repeat_last_n": -1}, {"penalty_last_n": -1}),
        ({"mirostat": 7}, {"mirostat": 2}),
        ({"seed": -1}, {"seed": None}),
        ({"seed": 4294967295}, {"seed": None}),
        ({"seed": 5}, {"seed": 5}),
        ({"n_predict": -1}, {"max_tokens": None}),
        ({"n_predict": 9}, {"max_tokens": 9}),
        ({"n_predict": 0}, {"max_tokens": 1}),
        ({"dry_sequence_breakers": [""]}, {"dry_sequence_breakers": ()}),
        ({"dry_sequence_breakers": ["", ":"]}, {"dry_sequence_breakers": (":",)}),
        ({"logit_bias": [[-1, 2], [3, 1]]}, {"logit_bias": ((3, 1.0),)}),
        ({"logit_bias": {"-1": 2}}, {"logit_bias": ()}),
        ({"tools": [], "tool_choice": "none"}, {"max_tokens": None}),
        ({"max_tokens": 9}, {"max_tokens": 9}),
        ({"max_completion_tokens": 9, "n_predict": 9}, {"max_tokens": 9}),
        ({"n_cmpl": 3}, {"n": 3}),
        ({"t_max_predict_ms": 1500}, {"max_time": 1.5}),
        ({"t_max_predict_ms": -1}, {"max_time": None}),
        ({"t_max_predict_ms": 0}, {"max_time": None}),
        ({"ignore_eos": True}, {"ignore_eos": True}),
        ({"stop": "x"}, {"stop": ("x",)}),
        ({"stop": ["", ""]}, {"stop": ()}),
        ({"tfs_z": 0.9}, {"tfs": 0.9}),
        ({"json_schema": {"type": "object"}}, {"json_schema": '{"type": "object"}'}),
        ({"json_schema": {}, "grammar": ""}, {"json_schema": '{"type": "object"}'}),
        ({"response_format": {"type": "json_object"}}, {"json_object": True}),
        ({"response_format": {"type": "json_object", "schema": {"type": "object"}}},
         {"json_schema": '{"type": "object"}', "json_object": False}),
        ({"grammar": "%llguidance {}\nstart: \"a\""}, {"grammar": 'start: "a"'}),
        ({"grammar": 'root ::= "a"'}, {"grammar": 'root ::= "a"'}),
        ({"grammar": " "}, {"grammar": None}),
        ({"json_schema": "", "regex": "", "choice": []}, dict.fromkeys(("json_schema", "regex", "choice"))),
        ({"top_a": 0.2, "bad_words": [[3]]}, {"top_a": 0.2, "bad_words": ((3,),)}),
    ],
)  # fmt: skip
def test_a_value_is_read_as_the_server_reads_it(body: dict[str, Any], expected: dict[str, Any]) -> None:
    params = from_request(body)
    assert {name: params[name] for name in expected} == expected


def test_lines_that_are_indented_too_little_end_the_text() -> None:
    (pattern,) = read(n_indent=4, stop_regex="x")["stop_regex"][1:]
    found = [text for text in ("\n   a", "\n\n", "\n\t a") if re.search(pattern, text)]
    assert found == ["\n   a", "\n\n", "\n\t a"]
    assert not any(re.search(pattern, text) for text in ("a", "\n    a", "\n  "))
    assert read(n_indent=0) == read(n_indent=-1) == read()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"repeat_penality": 1}, "unknown parameter 'repeat_penality'; did you mean 'repeat_penalty'"),
        ({"gugelhupf": 1}, "unknown parameter 'gugelhupf'"),
        ({"repeat_penalty": 0}, "repeat_penalty=0 is not allowed: a finite number above 0"),
        ({"top_p": "high"}, "top_p='high' is not allowed: a finite number"),
        ({"n_predict": -2}, "n_predict=-2 is not allowed: an integer of at least 1"),
        ({"n_predict": False}, "n_predict=False is not allowed: an integer of at least 1"),
        ({"n_predict": 4, "max_tokens": 5}, "max_tokens=5 is not allowed: n_predict says 4"),
        ({"repeat_penalty": 2, "repetition_penalty": 3}, "repetition_penalty=3 is not allowed"),
        ({"seed": -7}, "seed=-7 is not allowed"),
        ({"dry_multiplier": -1}, "dry_multiplier=-1 is not allowed"),
        ({"dry_sequence_breakers": []}, r"dry_sequence_breakers=\[\] is not allowed"),
        ({"adaptive_target": 0.3}, "adaptive_target=0.3 is not allowed: samplers must list adaptive_p"),
        ({"n_indent": 1001}, "n_indent=1001 is not allowed: at most 1000"),
        ({"n_indent": "4"}, "n_indent='4' is not allowed: an integer"),
        ({"grammar_lazy": True}, "grammar_triggers=None is not allowed: a list of 1 to 256 words"),
        ({"reasoning_budget_tokens": 9}, "thinking_token_budget=9 is not allowed here: it needs thinking"),
        ({"stop": [1]}, r"stop=\[1\] is not allowed: a text, or a list of texts"),
        ({"top_logprobs": 3}, "top_logprobs=3 is not allowed: logprobs must be true"),
        ({"samplers": ["top_k", "typo"]}, "samplers names 'typo', allowed are penalties, dry"),
        ({"samplers": "kq"}, "samplers names 'q', allowed are .* letters"),
        ({"samplers": 3}, "samplers names '3'"),
        ({"order": "vllm"}, "samplers names 'v'"),
        ({"order": ["top_k"], "samplers": "p"}, "samplers='p' is not allowed: order says"),
        ({"logit_bias": {"Hello": 1}}, "logit_bias names 'Hello', a text, which needs a tokenizer"),
        ({"logit_bias": [[1, True]]}, "logit_bias=.* is not allowed: pairs of a token id or a text"),
        ({"logit_bias": [[1]]}, "logit_bias=.* is not allowed: pairs"),
        ({"tool_choice": "required"}, "tool_choice requires a call, but tools has no function"),
        ({"tools": TOOLS, "tool_choice": {"type": "function"}}, "tool_choice=.* is not allowed: auto"),
        ({"tools": "ls"}, "tools='ls' is not allowed: a list of tools"),
        ({"logit_bias": 5}, "logit_bias=5 is not allowed: pairs"),
        ({"grammar": 5}, "grammar=5 is not allowed: a text"),
        ({"grammar": "root ::= x"}, r"grammar: there is no rule 'x' \(line 1, column 10\)"),
    ],
)  # fmt: skip
def test_unreadable_values_are_refused_by_name(body: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        from_request(body)


# --- samplers ------------------------------------------------------------------------------------


def test_a_sampler_that_is_not_listed_is_off() -> None:
    params = read(
        samplers=["top_k", "temp"], top_p=0.5, repeat_penalty=1.3, dry_multiplier=1, xtc_probability=1
    )
    assert build_chain(params).key == ("top_k", "temperature", "dist")


def test_an_empty_list_leaves_a_plain_draw() -> None:
    assert build_chain(read(samplers=[], temperature=0.1)).key == ("dist",)


def test_letters_stand_for_names() -> None:
    settings = {
        "repeat_penalty": 1.1,
        "dry_multiplier": 1,
        "top_n_sigma": 1,
        "typical_p": 0.9,
        "xtc_probability": 1,
    }
    names = ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"]
    by_letters = read(samplers="edskypmxt", **settings)
    assert by_letters == read(samplers=names, **settings)
    assert build_chain(by_letters).key == build_chain(read(**settings)).key


def test_names_have_several_spellings() -> None:
    assert read(order=["typical_p", "tfs"]).order == ("typical_p", "tfs")
    written = ["Nucleus", "top-k", "topnsigma", "typ", "min-p", "TEMP"]
    assert read(samplers=written).order == (
        "top_p",
        "top_k",
        "top_n_sigma",
        "typical_p",
        "min_p",
        "temperature",
    )
    for name in SAMPLERS:
        assert (
            read(samplers=[name]) == read(samplers=[name.replace("_", "-")]) == read(samplers=[name.upper()])
        )


def test_the_order_is_the_listed_one() -> None:
    assert build_chain(read(samplers="tmpk")).key == ("temperature", "min_p", "top_p", "top_k", "dist")


def test_a_sampler_that_is_listed_twice_runs_twice() -> None:
    assert build_chain(read(samplers="kptp")).key == ("top_k", "top_p", "temperature", "top_p", "dist")
    assert read(samplers=["top_k", "typ", "typical"]).order == ("top_k", "typical_p", "typical_p")


def test_penalties_stay_beside_mirostat_unless_a_request_of_the_server_turns_it_on() -> None:
    settings: dict[str, Any] = {"mirostat": 2, "repetition_penalty": 1.5, "dry_multiplier": 1.0}
    assert build_chain(read(**settings)).key == ("temperature", "mirostat_v2")
    for order in ("llama.cpp", "vllm"):
        key = build_chain(SamplingParams(**settings, temperature=0.8, order=order)).key
        assert set(key) == {"penalties", "dry", "temperature", "mirostat_v2"}


def test_calls_of_tools_are_logged_as_not_constrained(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING", "engine_sampler"):
        assert read(tools=TOOLS) == read(tools=TOOLS, tool_choice="none") == read()
    assert [r.getMessage() for r in caplog.records] == [
        "tools: the calls that the model makes are not constrained"
    ]


def test_a_forced_call_has_the_generic_form_of_the_server() -> None:
    def answers(text: str, **body: Any) -> bool:
        schema = read(tools=CALLABLE, **body).json_schema
        return Grammar.from_json_schema(schema).check(text).valid

    call = '{"name": "ls", "arguments": {"path": "/"}}'
    named = {"type": "function", "function": {"name": "ls"}}
    for choice in ("required", named):
        assert answers(f'{{"tool_call": {call}}}', tool_choice=choice)
        assert not answers('{"tool_call": {"name": "ls", "arguments": {}}}', tool_choice=choice)
        assert not answers(f'{{"tool_call": {call.replace("ls", "rm")}}}', tool_choice=choice)
    several = {"tool_choice": "required", "parallel_tool_calls": True}
    listed = call[:-1] + ', "id": "0001"}'
    assert answers(f'{{"tool_calls": [{listed}, {listed}]}}', **several)
    assert not answers(f'{{"tool_calls": [{call}]}}', **several)
    assert not answers('{"tool_calls": []}', **several)


def test_functions_and_function_call_are_tools_and_a_choice_among_them() -> None:
    functions = [tool["function"] for tool in CALLABLE]
    older = read(functions=functions, function_call={"name": "ls"})
    assert older == read(tools=CALLABLE, tool_choice={"function": {"name": "ls"}})
    assert older.json_schema is not None


def test_calls_are_constrained_as_the_models_of_a_family_write_them(caplog: pytest.LogCaptureFixture) -> None:
    for choice in ("auto", "required"):
        body = {"tools": CALLABLE, "tool_choice": choice}
        params = from_request(body, tool_family="qwen_3", reasoning="auto")
        expected = tool_calls("qwen_3", CALLABLE, choice, parallel_tool_calls=False, reasoning="auto")
        assert json.loads(params.structural_tag) == expected
        template = """<think>\n</think>\n\n<tool_call>\n{"name": "", "arguments": {}}\n</tool_call>"""
        found = from_request(body, tool_family="auto", chat_template=template, reasoning="auto")
        assert found == params
    assert from_request({"tools": CALLABLE, "tool_choice": "none"}, tool_family="qwen_3") == read()
    assert not caplog.records


def test_mirostat_leaves_only_the_temperature() -> None:
    params = read(mirostat=2, dynatemp_range=0.5, repeat_penalty=1.5, dry_multiplier=1, samplers=["top_k"])
    assert build_chain(params).key == ("temperature", "mirostat_v2")
    assert params.temperature == 0.8


def test_adaptive_p_draws_if_it_is_listed() -> None:
    params = read(samplers=["min_p", "adaptive_p"], adaptive_target=0.4, adaptive_decay=0.5)
    assert build_chain(params).key == ("min_p", "adaptive_p")
    assert build_chain(read(samplers=["min_p", "adaptive_p"])).key == ("min_p", "dist")


def test_infill_runs_if_it_is_listed() -> None:
    assert read(samplers="kti").infill
    assert not read(samplers="kt").infill


# --- biases and logprobs -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bias", "expected"),
    [
        ([[3, 1.5], [4, False]], ((3, 1.5), (4, -math.inf))),
        ({"3": 1.5, "4": False}, ((3, 1.5), (4, -math.inf))),
        ([[3, 1.5], [3, 1]], ((3, 2.5),)),
        ([["ab", 1.0], ["b", 0.5]], ((0, 1.0), (1, 1.5))),
        ({"ab": -1, "1": 0.5}, ((0, -1.0), (1, -0.5))),
        ([["1", 2.0]], ((2, 2.0),)),
        ({"1": 2.0}, ((1, 2.0),)),
    ],
)
def test_a_bias_is_given_by_id_or_by_text(bias: Any, expected: Any) -> None:
    tokenizer = Tokenizer([b"a", b"b", b"1", b"c", b"d"])
    assert from_request({"logit_bias": bias}, tokenizer).logit_bias == expected


def test_biases_outside_the_vocabulary_are_left_out() -> None:
    body = {"logit_bias": [[2, 1.0], [3, 1.0], [10**9, False], ["a", 2.0]]}
    tokenizer = Tokenizer([b"a", b"b", b"1"])
    assert from_request(body, tokenizer).logit_bias == ((0, 2.0), (2, 1.0))
    assert from_request(body, tokenizer, vocab_size=4).logit_bias == ((0, 2.0), (2, 1.0), (3, 1.0))
    params = from_request({"logit_bias": [[3, 1.0]]})
    with pytest.raises(ParameterError, match="logit_bias names token id 3"):
        Scheduler(3).add(params)
    Scheduler(3).add(from_request({"logit_bias": [[3, 1.0]]}, vocab_size=3))


@pytest.mark.parametrize(
    ("body", "count", "mode"),
    [
        ({}, None, "raw"),
        ({"n_probs": 0, "post_sampling_probs": True}, None, "raw"),
        ({"n_probs": 5}, 5, "raw"),
        ({"n_probs": 5, "post_sampling_probs": True}, 5, "processed"),
        ({"logprobs": 4}, 4, "raw"),
        ({"n_probs": 5, "logprobs": 4}, 5, "raw"),
        ({"logprobs": True}, 20, "raw"),
        ({"logprobs": True, "top_logprobs": 2}, 2, "raw"),
        ({"logprobs": False}, None, "raw"),
    ],
)
def test_probabilities_become_logprobs(body: dict[str, Any], count: int | None, mode: str) -> None:
    params = from_request(body)
    assert (params.logprobs, params.logprobs_mode) == (count, mode)


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"json_schema": {"type": "float"}}, "json_schema"),
        ({"grammar": "root ::= ("}, "grammar"),
        ({"response_format": {"type": "json_object", "schema": {"type": "float"}}}, "response_format.schema"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "float"}}}},
            "response_format.json_schema.schema",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_constraint_is_named_by_its_place_in_the_body(body: dict[str, Any], place: str) -> None:
    tokenizer = Tokenizer([bytes([i]) for i in range(128)], eos_token_ids=[0])
    with pytest.raises(ParameterError) as refused:
        Scheduler(len(tokenizer), tokenizer).add(from_request(body, tokenizer), [1])
    error = error_body(refused.value, body)["error"]
    assert error["param"] == place
    assert error["message"].startswith(place)
