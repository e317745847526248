"""Every declared request parameter as a command-line option."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, NoReturn

from ..contract import Param, ParameterError, Sampler, Selector
from ..grammar.grammar import Grammar
from ..params import SamplingParams
from ..registry import GRAMMAR_OPTIONS, STRUCTURED_PARAMS, Catalogue, default_registry, unknown
from ..stateless.row_params import OF_ROWS
from .listing import summary_of

_DESTINATION = "parameter "
"""Prefix of the values in the namespace; its space rules out a clash with an option of a command."""

_FUNCTION: Any = Callable
"""The type of parameters whose values are functions: a command line cannot give these."""

_PLACEHOLDERS = {int: "N", float: "X", str: "TEXT", object: "VALUE"}
"""Placeholders for values in the help; values of other types are given as JSON."""


_READ_BESIDE = ("stop_token_ids", "max_tokens", "max_length")
"""The parameters of criteria that samplers read, too."""


def of_rows() -> Collection[str]:
    """The names of the parameters that change a row of logits, or what is drawn from it."""
    catalogue = default_registry().catalogue
    parts: list[Sampler | Selector] = [*catalogue.samplers.values(), *catalogue.selectors.values()]
    owned = {param.name for part in parts for param in part.params}
    return owned.union(OF_ROWS, _READ_BESIDE, STRUCTURED_PARAMS, GRAMMAR_OPTIONS)


def add_parameter_options(
    parser: argparse.ArgumentParser, takes: Callable[[str], bool] = lambda name: True
) -> None:
    """Add an option for every parameter of the registry that the command `takes`, in one group per owner.

    A parameter whose name clashes with an existing option of `parser`, or whose values are functions, is
    skipped.
    """
    parser.epilog = (
        "Lists and objects are given as JSON, all other values literally. "
        "An option for a list may be given several times."
    )
    parser.add_argument("--gbnf", metavar="FILE", help="the parameter grammar, as a file in GBNF")
    taken = set(parser._option_string_actions)
    for title, description, params in _owners(default_registry().catalogue):
        wanted = [p for p in params if takes(p.name) and option_of(p.name) not in taken]
        if wanted:
            group = parser.add_argument_group(title, description)
        for param in wanted:
            if param.type is not _FUNCTION:
                _add_option(group, param)


def parameters_of(arguments: argparse.Namespace, **defaults: Any) -> SamplingParams:
    """The parameters given on the command line. Raises `ParameterError` for values that are not allowed."""
    declared = default_registry().catalogue.params
    texts = {
        key.removeprefix(_DESTINATION): value
        for key, value in vars(arguments).items()
        if key.startswith(_DESTINATION) and value is not None
    }
    values = {
        name: _joined(declared[name], value) if isinstance(value, list) else read_value(declared[name], value)
        for name, value in texts.items()
    }
    if arguments.gbnf is not None:
        if "grammar" in values:
            raise ParameterError("--gbnf is not allowed with --grammar: each is the request's grammar")
        values["grammar"] = read_text(arguments.gbnf)
        Grammar.from_gbnf(values["grammar"])  # as which a request would not read what lacks ::=
    return SamplingParams.from_dict({"order": "llama.cpp", **defaults, **values})


def refuse_option(option: str, command: str) -> NoReturn:
    """Raise `ParameterError` for an option that `command` does not have: of a parameter without an effect
    there, or of none, with similar names."""
    name = option.partition("=")[0].removeprefix("--").replace("-", "_")
    for known in (name, name.removeprefix("no_")):
        if known in default_registry().catalogue.params:
            raise ParameterError(f"{option_of(known)} is not allowed with {command}: it has no effect there")
    raise unknown(name)


def utf8_text(argument: str) -> str:
    """An argument as UTF-8 text, also where the locale has another encoding."""
    if not any("\ud800" <= c <= "\udfff" for c in argument):
        return argument
    try:
        return os.fsencode(argument).decode("utf-8")
    except UnicodeError:
        raise argparse.ArgumentTypeError(f"{argument!r} is not UTF-8") from None


def read_text(path: str) -> str:
    """The text of a file, or of standard input for "-", in UTF-8 whatever the locale is."""
    if path != "-":
        return Path(path).read_text(encoding="utf-8")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="strict")
    return sys.stdin.read()


def option_of(name: str) -> str:
    """The option for a parameter: top_k → --top-k."""
    return "--" + name.replace("_", "-")


def read_value(param: Param, text: str | bool) -> Any:
    """A value from the command line: strings literally, other types as JSON, else left to `Param.check`."""
    if isinstance(text, bool) or param.type is str:
        return text
    if param.type in (int, float):
        return _number(text)
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _joined(param: Param, texts: list[str]) -> Any:
    """The value of an option that may be given several times: all entries, of lists and objects as well. Of
    numbers and objects, the last where a list of them means something else."""
    values = [read_value(param, text) for text in texts]
    may_be_one = param.type is object and param.neutral != ()
    if may_be_one and (len(values) == 1 or not all(isinstance(value, (str, list)) for value in values)):
        return values[-1]
    if len(values) == 1 and not isinstance(values[0], int):
        return values[0]
    if all(isinstance(value, dict) for value in values):
        return {key: entry for value in values for key, entry in value.items()}
    return [entry for value in values for entry in (value if isinstance(value, list) else [value])]


def _number(text: str) -> int | float | str:
    for kind in (int, float, _flag):
        try:
            return kind(text)
        except (ValueError, KeyError):
            continue
    return text


def _flag(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def _owners(catalogue: Catalogue) -> Iterator[tuple[str, str, list[Param]]]:
    """(title, description, parameters): of the request, then of each sampler, selector and criterion."""
    groups = [
        (owner.name, summary_of(owner).replace("%", "%%"), list(owner.params))
        for kind in (catalogue.samplers, catalogue.selectors, catalogue.stopping_criteria)
        for owner in kind.values()
        if owner.params
    ]
    owned = {param.name for _, _, params in groups for param in params}
    own = [param for name, param in catalogue.params.items() if name not in owned]
    return iter([("request", "Parameters of the request itself.", own), *groups])


def _add_option(group: argparse._ArgumentGroup, param: Param) -> None:
    option, destination = option_of(param.name), _DESTINATION + param.name
    if param.type is bool:
        group.add_argument(option, dest=destination, action=argparse.BooleanOptionalAction, help=_help(param))
    else:
        action = "append" if param.type in (tuple, object) or param.neutral == () else "store"
        group.add_argument(
            option,
            dest=destination,
            action=action,
            type=utf8_text,
            metavar=_placeholder(param),
            help=_help(param),
        )


def _placeholder(param: Param) -> str:
    if param.choices is not None:
        return "{" + ",".join(map(str, param.choices)) + "}"
    return _PLACEHOLDERS.get(param.type, "JSON")


def _help(param: Param) -> str:
    has_default = param.neutral not in (None, (), "")
    return (param.doc + (f" (default: {param.neutral})" if has_default else "")).replace("%", "%%")
