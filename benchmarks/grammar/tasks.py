"""The tasks of the grammar engines: a grammar and texts, each valid or invalid under it.

A task is a line of JSON, as the harness reads it: {"id", "kind", "grammar", "tests": [{"text", "valid"}]}.
The first two of every file only warm an engine up (its imports, its tables of the tokenizer) and are excluded
from all numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias

Task: TypeAlias = "dict[str, Any]"

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "tests" / "grammar" / "data"

WARM_UP = "warming"
SCHEMAS = 50
"""The number of schemas whose masks are all timed."""
FREE_JSON = 36
"""The number of documents under the grammar of arbitrary JSON."""
DEEP = 100_000

LARK = {"SQL-like": "sql_like", "C-like": "c_like"}
"""Grammars whose masks are timed → their files."""
SHORT_LARK = "iso8601"
"""A grammar of 1.5 KB whose compilation is timed."""


def write(tasks: Iterable[Task], path: Path) -> Path:
    """Write a file of tasks, the warm-up tasks first; returns its path."""
    warm_up = [_task(f"{WARM_UP} schema", "json_schema", {"type": "null"}, [("null", True)])]
    warm_up.append(_task(f"{WARM_UP} lark", "lark", 'start: "a" B\nB: /b+/', [("ab", True)]))
    path.write_text("".join(json.dumps(task) + "\n" for task in [*warm_up, *tasks]), "utf-8")
    return path


def read(path: Path) -> list[Task]:
    """The tasks of a file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def _task(name: str, kind: str, grammar: Any, tests: Iterable[tuple[str, bool]] = ()) -> Task:
    return {
        "id": name,
        "kind": kind,
        "grammar": grammar,
        "tests": [{"text": text, "valid": valid} for text, valid in tests],
    }


def schemas(tasks: Sequence[Task], count: int = SCHEMAS) -> list[Task]:
    """Tasks from evenly spaced positions in the file, with their valid documents only."""
    count = min(count, len(tasks))
    chosen = [tasks[len(tasks) * i // count] for i in range(count)]
    return [{**task, "tests": [test for test in task["tests"] if test["valid"]]} for task in chosen]


def free_json(tasks: Sequence[Task]) -> list[Task]:
    """Valid documents of various schemas, under the grammar of arbitrary JSON."""
    texts = [test["text"] for task in tasks for test in task["tests"] if test["valid"]]
    step = max(1, len(texts) // FREE_JSON)
    return [_task("free JSON", "json", "", [(text, True) for text in texts[::step][:FREE_JSON]])]


def lark(limit: int | None = None) -> list[Task]:
    """The grammars in `LARK` and a short one, with texts that they accept."""
    tasks = []
    for path in [ROOT / "grammars" / SHORT_LARK, *(EXAMPLES / name for name in LARK.values())]:
        name = path.name
        grammar = path.with_suffix(".lark").read_text("utf-8")
        accepted = json.loads(path.with_suffix(".examples.json").read_text("utf-8"))["accept"]
        tasks.append(_task(name, "lark", grammar, [(text, True) for text in accepted[:limit]]))
    return tasks


def real_lark() -> list[Task]:
    """Grammars that lark itself loads: its own two, those of the library and those of the tests."""
    own = files("lark") / "grammars"
    tasks = [_task(path.stem, "lark", path.read_text("utf-8")) for path in sorted(EXAMPLES.glob("*.lark"))]
    tasks += [
        _task(path.stem, "lark", path.read_text("utf-8"))
        for path in sorted((ROOT / "grammars").glob("*.lark"))
    ]
    tasks.append(_task("lark.lark", "lark", (own / "lark.lark").read_text("utf-8")))
    python = (own / "python.lark").read_text("utf-8")
    tasks.append(_task("python.lark", "lark", f"start: file_input\n{python}"))
    return tasks


def hostile() -> list[Task]:
    """Grammars and texts that make a careless engine slow, use gigabytes or crash."""
    return [*_hostile_regexes(), *_hostile_lark(), *_hostile_schemas()]


def _hostile_regexes() -> Iterator[Task]:
    long = "a" * 2000
    for pattern in (
        "((a{1000}){1000})",
        "(a|a)*",
        "((a|a)*)*",
        "(a|aa)+",
        "(a*)*b",
        "(((a{30}){30}){30}){30}",
    ):
        yield _task(f"regex {pattern}", "regex", pattern, [(long, True)])
    for pattern in ("((a{1,1000}){1,1000}){1,1000}", "((ab?){1,1000}c?){1,1000}"):
        yield _task(f"regex {pattern}", "regex", pattern, [(long, True)])
    yield _task("regex .*x.{1000}", "regex", ".*x.{1000}", [("x" * 2000, True)])
    yield _task("regex (.*a){20}", "regex", "(.*a){20}", [(long, True)])
    yield _task("regex, nested groups", "regex", "(" * DEEP + "a" + ")" * DEEP, [("a", True)])
    yield _task("regex of a megabyte", "regex", "a?" * 500_000, [("aaaa", True)])
    yield _task(
        "regex, alternatives", "regex", "|".join(f"word{i}" for i in range(50_000)), [("word7", True)]
    )


def _hostile_lark() -> Iterator[Task]:
    mutual = [f'r{i}: r{(i * 7 + 1) % 300} r{(i * 11 + 3) % 300} | "a" |' for i in range(300)]
    for name, text, sample in (
        ("left recursion", 'start: start "a" | "a"', "a" * 10_000),
        ("right recursion", 'start: "a" start | "a"', "a" * 10_000),
        ("hidden left recursion", 'start: empty start "a" | "a"\nempty: "b"?', "a" * 1000),
        ("hidden right recursion", 'start: "a" start empty |\nempty: "b"?', "a" * 10_000),
        ("mutually recursive rules", "\n".join([*mutual, "start: r0"]), "a" * 60),
        ("nested ranges", 'start: ((("a"|"b")~1..1000 "c"?)~1..1000)~1..1000', "ab" * 1000),
        ("ambiguous", 'start: start start | "a"', "a" * 1000),
        ("very ambiguous", 'start: start start start | start start | "a"', "a" * 300),
        ("zero-width terminal", 'start: A "a"\nA: /a*/', "a" * 2000),
        ("cyclic zero-width terminals", "start: (A | B)* \nA: /a*/\nB: /b*/", "ab" * 1000),
        ("cyclic unit rules", 'start: x\nx: y | "a"\ny: x | start', "a"),
        ("deep input", 'start: "(" start ")" | "x"', "(" * DEEP + "x" + ")" * DEEP),
        ("deep text", "start: " + "(" * DEEP + '"a"' + ")" * DEEP, "a"),
        ("nested counts", 'start: (("a"~1000)~1000)~1000', "a" * 2000),
        (
            "many rules",
            "\n".join(f'r{i}: r{i + 1} "a"?' for i in range(2000)) + '\nr2000: "b"\nstart: r0',
            "ba",
        ),
    ):
        yield _task(f"lark, {name}", "lark", text, [(sample, True)])


def _hostile_schemas() -> Iterator[Task]:
    nested: Any = {"type": "integer"}
    for _ in range(300):
        nested = {"type": "array", "items": nested}
    many = {"enum": [f"value {i}" for i in range(50_000)]}
    large = {"properties": {f"key{i}": {"type": "string", "maxLength": i} for i in range(20_000)}}
    any_of: Any = {"type": "string"}
    for i in range(12):
        any_of = {"oneOf": [{"properties": {f"k{i}": any_of}}, {"properties": {f"j{i}": any_of}}]}
    loops = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    counted = {"type": "array", "items": {"type": "string", "maxLength": 10**6}, "maxItems": 10**6}
    for name, schema, sample in (
        ("nested 300 deep", nested, "[" * 300 + "1" + "]" * 300),
        ("enum of 50,000", many, '"value 7"'),
        ("20,000 properties", large, '{"key7": "x"}'),
        ("oneOf within oneOf", any_of, '{"k11": 1}'),
        ("cyclic references", loops, "1"),
        ("large counts", counted, '["a", "b"]'),
        ("all keys forbidden", {"not": {"required": [f"k{i}" for i in range(200)]}}, '{"k1": 1}'),
        ("pattern of nested counts", {"type": "string", "pattern": "^((a{100}){100}){100}$"}, '"aaaa'),
        ("deep input", {}, "[" * DEEP + "]" * DEEP),
    ):
        yield _task(f"schema, {name}", "json_schema", schema, [(sample, True)])
