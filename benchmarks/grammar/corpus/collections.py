"""Collections of schemas as they are published: JSONSchemaBench, MaskBench and JSON-Schema-Test-Suite."""

from __future__ import annotations

import json
from collections.abc import Iterator
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


class Task(NamedTuple):
    """A schema with its instances.

    name   unique in its collection
    group  the part of a collection that is reported by itself; "" for none
    tests  texts, and whether the schema allows them
    """

    name: str
    group: str
    schema: Any
    tests: list[tuple[str, bool]]


def read_tasks(path: Path) -> Iterator[Task]:
    """The tasks of a folder, with all its folders, or of a file.

    A file is a schema; an object with `schema` and `tests`, which have `data` and `valid`; a list of such
    objects, as in JSON-Schema-Test-Suite, whose group is then the folder of its draft, and apart from that
    what is optional; or lines of objects with `id`, `grammar` and `tests`, which have `text` and `valid`.
    What is no JSON is left out.
    """
    files = sorted(path.rglob("*.json*")) if path.is_dir() else [path]
    for file in files:
        if file.suffix == ".jsonl":
            for line in file.read_text("utf-8").splitlines():
                yield _line(json.loads(line), file.stem)
        elif file.suffix == ".json" and "remotes" not in file.parts:
            yield from _document(file, path)


def _line(value: Any, group: str) -> Task:
    return Task(value["id"], group, value["grammar"], [(one["text"], one["valid"]) for one in value["tests"]])


def _document(file: Path, root: Path) -> Iterator[Task]:
    try:
        value = json.loads(file.read_text("utf-8"))
    except ValueError:
        return
    name = str(file.relative_to(root).with_suffix("")) if file != root else file.stem
    if isinstance(value, list):
        draft = next((part for part in file.parts if part.startswith("draft")), "")
        group = f"{draft} optional" if "optional" in file.parts else draft
        for number, case in enumerate(value):
            schema = _with_draft(case["schema"], draft)
            yield Task(f"{name}[{number}]", group, schema, _tests(case["tests"]))
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
