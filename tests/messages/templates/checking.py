"""Whether masks admit what a template writes, and whether a parser rebuilds the message: run as a module, it counts
both for each family."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from random import Random
from typing import Any, NamedTuple

from engine_sampler.grammar import TOOL_FAMILIES, Grammar, tool_calls
from engine_sampler.messages import MessageParser, chat_deltas, chat_message

from ..batches import summed
from ..laws import said
from ..test_admitted_calls import VOCABULARIES
from ..vocabularies import random_ids
from .conversations import Said, random_message
from .rendering import TemplateRefusesError, Turn, turn_of
from .table import SERVED


class Rendering(NamedTuple):
    """A message as a template writes it."""

    template: str
    seed: int
    expected: Said
    turn: Turn


class Outcome(NamedTuple):
    """What became of a rendering: why a mask refuses it, and what a parser makes of it instead; "" for right."""

    refused: str
    misread: str


def renderings(template: str, count: int) -> Iterator[Rendering]:
    """Some of the messages that a template can write."""
    entry = SERVED[template]
    marks = TOOL_FAMILIES[entry.family].thinking
    for seed in range(count):
        message = random_message(
            entry.family, seed, most_calls=entry.most_calls, says_before_calls=entry.says_before_calls
        )
        try:
            turn = turn_of(template, message.message, message.shown_tools, bool(message.thoughts), marks)
        except TemplateRefusesError:
            continue
        yield Rendering(template, seed, _written(message, turn, entry.family), turn)


def _written(message: Said, turn: Turn, family: str) -> Said:
    """What of a message is in the text: some templates leave out thoughts, or content beside calls."""
    thoughts, content = (one if one in turn.text else "" for one in (message.thoughts, message.content))
    if family == "harmony" and message.calls and content:  # thoughts that precede a call
        thoughts, content = content, ""
    return message._replace(thoughts=thoughts, content=content)


def check(rendering: Rendering) -> Outcome:
    """Compare a rendering with masks and a parser, in one vocabulary."""
    family = SERVED[rendering.template].family
    kind = list(VOCABULARIES)[rendering.seed // 2 % len(VOCABULARIES)]
    text = rendering.turn.text
    ids = list(text.encode()) if kind == "bytes" else random_ids(text, Random(rendering.seed))
    reasoning = _reasoning(family, rendering)
    refused = ""
    for choice in _choices(rendering.expected):
        refused = refused or _refused(family, kind, ids, rendering.expected.tools, choice, reasoning)
    return Outcome(refused, _misread(family, kind, ids, rendering, reasoning))


def _reasoning(family: str, rendering: Rendering) -> str:
    if rendering.turn.is_inside:
        return "enabled"
    marks = TOOL_FAMILIES[family].thinking
    has_marks = marks is not None and any(mark in rendering.turn.text for mark in marks)
    return "auto" if has_marks else "disabled"


def _choices(expected: Said) -> list[Any]:
    choices: list[Any] = ["auto"]
    if expected.calls:
        choices.append("required")
    if len(expected.calls) == 1:
        choices.append({"type": "function", "function": {"name": expected.calls[0].name}})
    return choices


def _refused(family: str, kind: str, ids: list[int], tools: Any, choice: Any, reasoning: str) -> str:
    matcher = _compiled(family, kind, json.dumps(tools), json.dumps(choice), reasoning).matcher()
    taken = matcher.validate(ids)
    tokenizer = VOCABULARIES[kind]
    if taken < len(ids):
        before = b"".join(tokenizer.token_bytes[one] for one in ids[:taken])[-60:].decode(errors="replace")
        after = b"".join(tokenizer.token_bytes[one] for one in ids[taken:])[:40].decode(errors="replace")
        return f"under {choice} and {reasoning}: {before!r} cannot go on with {after!r}"
    for one in ids:
        matcher.accept(one)
    return "" if matcher.is_accepting() else f"under {choice} and {reasoning} it cannot end there"


@lru_cache(maxsize=64)
def _compiled(family: str, kind: str, tools: str, choice: str, reasoning: Any) -> Any:
    tag = tool_calls(family, json.loads(tools), json.loads(choice), reasoning=reasoning)
    return Grammar.from_structural_tag(tag).compile(VOCABULARIES[kind])


def _misread(family: str, kind: str, ids: list[int], rendering: Rendering, reasoning: str) -> str:
    expected = rendering.expected
    parser = MessageParser(
        family,
        expected.tools,
        reasoning=reasoning,
        starts_inside=rendering.turn.is_inside,
        tokenizer=VOCABULARIES[kind],
    )
    deltas = [delta for one in ids for delta in chat_deltas(parser.feed([one]))]
    deltas += chat_deltas(parser.finish())
    assert summed(deltas) == chat_message(parser), rendering
    try:
        thoughts, content, calls = said(parser)
    except json.JSONDecodeError:
        return "the arguments are no JSON"
    wanted = expected.thoughts.strip(), expected.content.strip(), [tuple(one) for one in expected.calls]
    read = thoughts.strip(), content.strip(), calls
    return "" if read == wanted else f"{read} instead of {wanted}"


def main(count: int = 60) -> None:
    """Print the counts, and one example of what differs."""
    totals: Counter[str] = Counter()
    for template, entry in SERVED.items():
        counts: Counter[str] = Counter()
        for rendering in renderings(template, count):
            outcome = check(rendering)
            counts.update(tried=1, admitted=not outcome.refused, read=not outcome.misread)
            for what, why in outcome._asdict().items():
                if why and not counts[what]:
                    print(f"    {what}, {rendering.seed}: {why}\n        {rendering.turn}")
                counts[what] += bool(why)
        totals += counts
        print(f"{template} ({entry.family}): {counts['tried']} tried, {counts['admitted']} admitted, {counts['read']} read")
    print(dict(totals))


if __name__ == "__main__":
    main()
