"""Requests whose grammars llguidance reads, in a scheduler."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from engine_sampler import Grammar, ParameterError, Record, SamplingParams, Scheduler, Tokenizer
from engine_sampler.contract import allocate_bitmask
from engine_sampler.testing import registered

llguidance = pytest.importorskip("llguidance")
plugin = pytest.importorskip("engine_sampler_llguidance")

PIECES = [bytes((byte,)) for byte in range(128)] + [
    b'{"',
    b'": ',
    b"true",
    b"false",
    b"abc",
    b"<tool",
    b"</tool>",
]
EOS = len(PIECES)
TOKENIZER = Tokenizer([*PIECES, b"<end>"], [EOS])
VOCAB = len(TOKENIZER)

SCHEMA = {
    "type": "object",
    "properties": {"on": {"type": "boolean"}, "kind": {"enum": ["abc", "b"]}},
    "required": ["on", "kind"],
    "additionalProperties": False,
}
TAG = {
    "type": "structural_tag",
    "triggers": ["<tool"],
    "structures": [{"begin": "<tool>", "schema": SCHEMA, "end": "</tool>"}],
}
MIXED: list[dict[str, Any]] = [
    {"json_schema": SCHEMA},
    {"json_schema": SCHEMA, "whitespace": "compact"},
    {"regex": "a(bc|d){2,3}"},
    {"choice": ["yes", "no", "é\n\"'"]},
    {"grammar": 'start: "x" INT+\nINT: /[0-9]/'},
    {"json_object": True, "whitespace": 0},
    {"structural_tag": TAG},
    {},
]


@pytest.fixture(autouse=True)
def _plugin() -> Iterator[None]:
    with registered(plugin) as status:
        assert status.provides == ("constraints/llguidance",)
        yield


def scheduler_for(engine: str | None = "llguidance", **given: Any) -> Scheduler:
    return Scheduler(VOCAB, TOKENIZER, grammar_engine=engine, backend="numpy", **given)


def run(scheduler: Scheduler, *, drafts: int = 0) -> dict[Any, Record]:
    """Step all requests to their end, each with random logits of its own, that favour what ends a text."""
    randoms = {request_id: np.random.default_rng(n) for n, request_id in enumerate(scheduler.request_ids)}
    ids = list(randoms)
    logits = {i: randoms[i].normal(0, 2, (80, VOCAB)).astype(np.float32) for i in ids}
    for rows in logits.values():
        rows[:, [EOS, ord('"'), ord("}")]] += 4
    while scheduler.request_ids:
        now = list(scheduler.request_ids)
        rows, guesses = [], []
        for request_id in now:
            at = len(scheduler.record(request_id).token_ids)
            rows.append(logits[request_id][at : at + 1 + drafts])
            guesses.append(logits[request_id][at : at + drafts].argmax(axis=1).tolist())
        more = {"draft_token_ids": guesses} if drafts else {}
        result = scheduler.step(np.concatenate(rows), **more)
        assert not any(result.errors), result.errors
    return {request_id: scheduler.record(request_id) for request_id in ids}


def text(record: Record) -> str:
    return TOKENIZER.decode(record.token_ids)


def add_mixed(scheduler: Scheduler) -> None:
    for number, given in enumerate(MIXED):
        scheduler.add(SamplingParams(**given, seed=number, max_tokens=60), request_id=number)


@pytest.mark.parametrize("engine", ["engine_sampler", "llguidance"])
def test_a_body_gives_fitting_json_with_either_engine(engine: str) -> None:
    body = {
        "max_tokens": 60,
        "seed": 3,
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}},
    }
    scheduler = scheduler_for(engine)
    request_id = scheduler.add(SamplingParams.from_dict(body))
    answer = json.loads(text(run(scheduler)[request_id]))
    assert answer["kind"] in ("abc", "b")
    assert answer["on"] in (True, False)


def test_the_environment_chooses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINE_SAMPLER_GRAMMAR_ENGINE", "llguidance")
    with pytest.raises(ParameterError, match="look-ahead"):
        scheduler_for(None).add(SamplingParams(regex="(?=a)a"))
    monkeypatch.delenv("ENGINE_SAMPLER_GRAMMAR_ENGINE")
    scheduler_for(None).add(SamplingParams(regex="(?=a)a"))


@pytest.mark.parametrize("drafts", [0, 3])
def test_requests_of_all_kinds_are_stepped_together(drafts: int) -> None:
    scheduler = scheduler_for()
    add_mixed(scheduler)
    records = run(scheduler, drafts=drafts)
    texts = [text(records[number]) for number in range(len(MIXED))]
    ended = [record.finish_reason == "stop" for record in records.values()]
    assert sum(ended) >= 5
    if ended[0]:
        assert set(json.loads(texts[0])) == {"on", "kind"}
    assert re.fullmatch(r'\{"on":(true|false),"kind":"(abc|b)"\}', texts[1])
    assert re.fullmatch("a(bc|d){2,3}", texts[2])
    assert texts[3] in MIXED[3]["choice"]
    assert re.fullmatch("x[0-9]+", texts[4])


def test_drafts_change_no_token() -> None:
    found = []
    for drafts in (0, 3):
        scheduler = scheduler_for()
        add_mixed(scheduler)
        found.append([record.token_ids for record in run(scheduler, drafts=drafts).values()])
    assert found[0] == found[1]


def test_a_request_rolls_back_and_forks() -> None:
    scheduler = scheduler_for()
    scheduler.add(SamplingParams(regex="ab[cd]e", temperature=0), request_id="first")
    row = np.zeros((1, VOCAB), np.float32)
    for _ in range(3):
        scheduler.step(row)
    scheduler.fork("first", new_request_id="second")
    scheduler.rollback("first", 1)
    row[0, ord("d")] = 1
    scheduler.step(np.concatenate([row, row]))
    scheduler.step(np.concatenate([row] * len(scheduler.request_ids)))
    assert text(scheduler.record("first")) == "abde"
    assert text(scheduler.record("second")).startswith("abce")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"json_schema": {"type": "objec"}}, "json_schema: .*Invalid type: objec"),
        ({"json_schema": "{"}, "json_schema: "),
        ({"json_schema": "[" * 5000}, "json_schema: "),
        ({"json_schema": '"\\ud800"'}, "json_schema: "),
        ({"json_schema": {"uniqueItems": True, "type": "array"}}, "json_schema: .*uniqueItems"),
        ({"regex": "("}, "regex: .*unclosed group"),
        ({"choice": ["\ud800"]}, "choice: "),
        ({"grammar": "start: missing"}, 'grammar: .*unknown name: "missing"'),
        ({"grammar": "json"}, "grammar: "),
        (
            {"structural_tag": {"type": "structural_tag", "format": {"type": "any_text"}}},
            "structural_tag: llguidance",
        ),
        (
            {"json_schema": SCHEMA, "numbers": 3},
            "numbers=3 is not allowed: the grammar engine llguidance",
        ),
        ({"json_schema": SCHEMA, "draft": "7"}, "draft='7' is not allowed"),
        ({"json_schema": SCHEMA, "resources": "{}"}, "resources='{}' is not allowed"),
        ({"json_schema": SCHEMA, "whitespace": "("}, "json_schema: .*unclosed group"),
        ({"grammar": 'start: "a"', "lexer": "contextual"}, "lexer='contextual' is not allowed"),
        ({"grammar": 'start: "a"', "start": "a"}, "start='a' is not allowed"),
    ],
)
def test_what_it_cannot_read_is_refused_by_name_and_harms_no_neighbour(
    given: dict[str, Any], message: str
) -> None:
    scheduler = scheduler_for()
    scheduler.add(SamplingParams(regex="abc"), request_id="neighbour")
    with pytest.raises(ParameterError, match=message):
        scheduler.add(SamplingParams(**given))
    assert scheduler.request_ids == ["neighbour"]
    assert text(run(scheduler)["neighbour"]) == "abc"


def test_other_things_than_grammars_and_limits_are_refused() -> None:
    with pytest.raises(ParameterError, match="grammar=3 is not allowed: Lark text"):
        scheduler_for().add(SamplingParams(), grammar=3)
    with pytest.raises(ParameterError, match="grammar_limits=3 is not allowed: llguidance"):
        scheduler_for(grammar_limits=3)
    with pytest.raises(ParameterError, match="regex is given as text, which needs a tokenizer"):
        Scheduler(VOCAB, grammar_engine="llguidance").add(SamplingParams(regex="a"))


def test_what_exceeds_a_limit_ends_its_request_alone() -> None:
    limits = llguidance.LLParserLimits(step_max_items=40, verbose_errors=False)
    rules = [f'r{i}: "a" "b"' for i in range(50)]
    heavy = "\n".join(["start: " + " | ".join(rule.split(":")[0] for rule in rules), *rules])
    scheduler = scheduler_for(grammar_limits=limits)
    for number, regex in enumerate(("abc", "xyz")):
        scheduler.add(SamplingParams(regex=regex), request_id=number)
    scheduler.add(SamplingParams(grammar=heavy), request_id="heavy")
    result = scheduler.step(np.zeros((3, VOCAB), np.float32))
    assert [error is None for error in result.errors] == [True, True, False]
    assert "Too many items" in str(result.errors[2])
    assert text(run(scheduler)[0]) == "abc"


def test_matchers_of_both_engines_and_one_twice_are_filled_as_alone() -> None:
    scheduler = scheduler_for()
    params = [SamplingParams(regex="ab?"), SamplingParams(regex="c+")]
    guided = [plugin.GuidanceReader().matcher(one, None, scheduler.vocabulary) for one in params]
    own = Grammar.from_regex("d").compile(TOKENIZER).matcher()
    matchers = [guided[0], own, guided[1], guided[0]]
    together, alone = allocate_bitmask(5, VOCAB), allocate_bitmask(5, VOCAB)
    assert not plugin.GuidanceReader().fill_masks(matchers, together, [4, 0, 2, 1])
    for matcher, row in zip(matchers, [4, 0, 2, 1], strict=True):
        matcher.fill_bitmask(alone, row)
    assert (together == alone).all()


@pytest.mark.parametrize("size", [VOCAB + 40, 120])
def test_logits_may_have_more_columns_than_there_are_tokens_or_fewer(size: int) -> None:
    scheduler = Scheduler(size, TOKENIZER, eos_token_ids=[1], grammar_engine="llguidance", backend="numpy")
    scheduler.add(SamplingParams(regex="ab?"), request_id=0)
    for wanted in ("a", "b", "\x01"):
        row = np.zeros((1, size), np.float32)
        row[0, ord(wanted)] = 99
        scheduler.step(row)
    record = scheduler.record(0)
    assert (list(record.token_ids), record.finish_reason) == ([97, 98, 1], "stop")


def test_a_text_ends_without_an_end_of_text_token_where_nothing_can_follow() -> None:
    scheduler = Scheduler(128, Tokenizer(PIECES[:128]), grammar_engine="llguidance", backend="numpy")
    scheduler.add(SamplingParams(regex="ab"), request_id=0)
    for _ in range(2):
        scheduler.step(np.zeros((1, 128), np.float32))
    record = scheduler.record(0)
    assert (text(record), record.finish_reason) == ("ab", "stop")


def test_a_bias_by_a_grammar_is_read_by_it() -> None:
    scheduler = scheduler_for()
    scheduler.add(SamplingParams(regex="abc", grammar_bias=30.0, temperature=0.0, max_tokens=3), request_id=0)
    for _ in range(3):
        scheduler.step(np.zeros((1, VOCAB), np.float32))
    assert text(scheduler.record(0)).startswith("abc")


def test_what_is_left_out_of_a_schema_is_reported_where_that_is_wanted() -> None:
    schema = {"type": "array", "uniqueItems": True, "maxItems": 1}
    reports: list[Sequence[str]] = []
    for unsupported in ("warn", "ignore"):
        scheduler = scheduler_for()
        request_id = scheduler.add(SamplingParams(json_schema=schema, unsupported=unsupported, max_tokens=1))
        reports.append(run(scheduler)[request_id].unenforced)
    assert reports == [['Unimplemented keys: ["uniqueItems"]'], []]
