"""TabbyAPI, text-generation-webui and Aphrodite: their keys as those of `SamplingParams.from_dict`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine_sampler import ParameterError, Tokenizer
from engine_sampler.for_backends import quoted
from engine_sampler.for_bridges import (
    BodyField,
    banned_ids,
    canonical_keys,
    mapping,
    ordered,
    stop_strings,
    switch,
    switched_off,
    synonyms_of,
)


@dataclass(frozen=True)
class WebUI:
    """How a server reads a request.

    order, last       its samplers, and with `temperature_last`.
    defaults          those that are not neutral here, and its rules for cuts.
    renamed           its names for our parameters.
    adaptive_off      the target that turns adaptive_p off, besides those below 0.
    dynatemp_end      what the ends of the range of the temperature are if they are not given; with 0 for
                      that, equal ends are the temperature.
    has_priority      whether `sampler_priority` gives the order, and `dynamic_temperature` the range.
    is_window_shared  whether the window of the penalties is also that of DRY, and 0 the whole history.
    protects_lines    whether XTC leaves line ends and special tokens alone.
    mirostat_alone    whether mirostat turns all other samplers off.
    has_deepconf      whether `enable_deepconf` turns DeepConf on, which counts the tokens of `logprobs`.
    cutoff_parts      1 is one of so many parts in `epsilon_cutoff` and `eta_cutoff`.
    chat_keys         what its chats say of the prompt.
    """

    order: tuple[str, ...]
    last: tuple[str, ...]
    defaults: Mapping[str, Any]
    renamed: Mapping[str, str] = field(default_factory=dict)
    adaptive_off: float = 0.0
    dynatemp_end: float = 1.0
    has_priority: bool = False
    is_window_shared: bool = False
    protects_lines: bool = False
    mirostat_alone: bool = False
    has_deepconf: bool = False
    cutoff_parts: int = 1
    chat_keys: frozenset[str] = frozenset()


_PENALTIES = ("repetition_penalty", "presence_penalty", "frequency_penalty")
PRIORITY = (
    *(*_PENALTIES, "dry", "top_n_sigma", "temperature", "dynamic_temperature", "quadratic_sampling"),
    *("top_k", "top_p", "typical_p", "epsilon_cutoff", "eta_cutoff", "tfs", "top_a", "min_p"),
    *("adaptive_p", "mirostat", "xtc", "encoder_repetition_penalty", "no_repeat_ngram"),
)
"""text-generation-webui's samplers in its default order."""

_OURS = {
    **dict.fromkeys(_PENALTIES, "penalties"),
    "dynamic_temperature": "temperature",
    "quadratic_sampling": "smoothing",
    "adaptive_p": "",
    "mirostat": "",
}
"""Our names of these samplers where they differ; "" for those that draw."""

_WINDOW = dict.fromkeys(
    ("penalty_range", "repetition_range", "repetition_penalty_range", "rep_pen_range"), "penalty_last_n"
)
_BEFORE = ("penalties", "dry")
_CUTS = ("top_k", "top_p", "top_a", "min_p", "tfs", "typical_p")
_LATE_CUTS = ("top_a", "min_p", "tfs", "eta_cutoff", "epsilon_cutoff", "typical_p", "smoothing", "xtc")
_EARLY = ("dry", "penalties", "no_repeat_ngram")

WEB_UIS: Mapping[str, WebUI] = {
    "tabbyapi": WebUI(
        order=(*_BEFORE, "temperature", "smoothing", *_CUTS, "xtc", "skew"),
        last=(*_BEFORE, *_CUTS, "temperature", "smoothing", "xtc", "skew"),
        defaults={
            "penalty_scope": "all",
            "top_p_cut": "below",
            "mirostat_tau": 1.5,
            "mirostat_eta": 0.3,
            "loop_detect_window": 800,
            "loop_detect_min_reps": 2,
        },
        renamed={
            **_WINDOW,
            "repetition_decay": "penalty_decay_range",
            "min_temp": "dynatemp_low",
            "max_temp": "dynatemp_high",
            "temp_exponent": "dynatemp_exponent",
            "cfg_scale": "guidance_scale",
            "max_length": "max_tokens",
            "banned_tokens": "custom_token_bans",
            "allowed_tokens": "allowed_token_ids",
            "regex_pattern": "regex",
        },
        adaptive_off=1.0,
        protects_lines=True,
    ),
    "text-generation-webui": WebUI(
        order=PRIORITY,
        last=PRIORITY,
        defaults={
            "penalty_scope": "all",
            "tfs_cut": "koboldai",
            "penalty_last_n": 1024,
            "top_p": 0.95,
            "max_tokens": 512,
        },
        renamed=_WINDOW,
        has_priority=True,
        is_window_shared=True,
        cutoff_parts=10_000,
        chat_keys=frozenset(
            "mode character name1 name2 bot_name user_name user_bio context greeting continue_ impersonate "
            "instruction_template instruction_template_str chat_template_str chat_instruct_command".split()
        ),
    ),
    "aphrodite": WebUI(
        order=(*_EARLY, "temperature", "top_n_sigma", *_CUTS[:2], *_LATE_CUTS, "skew"),
        last=(*_EARLY, "top_n_sigma", *_CUTS[:2], *_LATE_CUTS, "temperature", "skew"),
        defaults={"tfs_cut": "koboldai", "max_tokens": 16},
        renamed={
            "dynatemp_min": "dynatemp_low",
            "dynatemp_max": "dynatemp_high",
            "dry_sequence_breaker_ids": "dry_sequence_breakers",
        },
        dynatemp_end=0.0,
        mirostat_alone=True,
        has_deepconf=True,
    ),
}
"""The servers by name."""

_NAMES = ("max_tokens", "stop", "seed", "temperature", "typical_p", "tfs", "top_n_sigma", "mirostat")
RENAMED = {
    **synonyms_of({*_NAMES, "ignore_eos", "repetition_penalty", "penalty_last_n"}),
    "min_length": "min_tokens",
    "dry_range": "dry_penalty_last_n",
    "grammar_string": "grammar",
}
"""Aliases that these servers share, or that front ends send beside their own keys."""


def aliases_of(system: str) -> dict[str, str]:
    """The aliases of a server's keys."""
    return {**RENAMED, **WEB_UIS[system].renamed}


def body_of(body: Mapping[str, Any], system: str, tokenizer: Tokenizer | None = None) -> dict[str, Any]:
    """A request as a body that `SamplingParams.from_dict` reads, as `from_request` describes."""
    ui = WEB_UIS[system]
    read = {key: value for key, value in mapping("body", body).items() if key not in ui.chat_keys}
    fields = {**ui.defaults, **canonical_keys(read, aliases_of(system))}
    if ui.protects_lines and tokenizer is not None and fields.get("xtc_probability"):
        fields |= _protected(tokenizer)
    fields |= _bans(fields)
    _set_stops(fields)
    _set_temperature(fields, ui)
    if ui.has_deepconf:
        _set_deepconf(fields)
    _set_special_values(fields, ui)
    order = _order(fields, ui)
    fields.setdefault("order", order)
    if ui.mirostat_alone and fields.get("mirostat"):
        fields |= switched_off(order)
    return fields


def _set_deepconf(fields: dict[str, Any]) -> None:
    """DeepConf as its switch says, with as many tokens as `logprobs` lists: 20 if that is not given."""
    if not switch("enable_deepconf", fields.pop("enable_deepconf", False)):
        fields["deepconf_threshold"] = 0.0
        return
    fields.setdefault("deepconf_threshold", 17.0)
    if fields.get("logprobs"):
        fields.setdefault("deepconf_top_k", fields["logprobs"])


def _protected(tokenizer: Tokenizer) -> dict[str, Any]:
    """The tokens that exllamav3's XTC leaves alone: those with a line end, and special ones."""
    lines = tokenizer.substrings.containing(b"\n").tolist()
    return {"xtc_protected_ids": sorted({*lines, *tokenizer.special_token_ids})}


def _set_special_values(fields: dict[str, Any], ui: WebUI) -> None:
    """Translate values that mean "off" or "no limit" in these systems."""
    window = fields.get("penalty_last_n", -1)
    window = BodyField("penalty_last_n").read(
        "penalty_last_n", max(window, -1) if _is_int(window) else window
    )
    fields["penalty_last_n"] = window or (-1 if ui.is_window_shared else 0)
    if ui.is_window_shared:
        fields["dry_penalty_last_n"] = fields["penalty_last_n"]
    elif fields.get("dry_penalty_last_n") == 0:
        fields["dry_penalty_last_n"] = -1
    if fields.get("mirostat") in (0, 1):
        del fields["mirostat"]  # only its second version is there
    target = fields.get("adaptive_target")
    if isinstance(target, (int, float)) and (target < 0 or target == ui.adaptive_off):
        del fields["adaptive_target"]
    for key in ("max_tokens", "logprobs", "top_logprobs"):
        if _is_int(fields.get(key)) and fields[key] == 0:
            del fields[key]
    if fields.get("json_schema") == {}:
        del fields["json_schema"]
    if fields.get("dry_base") == 0 and not fields.get("dry_multiplier"):
        del fields["dry_base"]  # TabbyAPI's default
    for key in ("epsilon_cutoff", "eta_cutoff"):
        if isinstance(fields.get(key), (int, float)):
            fields[key] = fields[key] / ui.cutoff_parts


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _set_stops(fields: dict[str, Any]) -> None:
    """Stop strings, and token ids among them."""
    stop = fields.pop("stop", ())
    if isinstance(stop, (list, tuple)) and any(map(_is_int, stop)):
        fields["stop_token_ids"] = [*(fields.get("stop_token_ids") or ()), *filter(_is_int, stop)]
        stop = [entry for entry in stop if not _is_int(entry)]
    fields |= stop_strings("stop", stop)


def _bans(fields: dict[str, Any]) -> dict[str, Any]:
    """The biases, with the ids that are removed, and the texts that are banned."""
    result: dict[str, Any] = {}
    removed = banned_ids("custom_token_bans", fields.pop("custom_token_bans", ()))
    bias = fields.get("logit_bias")
    if removed and (bias is None or isinstance(bias, Mapping)):
        result["logit_bias"] = {**(bias or {}), **dict.fromkeys(removed, -math.inf)}
    if "allowed_token_ids" in fields:
        allowed = banned_ids("allowed_token_ids", fields.pop("allowed_token_ids"))
        result |= {"allowed_token_ids": allowed} if allowed else {}
    texts = fields.pop("banned_strings", ())
    texts = stop_strings("banned_strings", texts).get("stop", ())
    if texts:
        result["banned_strings"] = texts
    return result


def _set_temperature(fields: dict[str, Any], ui: WebUI) -> None:
    """The temperature, and the range in which it moves: the keys say its ends."""
    keys = ("dynatemp_low", "dynatemp_high")
    low, high = (BodyField("temperature").read(key, fields.pop(key, ui.dynatemp_end)) for key in keys)
    moves = switch("dynamic_temperature", fields.pop("dynamic_temperature", not ui.has_priority))
    if moves and (low != high or (low and not ui.dynatemp_end)):
        if low > high:
            raise ParameterError(f"dynatemp_low={quoted(low)} is not allowed: at most dynatemp_high={high!r}")
        fields["temperature"], fields["dynatemp_range"] = (low + high) / 2, (high - low) / 2
    if not switch("do_sample", fields.pop("do_sample", True)):
        fields["temperature"] = 0
    if fields.get("temperature") == 0 and not ui.has_priority:
        fields["xtc_probability"] = 0.0  # the others draw the likeliest token before it


def _order(fields: dict[str, Any], ui: WebUI) -> tuple[str, ...]:
    """The order of all samplers."""
    is_last = switch("temperature_last", fields.pop("temperature_last", False))
    asked = fields.pop("sampler_priority", None)
    if not ui.has_priority:
        if asked not in (None, "", []):
            fields["sampler_priority"] = asked  # to be refused
        return ordered(ui.last if is_last else ui.order)
    names = _priority(asked) or PRIORITY
    moving = "dynamic_temperature" if fields.get("dynatemp_range") else "temperature"
    names = (*(name for name in PRIORITY if name not in names), *names)  # omitted ones are first
    if is_last:
        late = (moving, "quadratic_sampling")
        names = (*(name for name in names if name not in late), *late)
    still = {"temperature", "dynamic_temperature"} - {moving}
    return ordered([*dict.fromkeys(_OURS.get(name, name) for name in names if name not in still)])


def _priority(value: Any) -> tuple[str, ...]:
    """The names in a list, or in a text that separates them by lines or commas."""
    listed = value.replace("\n", ",").split(",") if isinstance(value, str) else value or ()
    if isinstance(listed, (list, tuple)) and all(isinstance(name, str) for name in listed):
        names = tuple(dict.fromkeys(name.strip() for name in listed if name.strip()))
        if {*names} <= {*PRIORITY}:
            return names
    raise ParameterError(
        f"sampler_priority={quoted(value)} is not allowed: a list of some of {', '.join(PRIORITY)}"
    )
