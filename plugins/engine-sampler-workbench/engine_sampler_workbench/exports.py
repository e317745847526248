"""The settings in the words of other systems, each with what that system cannot say."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from engine_sampler import SamplingParams
from engine_sampler.for_bridges import KOBOLDAI_IDS, STRUCTURED_PARAMS, build_chain

VLLM = (
    "temperature top_p top_k min_p seed repetition_penalty frequency_penalty presence_penalty logit_bias stop "
    "stop_token_ids max_tokens min_tokens ignore_eos bad_words allowed_token_ids skip_special_tokens "
    "include_stop_str_in_output logprobs"
).split()
"""Parameters that have the same name there."""

LLAMA = {
    "seed": "--seed",
    "max_tokens": "-n",
    "temperature": "--temp",
    "dynatemp_range": "--dynatemp-range",
    "dynatemp_exponent": "--dynatemp-exp",
    "top_k": "--top-k",
    "top_p": "--top-p",
    "min_p": "--min-p",
    "typical_p": "--typical",
    "top_n_sigma": "--top-nsigma",
    "xtc_probability": "--xtc-probability",
    "xtc_threshold": "--xtc-threshold",
    "repetition_penalty": "--repeat-penalty",
    "penalty_last_n": "--repeat-last-n",
    "frequency_penalty": "--frequency-penalty",
    "presence_penalty": "--presence-penalty",
    "dry_multiplier": "--dry-multiplier",
    "dry_base": "--dry-base",
    "dry_allowed_length": "--dry-allowed-length",
    "dry_penalty_last_n": "--dry-penalty-last-n",
    "mirostat": "--mirostat",
    "mirostat_tau": "--mirostat-ent",
    "mirostat_eta": "--mirostat-lr",
    "adaptive_target": "--adaptive-target",
    "adaptive_decay": "--adaptive-decay",
}
LLAMA_SAMPLERS = {
    **{
        n: n
        for n in (
            "penalties",
            "dry",
            "top_n_sigma",
            "top_k",
            "top_p",
            "min_p",
            "xtc",
            "temperature",
            "infill",
        )
    },
    "typical_p": "typ_p",
}

KOBOLDAI = {
    "temperature": "temperature",
    "top_k": "top_k",
    "top_a": "top_a",
    "top_p": "top_p",
    "tfs": "tfs",
    "typical_p": "typical",
    "repetition_penalty": "rep_pen",
    "penalty_last_n": "rep_pen_range",
    "repetition_penalty_slope": "rep_pen_slope",
    "seed": "sampler_seed",
    "max_tokens": "max_length",
    "stop": "stop_sequence",
    "n": "n",
}
KOBOLDCPP = {
    **{
        name: name
        for name in (
            "dynatemp_range dynatemp_exponent smoothing_factor smoothing_curve min_p xtc_probability xtc_threshold "
            "presence_penalty dry_multiplier dry_base dry_allowed_length dry_penalty_last_n mirostat mirostat_tau "
            "mirostat_eta adaptive_target adaptive_decay"
        ).split()
    },
    "top_n_sigma": "nsigma",
    "ignore_eos": "ban_eos_token",
}
"""Keys that koboldcpp has added to KoboldAI's."""


class Export(NamedTuple):
    """The settings in the words of one system.

    missing  what that system cannot say, a sentence each.
    """

    system: str
    language: str
    code: str
    missing: tuple[str, ...]


def exports(params: SamplingParams) -> list[Export]:
    """The settings for each system."""
    given = {name: value for name, value in params.given.items() if name != "order"}
    if "logit_bias" in given:
        given["logit_bias"] = dict(given["logit_bias"])
    return [
        Export("SamplingParams", "python", repr(params), ()),
        _vllm(params, dict(given)),
        _llama(params, dict(given)),
        _koboldai(params, dict(given)),
    ]


def _active(params: SamplingParams) -> list[str]:
    """The samplers that run and can be ordered, in their order."""
    return [sampler.name for sampler in build_chain(params).samplers if sampler.role != "edit"]


def _lacks(system: str, names: Mapping[str, Any]) -> Iterator[str]:
    for name, value in names.items():
        yield f"{system} has no {name} (here {json.dumps(value, default=str)[:60]})."


def _drop_cut_rules(params: SamplingParams, given: dict[str, Any]) -> None:
    """Leave out the rules of truncations that do not run."""
    for name in ("top_p", "tfs"):
        if name not in _active(params):
            given.pop(f"{name}_cut", None)


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else list(value) if isinstance(value, tuple) else value


def _body(values: Mapping[str, Any]) -> str:
    return json.dumps(values, indent=2, ensure_ascii=False, default=_plain)


def _vllm(params: SamplingParams, given: dict[str, Any]) -> Export:
    body = {name: _plain(given.pop(name)) for name in VLLM if name in given}
    structured = {
        name.removeprefix("json_schema") or "json": _plain(given.pop(name))
        for name in ("json_schema", "regex", "choice", "grammar", "json_object")
        if name in given
    }
    if isinstance(structured.get("json"), str):
        structured["json"] = json.loads(structured["json"])
    if structured:
        body["structured_outputs"] = structured
    _drop_cut_rules(params, given)
    given.pop("key_order", None)  # vLLM's own
    missing = list(_lacks("vLLM", given))
    ours = [
        name for name in _active(params) if name in ("penalties", "temperature", "min_p", "top_k", "top_p")
    ]
    theirs = [name for name in ("penalties", "temperature", "min_p", "top_k", "top_p") if name in ours]
    if ours != theirs:
        missing.append(f"vLLM runs {', '.join(theirs)}, always; here it is {', '.join(ours)}.")
    if set(body) & {"top_k", "min_p", "repetition_penalty", "structured_outputs"}:
        missing.append("OpenAI’s own API knows none of top_k, min_p, repetition_penalty, structured_outputs.")
    return Export("OpenAI / vLLM body", "json", _body(body), tuple(missing))


def _llama(params: SamplingParams, given: dict[str, Any]) -> Export:
    missing, flags = [], []
    _drop_cut_rules(params, given)
    active = _active(params)
    if "temperature" in given and "temperature" not in active:
        active.append("temperature")  # greedy
    if "penalties" in active:
        given.setdefault("penalty_last_n", -1)
        scope = given.pop("penalty_scope", "default")
        if scope != "all" and {"frequency_penalty", "presence_penalty"} & set(given):
            missing.append("llama.cpp counts the prompt for frequency and presence penalties, too.")
    for name in [name for name in LLAMA if name in given]:
        flags += [LLAMA[name], f"{given.pop(name):g}" if name != "seed" else str(given.pop(name))]
    flags += ["--samplers", ";".join(LLAMA_SAMPLERS[name] for name in active if name in LLAMA_SAMPLERS)]
    if given.pop("ignore_eos", False):
        flags.append("--ignore-eos")
    for token_id, bias in given.pop("logit_bias", {}).items():
        flags += ["--logit-bias", f"{token_id}{bias:+g}"]
    for breaker in given.pop("dry_sequence_breakers", None) or ():
        if isinstance(breaker, str):
            flags += ["--dry-sequence-breaker", breaker]
    if "json_schema" in given:
        flags += ["--json-schema", _schema_text(given.pop("json_schema"))]
    if "::=" in str(given.get("grammar", "")):
        flags += ["--grammar", given.pop("grammar")]
    missing += _lacks("llama.cpp’s command line", given)
    lines = [" ".join(map(shlex.quote, pair)) for pair in _pairs(flags)]
    return Export(
        "llama.cpp flags", "bash", "llama-cli -m MODEL \\\n  " + " \\\n  ".join(lines), tuple(missing)
    )


def _pairs(flags: list[str]) -> Iterator[list[str]]:
    """Each flag with its value."""
    start = 0
    for at in range(1, len(flags) + 1):
        if at == len(flags) or (flags[at].startswith("-") and not _is_number(flags[at])):
            yield flags[start:at]
            start = at


def _is_number(text: str) -> bool:
    return text.lstrip("-").replace(".", "", 1).isdecimal()


def _koboldai(params: SamplingParams, given: dict[str, Any]) -> Export:
    missing = []
    keys = {**KOBOLDAI, **KOBOLDCPP}
    if given.get("penalty_last_n") == -1:
        del given["penalty_last_n"]
    if "penalties" in _active(params):
        given.setdefault("penalty_last_n", 0)
    given.pop("penalty_scope", None)
    body = {keys[name]: _plain(given.pop(name)) for name in keys if name in given}
    if newer := [keys[name] for name in KOBOLDCPP if keys[name] in body]:
        missing.append(f"Of KoboldAI and koboldcpp only the latter knows {', '.join(newer)}.")
    if "json_schema" in given:
        body["grammar"] = _schema_text(given.pop("json_schema"))
    elif "::=" in str(given.get("grammar", "")):
        body["grammar"] = given.pop("grammar")
    if "logit_bias" in given:
        body["logit_bias"] = {str(k): v for k, v in given.pop("logit_bias").items()}
    active = _active(params)
    known = [name for name in active if name in KOBOLDAI_IDS]
    order = [*known, *(name for name in ("penalties", *KOBOLDAI_IDS) if name not in known)]
    body["sampler_order"] = [KOBOLDAI_IDS.index(name) for name in dict.fromkeys(order)]
    if others := [name for name in active if name not in KOBOLDAI_IDS]:
        missing.append(
            f"sampler_order has no place for {', '.join(others)}; koboldcpp decides where they run."
        )
    _drop_cut_rules(params, given)
    missing += _lacks("KoboldAI", given)
    return Export("KoboldAI body", "json", _body(body), tuple(missing))


def _schema_text(schema: Any) -> str:
    return schema if isinstance(schema, str) else json.dumps(schema, default=_plain)


def structured_name(params: Mapping[str, Any]) -> str | None:
    """The parameter by which a grammar is given, if one is."""
    return next((name for name in STRUCTURED_PARAMS if params.get(name) not in (None, (), "", False)), None)
