"""Every declared parameter as a command-line option."""

from __future__ import annotations

import argparse

import pytest

from engine_sampler.cli.options import (
    add_parameter_options,
    option_of,
    parameters_of,
    read_value,
    refuse_option,
)
from engine_sampler.contract import Param, ParameterError
from engine_sampler.params import SamplingParams
from engine_sampler.registry import default_registry


def parse(*arguments: str, **defaults) -> SamplingParams:
    parser = argparse.ArgumentParser()
    add_parameter_options(parser)
    return parameters_of(parser.parse_args(arguments), **defaults)


def test_every_declared_parameter_has_an_option():
    parser = argparse.ArgumentParser()
    add_parameter_options(parser)
    help_text = parser.format_help()
    missing = [n for n in default_registry().catalogue.params if f"{option_of(n)} " not in help_text]
    assert missing == ["logits_processors"]  # functions are not given as text


def test_parameters_are_neutral_unless_given():
    assert parse() == SamplingParams()


def test_numbers_are_parsed_by_their_type():
    params = parse("--top-k", "40", "--temperature", ".8", "--seed", "7")
    assert params == SamplingParams(top_k=40, temperature=0.8, seed=7)


def test_a_negative_number_is_a_value():
    assert parse("--top-k", "-1").top_k == -1


def test_a_switch_has_a_negative_form():
    assert parse("--ignore-eos").ignore_eos is True
    assert parse("--no-penalize-nl").penalize_nl is False


def test_composite_values_are_parsed_as_json():
    params = parse("--logit-bias", '{"3": 1.5}', "--order", '["top_k", "temperature"]', "--top-k", "3")
    assert params == SamplingParams(logit_bias={3: 1.5}, order=["top_k", "temperature"], top_k=3)


def test_a_composite_value_that_is_not_json_is_text():
    assert parse("--order", "koboldai") == SamplingParams(order="koboldai")


def test_the_order_is_the_librarys_own_unless_given():
    assert parse("--min-p", "0.1").order == "llama.cpp"


def test_given_values_override_defaults():
    assert parse(max_tokens=9).max_tokens == 9
    assert parse("--max-tokens", "4", max_tokens=9).max_tokens == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--top-k", "many"], "top_k='many' is not allowed: an integer"),
        (["--top-p", "1.5"], "top_p=1.5 is not allowed: .* at most 1"),
        (["--temperature", "nan"], "temperature=nan is not allowed"),
        (["--order", '["top_k", "topp"]'], "order names 'topp'"),
    ],
)
def test_a_value_that_is_not_allowed_is_reported(arguments, message):
    with pytest.raises(ParameterError, match=message):
        parse(*arguments)


@pytest.mark.parametrize(
    ("text", "value"),
    [("5", 5), ("null", None), ('"a"', "a"), ("[1, 2]", [1, 2]), ("[0-9]+", "[0-9]+"), ("{", "{")],
)
def test_values_of_other_types_are_json_or_text(text, value):
    assert read_value(Param("x", object, None), text) == value


def test_a_string_is_taken_literally():
    assert read_value(Param("x", str, ""), "5") == "5"


def test_an_unknown_option_is_refused_with_suggestions():
    with pytest.raises(ParameterError, match=r"unknown parameter 'topk'; did you mean .*'top_k'"):
        refuse_option("--topk=40", "generate")
    with pytest.raises(ParameterError, match=r"'no_repeat_ngrams'; did you mean .*'no_repeat_ngram_size'"):
        refuse_option("--no-repeat-ngrams", "explain")


def test_an_option_of_the_command_takes_precedence_over_a_parameter_of_the_same_name():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", default="mine")
    add_parameter_options(parser)
    assert parser.parse_args(["--seed", "yours"]).seed == "yours"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--stop", "a", "--stop", "b"], {"stop": ["a", "b"]}),
        (["--stop", "a", "--stop", '["b", "c"]'], {"stop": ["a", "b", "c"]}),
        (["--stop-token-ids", "[3]", "--stop-token-ids", "4"], {"stop_token_ids": [3, 4]}),
        (["--suppress-tokens", "3"], {"suppress_tokens": [3]}),
        (["--stop-regex", "a+", "--stop-regex", "b"], {"stop_regex": ["a+", "b"]}),
        (["--logit-bias", '{"3": 1}', "--logit-bias", '{"4": 2}'], {"logit_bias": {3: 1, 4: 2}}),
        (["--drafter", "grammar", "--drafter", "ngram"], {"drafter": ["grammar", "ngram"]}),
        (["--choice", '["a"]', "--choice", '["b", "c"]'], {"choice": ["a", "b", "c"]}),
        (["--top-k", "3", "--top-k", "4"], {"top_k": 4}),
        (["--seed", "3", "--seed", "4"], {"seed": 4}),
        (
            ["--json-schema", '{"const": 1}', "--json-schema", '{"const": 2}'],
            {"json_schema": {"const": 2}, "key_order": "schema"},
        ),
    ],
)
def test_an_option_for_a_list_may_be_given_several_times(arguments, expected):
    assert parse(*arguments) == SamplingParams(**expected)
