"""Shared parts of the request-body readers: field names, limits, and refused keys."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from ..arithmetic import GREEDY_BELOW
from ..base.errors import quoted
from ..contract import ParameterError
from ..contract.values import id_of_digits
from ..grammar.errors import GrammarError
from ..params.orders import completed_order
from ..registry import default_registry
from ..tokenizer import Tokenizer


@dataclass(frozen=True)
class BodyField:
    """How one key of a request is read.

    name     our name for the parameter.
    default  the other system's default when the request omits the key, in the request's terms.
    limits   numbers outside are clamped to the nearer limit, as in the other system; None: the
             parameter's own bounds refuse them.
    """

    name: str
    default: Any = None
    limits: tuple[float, float] | None = None

    def read(self, key: str, value: Any) -> Any:
        """`value` as the parameter's value; a `ParameterError` names `key` and what is allowed."""
        param = replace(default_registry().catalogue.params[self.name], name=key)
        if self.limits is not None:
            low, high = self.limits
            number = replace(param, low=None, high=None, low_open=False, choices=None).check(value)
            value = min(max(number, low), high)
        return param.check(value)


SYNONYMS = (
    "max_tokens max_new_tokens n_predict num_predict",
    "stop stop_sequence stopping_strings",
    "seed sampler_seed",
    "temperature temp",
    "typical_p typical",
    "tfs tfs_z",
    "top_n_sigma nsigma",
    "mirostat mirostat_mode",
    "ignore_eos ban_eos_token",
    "repetition_penalty repeat_penalty rep_pen",
    "penalty_last_n repeat_last_n rep_pen_range",
)
"""What llama.cpp, KoboldAI, TabbyAPI, text-generation-webui and we call the same. Front ends send several of
these names at once."""


def synonyms_of(keys: Collection[str]) -> dict[str, str]:
    """The other names of these keys, each with its key."""
    groups = [names.split() for names in SYNONYMS]
    return {name: key for group in groups for key in group if key in keys for name in group if name != key}


@contextmanager
def named_as_sent(body: Any, renamed: Mapping[str, str]) -> Iterator[None]:
    """Let errors name an alias where the body has that in place of the key that it stands for."""
    try:
        yield
    except ParameterError as error:
        name, sign, rest = str(error).partition("=")
        sent = [key for key in body if renamed.get(key) == name] if isinstance(body, Mapping) else []
        if not sent or name in body or type(error) is not ParameterError:
            raise
        raise ParameterError(f"{sent[0]}{sign}{rest}") from None


def ordered(names: Sequence[str]) -> tuple[str, ...]:
    """Those of these samplers that are there, and all others where an order that does not mention them has
    them."""
    samplers = default_registry().catalogue.samplers
    return completed_order([name for name in names if name in samplers], samplers)


def switched_off(samplers: Collection[str]) -> dict[str, Any]:
    """The parameters that turn these samplers off."""
    catalogue = default_registry().catalogue
    return {p.name: p.neutral for name in samplers for p in catalogue.samplers[name].params if p.switch}


def read_fields(fields: Mapping[str, BodyField], body: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters in `body`, with the other system's defaults for omitted ones; parameters of ours that
    the other system lacks pass unchanged."""
    values = {key: field.default for key, field in fields.items() if field.default is not None} | dict(body)
    own = {key: value for key, value in values.items() if key not in fields}
    return {fields[k].name: fields[k].read(k, v) for k, v in values.items() if k in fields} | own


def with_moving_temperature(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters as llama.cpp and koboldcpp mean them: a temperature of 0 with a range is not greedy, but
    moves from 0 to the range, which is that around its middle."""
    temperature, width = parameters["temperature"], parameters["dynatemp_range"]
    if temperature >= GREEDY_BELOW or not width:
        return dict(parameters)
    middle = (temperature + width) / 2
    return {**parameters, "temperature": middle, "dynatemp_range": middle}


# --- value formats that several systems share ------------------------------------------------------


def switch(key: str, value: Any) -> bool:
    """`value` as a switch: true or false, or 1 or 0."""
    if isinstance(value, (bool, int)) and value in (0, 1):
        return bool(value)
    raise ParameterError(f"{key}={quoted(value)} is not allowed: true or false")


def stop_strings(key: str, value: Any) -> dict[str, Any]:
    """The stop strings in one text or a list of texts; empty ones are left out."""
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, (list, tuple)) or not all(isinstance(text, str) for text in listed):
        raise ParameterError(f"{key}={quoted(value)} is not allowed: a text, or a list of texts")
    strings = [text for text in listed if text]
    return {"stop": strings} if strings else {}


_BIASES = "pairs of a token id or a text and a number or false, or an object of them"


def read_logit_bias(value: Any, tokenizer: Tokenizer | None = None) -> dict[str, Any]:
    """Biases, as [[id, bias], ["text", bias], [id, false]] or as an object whose keys are ids or texts.

    Each token of a text gets the bias, biases of one token add up, and false removes a token.
    """
    if isinstance(value, Mapping):
        pairs: Any = [(_id_or_text(key), bias) for key, bias in value.items()]
    else:
        pairs = value
    if not isinstance(pairs, Sequence) or isinstance(pairs, str) or not all(map(_is_pair, pairs)):
        raise ParameterError(f"logit_bias={quoted(value)} is not allowed: {_BIASES}")
    biases: dict[int, float] = {}
    for entry, bias in pairs:
        for token_id in _ids(entry, tokenizer):
            biases[token_id] = biases.get(token_id, 0.0) + (-math.inf if bias is False else bias)
    return {"logit_bias": biases} if biases else {}


def _is_pair(pair: Any) -> bool:
    if not isinstance(pair, (list, tuple)) or len(pair) != 2:
        return False
    entry, bias = pair
    named = isinstance(entry, str) or (isinstance(entry, int) and not isinstance(entry, bool))
    return named and isinstance(bias, (int, float)) and bias is not True


def _id_or_text(key: Any) -> Any:
    """A key of decimal digits as an id, others unchanged."""
    if not isinstance(key, str) or not key.removeprefix("-").isdecimal():
        return key
    token_id = id_of_digits("logit_bias", key.removeprefix("-"))
    return -token_id if key.startswith("-") else token_id


def _ids(entry: int | str, tokenizer: Tokenizer | None) -> list[int]:
    if not isinstance(entry, str):
        return [entry]
    if tokenizer is None:
        raise ParameterError(f"logit_bias names {quoted(entry)}, a text, which needs a tokenizer")
    return tokenizer.encode(entry)


def banned_ids(key: str, value: Any) -> list[int]:
    """The ids in a list, or in a text that separates them by commas."""
    if isinstance(value, str):
        return [id_of_digits(key, entry.strip()) for entry in value.split(",") if entry.strip()]
    if isinstance(value, (list, tuple)) and all(type(entry) is int for entry in value):
        return list(value)
    raise ParameterError(f"{key}={quoted(value)} is not allowed: token ids, in a list or separated by commas")


def from_gbnf(key: str, value: Any) -> dict[str, Any]:
    """A grammar in llama.cpp's GBNF, or in Lark after a line `%llguidance {}`; "" means none."""
    if not isinstance(value, str):
        raise ParameterError(f"{key}={quoted(value)} is not allowed: a text")
    if not value.strip():
        return {}
    header, _, lark = value.partition("\n")
    if header.split() == ["%llguidance", "{}"]:
        return {"grammar": lark}
    from ..grammar.lark.gbnf import read_gbnf  # loads lark

    try:
        read_gbnf(value)
    except GrammarError as error:
        raise ParameterError(f"{key}: {error}") from None
    return {"grammar": value}
