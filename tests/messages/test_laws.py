"""Laws of parsing: for every family, answers in any tokens, cut anywhere, rolled back, and mutated."""

from __future__ import annotations

import os
from random import Random
from typing import Any

import pytest

from .families import random_answer
from .laws import FAMILIES, check_mutations, check_tokenizations, feed, parser_of, pieces_of, read
from .vocabularies import random_cuts

ROUNDS = int(os.environ.get("ENGINE_SAMPLER_TEST_ROUNDS", "1"))
"""1: in seconds. The command `counts` reads 10,000 calls of each family, and 10^5 mutated texts."""


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("family", FAMILIES)
def test_events_rebuild_the_answer_under_any_tokenization(family: str) -> None:
    for seed in range(10 * ROUNDS):
        check_tokenizations(family, Random(seed), 3 if ROUNDS == 1 else 10)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_was_said_is_never_taken_back(family: str) -> None:
    for seed in range(2 * ROUNDS):
        random = Random(seed)
        answer = random_answer(family, random)
        tokenizer, pieces = pieces_of(answer, random, seed % 3)
        parser = parser_of(family, answer, tokenizer=tokenizer)
        seen = []
        for piece in pieces:
            feed(parser, piece)
            seen.append(read(parser))
        parser.finish()
        final = read(parser)
        for one in seen:
            for before, after in zip(one, final, strict=False):
                assert before[:4] == after[:4]
                assert after[4].startswith(before[4])
                assert after[5] >= before[5]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_rollback_equals_a_fresh_parser_and_so_does_a_fork(family: str) -> None:
    for seed in range(3 * ROUNDS):
        random = Random(seed)
        answer = random_answer(family, random)
        options: Any = {"unfinished": ("drop", "open", "close")[seed % 3], "values": seed % 2 == 0}
        tokenizer, pieces = pieces_of(answer, random, seed % 3)
        whole = parser_of(family, answer, tokenizer=tokenizer, **options)
        for piece in pieces:
            feed(whole, piece)
        finished = whole.fork()
        finished.finish()
        for _ in range(6):
            left = random.randint(0, len(pieces))
            parser = (finished if random.random() < 0.5 else whole).fork()
            parser.rollback(len(pieces) - left)
            fresh = parser_of(family, answer, tokenizer=tokenizer, **options)
            for piece in pieces[:left]:
                feed(fresh, piece)
            assert read(parser) == read(fresh)
            assert (parser.deviation, parser.is_thinking, len(parser)) == (
                fresh.deviation,
                fresh.is_thinking,
                len(fresh),
            )
            for piece in pieces[left:]:
                assert feed(parser, piece) == feed(fresh, piece)
            assert parser.finish() == fresh.finish()
            assert read(parser) == read(finished)


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("family", FAMILIES)
def test_mutated_answers_are_read_alike_however_they_are_cut(family: str) -> None:
    for seed in range(6 * ROUNDS):
        check_mutations(family, Random(seed))


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"harmony"}))
def test_no_word_is_lost_wherever_it_stands(family: str) -> None:
    for seed in range(10 * ROUNDS):
        random = Random(seed)
        answer = random_answer(family, random)
        at = random.randint(0, len(answer.text))
        text = f"{answer.text[:at]}QxwQ{answer.text[at:]}"
        parser = parser_of(family, answer)
        events = [event for piece in random_cuts(text, random) for event in parser.feed(piece)]
        events += parser.finish()
        told = [one.text + one.name + one.id for one in parser.parts]
        told.append("".join(one.text for one in events if one.kind == "malformed"))
        assert any("QxwQ" in one for one in told), text
