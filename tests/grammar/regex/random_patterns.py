"""Random patterns that nest the constructs of regular expressions in each other."""

from __future__ import annotations

import random

LEAVES = (
    "a",
    "bc",
    "é",
    "語",
    ".",
    r"\w",
    r"\W",
    r"\d",
    r"\s",
    r"\S",
    "[a-z]",
    "[^a]",
    r"[^\W\d]",
    r"[\w-]",
    "[à-ÿ語]",
    r"\p{L}",
    r"\P{Lu}",
    r"[\p{Nd}_]",
    "word",
    "-" * 40,
)
ANCHORS = (r"\b", r"\B", "^", "$", r"\Z")
BOUNDS = ("*", "+", "?", "{2}", "{0,3}", "{3,}", "{2,60}", "{1,1000}", "*?", "+?", "{2,9}?")

WIDE_LETTERS = "".join(chr(0x3400 + 2 * number) for number in range(3000))
"""Letters that make as many ranges."""


def joined(separator: str, form: str, count: int) -> str:
    """Some numbered forms, as heavy grammars repeat them."""
    return separator.join(form.format(n=number, next=number + 1) for number in range(count))


def random_pattern(rng: random.Random, depth: int | None = None) -> str:
    """A pattern of up to six levels."""
    depth = rng.randint(1, 6) if depth is None else depth
    if depth <= 0 or rng.random() < 0.1:
        return rng.choice(ANCHORS if rng.random() < 0.1 else LEAVES)

    def inner() -> str:
        return random_pattern(rng, depth - 1)

    def several(most: int = 4) -> list[str]:
        return [inner() for _ in range(rng.randint(1, most))]

    makers = (
        lambda: "".join(several()),
        lambda: "".join(several()),
        lambda: f"(?:{inner()}){rng.choice(BOUNDS)}",
        lambda: f"({inner()}){rng.choice(BOUNDS)}",
        lambda: f"(?:{'|'.join(several(6))})",
        lambda: f"(?:{'|'.join(several(6))})",
        lambda: f"(?={inner()})",
        lambda: f"(?!{inner()})",
        lambda: f"(?<={rng.choice(LEAVES)})",
        lambda: f"(?<!{rng.choice(LEAVES)})",
        lambda: f"(?i:{inner()})",
        lambda: f"(?s:{inner()})",
    )
    return rng.choice(makers)()
