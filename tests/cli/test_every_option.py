"""Every option of a parameter has an effect on what its command prints, or the command refuses it."""

from __future__ import annotations

import argparse
import functools
import io
import json
import re
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import numpy as np
import pytest

from engine_sampler import SamplingParams, Scheduler, Tokenizer
from engine_sampler.cli import main as command_line
from engine_sampler.cli.options import of_rows, option_of
from engine_sampler.explain import trace
from engine_sampler.registry import default_registry
from engine_sampler.session import Session

from .running import run

PIECES = [
    b"a",
    b"b",
    b"c",
    b"ab",
    b"\n",
    b"1",
    b'"',
    b"{",
    b"}",
    b":",
    b",",
    b" ",
    b"<s>",
    b"</s>",
    b'{"b"',
    b"11",
    b"aa",
]
TOKENIZER = Tokenizer(PIECES, eos_token_ids=[13], special_token_ids=[12])
PROMPT = "abcab1a"
THINKING = {"thinking": {"start": "{", "end": "}", "starts_inside": True}}
SCHEMA = {
    "type": "object",
    "properties": {"a": {}, "b": {}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
UNIQUE = {"items": {"type": "object"}, "uniqueItems": True, "minItems": 2, "type": "array"}
ENDLESS = {"ignore_eos": True}
LETTER = {"type": "regex", "pattern": "a"}
NGRAM = {"drafter": "ngram", "prompt_lookup_min": 1}
REFERENCE = {"json_schema": {"$ref": "u:c"}, "resources": {"u:c": {"const": 1}}}

NEEDED: Mapping[str, dict[str, Any]] = {
    "adaptive_decay": {"adaptive_target": 0.3, "adaptive_decay": 0.2},
    "answer": {**THINKING, "thinking_token_budget": 1, "ignore_eos": True, "answer": {"temperature": 0}},
    "assistant_confidence_threshold": {"assistant_confidence_threshold": 1.0},
    "banned_regex": {"banned_regex": "[ab1]"},
    "banned_strings": {"banned_strings": ["a", "c"]},
    "beam_width": {"use_beam_search": True, "beam_width": 5},
    "best_of": {"best_of": 3},
    "deepconf_threshold": {"deepconf_threshold": 17.0, "deepconf_window_size": 3},
    "deepconf_top_k": {"deepconf_threshold": 2.5, "deepconf_window_size": 2, "deepconf_top_k": 1},
    "deepconf_window_size": {"deepconf_threshold": 9.0, "deepconf_window_size": 3},
    "draft": {"json_schema": {"const": 1, "prefixItems": 5}, "draft": "4"},
    "drafter": {"drafter": "ngram"},
    "dry_allowed_length": {"dry_multiplier": 1.0, "dry_allowed_length": 1},
    "dry_penalty_last_n": {"dry_multiplier": 1.0, "dry_penalty_last_n": 1},
    "dynatemp_exponent": {"dynatemp_range": 0.5, "dynatemp_exponent": 2.0},
    "early_stopping": {"use_beam_search": True, "beam_width": 2, "early_stopping": True},
    "grammar": {"grammar": 'start: "a"+'},
    "include_stop_str_in_output": {"stop": ["a", "c"], "include_stop_str_in_output": True},
    "json_object": {"json_object": True},
    "json_schema": {"json_schema": {"const": 1}},
    "key_order": {"json_schema": SCHEMA, "key_order": "schema"},
    "length_penalty": {"use_beam_search": True, "length_penalty": 3.0},
    "lexer": {"grammar": 'start: A "a"\nA: /a+/', "lexer": "contextual"},
    "logprob_token_ids": {"logprob_token_ids": [1]},
    "logprobs": {"logprobs": 2},
    "logprobs_mode": {"logprobs": 2, "logprobs_mode": "processed", "top_k": 2},
    "loop_detect_min_reps": {"regex": "(ac)+", "loop_detect_window": 6, "loop_detect_min_reps": 6},
    "loop_detect_window": {"temperature": 0, "ignore_eos": True, "loop_detect_window": 15},
    "lz_penalty_window": {"lz_penalty": 1.0, "lz_penalty_window": 64},
    "max_length": {"forced_eos_token_id": 1, "max_length": 9},
    "max_time": {"max_time": 1e-9},
    "mirostat_eta": {"mirostat": 1, "mirostat_eta": 0.9},
    "n": {"n": 2},
    "numbers": {"json_schema": {"type": "integer"}, "numbers": 1},
    "order": {"top_k": 3, "min_p": 0.2, "order": ["min_p", "top_k"]},
    "penalize_nl": {"repetition_penalty": 2.0, "penalize_nl": False},
    "phases": {"phases": [{"tokens": 1, "params": {"allowed_token_ids": [2]}}, {}]},
    "prompt_logprob_start": {"prompt_logprobs": 0, "prompt_logprob_start": 2},
    "prompt_logprob_token_ids": {"prompt_logprob_token_ids": [[1]]},
    "prompt_logprobs": {"prompt_logprobs": 0},
    "prompt_lookup_max": {**NGRAM, **ENDLESS, "prompt_lookup_max": 1, "temperature": 2, "max_tokens": 90},
    "prompt_lookup_min": NGRAM,
    "ras_win_max_num_repeat": {"ras_win_len": 9, "ras_win_max_num_repeat": 1},
    "repetition_detection": {**ENDLESS, "temperature": 0, "repetition_detection": {"max_pattern_size": 9}},
    "resources": REFERENCE,
    "return_sampling_mask": {"return_sampling_mask": 3},
    "seed": {"seed": 4},
    "skip_special_tokens": {"skip_special_tokens": False, "allowed_token_ids": [12]},
    "start": {"grammar": 'start: "a"\nother: "b"', "start": "other"},
    "stop": {"stop": ["a", "c"]},
    "stop_regex": {"stop_regex": "[ab1]"},
    "structural_tag": {"structural_tag": {"type": "structural_tag", "format": LETTER}},
    "thinking": {**THINKING, "regex": "c+"},
    "thinking_token_budget": {**THINKING, "thinking_token_budget": 1},
    "token_healing": {"token_healing": True},
    "unsupported": {"json_schema": UNIQUE, "unsupported": "ignore"},
    "use_beam_search": {"use_beam_search": True},
    "whitespace": {"json_schema": SCHEMA, "whitespace": "compact"},
}  # fmt: skip
"""Settings in which a parameter matters, where the examples of its part do not show that."""

PARAMS = SamplingParams.parameters()
NAMES = [name for name in PARAMS if name != "logits_processors"]  # functions are not given as text


@functools.cache
def examples() -> dict[str, dict[str, Any]]:
    """The first example of a part that names each parameter."""
    catalogue, found = default_registry().catalogue, dict[str, dict[str, Any]]()
    for parts in (catalogue.samplers, catalogue.selectors, catalogue.stopping_criteria):
        for example in (e for part in parts.values() for e in part.examples):
            settings = dict(getattr(example, "params", example))
            found |= {name: settings for name in settings if name not in found}
    return found


def with_and_without(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    settings = NEEDED.get(name) or examples()[name]
    return settings, {key: value for key, value in settings.items() if key != name}


class Bigrams(Session):
    """A model whose next token depends on the last one alone."""

    def __init__(self) -> None:
        super().__init__(Scheduler(len(PIECES), TOKENIZER))

    def encode(self, prompt: str) -> list[int]:
        return TOKENIZER.encode(prompt)

    def forward(self, contexts: Mapping[Any, list[int]]) -> Any:
        return self.forward_drafts(contexts, {})

    def forward_drafts(self, contexts: Mapping[Any, list[int]], drafts: Mapping[Any, Any]) -> Any:
        last = [t for r, context in contexts.items() for t in [context[-1], *drafts.get(r, ())]]
        return np.array([np.random.default_rng(t).normal(0, 2, len(PIECES)) for t in last], np.float32)


@functools.cache
def parser() -> argparse.ArgumentParser:
    return command_line.parser()


def as_option(name: str, value: Any) -> list[str]:
    if PARAMS[name].type is bool:
        return [option_of(name).replace("--", "--" if value else "--no-")]
    return [option_of(name), value if isinstance(value, str) else json.dumps(value)]


def generated(settings: Mapping[str, Any]) -> str:
    """What `generate` prints with some options, but for times; why it refuses them."""
    options = [
        option for one in {"seed": 3, "max_tokens": 24, **settings}.items() for option in as_option(*one)
    ]
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        try:
            command_line.run_generate(parser().parse_args(["generate", "--prompt", PROMPT, *options]))
        except ValueError as error:
            return str(error)
    return re.sub("per row: .*", "", out.getvalue())


@pytest.mark.parametrize("name", [name for name in NAMES if name not in of_rows()])
def test_what_changes_no_row_changes_what_generate_prints(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_line, "_session", lambda *_: Bigrams())
    given, rest = with_and_without(name)
    assert "not allowed" not in generated(given)
    assert generated(given) != generated(rest)


def traced(settings: Mapping[str, Any]) -> Any:
    """The steps of a row; why there are none."""
    row = np.random.default_rng(5).normal(0, 2, len(PIECES)).astype(np.float32)
    try:
        return trace(
            row, SamplingParams(**settings), prompt_token_ids=TOKENIZER.encode(PROMPT), tokenizer=TOKENIZER
        )
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("name", NAMES)
def test_explain_takes_what_changes_the_steps_of_a_row(name: str) -> None:
    given, rest = with_and_without(name)
    (options,) = (a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    taken = option_of(name) in options.choices["explain"]._option_string_actions
    assert taken == (traced(given) != traced(rest))


@pytest.mark.parametrize("option", ["--drafter=ngram", "--max-time=1", "--no-skip-special-tokens"])
def test_explain_refuses_what_has_no_effect_by_name(option: str) -> None:
    done = run("explain", "--prompt", "x", option)
    name = option.partition("=")[0].replace("--no-", "--")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"engine-sampler: {name} is not allowed with explain: it has no effect there\n"
