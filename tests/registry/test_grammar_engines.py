"""The grammar engine of a request: chosen by name or by the environment, and asked only for what it takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from engine_sampler.contract import ConstraintReader, ParameterError, Vocabulary, hookimpl
from engine_sampler.grammar import Grammar
from engine_sampler.params import SamplingParams
from engine_sampler.registry import constraint_reader
from engine_sampler.scheduler import Scheduler
from engine_sampler.testing import registered
from engine_sampler.tokenizer import Tokenizer

VARIABLE = "ENGINE_SAMPLER_GRAMMAR_ENGINE"
TOKENIZER = Tokenizer([b"a", b"b", b"<end>"], [2])


class Words(ConstraintReader):
    """Read `choice` alone."""

    name = "words"
    takes = ("choice", "grammar")

    def compiled(self, params: Mapping[str, Any], grammar: Any, vocabulary: Vocabulary) -> Any:
        words = params["choice"] or params["grammar"].split()
        return Grammar.from_choices(words).compile(vocabulary.need_tokenizer("choice"))

    def read_body(self, body: dict[str, Any], tool_family: str | None, reasoning: str) -> Any:
        return {"choice": body.pop("one_of_words").split()} if "one_of_words" in body else {}


@pytest.fixture(autouse=True)
def _words() -> Iterator[None]:
    def register_constraints(register: Any) -> None:
        register(Words())

    with registered(SimpleNamespace(register_constraints=hookimpl(register_constraints)), "words"):
        yield


def test_an_engine_is_named_by_the_code_or_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert constraint_reader().name == "engine_sampler"
    assert constraint_reader("words").name == "words"
    monkeypatch.setenv(VARIABLE, "words")
    assert constraint_reader().name == "words"
    assert constraint_reader("engine_sampler").name == "engine_sampler"


def test_an_engine_reads_keys_of_its_own_in_bodies_and_its_faults_there_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert SamplingParams.from_dict({"one_of_words": "a b", "temperature": 0}).choice == ("a", "b")
    with pytest.raises(ParameterError, match="words failed: AttributeError: 'int' object has no"):
        SamplingParams.from_dict({"one_of_words": 3})
    monkeypatch.setattr(Words, "read_body", lambda self, *_: ["choice"])
    with pytest.raises(ParameterError, match=r"what words reads of a body=.* is not allowed"):
        SamplingParams.from_dict({"temperature": 0})


def test_an_engine_that_is_not_there_is_an_error_and_not_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = "is not allowed: one of engine_sampler, words"
    with pytest.raises(ParameterError, match=f"grammar_engine='word' {allowed}"):
        Scheduler(3, TOKENIZER, grammar_engine="word")
    monkeypatch.setenv(VARIABLE, "word")
    with pytest.raises(ParameterError, match=f"{VARIABLE}='word' {allowed}"):
        Scheduler(3, TOKENIZER).add(SamplingParams(choice=["a"]))


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        ({"regex": "a"}, "regex='a'"),
        ({"grammar": "a b", "lexer": "contextual"}, "lexer='contextual'"),
        ({"json_object": True}, "json_object=True"),
    ],
)
def test_what_an_engine_does_not_take_is_refused_by_name(given: dict[str, Any], refused: str) -> None:
    scheduler = Scheduler(3, TOKENIZER, grammar_engine="words")
    for params in (SamplingParams(**given), SamplingParams(**given, n=2)):
        with pytest.raises(ParameterError, match=f"{refused} is not allowed: the grammar engine words does"):
            scheduler.add_group(params)
    assert not scheduler.request_ids


def test_what_it_takes_is_read_by_it() -> None:
    scheduler = Scheduler(3, TOKENIZER, grammar_engine="words")
    scheduler.add(SamplingParams(choice=["a"]))
    scheduler.add(SamplingParams(grammar="a b"))
    assert len(scheduler.request_ids) == 2
