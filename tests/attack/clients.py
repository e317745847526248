"""The catalogue of hostile clients: each is a request body, as a server would read it from the network."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from engine_sampler import ParameterError, RequestLimits, SamplingParams
from engine_sampler.params.costs import MAX_PASSES, MAX_ROW_PASSES
from engine_sampler.params.orders import DEFAULT

Random = np.random.Generator
Body = Mapping[str, Any]
Client = Callable[[Random, int], Body]
"""Makes a body from a source of randomness and the size of the vocabulary."""

CLIENTS: dict[str, Client] = {}
"""Name → client."""


def client(make: Client) -> Client:
    """Register a client by its name."""
    CLIENTS[make.__name__] = make
    return make


EXPENSIVE: dict[str, float] = {}
"""The clients whose own rows cost as much as those of a request may cost, or are many → as how many of the
most expensive rows they count in a step."""


def expensive(make: Client, rows: float = 3) -> Client:
    """Register a client by its name, as one whose requests are expensive."""
    EXPENSIVE[make.__name__] = rows
    return client(make)


crowded = partial(expensive, rows=2)
"""Register a client that has many ordinary rows."""


def _text(random: Random, length: int, letters: str = "abcdefgh ") -> str:
    return "".join(random.choice(list(letters), length))


def _structured(kind: str, value: Any) -> Body:
    return {"structured_outputs": {kind: value}}


# --- patterns ------------------------------------------------------------------------------------

PATTERNS = {
    "wide_counted_classes": r"(\w|\d|\s|[^a-z]){1,5000}",
    "nested_counts": "((a{0,100}){0,100}){0,100}",
    "late_letter": ".*a.{30}b",
    "letter_far_back": "(a|b)*a(a|b){18}",
    "long_optional": "(a?){2000}",
    "any_bytes": r"[\s\S]{1,60000}",
    "address": r"[^@\s]+@[^@\s]+\.[^@\s]+",
    "overlapping_words": "(a|aa|aaa|b|ab|ba)*c{1,300}",
    "three_letters_in_any_order": r"(.*a.*b.*c|.*b.*c.*a|.*c.*a.*b).{0,200}",
    "unicode_classes": r"(\p{L}|\p{N}|\p{P}){1,3000}",
}
"""Regular expressions that are short to send and large to work on."""


def _pattern(name: str, pattern: str) -> None:
    def as_regex(random: Random, size: int) -> Body:
        return _structured("regex", f"x{{0,{random.integers(1, 9)}}}{pattern}")

    def as_schema(random: Random, size: int) -> Body:
        ends = {"maxLength": int(random.integers(50, 2000)), "minLength": int(random.integers(1, 9))}
        return _structured("json", {"type": "string", "pattern": pattern, **ends})

    def as_stop(random: Random, size: int) -> Body:
        return {"stop_regex": [pattern + "~~"]}

    def as_ban(random: Random, size: int) -> Body:
        return {"banned_regex": [pattern + "~~"], "banned_strings": [_text(random, 1) for _ in range(4)]}

    CLIENTS[f"ban_{name}"] = as_ban
    CLIENTS[f"regex_{name}"] = as_regex
    CLIENTS[f"schema_{name}"] = as_schema
    CLIENTS[f"stop_{name}"] = as_stop


for _name, _source in PATTERNS.items():
    _pattern(_name, _source)

# --- grammars ------------------------------------------------------------------------------------


@client
def choice_of_two_long_texts(random: Random, size: int) -> Body:
    shared = _text(random, 1 << 20)
    return _structured("choice", [shared + "x", shared + "y"])


@client
def choice_of_many_texts(random: Random, size: int) -> Body:
    return _structured("choice", [_text(random, 20) for _ in range(10_000)])


@client
def enum_of_many_texts(random: Random, size: int) -> Body:
    return _structured("json", {"enum": [_text(random, 20) for _ in range(20_000)]})


@client
def schema_with_many_keys(random: Random, size: int) -> Body:
    keys = {f"k{i}": {"type": "string", "maxLength": i} for i in range(2000)}
    return _structured("json", {"properties": keys, "required": list(keys)[:50]})


@client
def schema_with_many_patterns(random: Random, size: int) -> Body:
    patterns = {f"^[a-{chr(98 + i)}]+.{{0,{i + 5}}}$": {"type": "integer"} for i in range(20)}
    return _structured("json", {"patternProperties": patterns})


@client
def password_schema(random: Random, size: int) -> Body:
    parts = [{"pattern": pattern} for pattern in ("[a-z]", "[A-Z]", "[0-9]")]
    return _structured("json", {"type": "string", "allOf": parts, "minLength": 8, "maxLength": 64})


@client
def nested_alternatives(random: Random, size: int) -> Body:
    schema: Any = {"type": "string"}
    for i in range(12):
        schema = {"oneOf": [{"properties": {f"k{i}": schema}}, {"properties": {f"j{i}": schema}}]}
    return _structured("json", schema)


@client
def nested_conditions(random: Random, size: int) -> Body:
    schema: Any = {"type": "integer"}
    for i in range(int(random.integers(3, 7))):
        schema = {"if": {"required": [f"k{i}"]}, "then": schema, "else": {"not": schema}}
    return _structured("json", schema)


@client
def deep_references(random: Random, size: int) -> Body:
    links = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(100)} | {"d100": {"type": "null"}}
    return _structured("json", {"$ref": "#/$defs/d0", "$defs": links})


@client
def ambiguous_grammar(random: Random, size: int) -> Body:
    return _structured("grammar", 'start: start start start | start start | "a" | /[ab ]{1,9}/')


@client
def grammar_of_many_rules(random: Random, size: int) -> Body:
    rules = [f'r{i}: r{i + 1} "a"? | /[a-{chr(98 + i % 20)}]+/' for i in range(300)]
    return _structured("grammar", "\n".join([*rules, 'r300: "b"', "start: r0"]))


@client
def terminals_that_overlap(random: Random, size: int) -> Body:
    rules = [f"T{i}: /[a-z]{{{i},{i + 40}}}/" for i in range(1, 60)]
    names = " | ".join(f"T{i}" for i in range(1, 60))
    return _structured("grammar", "\n".join([f"start: ({names} | / /)+", *rules]))


@client
def grammar_that_grows(random: Random, size: int) -> Body:
    return _structured("grammar", rf"start: b b{chr(10)}b: /[\s\S]{{1,{random.integers(1000, 60_000)}}}/")


@client
def many_brackets(random: Random, size: int) -> Body:
    return {"structured_outputs": {"grammar": "start: " + '("a")' * 5000, "lexer": "contextual"}}


@client
def many_states_in_a_row(random: Random, size: int) -> Body:
    words = " ".join(f'"{_text(random, 3)}"' for _ in range(4000))
    return {"structured_outputs": {"grammar": f"start: {words}", "lexer": "contextual"}}


@client
def budgets_within_each_other(random: Random, size: int) -> Body:
    parts = "\n".join(f'r{i}[max_tokens={9 - i}]: (/[a-z]/ | r{i + 1} | r{i} " ")+' for i in range(4))
    return _structured("grammar", f'start: (r0 ".")*\n{parts}\nr4: "x" r{random.integers(4)}')


# --- parameters ----------------------------------------------------------------------------------


@client
def long_stop_patterns(random: Random, size: int) -> Body:
    return {"stop_regex": ["".join(rf"(\w{{1,9}}{_text(random, 3)}|\d+)?" for _ in range(200)) + "~"]}


@client
def infill_over_all_tokens(random: Random, size: int) -> Body:
    return {"infill": True, "temperature": 1.5}


@client
def many_stop_strings(random: Random, size: int) -> Body:
    return {"stop": [_text(random, 30) for _ in range(10_000)]}


@client
def long_stop_string(random: Random, size: int) -> Body:
    return {"stop": ["a" * (1 << 20)]}


@client
def many_bad_words(random: Random, size: int) -> Body:
    return {"bad_words": [_text(random, 8) for _ in range(100_000)]}


@client
def many_sequence_breakers(random: Random, size: int) -> Body:
    return {"dry_multiplier": 1.0, "dry_sequence_breakers": [_text(random, 2) for _ in range(1000)]}


@client
def large_bias(random: Random, size: int) -> Body:
    ids = random.choice(size, min(size, 50_000), replace=False)
    return {"logit_bias": {str(i): 1.0 for i in ids}}


@client
def all_tokens_allowed(random: Random, size: int) -> Body:
    return {"allowed_token_ids": list(range(size))}


@client
def all_logprobs(random: Random, size: int) -> Body:
    return {"logprobs": -1, "logprobs_mode": ["raw", "penalized", "processed"]}


@client
def endless_siblings(random: Random, size: int) -> Body:
    return {"n": 2_147_483_647}


@client
def wide_beams(random: Random, size: int) -> Body:
    return {"use_beam_search": True, "beam_width": 1_000_000, "max_tokens": 9}


@expensive
def as_many_beams_as_allowed(random: Random, size: int) -> Body:
    return {"use_beam_search": True, "beam_width": 32, "max_tokens": 2000, "ignore_eos": True}


@expensive
def as_many_siblings_as_allowed(random: Random, size: int) -> Body:
    prompt = random.integers(0, size, 30_000).tolist()
    return {"n": 128, "prompt": prompt, "repetition_penalty": 1.1, "ignore_eos": True}


@client
def siblings_of_a_prompt_with_repeats(random: Random, size: int) -> Body:
    prompt = random.integers(0, 50, 100_000).tolist()
    return {
        "n": 2,
        "prompt": prompt,
        "dry_multiplier": 1.0,
        "no_repeat_ngram_size": 5,
        "frequency_penalty": 0.1,
    }


@client
def repetitions(random: Random, size: int) -> Body:
    found = {"max_pattern_size": 1_000_000, "min_pattern_size": 1, "min_count": 2}
    return {"repetition_detection": found, "no_repeat_ngram_size": 2, "dry_multiplier": 1.0}


@client
def deep_json(random: Random, size: int) -> Body:
    return {"dry_sequence_breakers": "[" * 100_000}


@client
def huge_numbers(random: Random, size: int) -> Body:
    name = str(random.choice(["temperature", "top_k", "seed", "max_tokens", "min_tokens", "logprobs"]))
    return {name: json.loads("1" + "0" * 400)}


@client
def stop_token_ids_everywhere(random: Random, size: int) -> Body:
    return {"stop_token_ids": list(range(0, size, 2)), "min_tokens": 1000, "ignore_eos": True}


# --- orders --------------------------------------------------------------------------------------

ALL = {
    "temperature": 1e6, "repetition_penalty": 1.1, "no_repeat_ngram_size": 3, "dry_multiplier": 1.0,
    "top_n_sigma": 100.0, "top_k": 100_000, "top_a": 1e-9, "tfs": 0.9999, "typical_p": 0.9999,
    "top_p": 0.9999, "min_p": 1e-6, "epsilon_cutoff": 1e-9, "eta_cutoff": 1e-9, "top_h": 0.9999,
    "xtc_probability": 1.0, "xtc_threshold": 0.4, "smoothing_factor": 1e-9, "infill": True,
}  # fmt: skip
"""All samplers that can be ordered, which leave nearly all tokens of a row that the temperature flattens."""


@client
def one_sampler_many_times(random: Random, size: int) -> Body:
    return {"order": ["tfs"] * 128, "tfs": 0.999}


@client
def one_penalty_many_times(random: Random, size: int) -> Body:
    return {"order": ["dry"] * 120, "dry_multiplier": 1.0, "prompt": [7] * 100_000}


@expensive
def all_samplers_over_a_flat_row(random: Random, size: int) -> Body:
    others = [str(name) for name in random.permutation([name for name in DEFAULT if name != "temperature"])]
    return {**ALL, "order": ["temperature", *others]}


@expensive
def the_most_expensive_order(random: Random, size: int) -> Body:
    used = {name: ALL[name] for name in ("temperature", "tfs", "infill")}
    order = ["temperature", *["infill"] * 2, *["tfs"] * 2]
    return {**used, "order": order, "ignore_eos": True}


@expensive
def samplers_that_sort_over_a_flat_row(random: Random, size: int) -> Body:
    names = ["typical_p", "top_p", "top_h", "tfs", "top_k"]
    used = {name: ALL[name] for name in ("temperature", *names)}
    return {**used, "order": ["temperature", *names * 3]}


@expensive
def nearly_all_of_a_flat_row(random: Random, size: int) -> Body:
    flat = {"temperature": 50.0, "order": ["temperature", "tfs", "top_p"]}
    return {**flat, "top_p": 0.999999999, "tfs": 0.95, "ignore_eos": True}


@expensive
def a_flat_row_of_which_much_is_kept(random: Random, size: int) -> Body:
    return {"temperature": 50.0, "order": ["temperature", "top_p"], "top_p": 0.5, "min_keep": 100_000}


@client
def penalties_over_a_prompt_of_one_token(random: Random, size: int) -> Body:
    dry = {"dry_multiplier": 1e-30, "dry_base": 1.0001}
    return {"prompt": [7] * 100_000, "no_repeat_ngram_size": 50_000, "repetition_penalty": 1.1, **dry}


@client
def breakers_that_nearly_match(random: Random, size: int) -> Body:
    near = [[7, int(token)] for token in random.choice(size, 120)]
    return {"prompt": [7] * 30_000, "dry_multiplier": 1.0, "dry_sequence_breakers": near}


@client
def everything_at_once(random: Random, size: int) -> Body:
    body: dict[str, Any] = {"temperature": 1.5, "repetition_penalty": 1.1, "frequency_penalty": 0.1}
    for make in (many_stop_strings, many_sequence_breakers, large_bias, all_logprobs):
        body |= make(random, size)
    return body | _structured("regex", PATTERNS["wide_counted_classes"])


@client
def markers_that_nearly_match(random: Random, size: int) -> Body:
    near = ["e " * 40 + letter + "e" for letter in "abcdefghijkl"]
    marks = {"start": near, "end": near, "starts_inside": True, "eos": "close", "message": "so " * 200}
    return {"prompt": [7] * 30_000, "thinking": marks, "thinking_token_budget": 5}


@client
def a_phase_for_every_token(random: Random, size: int) -> Body:
    history = {"repetition_penalty": 1.1, "dry_multiplier": 0.8, "no_repeat_ngram_size": 9}
    phases = [{"tokens": 1, "params": {"top_p": 0.5}}, {"tokens": 1, "then": 0}]
    return {"prompt": [7] * 100_000, "phases": phases, "ignore_eos": True, **history}


@client
def forced_text_without_an_end(random: Random, size: int) -> Body:
    return {"phases": [{"tokens": 0, "force": [1, 2, 3], "then": 0}], "logprobs": 20}


@client
def rules_beside_many_markers(random: Random, size: int) -> Body:
    marks = ["e " * 40 + letter + "e" for letter in "abcdefghijklmnop"]
    rules = [f"t{i}[temperature={random.random():.6f}]: /[a-b]/" for i in range(31)]
    grammar = "\n".join([f"start: ({' | '.join(f't{i}' for i in range(31))})+", *rules])
    thinking = {"start": marks, "end": marks, "starts_inside": True}
    return {"thinking": thinking, "thinking_token_budget": 3, **_structured("grammar", grammar)}


@client
def stop_tokens_beside_patterns(random: Random, size: int) -> Body:
    return {"n": 8, "stop_token_ids": list(range(min(size, 8191))), "stop_regex": ["abc~"]}


# --- siblings --------------------------------------------------------------------------------------


@crowded
def siblings_with_many_stop_tokens(random: Random, size: int) -> Body:
    return {"n": 128, "stop_token_ids": list(range(min(size, 8191))), "ignore_eos": True}


@crowded
def siblings_with_many_markers(random: Random, size: int) -> Body:
    return {"n": 128, **{k: v for k, v in markers_that_nearly_match(random, size).items() if k != "prompt"}}


@client
def siblings_that_change_penalties_at_every_token(random: Random, size: int) -> Body:
    phases = [{"tokens": 1, "params": {"dry_multiplier": 1.0}}, {"tokens": 1, "then": 0}]
    return {"n": 128, "prompt": random.integers(0, 50, 100_000).tolist(), "phases": phases}


@expensive
def as_many_siblings_that_change_penalties_as_allowed(random: Random, size: int) -> Body:
    return {**siblings_that_change_penalties_at_every_token(random, size), "n": 41}


@expensive
def siblings_whose_text_is_forced(random: Random, size: int) -> Body:
    return {**forced_text_without_an_end(random, size), "n": 128}


def _captured(grammar: str, most: int) -> Body:
    """Siblings that end in one step, and whose captures a parser finds: `captured` is its grammar."""
    return {"n": 128, "max_tokens": most, "captured": grammar, **_structured("grammar", grammar)}


@crowded
def siblings_whose_captures_are_ambiguous(random: Random, size: int) -> Body:
    return _captured('start: s\ns[capture]: s s | "a"', 30)


@crowded
def siblings_with_many_captures(random: Random, size: int) -> Body:
    return _captured('start: (w " ")*\nw[capture]: /[a-z]+/', 39)


def _as_siblings(name: str, make: Client) -> None:
    """Register the requests of an expensive client with as many rows as a request may have, and with as many
    as it may have at that cost."""

    def as_many_as_there_may_be(random: Random, size: int) -> Body:
        return {**make(random, size), "n": 128}

    def as_many_as_allowed(random: Random, size: int) -> Body:
        body = as_many_as_there_may_be(random, size)
        try:
            RequestLimits().check(SamplingParams.from_dict(body), size)
        except ParameterError as refusal:
            return {**body, "n": int(str(refusal).rpartition("allows ")[2].partition(" ")[0])}
        return body

    for prefix, as_siblings in (("128_times", as_many_as_there_may_be), ("as_allowed", as_many_as_allowed)):
        as_siblings.__name__ = f"{prefix}_{name}"
        expensive(as_siblings, rows=MAX_ROW_PASSES / MAX_PASSES)


for _name in sorted(EXPENSIVE):
    if not {"n", "use_beam_search"} & CLIENTS[_name](np.random.default_rng(0), 1000).keys():
        _as_siblings(_name, CLIENTS[_name])
