"""The page of the command line, from the parsers of its commands."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib.metadata import entry_points

from engine_sampler.cli.commands import GROUP
from engine_sampler.cli.main import parser

from .tables import table


def sections() -> str:
    """A section for every command of the package itself: what it does, and its options but those that are
    parameters."""
    (commands,) = [a for a in parser()._actions if isinstance(a, argparse._SubParsersAction)]
    of_plugins = {entry.name for entry in entry_points(group=GROUP)}
    own = {name: command for name, command in commands.choices.items() if name not in of_plugins}
    return "\n\n".join(part for name, command in own.items() for part in _section(name, command))


def _section(name: str, command: argparse.ArgumentParser) -> Iterator[str]:
    yield f"## `{name}`"
    yield " ".join((command.description or "").split())
    positional = "".join(f" {action.metavar}" for action in command._actions if not action.option_strings)
    usage = command.usage or f"%(prog)s{positional} [option ...]"
    yield f"```text\n{usage % {'prog': command.prog}}\n```"
    rows = [_row(action) for action in command._actions if _is_own(command, action)]
    yield table(["option", "meaning"], rows)
    if any(group.description for group in command._action_groups):
        yield "Every [parameter](parameters.md) with an effect here is an option, too: `top_k` is `--top-k`."


def _is_own(command: argparse.ArgumentParser, action: argparse.Action) -> bool:
    """Whether an option is the command's, and neither a parameter nor `--help`."""
    described = [group for group in command._action_groups if group.description]
    return action.dest != "help" and not any(action in group._group_actions for group in described)


def _row(action: argparse.Action) -> list[str]:
    value = f" {action.metavar or action.dest.upper()}" if action.nargs != 0 else ""
    if action.choices and not action.metavar:
        value = f" {'|'.join(map(str, action.choices))}"
    names = [f"`{option}{value}`" for option in action.option_strings] or [f"`{action.metavar}`"]
    return [", ".join(names), " ".join((action.help or "").split())]
