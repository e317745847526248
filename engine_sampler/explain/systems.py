"""The settings of a request in the words of other systems, each with what that system cannot say."""

from __future__ import annotations

import contextlib
import json
import math
import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..params import SamplingParams, build_chain
from ..params.orders import KOBOLDAI_IDS, NAMED

_VLLM = frozenset(
    "temperature top_p top_k min_p seed repetition_penalty frequency_penalty presence_penalty logit_bias "
    "stop stop_token_ids max_tokens min_tokens ignore_eos bad_words allowed_token_ids skip_special_tokens "
    "logprobs include_stop_str_in_output n".split()
)
"""What vLLM calls as we do."""
_NOT_OPENAI = ("top_k", "min_p", "repetition_penalty", "structured_outputs")

_LLAMA = {
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
_LLAMA_SAMPLERS = {
    **{name: name for name in "penalties dry top_n_sigma top_k top_p min_p xtc temperature infill".split()},
    "typical_p": "typ_p",
}

_KOBOLDAI = {
    **{name: name for name in ("temperature", "top_k", "top_a", "top_p", "tfs", "n")},
    "typical_p": "typical",
    "repetition_penalty": "rep_pen",
    "penalty_last_n": "rep_pen_range",
    "repetition_penalty_slope": "rep_pen_slope",
    "seed": "sampler_seed",
    "max_tokens": "max_length",
    "stop": "stop_sequence",
}
_KOBOLDCPP = {
    **{
        name: name
        for name in (
            "dynatemp_range dynatemp_exponent smoothing_factor smoothing_curve min_p xtc_probability "
            "xtc_threshold presence_penalty dry_multiplier dry_base dry_allowed_length dry_penalty_last_n "
            "mirostat mirostat_tau mirostat_eta adaptive_target adaptive_decay logit_bias"
        ).split()
    },
    "top_n_sigma": "nsigma",
    "ignore_eos": "ban_eos_token",
}
"""What koboldcpp has added."""
_KOBOLDAI_CUTS = {"top_p_cut": "below", "tfs_cut": "koboldai"}


class Export(NamedTuple):
    """Settings in the words of one system.

    system    its name.
    language  of `code`: "python", "json" or "bash".
    missing   what that system cannot say, a sentence each.
    """

    system: str
    language: str
    code: str
    missing: tuple[str, ...]


def exports(params: SamplingParams) -> list[Export]:
    """`params` as `SamplingParams`, as a body for vLLM's and OpenAI's servers, as flags of llama.cpp's
    programs and as a body for KoboldAI."""
    code = Export("SamplingParams", "python", repr(params), ())
    return [code, *(_of(system, _Given(params)) for system in (_vllm, _llama, _koboldai))]


class _Given:
    """The parameters that are still to be said, and what cannot be.

    active  the samplers that run and can be ordered, in their order.
    """

    def __init__(self, params: SamplingParams) -> None:
        self.values = {name: _plain(name, value) for name, value in params.given.items() if name != "order"}
        self.active = [sampler.name for sampler in build_chain(params).samplers if sampler.role != "edit"]
        self.missing: list[str] = []
        for owner in ("top_p", "tfs"):
            if owner not in self.active:
                self.values.pop(f"{owner}_cut", None)

    def take(self, keys: Mapping[str, str]) -> dict[str, Any]:
        """The parameters that `keys` name, under these keys."""
        return {key: self.values.pop(name) for name, key in keys.items() if name in self.values}

    def leave_out_infinite(self) -> None:
        """JSON has no −inf, which removes a token."""
        biases = self.values.get("logit_bias", {})
        if removed := [token_id for token_id, bias in biases.items() if bias == -math.inf]:
            self.values["logit_bias"] = {k: v for k, v in biases.items() if k not in removed}
            self.missing.append(f"JSON has no bias of −inf (here of {', '.join(removed)}).")

    def constraint(self) -> dict[str, Any]:
        """A schema as text, or a grammar in GBNF."""
        names = ["json_schema", *["grammar"] * ("::=" in str(self.values.get("grammar")))]
        return self.take({name: name for name in names})


def _of(system: Any, unsaid: _Given) -> Export:
    name, language, code = system(unsaid)
    lacking = (f"{name} has no {key} (here {_json(value)[:60]})." for key, value in unsaid.values.items())
    return Export(name, language, code, (*unsaid.missing, *lacking))


def _plain(name: str, value: Any) -> Any:
    """A value as JSON writes it; pairs of ids and biases as an object."""
    if name == "logit_bias":
        return {str(token_id): bias for token_id, bias in value}
    return list(value) if isinstance(value, tuple) else value


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=False, default=str)


def _vllm(unsaid: _Given) -> tuple[str, str, str]:
    names = ("json_schema", "regex", "choice", "grammar", "json_object")
    structured = unsaid.take({name: name.removesuffix("_schema") for name in names})
    unsaid.values.pop("key_order", None)  # vLLM's own
    if isinstance(structured.get("json"), str):
        with contextlib.suppress(ValueError):  # no JSON, which vLLM says, too
            structured["json"] = json.loads(structured["json"])
    unsaid.leave_out_infinite()
    body = unsaid.take({name: name for name in _VLLM})
    body |= {"structured_outputs": structured} if structured else {}
    theirs = [name for name in NAMED["vllm"] if name in unsaid.active]
    ours = [name for name in unsaid.active if name in theirs]
    if ours != theirs:
        unsaid.missing.append(f"vLLM runs {', '.join(theirs)} in this order; here it is {', '.join(ours)}.")
    if unknown := [name for name in _NOT_OPENAI if name in body]:
        unsaid.missing.append(f"OpenAI’s own API does not know {', '.join(unknown)}.")
    return "vLLM", "json", _json(dict(sorted(body.items())), 2)


def _llama(unsaid: _Given) -> tuple[str, str, str]:
    active, values = unsaid.active, unsaid.values
    if "temperature" in values and "temperature" not in active:
        active.append("temperature")  # greedy
    if "penalties" in active:
        values.setdefault("penalty_last_n", -1)
        counted = {"frequency_penalty", "presence_penalty"} & {*values}
        if values.pop("penalty_scope", "default") != "all" and counted:
            unsaid.missing.append("llama.cpp counts the prompt, too, for frequency and presence penalties.")
    flags = [[flag, str(value)] for flag, value in unsaid.take(_LLAMA).items()]
    flags.append(["--samplers", ";".join(_LLAMA_SAMPLERS[n] for n in active if n in _LLAMA_SAMPLERS)])
    flags += [["--ignore-eos"]] * bool(values.pop("ignore_eos", False))
    flags += [["--logit-bias", f"{k}{v:+g}"] for k, v in values.pop("logit_bias", {}).items()]
    flags += [[f"--{name.replace('_', '-')}", str(value)] for name, value in unsaid.constraint().items()]
    lines = [" ".join(map(shlex.quote, flag)) for flag in flags]
    return "llama.cpp", "bash", " \\\n  ".join(["llama-cli -m MODEL", *lines])


def _koboldai(unsaid: _Given) -> tuple[str, str, str]:
    unsaid.leave_out_infinite()
    active, values = unsaid.active, unsaid.values
    if "penalties" in active and values.get("penalty_last_n", -1) == -1:
        values["penalty_last_n"] = 0  # there, the whole context
    values.pop("penalty_scope", None)  # of the whole context, there
    for name, rule in _KOBOLDAI_CUTS.items():
        if values.pop(name, None) != rule and (owner := name.removesuffix("_cut")) in active:
            unsaid.missing.append(f"KoboldAI cuts at {owner} by {name}={rule!r}.")
    body, newer, texts = unsaid.take(_KOBOLDAI), unsaid.take(_KOBOLDCPP), [*unsaid.constraint().values()]
    constraint = {"grammar": texts[0]} if texts else {}
    if newer or constraint:
        unsaid.missing.append(f"Only koboldcpp knows {', '.join([*newer, *constraint])}, KoboldAI does not.")
    known = [name for name in active if name in KOBOLDAI_IDS]
    order = dict.fromkeys([*known, *NAMED["koboldai"]])
    if others := [name for name in active if name not in KOBOLDAI_IDS]:
        unsaid.missing.append(
            f"sampler_order has no place for {', '.join(others)}: koboldcpp has one for each."
        )
    body |= {**newer, **constraint, "sampler_order": [KOBOLDAI_IDS.index(name) for name in order]}
    return "KoboldAI", "json", _json(body, 2)
