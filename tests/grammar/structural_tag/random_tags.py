"""Random structural tags that nest the formats in each other."""

from __future__ import annotations

import random
from typing import Any

from ..lark.random_texts import random_gbnf, random_lark
from ..regex.random_patterns import random_pattern
from ..schema.random_nests import random_schema

TEXTS = ("<a>", "</a>", "<ab>", "[x]", "|", "<tool=", "é", "-" * 30, "aab")
STYLES = ("json", "qwen_xml", "minimax_xml", "deepseek_xml", "glm_xml")


def random_tag(rng: random.Random) -> dict[str, Any]:
    """A tag of up to five levels of formats."""
    return {"type": "structural_tag", "format": _format(rng, rng.randint(1, 5))}


def _texts(rng: random.Random, least: int = 1) -> list[str]:
    return rng.sample(TEXTS, rng.randint(least, 4))


def _leaf(rng: random.Random) -> dict[str, Any]:
    makers = (
        lambda: {"type": "const_string", "value": rng.choice(TEXTS)},
        lambda: {"type": "any_text", "excludes": _texts(rng, 0)},
        lambda: {"type": "any_text", "max_chars": rng.choice((0, 5, 3000))},
        lambda: {"type": "regex", "pattern": random_pattern(rng, 3)},
        lambda: {"type": "regex", "pattern": random_pattern(rng, 3), "excludes": _texts(rng)},
        lambda: {"type": "grammar", "grammar": random_lark(rng)},
        lambda: {"type": "grammar", "grammar": random_gbnf(rng)},
        lambda: {"type": "json_schema", "json_schema": random_schema(rng)},
        lambda: {"type": "json_schema", "json_schema": {"type": "object"}, "style": rng.choice(STYLES)},
    )
    return rng.choice(makers)()


def _one_tag(rng: random.Random, depth: int) -> dict[str, Any]:
    end = rng.choice((rng.choice(TEXTS), _texts(rng), ["", "!"]))
    return {"begin": rng.choice(TEXTS), "content": _format(rng, depth - 1), "end": end}


def _format(rng: random.Random, depth: int) -> dict[str, Any]:
    def inner() -> dict[str, Any]:
        return _format(rng, depth - 1)

    def several() -> list[dict[str, Any]]:
        return [inner() for _ in range(rng.randint(1, 3))]

    def tags() -> list[dict[str, Any]]:
        return [_one_tag(rng, depth) for _ in range(rng.randint(1, 3))]

    if depth <= 0 or rng.random() < 0.1:
        return _leaf(rng)
    makers = (
        lambda: {"type": "sequence", "elements": several()},
        lambda: {"type": "or", "elements": several()},
        lambda: {"type": rng.choice(("optional", "plus", "star")), "content": inner()},
        lambda: {"type": "repeat", "min": rng.randint(0, 2), "max": rng.choice((2, 900)), "content": inner()},
        lambda: {"type": "tag", **_one_tag(rng, depth)},
        lambda: {
            "type": "triggered_tags",
            "triggers": [*TEXTS],
            "tags": tags(),
            "excludes": rng.choice(([], ["zz"])),
            "at_least_one": rng.random() < 0.5,
        },
        lambda: {"type": "tags_with_separator", "tags": tags(), "separator": rng.choice(TEXTS)},
        lambda: {"type": "dispatch", "rules": [[text, inner()] for text in _texts(rng)]},
    )
    return rng.choice(makers)()
