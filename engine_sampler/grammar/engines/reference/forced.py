"""Forced output: the bytes that have no alternative, and the tokens that certainly encode them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from .configurations import REJECTED, Configurations
from .masks import ConfigurationMasks
from .vocabulary import ROOT, Trie

FORCED_BYTES = 4096
"""Maximum number of bytes that are looked ahead to find forced tokens."""


def next_bytes(configurations: Configurations[Any], configuration: int) -> Iterator[int]:
    """The bytes that may come next, ascending."""
    mask = configurations.first_bytes(configuration)
    for byte in range(256):
        if mask >> byte & 1 and configurations.step(configuration, byte) != REJECTED:
            yield byte


def forced_bytes(configurations: Configurations[Any], configuration: int, limit: int) -> tuple[bytes, int]:
    """The bytes that must come next, at most `limit`, and the configuration after them."""
    data = bytearray()
    while len(data) < limit:
        if configurations.accepting(configuration) or configurations.special_ids(configuration):
            break
        choices = list(islice(next_bytes(configurations, configuration), 2))
        if len(choices) != 1:
            break
        data += bytes(choices)
        configuration = configurations.step(configuration, choices[0])
    return bytes(data), configuration


def forced_tokens(
    configurations: Configurations[Any], masks: ConfigurationMasks, trie: Trie, configuration: int, limit: int
) -> list[int]:
    """The tokens that must come next: always the longest, until a longer one could reach past the end."""
    data, after = forced_bytes(configurations, configuration, FORCED_BYTES)
    result: list[int] = []
    at = 0
    while at < len(data) and len(result) < limit:
        token, length, node = None, 0, ROOT
        for depth, byte in enumerate(data[at:], 1):
            child = trie.child(node, byte)
            if child is None:
                break
            node = child
            if trie.token_starts[node] < trie.token_starts[node + 1]:
                token, length = int(trie.tokens[trie.token_starts[node]]), depth
        else:
            if masks.can_complete_token(node, after):
                break
        if token is None:
            break
        result.append(token)
        at += length
    return result
