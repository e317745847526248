"""grammar: forced text in the tokens in which the tokenizer writes it, over several stretches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine_sampler import Grammar, SamplingParams, Scheduler, Tokenizer, UnfinishedError
from engine_sampler.contract import Work
from engine_sampler.drafters.grammar import MAX_BYTES

from ..engines import ToyMatcher

PIECES = [b'{"', b"name", b'":"', b'","', b'"}', b'": "', b'", "', b"size", b'":', b"\n  "]
PIECES += [b"<call>", b"<eos>"]
BYTES = [bytes([byte]) for byte in range(256)]
CALL, EOS = 266, 267
TOKENS = [*BYTES, *PIECES]
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "size": {"enum": ["large", "small"]}},
    "required": ["name", "size"],
    "additionalProperties": False,
}


def tokenizer(encode: Any = None) -> Tokenizer:
    return Tokenizer(TOKENS, [EOS], [EOS, CALL], encode=encode)


PLAIN = tokenizer()


def spelled(token_ids: list[int]) -> list[bytes]:
    return [TOKENS[token_id] for token_id in token_ids]


def drafted(written: bytes, known: Tokenizer = PLAIN, prompt: bytes = b"", **parameters: Any) -> list[bytes]:
    """The draft behind a text of so many bytes, each a token, by default JSON of `SCHEMA`."""
    if not {"regex", "grammar"} & set(parameters):
        parameters = {"json_schema": SCHEMA, "key_order": "schema", **parameters}
    scheduler = Scheduler(len(TOKENS), known)
    params = SamplingParams(**parameters, drafter="grammar")
    request = scheduler.add(params, list(prompt), output_token_ids=list(written))
    return spelled(scheduler.draft(max_tokens=32).get(request, []))


def test_names_and_punctuation_are_drafted_as_the_longest_tokens() -> None:
    assert drafted(b"", whitespace=0) == [b'{"', b"name", b'":"']
    assert drafted(b'{"name":"x"', whitespace=0) == [b",", b'"', b"size", b'":"']


def test_nothing_is_drafted_where_the_next_byte_is_open() -> None:
    assert drafted(b'{"name":"x', whitespace=0) == []
    assert drafted(b'{"name":"x","size":"', whitespace=0) == []


def test_a_draft_goes_on_behind_a_choice_that_is_made() -> None:
    assert drafted(b'{"name":"x","size":"l', whitespace=0) == [b"a", b"r", b"g", b"e", b'"}', b"<eos>"]


def test_the_tokenizers_own_encoding_splits_what_is_forced() -> None:
    def by_two(text: str) -> list[int]:
        return [*text.encode()]

    assert drafted(b"", tokenizer(by_two), whitespace=0) == [bytes([b]) for b in b'{"name":"']


def test_a_dummy_prefix_is_not_drafted() -> None:
    def prefixed(text: str) -> list[int]:
        return [32, *PLAIN.encode(text)]

    assert drafted(b"", tokenizer(prefixed), whitespace=0) == [b'{"', b"name", b'":"']


def test_bytes_that_no_tokens_spell_are_not_drafted(caplog: pytest.LogCaptureFixture) -> None:
    scheduler = Scheduler(3, Tokenizer([b"a", b"b", b"</s>"], [2]))
    scheduler.add(SamplingParams(regex="x+", drafter="grammar"))
    assert scheduler.draft() == {}
    assert not caplog.records


@pytest.mark.parametrize(
    ("prompt", "written", "draft"),
    [
        (b"", b'{"name"', [b":", b" ", b'"']),  # as most models write
        (b'{"a":1,"b":2}', b'{"name"', [b":", b'"']),  # as the prompt does
        (b"", b'{"name":"x"', [b",", b" ", b'"', b"size", b'":"']),  # as the text does
        (b"", b'{"name": "x"', [b",", b" ", b'"', b"size", b'": "']),
    ],
)
def test_blanks_are_drafted_as_they_stood_there_before(
    prompt: bytes, written: bytes, draft: list[bytes]
) -> None:
    assert drafted(written, prompt=prompt, whitespace="compact") == draft


def test_line_breaks_are_drafted_as_they_stood_there_before() -> None:
    assert drafted(b'{\n  "name": "x",', prompt=b'{\n  "x": "y",\n  "z": 1}') == [
        b"\n  ",
        b'"',
        b"size",
        b'": "',
    ]


def test_blanks_that_the_grammar_refuses_are_left_out() -> None:
    assert drafted(b'{"name"', prompt=b'{"a":    1}', whitespace="compact") == [b":", b'"']


def test_the_only_token_that_may_come_is_drafted_if_it_is_special() -> None:
    grammar = 'start: "a" <call> "b"'
    assert drafted(b"", grammar=grammar) == [b"a", b"<call>", b"b", b"<eos>"]


def test_thoughts_that_may_come_first_are_not_passed_over() -> None:
    thinking = {"start": "<think>", "end": "</think>"}
    assert drafted(b"", whitespace=0, thinking=thinking) == []
    assert drafted(b"{", whitespace=0, thinking=thinking) == [b'"', b"name", b'":"']


def test_long_forced_text_is_drafted_piece_by_piece() -> None:
    assert len(drafted(b"", regex="x{50}")) == 32
    scheduler = Scheduler(len(TOKENS), PLAIN)
    request = scheduler.add(SamplingParams(regex=f"x{{{MAX_BYTES}}}y{{9}}", drafter="grammar"))
    scheduler.accept(request, [*b"x" * (MAX_BYTES - 9)])
    assert scheduler.draft(max_tokens=128)[request] == [*b"x" * 9, *b"y" * 9, EOS]


def test_a_grammar_of_ones_own_gives_what_its_methods_tell() -> None:
    class Forcing(ToyMatcher):
        def forced_tokens(self) -> list[int]:
            return [97] if self.states == ["start"] else []

        def fork(self) -> Forcing:
            return Forcing(self.table)

    scheduler = Scheduler(len(TOKENS), PLAIN)
    table = {"start": {97: "middle"}, "middle": {98: "start", 99: "end"}}
    plain = scheduler.add(SamplingParams(drafter="grammar"), grammar=ToyMatcher(table))
    forcing = scheduler.add(SamplingParams(drafter="grammar"), grammar=Forcing(table))
    assert scheduler.draft() == {forcing: [97]}
    assert plain in scheduler.request_ids


def test_forced_bytes_stop_when_the_work_is_used_up() -> None:
    matcher = Grammar.from_regex("x{3000}").compile(PLAIN).matcher()
    for call in (lambda work: matcher.forced_bytes(2000, work), matcher.next_bytes):
        with pytest.raises(UnfinishedError):
            call(Work(0, 0))
    assert matcher.next_bytes() == b"x"
    assert np.array_equal(matcher.forced_tokens()[:2], [120, 120])
