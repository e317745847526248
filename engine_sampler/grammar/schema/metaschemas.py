"""The metaschemas of drafts 4 to 2020-12, to which a `$ref` may lead: the schemas of schemas.

Each is composed here from what its draft says about the value of each keyword, in one piece; the vocabularies
of 2019-09 and 2020-12 are parts of theirs. Two statements are left out, because no grammar can enforce them:
that the names in `required` and `dependencies` are distinct, and in draft 4 the values of `enum`.

Source: the core and validation specifications of each draft, json-schema.org.
"""

from __future__ import annotations

from functools import cache
from typing import Any

_DRAFTS = {
    "http://json-schema.org/draft-04/schema": 4,
    "http://json-schema.org/draft-06/schema": 6,
    "http://json-schema.org/draft-07/schema": 7,
    "https://json-schema.org/draft/2019-09/schema": 2019,
    "https://json-schema.org/draft/2020-12/schema": 2020,
}

_TYPE = {"enum": ["array", "boolean", "integer", "null", "number", "object", "string"]}
_STRING = {"type": "string"}
_BOOLEAN = {"type": "boolean"}
_NUMBER = {"type": "number"}
_COUNT = {"type": "integer", "minimum": 0}
_REGEX = {"type": "string", "format": "regex"}
_URI = {"type": "string", "format": "uri"}
_REFERENCE = {"type": "string", "format": "uri-reference"}
_ANCHOR = {
    2019: {"type": "string", "pattern": "^[A-Za-z][-A-Za-z0-9.:_]*$"},
    2020: {"type": "string", "pattern": "^[A-Za-z_][-A-Za-z0-9._]*$"},
}
_BOUNDS = [f"{bound}{counted}" for bound in ("min", "max") for counted in ("Length", "Items", "Properties")]

_VOCABULARIES = {
    "core": "$id $schema $ref $anchor $dynamicRef $dynamicAnchor $recursiveRef $recursiveAnchor $vocabulary "
    "$comment $defs",
    "applicator": "allOf anyOf oneOf not if then else properties patternProperties additionalProperties "
    "propertyNames dependentSchemas items prefixItems additionalItems contains",
    "unevaluated": "unevaluatedItems unevaluatedProperties",
    "validation": "type const enum multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength "
    "minLength pattern maxItems minItems uniqueItems maxContains minContains maxProperties minProperties "
    "required dependentRequired",
    "meta-data": "title description default deprecated readOnly writeOnly examples",
    "format": "format",
    "content": "contentEncoding contentMediaType contentSchema",
}
"""The keywords of each vocabulary. In 2019-09 the applicators have those of `unevaluated` as well; in 2020-12
`format` has two names."""

Schema = dict[str, Any]


@cache
def metaschema(uri: str) -> Schema | None:
    """The metaschema, or one of its vocabularies, of a URI without a fragment; None for any other URI."""
    base, _, vocabulary = uri.rpartition("/meta/")
    draft = _DRAFTS.get(f"{base}/schema" if base else uri)
    if draft is None:
        return None
    names = _keywords_of(vocabulary, draft)
    if base and not names:
        return None
    head: Schema
    if draft < 2019:
        head, own = {"$id" if draft > 4 else "id": uri}, {"$ref": "#"}
    elif draft == 2019:
        head, own = {"$id": uri, "$recursiveAnchor": True}, {"$recursiveRef": "#"}
    else:
        head, own = {"$id": uri, "$dynamicAnchor": "meta"}, {"$dynamicRef": "#meta"}
    schema: Schema = {"$schema": uri, **head, "type": ["object", "boolean"]}
    members = _applicators(draft, own) | _assertions(draft) | _identifiers(draft)
    schema["properties"] = members if not base else {k: v for k, v in members.items() if k in names}
    if draft == 4:
        schema["type"] = "object"
        schema["dependencies"] = {"exclusiveMinimum": ["minimum"], "exclusiveMaximum": ["maximum"]}
    schema["definitions" if draft < 2019 else "$defs"] = _definitions(draft, own)
    return schema


def _keywords_of(vocabulary: str, draft: int) -> frozenset[str]:
    """The keywords of a vocabulary of a draft; none if it has no such vocabulary."""
    if draft == 2020 and vocabulary in ("format-annotation", "format-assertion"):
        vocabulary = "format"
    names = _VOCABULARIES.get(vocabulary, "") if draft >= 2019 else ""
    if (draft, vocabulary) == (2019, "applicator"):
        names += " " + _VOCABULARIES["unevaluated"]
    return frozenset(names.split())


def _definitions(draft: int, own: Schema) -> Schema:
    """The parts that references into a metaschema name."""
    count = "positiveInteger" if draft == 4 else "nonNegativeInteger"
    found = {
        "schemaArray": _list_of(own, 1),
        count: _COUNT,
        f"{count}Default0": _COUNT,
        "simpleTypes": _TYPE,
        "stringArray": _names(draft),
    }
    if draft >= 2019:
        found |= {"anchorString": _ANCHOR[draft], "uriString": _URI, "uriReferenceString": _REFERENCE}
    return found


def _list_of(items: Schema, low: int = 0) -> Schema:
    return {"type": "array", "items": items, "minItems": low}


def _map_of(values: Schema, **more: Any) -> Schema:
    return {"type": "object", "additionalProperties": values, **more}


def _names(draft: int) -> Schema:
    return _list_of(_STRING, 1 if draft == 4 else 0)


def _applicators(draft: int, own: Schema) -> Schema:
    """The keywords that apply subschemas."""
    schemas, members = _list_of(own, 1), _map_of(own)
    single = ["not", "additionalProperties"]
    if draft >= 6:
        single += ["contains", "propertyNames"]
    if draft >= 7:
        single += ["if", "then", "else"]
    if draft >= 2019:
        single += ["unevaluatedItems", "unevaluatedProperties", "contentSchema"]
    found: Schema = dict.fromkeys(single, own)
    found |= {"allOf": schemas, "anyOf": schemas, "oneOf": schemas}
    found |= {"properties": members, "definitions": members, "patternProperties": members}
    if draft >= 7:
        found["patternProperties"] = _map_of(own, propertyNames={"format": "regex"})
    found["dependencies"] = _map_of({"anyOf": [own, _names(draft)]})
    if draft >= 2019:
        found |= {"$defs": members, "dependentSchemas": members}
    if draft == 2020:
        return found | {"items": own, "prefixItems": schemas}
    found |= {"items": {"anyOf": [own, schemas]}, "additionalItems": own}
    if draft == 4:
        either = {"anyOf": [_BOOLEAN, own]}
        found |= {"additionalItems": either, "additionalProperties": either}
    return found


def _assertions(draft: int) -> Schema:
    """The keywords that restrict values, and those that describe them."""
    found: Schema = dict.fromkeys(("minimum", "maximum"), _NUMBER) | dict.fromkeys(_BOUNDS, _COUNT)
    found |= dict.fromkeys(("title", "description", "format"), _STRING)
    found |= {"pattern": _REGEX, "default": {}, "uniqueItems": _BOOLEAN, "required": _names(draft)}
    found["multipleOf"] = {"type": "number", "minimum": 0, "not": {"enum": [0]}}
    found["enum"] = _list_of({}, 1 if draft == 4 else 0)
    found["type"] = {"anyOf": [_TYPE, {**_list_of(_TYPE, 1), "uniqueItems": True}]}
    found |= dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum"), _BOOLEAN if draft == 4 else _NUMBER)
    if draft >= 6:
        found |= {"const": {}, "examples": _list_of({})}
    if draft >= 7:
        found |= dict.fromkeys(("contentMediaType", "contentEncoding"), _STRING)
        found |= dict.fromkeys(("readOnly", "writeOnly"), _BOOLEAN)
    if draft >= 2019:
        found |= {"minContains": _COUNT, "maxContains": _COUNT, "deprecated": _BOOLEAN}
        found["dependentRequired"] = _map_of(_names(draft))
    return found


def _identifiers(draft: int) -> Schema:
    """The keywords that name schemas and refer to them."""
    if draft == 4:
        return {"id": _STRING, "$schema": _STRING}
    found: Schema = {"$id": _REFERENCE, "$schema": _URI, "$ref": _REFERENCE}
    if draft >= 7:
        found["$comment"] = _STRING
    if draft >= 2019:
        found["$id"] = {**_REFERENCE, "pattern": "^[^#]*#?$"}
        found |= {"$anchor": _ANCHOR[draft], "$recursiveRef": _REFERENCE}
        found["$recursiveAnchor"] = _BOOLEAN if draft == 2019 else _ANCHOR[draft]
        found["$vocabulary"] = _map_of(_BOOLEAN, propertyNames=_URI)
    if draft == 2020:
        found |= {"$dynamicRef": _REFERENCE, "$dynamicAnchor": _ANCHOR[draft]}
    return found
