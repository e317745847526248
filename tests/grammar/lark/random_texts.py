"""Random grammars in Lark's language and in GBNF, which nest the constructs of both in each other."""

from __future__ import annotations

import random
from collections.abc import Sequence

from ..regex.random_patterns import random_pattern

BOUNDS = ("*", "+", "?", "~3", "~0..4", "~2..200")
GBNF_BOUNDS = ("*", "+", "?", "{3}", "{0,4}", "{2,}", "{2,200}")
CLASSES = ("[a-z]", "[^a]", "[0-9a-f]", "[à-ÿ]", "[^\\n]", ".")
WORDS = ("a", "ab", "if", "==", "é語", "x" * 30)
IMPORTS = ("CNAME", "INT", "ESCAPED_STRING", "WS", "SIGNED_FLOAT")


def random_lark(rng: random.Random) -> str:
    """A grammar of a few rules, templates and terminals; some are imported, ignored or lazy."""
    rules = ["start", *(f"r{i}" for i in range(rng.randint(0, 8)))]
    terminals = [f"T{i}" for i in range(rng.randint(1, 10))]
    imported = rng.sample(IMPORTS, rng.randint(0, 2))
    names = (*rules, *terminals, *imported, *terminals)
    lines = [f"%import common.{name}" for name in imported]
    lines += (f"{rule}: {_choice(rng, names, BOUNDS, 3)}" for rule in rules)
    lines.append(f"pair{{x, y}}: x y | {_choice(rng, ('x', 'y', *names), BOUNDS, 2)}")
    for number, name in enumerate(terminals):
        priority = rng.choice(("", "", ".1", ".-1"))
        lines.append(f"{name}{priority}: {_terminal(rng, terminals[:number])}")
    if rng.random() < 0.3:
        lines.append(f"late[lazy]: {rng.choice(terminals)} {rng.choice(terminals)}")
    for _ in range(rng.randint(0, 2)):
        lines.append(f"%ignore {rng.choice((rng.choice(terminals), '/[ ]+/', _regex(rng, 2)))}")
    rng.shuffle(lines)
    return "\n".join(lines)


def random_gbnf(rng: random.Random) -> str:
    """A grammar of a few rules of each other."""
    rules = ["root", *(f"r{i}" for i in range(rng.randint(0, 12)))]
    parts = (*rules[1:], *CLASSES, *CLASSES)
    return "\n".join(f"{rule} ::= {_choice(rng, parts, GBNF_BOUNDS, 4)}" for rule in rules)


def _choice(rng: random.Random, names: Sequence[str], bounds: Sequence[str], depth: int) -> str:
    """Alternatives of sequences; `depth` levels of groups."""
    return " | ".join(_sequence(rng, names, bounds, depth) for _ in range(rng.randint(1, 3)))


def _sequence(rng: random.Random, names: Sequence[str], bounds: Sequence[str], depth: int) -> str:
    return " ".join(_part(rng, names, bounds, depth) for _ in range(rng.randint(1, 4)))


def _part(rng: random.Random, names: Sequence[str], bounds: Sequence[str], depth: int) -> str:
    drawn = rng.random()
    if drawn < 0.35 and depth > 0:
        group = f"({_choice(rng, names, bounds, depth - 1)})"
        return group + (rng.choice(bounds) if rng.random() < 0.7 else "")
    if drawn < 0.45 and depth > 0 and bounds is BOUNDS:
        return f"pair{{{rng.choice(names)}, {rng.choice(names)}}}"
    if drawn < 0.7:
        return f'"{rng.choice(WORDS)}"' + ("i" if bounds is BOUNDS and rng.random() < 0.2 else "")
    return rng.choice(names) + (rng.choice(bounds) if rng.random() < 0.3 else "")


def _terminal(rng: random.Random, earlier: Sequence[str]) -> str:
    if earlier and rng.random() < 0.4:
        return _choice(rng, earlier, BOUNDS, 2)
    return " | ".join(_regex(rng, rng.randint(1, 4)) for _ in range(rng.randint(1, 2)))


def _regex(rng: random.Random, depth: int) -> str:
    return f"/{random_pattern(rng, depth)}/" + rng.choice(("", "", "i", "s"))
