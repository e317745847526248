"""A JSON Schema document: its resources, its subschemas, the targets of `$ref`, and where its parts are."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote, urldefrag, urljoin

from ...base.cached import cached_property
from ...base.errors import close_matches, quoted
from ..errors import GrammarError, GrammarLimitError, UnsupportedKeywordError
from ..program.json_text import loaded_json
from ..work import spend, spend_on_each
from .keywords.keyword_values import Items
from .limits import MAX_REFERENCE, MAX_TEXT
from .metaschemas import metaschema

LATEST = 2020

_MAX_INDEX_DIGITS = 20

_MAX_PARTS = 500_000
"""The most parts of a schema that are searched for one."""

_MOST_COMPARED, _LONGEST_COMPARED = 100, 80
"""The most keys that are compared with one that does not exist, and their length."""

_BLANKS = " \t\n\r"
_skip = json.JSONDecoder().raw_decode

_DRAFTS = {"draft-03": 4, "draft-04": 4, "draft-06": 6, "draft-07": 7, "2019-09": 2019, "2020-12": 2020}

_VALIDATION = "/vocab/validation"
"""The end of the vocabulary's URI in each draft that has vocabularies."""

_DYNAMIC = frozenset(("$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor"))

MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
LISTS = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
SINGLES = (
    *("not", "if", "then", "else", "items", "additionalItems", "unevaluatedItems", "contains"),
    *("additionalProperties", "unevaluatedProperties", "propertyNames", "contentSchema"),
)


class Resource:
    """A schema with a URI of its own, and the anchors in it.

    uri         without a fragment; "" if it has none
    draft       4, 6, 7, 2019 or 2020
    validates   whether its metaschema has the vocabulary of validation: if not, `minimum` and the like have
                no meaning
    vocabulary  a number for both
    anchors     the subschema of each plain-name anchor
    dynamic     the subschema of each dynamic anchor
    """

    def __init__(self, uri: str, root: Any, draft: int, validates: bool = True) -> None:
        self.uri = uri
        self.root = root
        self.draft = draft
        self.validates = validates
        self.vocabulary = draft if validates else -draft
        self.anchors: dict[str, Any] = {}
        self.dynamic: dict[str, Any] = {}


class Document:
    """A schema and all resources embedded in it.

    schema  an object as `json.loads` returns it, or JSON text. Raises GrammarError for text that is not
            JSON, GrammarLimitError for text that is too long or nested too deeply to be read.
    draft   a name in `options.DRAFTS`: that of schemas that do not name theirs
    others  other documents by URI, as JSON text
    """

    def __init__(
        self, schema: Any, draft: str = "2020-12", others: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.schema = _loaded(schema)
        self._default_draft = int(draft[:4])
        self._others = others
        self._resources: dict[int, Resource] = {}
        self._by_uri: dict[str, Resource] | None = None
        self._validating: dict[str, bool] = {}
        self.root = self._new_resource(self.schema, "", self._default_draft)

    def _new_resource(self, value: Any, base: str, draft: int, validates: bool = True) -> Resource:
        draft = _draft(value, draft)
        keyword = "$id" if draft > 4 else "id"
        name = value.get(keyword, "") if isinstance(value, dict) else ""
        uri = _absolute(base, name, keyword) if name and isinstance(name, str) else base
        if self._others and isinstance(value, dict) and isinstance(value.get("$schema"), str):
            validates = self._has_validation(value["$schema"])
        resource = self._resources[id(value)] = Resource(uri, value, draft, validates)
        return resource

    def _has_validation(self, uri: str) -> bool:
        """Whether a metaschema has the vocabulary of validation, as far as is known."""
        validates = self._validating.get(uri)
        if validates is None:
            text = self._others.get(uri)
            value = None if text is None else _loaded(text)
            names = value.get("$vocabulary") if isinstance(value, dict) else None
            validates = not isinstance(names, dict) or any(name.endswith(_VALIDATION) for name in names)
            self._validating[uri] = validates
        return validates

    def enter(self, value: Any, resource: Resource) -> Resource:
        """The resource to which `value`, a subschema in `resource`, belongs: often `resource` itself."""
        if type(value) is not dict or ("$id" not in value and "id" not in value):
            return resource
        found = self._resources.get(id(value))
        if found is not None:
            return found
        name = value.get("$id" if _draft(value, resource.draft) > 4 else "id")
        if not isinstance(name, str) or name.startswith("#"):
            return resource
        if resource.draft < 2019 and "$ref" in value:  # up to draft 7, siblings of $ref are ignored
            return resource
        return self._new_resource(value, resource.uri, resource.draft, resource.validates)

    def resolve(self, reference: Any, resource: Resource, keyword: str = "$ref") -> tuple[Any, Resource]:
        """The subschema that `reference`, used in `resource`, refers to, and its resource.

        Raises UnsupportedKeywordError if it is in another document that is not a metaschema, GrammarError if
        it does not exist.
        """
        if not isinstance(reference, str):
            raise GrammarError(f"{keyword} must be a string, not {quoted(reference)}")
        _check_length(reference, keyword)
        address, _, fragment = reference.partition("#")
        if address:
            resource = self._named(address, resource, keyword)
        fragment = unquote(fragment)
        if not fragment:
            return resource.root, resource
        if fragment.startswith("/"):
            return self._follow_pointer(fragment, resource, reference)
        self._index()
        for names in (resource.anchors, resource.dynamic):
            if fragment in names:
                return names[fragment], resource
        raise GrammarError(f"{keyword} {quoted(reference)} does not name an anchor of the schema")

    def _named(self, address: str, resource: Resource, keyword: str) -> Resource:
        uri = _absolute(resource.uri, address, keyword)
        found = self._index().get(uri) or self._other(uri)
        if found is None:
            raise UnsupportedKeywordError(f"{keyword} to another document is not supported: {quoted(uri)}")
        return found

    def _other(self, uri: str) -> Resource | None:
        """A document that was handed in, or a metaschema, with all its own resources."""
        text = self._others.get(uri)
        value = metaschema(uri) if text is None else _loaded(text)
        if value is None:
            return None
        found = self._new_resource(value, uri, self._default_draft)
        self._record(value, found)
        self._index().setdefault(uri, found)
        self.is_dynamic = self.is_dynamic or _has_dynamic(value)
        return found

    def _follow_pointer(self, pointer: str, resource: Resource, reference: str) -> tuple[Any, Resource]:
        value = resource.root
        for part in spend_on_each(pointer[1:].split("/")):
            part = part.replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict) and part in value:
                value = value[part]
            elif isinstance(value, list) and (index := _index_of(part)) < len(value):
                value = value[index]
            else:
                meant = _meant(reference, resource.root, part, value)
                raise GrammarError(f"$ref {quoted(reference)} does not point to a subschema{meant}")
            resource = self.enter(value, resource)
        return value, resource

    def anchors(self, resource: Resource) -> dict[str, Any]:
        """The dynamic anchors of a resource."""
        self._index()
        return resource.dynamic

    @cached_property
    def is_dynamic(self) -> bool:
        """Whether there may be a reference whose target depends on the path of evaluation."""
        return _has_dynamic(self.schema)

    def _index(self) -> dict[str, Resource]:
        """All resources by URI; the first call also records their anchors."""
        if self._by_uri is not None:
            return self._by_uri
        self._by_uri = {self.root.uri: self.root, "": self.root}
        self._record(self.schema, self.root)
        return self._by_uri

    def _record(self, schema: Any, root: Resource) -> None:
        """Record the resources and anchors of a document."""
        waiting = [(schema, root)]
        seen: set[int] = set()
        by_uri = self._by_uri or {}
        while waiting:
            value, resource = waiting.pop()
            if not isinstance(value, dict) or id(value) in seen:
                continue
            seen.add(id(value))
            spend(20)
            resource = self.enter(value, resource)
            by_uri.setdefault(resource.uri, resource)
            _record_anchors(value, resource)
            waiting += [(child, resource) for child in spend_on_each(_children(value))]


def _meant(reference: str, root: Any, part: str, value: Any) -> str:
    """What a reference that leads nowhere may mean: the same in `$defs` or `definitions`, or a like key."""
    for own, other in (("definitions", "$defs"), ("$defs", "definitions")):
        name = reference.partition(f"#/{own}/")[2]
        if name and isinstance(root, dict) and isinstance(root.get(other), dict) and name in root[other]:
            return f": is {quoted(f'#/{other}/{name}')} meant?"
    keys = islice(value, _MOST_COMPARED) if isinstance(value, dict) else ()
    near = close_matches(part, [key for key in keys if len(key) <= _LONGEST_COMPARED])
    return f": is {quoted(near[0])} meant for {quoted(part)}?" if near else ""


def _has_dynamic(schema: Any) -> bool:
    """Whether a keyword of dynamic references occurs in a document."""
    waiting = [schema]
    seen: set[int] = set()
    while waiting:
        value = waiting.pop()
        if not isinstance(value, (dict, list)) or id(value) in seen:
            continue
        seen.add(id(value))
        spend(1 + len(value) // 8)
        if isinstance(value, dict) and not _DYNAMIC.isdisjoint(value):
            return True
        waiting += value.values() if isinstance(value, dict) else value
    return False


def _record_anchors(value: dict[str, Any], resource: Resource) -> None:
    name = value.get("$anchor")
    if isinstance(name, str):
        resource.anchors.setdefault(name, value)
    name = value.get("$dynamicAnchor")
    if isinstance(name, str):
        resource.dynamic.setdefault(name, value)
    if value.get("$recursiveAnchor") is True:
        resource.dynamic.setdefault("", value)
    name = value.get("$id" if resource.draft > 4 else "id")
    if isinstance(name, str) and name.startswith("#"):
        resource.anchors.setdefault(name[1:], value)


def _children(value: dict[str, Any]) -> list[Any]:
    children: list[Any] = []
    for keyword in MAPS:
        if isinstance(members := value.get(keyword), dict):
            children += members.values()
    for keyword in LISTS:
        if isinstance(items := value.get(keyword), list):
            children += items
    children += [value[keyword] for keyword in SINGLES if keyword in value]
    return children


def _draft(value: Any, inherited: int) -> int:
    if not isinstance(value, dict) or not isinstance(value.get("$schema"), str):
        return inherited
    for part, draft in _DRAFTS.items():
        if part in value["$schema"]:
            return draft
    return inherited


def _absolute(base: str, address: str, keyword: str) -> str:
    """The URI, without a fragment, that a keyword's value means where the base URI is `base`."""
    _check_length(address, keyword)
    spend(10 + (len(base) + len(address)) // 32)
    try:
        uri = urldefrag(urljoin(base, address) if base and address else address or base).url
    except ValueError as error:
        raise GrammarError(f"{keyword} {quoted(address)} is not a URI: {error}") from None
    _check_length(uri, keyword)
    return uri


def _check_length(uri: str, keyword: str) -> None:
    if len(uri) > MAX_REFERENCE:
        raise GrammarLimitError(f"{keyword} is longer than {MAX_REFERENCE} characters: {quoted(uri)}")


def _index_of(part: str) -> int:
    """The index that a part of a pointer means; that of no item if it means none."""
    return int(part) if part.isdecimal() and len(part) <= _MAX_INDEX_DIGITS else sys.maxsize


def _loaded(schema: Any) -> Any:
    if not isinstance(schema, (str, bytes, bytearray)):
        return schema
    if len(schema) > MAX_TEXT:
        raise GrammarLimitError(f"the JSON Schema is longer than {MAX_TEXT} characters")
    return loaded_json("the JSON Schema", schema)


# --- Where a part of a schema is ---


def locate(error: GrammarError, schema: Any, text: str | None) -> None:
    """Give an error about a part of a schema its pointer, and from the schema's text line and column.

    Without a known part it is about the schema as a whole. What an error says about a place within a value,
    such as a pattern, stays in its text.
    """
    if error.pointer is not None:
        return
    value, keyword = (schema, "") if error.place is None else error.place
    error.place = None
    path = _path_to(schema, value)
    if path is None:
        return
    if keyword and isinstance(value, dict) and keyword in value:
        path = (*path, keyword)
    error.pointer = "#" + "".join(f"/{_escaped(str(part))}" for part in path)
    if error.line is not None:
        error.text += f" (line {error.line}, column {error.column} of it)"
        error.line = error.column = None
    if text is not None and path:
        position = _position_of(text, path)
        error.line = text.count("\n", 0, position) + 1
        error.column = position - text.rfind("\n", 0, position)


def _escaped(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")


def _path_to(schema: Any, wanted: Any) -> tuple[str | int, ...] | None:
    """The keys and indices that lead to a part of a schema, which is known by its identity."""
    waiting: list[tuple[Any, Any]] = [(schema, None)]
    for _ in range(_MAX_PARTS):
        if not waiting:
            break
        value, path = waiting.pop()
        if value is wanted:
            return _listed(path)
        parts: Iterator[tuple[Any, Any]]
        if isinstance(value, dict):
            parts = iter(value.items())
        elif isinstance(value, list):
            parts = iter(enumerate(value))
        else:
            continue
        waiting += [(one, (path, key)) for key, one in parts if isinstance(one, dict | list)]
    return None


def _listed(path: Any) -> tuple[str | int, ...]:
    """The steps of a path that is nested from its end."""
    steps: list[str | int] = []
    while path is not None:
        path, step = path
        steps.append(step)
    return tuple(reversed(steps))


def _position_of(text: str, path: Sequence[str | int]) -> int:
    """Where the key or item that a path ends with begins in JSON text; of a repeated key, the last."""
    at = mark = _after_blanks(text, 0)
    for step in path:
        members = list(_members(text, at))
        mark, at = next((one for key, *one in reversed(members) if key == step), (mark, at))
    return mark


def _members(text: str, at: int) -> Iterator[tuple[str | int, int, int]]:
    """The keys or indices of the object or array at a position, where each begins, and where its value
    does."""
    is_object, index = text[at] == "{", 0
    at = _after_blanks(text, at + 1)
    while text[at] not in "}]":
        start, key = at, index
        if is_object:
            name, at = _skip(text, at)
            at = _after_blanks(text, _after_blanks(text, at) + 1)
            yield name, start, at
        else:
            yield key, start, at
        at = _after_blanks(text, _skip(text, at)[1])
        if text[at] == ",":
            at = _after_blanks(text, at + 1)
        index += 1


def _after_blanks(text: str, at: int) -> int:
    while text[at : at + 1] and text[at] in _BLANKS:
        at += 1
    return at


Scope: TypeAlias = tuple[Resource, ...]


class SchemaNode(NamedTuple):
    """A subschema in the context of its evaluation.

    value     the schema
    resource  the resource that contains it
    scope     the resources through which evaluation reached it, if dynamic references matter
    items     the keywords that constrain values, and the keywords' values
    """

    value: Any
    resource: Resource
    scope: Scope
    items: Items = ()


class Constant(NamedTuple):
    """`const`: a value must equal this one."""

    value: Any


class AnyOf(NamedTuple):
    """A value must satisfy at least one of the literals."""

    literals: tuple[int, ...]
