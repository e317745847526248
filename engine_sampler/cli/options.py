"""Every declared request parameter as a command-line option."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

from ..contract import Param
from ..params import SamplingParams
from ..registry import Catalogue, default_registry
from .listing import summary_of

_DESTINATION = "parameter "
"""Prefix of the values in the namespace; its space rules out a clash with an option of a command."""

_PLACEHOLDERS = {int: "N", float: "X", str: "TEXT", object: "VALUE"}
"""Placeholders for values in the help; values of other types are given as JSON."""


def add_parameter_options(parser: argparse.ArgumentParser) -> None:
    """Add an option for every parameter of the registry, in one group per owner.

    A parameter whose name clashes with an existing option of `parser` is skipped.
    """
    parser.epilog = "Lists and objects are given as JSON, all other values literally."
    taken = set(parser._option_string_actions)
    for title, description, params in _owners(default_registry().catalogue):
        group = parser.add_argument_group(title, description)
        for param in params:
            if option_of(param.name) not in taken:
                _add_option(group, param)


def parameters_of(arguments: argparse.Namespace, **defaults: Any) -> SamplingParams:
    """The parameters given on the command line. Raises `ParameterError` for values that are not allowed."""
    declared = default_registry().catalogue.params
    given = {
        key.removeprefix(_DESTINATION): value
        for key, value in vars(arguments).items()
        if key.startswith(_DESTINATION) and value is not None
    }
    values = {name: read_value(declared[name], value) for name, value in given.items()}
    return SamplingParams.from_dict({"order": "llama.cpp", **defaults, **values})


def refuse_option(option: str) -> None:
    """Raise `ParameterError` for an option that is not a parameter, and suggest similar names."""
    SamplingParams(**{option.partition("=")[0].lstrip("-").replace("-", "_"): None})


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


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


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
        action = argparse.BooleanOptionalAction
        group.add_argument(option, dest=destination, action=action, help=_help(param))
    else:
        group.add_argument(option, dest=destination, metavar=_placeholder(param), help=_help(param))


def _placeholder(param: Param) -> str:
    if param.choices is not None:
        return "{" + ",".join(map(str, param.choices)) + "}"
    return _PLACEHOLDERS.get(param.type, "JSON")


def _help(param: Param) -> str:
    has_default = param.neutral not in (None, (), "")
    return (param.doc + (f" (default: {param.neutral})" if has_default else "")).replace("%", "%%")
