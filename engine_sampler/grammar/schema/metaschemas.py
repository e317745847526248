"""The metaschemas of drafts 4 to 2020-12, to which a `$ref` may lead: the schemas of schemas."""

from __future__ import annotations

import importlib.util
from functools import cache
from typing import Any
from urllib.parse import urljoin

from ..errors import UnsupportedKeywordError

_BEGINNINGS = tuple(
    f"{begin}/{end}"
    for begin, drafts in (
        ("http://json-schema.org", ("draft-04", "draft-06", "draft-07")),
        ("https://json-schema.org/draft", ("2019-09", "2020-12")),
    )
    for draft in drafts
    for end in (f"{draft}/schema", f"{draft}/meta/")
)


@cache
def metaschema(uri: str) -> Any:
    """The metaschema, or one of its vocabularies, of a URI without a fragment; None for any other URI. Raises
    UnsupportedKeywordError where the package that has them is missing."""
    if not uri.startswith(_BEGINNINGS):
        return None
    if importlib.util.find_spec("jsonschema_specifications") is None:
        needed = "needs jsonschema-specifications: pip install jsonschema-specifications"
        raise UnsupportedKeywordError(f"a reference to the metaschema {uri} {needed}")
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped,import-not-found,unused-ignore]

    if uri not in REGISTRY:
        return None
    schema = dict(REGISTRY.contents(uri))
    for part in schema.pop("allOf", ()):  # its vocabularies, in one piece: that is read 40 times as fast
        own = REGISTRY.contents(urljoin(uri, part["$ref"]))
        for keyword in ("properties", "$defs"):
            schema[keyword] = {**own.get(keyword, {}), **schema.get(keyword, {})}
    return schema
