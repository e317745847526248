"""What a client writes into a grammar is quoted in short."""

from __future__ import annotations

from typing import Any

import pytest

from engine_sampler import ParameterError, SamplingParams, Scheduler, Tokenizer

LONGEST = 500
"""The most characters of a message."""

TEXT, NAME = "x" * 50_000, "n" + "a" * 50_000
ANY_TEXT = {"type": "any_text"}


def tag(**format_: Any) -> dict[str, Any]:
    return {"structural_tag": {"type": "structural_tag", "format": format_}}


BODIES: tuple[dict[str, Any], ...] = (
    {"grammar": TEXT},
    {"grammar": f"start: {NAME}"},
    {"grammar": f"start: A\nA: {NAME.upper()}"},
    {"grammar": f"start: <|{NAME}|>"},
    {"grammar": f"root ::= {NAME}"},
    {"grammar": f"%import {NAME}.X\nstart: X"},
    {"grammar": f'start: "{TEXT}'},
    {"grammar": f"start: {NAME}{{a}}"},
    {"grammar": f'start: a\na[{NAME}]: "x"'},
    {"grammar": 'start: "a"', "start": NAME},
    {"grammar": f"start: {NAME} {NAME}", "lexer": "contextual"},
    tag(type=TEXT),
    tag(type="any_text", **{TEXT: 1}),
    tag(type="token", token=TEXT),
    tag(type="json_schema", json_schema=True, style=TEXT),
    tag(
        type="triggered_tags",
        triggers=["<"],
        tags=[{"begin": TEXT, "content": {"type": "any_text"}, "end": "x"}],
    ),
    {"regex": f"(?P={NAME})"},
    {"regex": f"(?P<{NAME}>a)(?P<{NAME}>b)"},
    {"json_schema": {"pattern": f"(?P={NAME})"}},
    {"json_schema": {"$ref": f"#/{TEXT}"}},
    {"json_schema": {"type": TEXT}},
    {"json_schema": {"minimum": TEXT}},
    {"json_schema": {"enum": [TEXT], "type": "integer"}},
    {"json_schema": {"const": TEXT, "maxLength": 1}},
    {"json_schema": {}, "whitespace": TEXT},
    {"choice": [TEXT, "\ud800"]},
)


@pytest.mark.parametrize("body", BODIES, ids=lambda body: str(body)[:60])
def test_the_message_of_a_refusal_is_short(body: dict[str, Any]) -> None:
    scheduler = Scheduler(257, Tokenizer([bytes((i,)) for i in range(256)] + [b"</s>"], eos_token_ids=[256]))
    with pytest.raises(ParameterError) as refusal:
        scheduler.add(SamplingParams(**body))
    assert len(str(refusal.value)) < LONGEST
