"""Named sampler orders and the cut rules that belong to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..base.errors import close_matches, quoted
from ..contract import ParameterError, Sampler
from ..registry import FAMILIAR_NAMES
from .costs import check_repeats

DEFAULT = (
    "logits_processors",
    "encoder_repetition_penalty",
    "normalize",
    "penalties",
    "no_repeat_ngram",
    "dry",
    "top_n_sigma",
    "top_k",
    "top_a",
    "tfs",
    "typical_p",
    "top_p",
    "min_p",
    "epsilon_cutoff",
    "eta_cutoff",
    "top_h",
    "xtc",
    "smoothing",
    "temperature",
    "infill",
)
"""The full list, and the order named "llama.cpp": temperature after the truncations."""

KOBOLDAI_IDS = ("top_k", "top_a", "top_p", "tfs", "typical_p", "temperature", "penalties")
"""KoboldAI's numeric sampler ids, 0 to 6."""

_KOBOLDAI_RULES = {"top_p_cut": "below", "tfs_cut": "koboldai"}

NAMED: Mapping[str, tuple[str, ...]] = {
    "llama.cpp": DEFAULT,
    "koboldai": tuple(KOBOLDAI_IDS[i] for i in (6, 0, 1, 2, 3, 4, 5)),
    "transformers": (
        "encoder_repetition_penalty",
        "normalize",
        "penalties",
        "no_repeat_ngram",
        "logits_processors",
        "temperature",
        "top_h",
        "top_k",
        "top_p",
        "min_p",
        "typical_p",
        "epsilon_cutoff",
        "eta_cutoff",
    ),
    "vllm": ("penalties", "temperature", "min_p", "top_k", "top_p"),
    "mindie": ("penalties", "temperature", "top_k", "top_p"),
    "mlx": ("penalties", "top_p", "min_p", "xtc", "top_k", "temperature"),
    # SGLang cuts jointly: each filter reads the probabilities that come. Before top_k, the others do.
    "sglang": ("penalties", "temperature", "top_p", "min_p", "top_k"),
}
"""The chain of each system; samplers that it does not mention follow the default list."""

RULES: Mapping[str, Mapping[str, str]] = {
    "koboldai": _KOBOLDAI_RULES,
    "mindie": {"top_p_cut": "exceed"},
    "sglang": {"top_p_cut": "exceed"},
}
"""Cut rules that a named order sets unless the request gives them."""


def full_order(order: str | Sequence[str | int], samplers: Mapping[str, Sampler]) -> tuple[str, ...]:
    """The names of all orderable samplers, in the sequence that `order` defines.

    A sampler of the default list that `order` does not mention follows all samplers that precede it
    in that list. A plugin's follows the sampler named in its `after`; without that, a penalty follows the
    last of the default list's penalties, any other sampler comes last. Several with the same place are in
    alphabetical order, each directly followed by those that name it. An explicit list of names is used as
    it is; a sampler that it names twice runs twice, as in llama.cpp. `costs` bounds how often, and what all
    cost.
    """
    if not isinstance(order, str) and not _is_numeric(order):
        return tuple(str(name) for name in order)
    return completed_order(NAMED[order] if isinstance(order, str) else _koboldai(order), samplers)


def completed_order(names: Sequence[str], samplers: Mapping[str, Sampler]) -> tuple[str, ...]:
    """`names`, and all other samplers that can be ordered where `full_order` puts them."""
    result = list(names)
    for i, name in enumerate(DEFAULT):
        if name not in result:
            preceding = [result.index(n) for n in DEFAULT[:i] if n in result]
            result.insert(max(preceding, default=-1) + 1, name)
    return tuple(_with_plugins(result, samplers))


def _with_plugins(order: Sequence[str], samplers: Mapping[str, Sampler]) -> list[str]:
    """The names of `order`, and of all other samplers that can be ordered, each after what it follows."""
    unordered = {name: s for name, s in orderable(samplers).items() if name not in order}
    penalties = [name for name in order if name in samplers and samplers[name].role == "penalty"]
    followers: dict[str | None, list[str]] = {}
    for name in sorted(unordered):
        after = unordered[name].after
        if after not in samplers:
            after = penalties[-1] if unordered[name].role == "penalty" and penalties else None
        followers.setdefault(after, []).append(name)

    def expanded(names: Sequence[str]) -> list[str]:
        return [one for name in names for one in (name, *expanded(followers.get(name, ())))]

    return expanded([*order, *followers.get(None, ())])


def resolve_order(values: Mapping[str, Any], samplers: Mapping[str, Sampler]) -> Mapping[str, str]:
    """Check the parameter `order` and return the cut rules that it sets."""
    order = values["order"]
    if isinstance(order, str):
        if order not in NAMED:
            raise ParameterError(
                f"order={quoted(order)} is not allowed: one of {', '.join(NAMED)}, or a list"
            )
        return RULES.get(order, {})
    if _is_numeric(order):
        if len(set(order)) != len(order):
            raise ParameterError(f"order={quoted(order)} is not allowed: each sampler once")
        named, rules = full_order(order, samplers), _KOBOLDAI_RULES
        omitted = {KOBOLDAI_IDS[i] for i in range(7)} - set(_koboldai(order))
    else:
        check_repeats("order", order)
        named, rules = tuple(order), {}
        omitted = {s.instead_of or s.name for s in samplers.values() if s.role != "edit"} - set(named)
    known = orderable(samplers)
    for name in named:
        if name not in known:
            raise _not_orderable(name, known)
    for name in sorted(omitted):
        of_name = (s for s in samplers.values() if name in (s.name, s.instead_of))
        if any(s.is_active(values) for s in of_name):
            raise ParameterError(f"order={quoted(order)} omits {name}, which the parameters turn on")
    return rules


def orderable(samplers: Mapping[str, Sampler]) -> dict[str, Sampler]:
    """Those of `samplers` that an order may name."""
    return {s.name: s for s in samplers.values() if s.role != "edit" and s.instead_of is None}


def _not_orderable(name: Any, known: Mapping[str, Sampler]) -> ParameterError:
    """The error for an entry of a list, with the samplers that it may be meant for, by what other systems
    call them (temp, top-k) and by their parameters (dry_base), or else with all."""
    ours = str(name).lower().replace("-", "_")
    ours = FAMILIAR_NAMES.get(ours, ours)
    owners = [s.name for s in known.values() if ours in (s.name, *(p.name for p in s.params))]
    similar = owners or close_matches(str(name), known)[:2]
    hint = (
        f"; did you mean {' or '.join(map(repr, similar))}?"
        if similar
        else f"; allowed are {', '.join(known)}: masks and biases come before them, the draw after them"
    )
    return ParameterError(f"order names {quoted(name)}, which is not a sampler that can be ordered{hint}")


def _is_numeric(order: Sequence[Any]) -> bool:
    return bool(order) and all(isinstance(entry, int) for entry in order)


def _koboldai(order: Sequence[Any]) -> tuple[str, ...]:
    """The names for KoboldAI's numeric ids; penalties come first if a short list leaves them out."""
    if any(not 0 <= i < len(KOBOLDAI_IDS) for i in order):
        raise ParameterError(f"order={quoted(tuple(order))} is not allowed: KoboldAI's ids are 0 to 6")
    names = tuple(KOBOLDAI_IDS[i] for i in order)
    return names if "penalties" in names else ("penalties", *names)
