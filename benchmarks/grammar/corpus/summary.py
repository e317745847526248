"""The results of an engine, added up."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .kept import ENDED, ENDINGS

Result = Mapping[str, Any]

_KEYWORD = re.compile(r"UnsupportedKeywordError: (\$?\w+)")
_KEYWORDS = re.compile(r"Unimplemented keys: \[([^]]*)\]")
"""How llguidance names several of them."""
_SOURCE = re.compile(r"\[[\d:]+\] \S+:\d+: ")
"""The time and the line of C++ with which xgrammar begins a message."""
_PLACE = re.compile(r" \((?:#|line )[^()]*\)?$")
_LIMIT = re.compile(r"\d[\d,.]*")


class Summary:
    """The results of one engine on one collection, added up.

    passing   schemas that it compiles, and all whose instances it judges rightly
    compiled  their names
    ended     names of schemas at which its process ended, by how it did
    times are in nanoseconds
    """

    def __init__(self, results: Iterable[Result]) -> None:
        self.schemas = self.passing = self.rejecting = self.accepting = 0
        self.rejected = self.accepted = self.instances = self.failed = 0
        self.compiled: list[str] = []
        self.refusals: Counter[str] = Counter()
        self.ended: dict[str, list[str]] = {ending: [] for ending in ENDINGS}
        self.peak = 0
        first: list[int] = []
        compiling: list[int] = []
        masks: list[np.ndarray[Any, Any]] = []
        for result in results:
            self.schemas += 1
            self.instances += len(result["expected"])
            if ENDED in result:
                self.ended[result[ENDED]].append(result["name"])
                continue
            if "error" in result:
                self.refusals[reason(result["error"])] += 1
                continue
            self.compiled.append(result["name"])
            first.append(result["first"])
            compiling.append(result["compile"])
            masks.append(np.asarray(result["masks"], np.int64))
            self.peak = max(self.peak, result["peak"])
            self._judge(result["expected"], result["verdicts"])
        self.first, self.compiling = np.asarray(first), np.asarray(compiling)
        self.masks = np.concatenate(masks) if masks else np.zeros(0, np.int64)

    def _judge(self, expected: Sequence[bool], verdicts: Sequence[Any]) -> None:
        rejected = sum(valid and verdict is False for valid, verdict in zip(expected, verdicts, strict=True))
        accepted = sum(
            not valid and verdict is True for valid, verdict in zip(expected, verdicts, strict=True)
        )
        failed = sum(isinstance(verdict, str) for verdict in verdicts)
        self.rejected, self.accepted, self.failed = (
            self.rejected + rejected,
            self.accepted + accepted,
            self.failed + failed,
        )
        self.rejecting += rejected > 0
        self.accepting += accepted > 0
        self.passing += not rejected and not accepted and not failed


def reason(error: str) -> str:
    """Why a schema is refused: the keywords that are not supported, or the message without its numbers and
    what it quotes."""
    found = _KEYWORD.match(error) or _KEYWORDS.search(error)
    if found is not None:
        return found[1].replace('"', "")
    line = _LIMIT.sub("N", _PLACE.sub("", _SOURCE.sub("", error.partition("\n")[0])))
    return re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`", "…", line)[:90].replace("|", "/")
