"""Files of results, a line of JSON for each schema, to which an interrupted run is added later."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

Settings = Mapping[str, Any]

ENDED = "ended"
"""The key of a result that says how the engine's process ended, where it did not survive the schema."""
TIMED_OUT, NO_MEMORY, CRASHED = "timed out", "out of memory", "crashed"
ENDINGS = (TIMED_OUT, NO_MEMORY, CRASHED)
"""Its values."""


class SettingsError(Exception):
    """A file whose results were measured in another way."""


class Results:
    """A file of results that is open for more.

    settings  what all its results were measured with; the first line has them
    done      the names of the schemas that it has
    """

    def __init__(self, path: Path, settings: Settings) -> None:
        _cut(path)
        self.done = {one["name"] for one in read_results(path)}
        before = read_settings(path)
        if before is not None and before != settings:
            raise SettingsError(
                f"{path} was measured with {_listed(before)}, not with {_listed(settings)}: give --again, or "
                "another folder as --out"
            )
        self._file = path.open("a", encoding="utf-8")
        if before is None:
            self._write({"settings": settings})

    def add(self, result: Mapping[str, Any]) -> None:
        """Write a result at once, so that nothing is lost if the run ends."""
        self._write(result)
        self.done.add(result["name"])

    def _write(self, value: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(value) + "\n")
        self._file.flush()

    def __enter__(self) -> Results:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def read_results(path: Path) -> Iterator[dict[str, Any]]:
    """The results in a file; none if there is no file."""
    for value in _lines(path):
        if "settings" not in value:
            yield value


def read_settings(path: Path) -> Settings | None:
    """The settings of the measurements in a file; None for a file without lines."""
    first = next(_lines(path), None)
    return None if first is None else first.get("settings", {})


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    if path.exists():
        with path.open(encoding="utf-8") as file:
            yield from map(json.loads, file)


def _cut(path: Path) -> None:
    """Remove what follows the last whole line: a run that was killed may have begun another."""
    if path.exists():
        with path.open("rb+") as file:
            text = file.read()
            file.truncate(text.rfind(b"\n") + 1)


def _listed(settings: Settings) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items()) or "unknown settings"
