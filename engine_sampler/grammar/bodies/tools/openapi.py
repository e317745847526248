"""Operations of an OpenAPI document as tools."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ....base.errors import quoted
from ....contract import ParameterError
from ....params.bodies import mapping

_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_SHARED = "#/components/"
BODY = "body"
"""The member of a call's arguments that is the body of the request."""


def openapi_tools(document: Any, operations: Iterable[str] | None = None) -> list[dict[str, Any]]:
    """The operations of an OpenAPI document (3.0 or 3.1) as tools in OpenAI's form.

    document    an object, or JSON text
    operations  the operations that are meant, by `operationId`; None: all that have one

    A tool has the name of its operation, its summary and description, and an object of its arguments: its
    parameters by name, wherever the request has them, and the JSON of its body as `body`. References into
    `components` are kept, with what they lead to.

    Raises `ParameterError` for other documents, and for operations that it lacks.
    """
    root = _loaded(document)
    tools = {name: _tool(root, name, path, operation) for name, path, operation in _operations(root)}
    if operations is None:
        return list(tools.values())
    names = list(operations)
    for name in names:
        if name not in tools:
            raise ParameterError(
                f"operations names {quoted(name)}, which is not allowed: one of {', '.join(tools)}"
            )
    return [tools[name] for name in names]


def _loaded(document: Any) -> Mapping[str, Any]:
    if isinstance(document, str):
        try:
            document = json.loads(document)
        except (ValueError, RecursionError) as error:
            raise ParameterError(f"document is not JSON: {error}") from None
    root = mapping("document", document)
    if "openapi" not in root or not isinstance(root.get("paths", {}), Mapping):
        raise ParameterError("document is not allowed: an OpenAPI document has `openapi` and `paths`")
    return root


def _operations(root: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """The name, the path and the operation itself, of all that have a name."""
    for address, path in root.get("paths", {}).items():
        path = mapping(f"document.paths.{address}", path)
        for method in _METHODS:
            operation = mapping(f"document.paths.{address}.{method}", path.get(method, {}))
            if isinstance(operation.get("operationId"), str):
                yield operation["operationId"], path, operation


def _tool(
    root: Mapping[str, Any], name: str, path: Mapping[str, Any], operation: Mapping[str, Any]
) -> dict[str, Any]:
    texts = [operation[key] for key in ("summary", "description") if isinstance(operation.get(key), str)]
    function: dict[str, Any] = {"name": name}
    if texts:
        function["description"] = "\n\n".join(texts)
    return {
        "type": "function",
        "function": {**function, "parameters": _arguments(root, name, path, operation)},
    }


def _arguments(
    root: Mapping[str, Any], name: str, path: Mapping[str, Any], operation: Mapping[str, Any]
) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    required: dict[str, bool] = {}
    for given in (*path.get("parameters", ()), *operation.get("parameters", ())):
        described = _followed(root, f"{name}.parameters", given)
        own = described.get("name")
        if not isinstance(own, str) or (own == BODY and "requestBody" in operation):
            raise ParameterError(f"the parameter {quoted(own)} of {name} is not allowed: a name of its own")
        properties[own] = _schema(described) | _text(described)
        required[own] = described.get("required") is True
    if "requestBody" in operation:
        described = _followed(root, f"{name}.requestBody", operation["requestBody"])
        properties[BODY] = _schema(described) | _text(described)
        required[BODY] = described.get("required") is True
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    needed = [key for key, is_needed in required.items() if is_needed]
    if needed:
        schema["required"] = needed
    return schema | _components(root, schema)


def _followed(root: Mapping[str, Any], where: str, given: Any) -> Mapping[str, Any]:
    """A parameter or a body, or what a reference in its place leads to."""
    value = mapping(where, given)
    reference = value.get("$ref")
    return value if reference is None else mapping(where, _target(root, reference))


def _target(root: Mapping[str, Any], reference: Any) -> Any:
    """What a reference into `components` leads to. Raises `ParameterError` for any other."""
    value: Any = root
    if isinstance(reference, str) and reference.startswith(_SHARED):
        for part in reference[2:].split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            value = value.get(key) if isinstance(value, Mapping) else None
        if value is not None:
            return value
    raise ParameterError(f"$ref={quoted(reference)} is not allowed: a part of the document's {_SHARED}")


def _schema(part: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a parameter or a body: its own, or that of its JSON."""
    schema = part.get("schema")
    content = part.get("content")
    if schema is None and isinstance(content, Mapping):
        kinds = [one for kind, one in content.items() if "json" in kind] or [*content.values()]
        schema = kinds[0].get("schema") if kinds and isinstance(kinds[0], Mapping) else None
    return dict(schema) if isinstance(schema, Mapping) else {}


def _text(part: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": part["description"]} if isinstance(part.get("description"), str) else {}


def _components(root: Mapping[str, Any], schema: Any) -> dict[str, Any]:
    """The targets of a schema's references, and of theirs in turn, at their places."""
    kept: dict[str, Any] = {}
    waiting, seen = [schema], set()
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            waiting += value.values()
            reference = value.get("$ref")
            if isinstance(reference, str) and reference.startswith(_SHARED) and reference not in seen:
                seen.add(reference)
                kind, _, rest = reference.removeprefix(_SHARED).partition("/")
                name = rest.partition("/")[0].replace("~1", "/").replace("~0", "~")
                whole = _target(root, "/".join(reference.split("/")[:4]))
                kept.setdefault(kind, {})[name] = whole
                waiting.append(whole)
        elif isinstance(value, list):
            waiting += value
    return {"components": kept} if kept else {}
