"""Collections of schemas as they are published: JSONSchemaBench, MaskBench and JSON-Schema-Test-Suite."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

_DRAFTS = {
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}
"""The folders of JSON-Schema-Test-Suite whose drafts are known → what `$schema` says of them."""
_OTHERS = ("draft3", "v1")
"""Its folders of drafts that are not read: one is older, one is not yet published."""
_SERVER = "http://localhost:1234/"
"""Where the suite expects the files of its folder `remotes` to be."""


class Task(NamedTuple):
    """A schema with its instances.

    name     unique in its collection
    group    the part of a collection that is reported by itself; "" for none
    tests    texts, and whether the schema allows them
    options  of `Grammar.from_json_schema`, for what the collection presupposes
    """

    name: str
    group: str
    schema: Any
    tests: list[tuple[str, bool]]
    options: Mapping[str, Any] = {}


def read_tasks(path: Path) -> Iterator[Task]:
    """The tasks of a folder, with all its folders, or of a file.

    A file is a schema; an object with `schema` and `tests`, which have `data` and `valid`; a list of such
    objects, as in JSON-Schema-Test-Suite; or lines of objects with `id`, `grammar` and `tests`, which have
    `text` and `valid`. What is not JSON is left out.

    In the suite, the folder of a draft is the group, and what is optional in it another one: only there does
    `format` restrict anything. Numbers follow JSON Schema to the letter, and the folder `remotes` beside
    `tests` is what its `$ref` lead to.

    Raises `ValueError` for a path or a line that cannot be read so.
    """
    if not path.exists():
        raise ValueError(f"{path} is neither a folder nor a file")
    remotes = _remotes(path)
    files = sorted(path.rglob("*.json*")) if path.is_dir() else [path]
    for file in files:
        if file.suffix == ".jsonl":
            yield from _lines(file)
        elif file.suffix == ".json" and "remotes" not in file.parts:
            yield from _document(file, path, remotes)


def _lines(file: Path) -> Iterator[Task]:
    for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
        try:
            value = json.loads(line)
            tests = [(one["text"], one["valid"]) for one in value["tests"]]
            yield Task(value["id"], file.stem, value["grammar"], tests)
        except (ValueError, LookupError, TypeError) as error:
            raise ValueError(f"{file}, line {number}, is not a task: {error!r}") from error


def _remotes(path: Path) -> dict[str, Any]:
    """The documents of the official suite that its schemas refer to, by URI."""
    folders = (parent / "remotes" for parent in (path, *path.resolve().parents[:2]))
    folder = next(filter(Path.is_dir, folders), path)
    if folder == path:
        return {}
    files = sorted(folder.rglob("*.json"))
    return {
        _SERVER + file.relative_to(folder).as_posix(): json.loads(file.read_text("utf-8")) for file in files
    }


def _document(file: Path, root: Path, remotes: Mapping[str, Any]) -> Iterator[Task]:
    try:
        text = file.read_text("utf-8")
        value = json.loads(text)
    except ValueError:
        return
    name = str(file.relative_to(root).with_suffix("")) if file != root else file.stem
    if isinstance(value, list):
        draft = next((part for part in file.parts if part in _DRAFTS or part in _OTHERS), "")
        if draft in _OTHERS:
            return
        optional = "optional" in file.parts
        options: dict[str, Any] = {"numbers": "any", "formats": "assert" if optional else "annotate"}
        if _SERVER in text:
            options["resources"] = remotes
        for number, case in enumerate(value):
            schema = _with_draft(case["schema"], draft)
            group = f"{draft} optional" if optional else draft
            yield Task(f"{name}[{number}]", group, schema, _tests(case["tests"]), options)
    elif isinstance(value, dict) and "schema" in value and isinstance(value.get("tests"), list):
        yield Task(name, "", value["schema"], _tests(value["tests"]))
    else:
        yield Task(name, "", value, [])


def _with_draft(schema: Any, draft: str) -> Any:
    if isinstance(schema, dict) and "$schema" not in schema and draft in _DRAFTS:
        return {"$schema": _DRAFTS[draft], **schema}
    return schema


def _tests(tests: list[dict[str, Any]]) -> list[tuple[str, bool]]:
    return [(json.dumps(one["data"], ensure_ascii=False), one["valid"]) for one in tests]
