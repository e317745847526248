"""Commands that other distributions add to `engine-sampler`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NamedTuple

from ..registry import PluginError

GROUP = "engine_sampler.commands"
"""The group of entry points: the name of each is a command, its module has `add_options` and `run`."""


class PluginCommand(NamedTuple):
    """A command of a plugin.

    run          called with the parsed arguments; its docstring is the command's help. True: exit status 1.
    add_options  called with the command's `ArgumentParser`.
    """

    name: str
    run: Callable[[argparse.Namespace], Any]
    add_options: Callable[[argparse.ArgumentParser], None]


def plugin_commands(taken: Collection[str]) -> Iterator[PluginCommand]:
    """The commands of the group, in alphabetical order; a module that fails gives one that says so when it is
    called. Commands that have a name of `taken` are left out: these are the package's own."""
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        if entry.name not in taken:
            yield _command(entry)


def _command(entry: EntryPoint) -> PluginCommand:
    try:
        module = entry.load()
        return PluginCommand(entry.name, module.run, module.add_options)
    except Exception as error:  # a plugin may raise anything
        return _failed(entry, error)


def _failed(entry: EntryPoint, error: Exception) -> PluginCommand:
    origin = entry.dist.name if entry.dist else entry.value

    def run(arguments: argparse.Namespace) -> None:
        """This command cannot be loaded."""
        raise PluginError(f"command {entry.name} ({origin}): {type(error).__name__}: {error}") from error

    return PluginCommand(entry.name, run, lambda parser: None)
