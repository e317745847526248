"""The processors, criteria and configuration that `generate` has prepared, read as parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from engine_sampler import ParameterError


class _Mapping(NamedTuple):
    """How to read a processor of transformers: its attribute, its field in the configuration, our parameter.

    param  None if ours behaves differently: the processor then runs unchanged.
    """

    attribute: str
    field: str
    param: str | None


_MAPPINGS = {
    "RepetitionPenaltyLogitsProcessor": _Mapping("penalty", "repetition_penalty", "repetition_penalty"),
    "NoRepeatNGramLogitsProcessor": _Mapping("ngram_size", "no_repeat_ngram_size", "no_repeat_ngram_size"),
    "NoBadWordsLogitsProcessor": _Mapping("bad_word_ids", "bad_words_ids", "bad_words"),
    "MinLengthLogitsProcessor": _Mapping("min_length", "min_length", "min_tokens"),
    "MinNewTokensLengthLogitsProcessor": _Mapping("min_new_tokens", "min_new_tokens", "min_tokens"),
    "TemperatureLogitsWarper": _Mapping("temperature", "temperature", "temperature"),
    "TopHLogitsWarper": _Mapping("top_h", "top_h", None),  # theirs considers the 100 best tokens, ours all
    "TopKLogitsWarper": _Mapping("top_k", "top_k", "top_k"),
    "TopPLogitsWarper": _Mapping("top_p", "top_p", "top_p"),
    "MinPLogitsWarper": _Mapping("min_p", "min_p", "min_p"),
    "TypicalLogitsWarper": _Mapping("mass", "typical_p", "typical_p"),
    "EpsilonLogitsWarper": _Mapping("epsilon", "epsilon_cutoff", "epsilon_cutoff"),
    "EtaLogitsWarper": _Mapping("epsilon", "eta_cutoff", "eta_cutoff"),
}


def _forced_bos(processor: Any, columns: int) -> dict[str, Any]:
    """The first token of a decoder that starts with a single one; without effect after longer prompts."""
    return {"forced_bos_token_id": int(processor.bos_token_id)} if columns == 1 else {}


def _forced_eos(processor: Any, columns: int) -> dict[str, Any]:
    tokens = processor.max_length - columns
    ids = processor.eos_token_id.tolist()
    return {"forced_eos_token_id": ids, "max_tokens": tokens} if tokens > 0 else {}


def _length_penalty(processor: Any, columns: int) -> dict[str, Any]:
    start = max(0, processor.regulation_start - columns)
    return {"exponential_decay_length_penalty": (start, processor.regulation_factor)}


_READERS: Mapping[str, Callable[[Any, int], dict[str, Any]]] = {
    "SequenceBiasLogitsProcessor": lambda p, columns: {"sequence_bias": list(p.sequence_bias.items())},
    "ForcedBOSTokenLogitsProcessor": _forced_bos,
    "ForcedEOSTokenLogitsProcessor": _forced_eos,
    "ExponentialDecayLengthPenalty": _length_penalty,
    "SuppressTokensLogitsProcessor": lambda p, columns: {"suppress_tokens": p.suppress_tokens.tolist()},
    "SuppressTokensAtBeginLogitsProcessor": lambda p, columns: {
        "begin_suppress_tokens": p.begin_suppress_tokens.tolist()
    },
}
"""How to read processors that have more than one number: (processor, columns of the prompts) → parameters."""

_ORDER = (
    "SequenceBiasLogitsProcessor",
    *list(_MAPPINGS)[: list(_MAPPINGS).index("TemperatureLogitsWarper")],
    *(name for name in _READERS if name != "SequenceBiasLogitsProcessor"),
    *list(_MAPPINGS)[list(_MAPPINGS).index("TemperatureLogitsWarper") :],
)
"""The order in which `generate` runs them, which is our order "transformers"."""

_REFUSED = {
    "num_beams": (1,),
    "num_beam_groups": (1,),
    "diversity_penalty": (0,),
    "penalty_alpha": (0,),
    "dola_layers": (),
    "constraints": (),
    "force_words_ids": (),
    "prompt_lookup_num_tokens": (),
    "assistant_early_exit": (),
    "use_mtp": (False,),
    "assistant_model": (),
    "synced_gpus": (False,),
}
"""Settings that request a generation mode other than one token per row and step, with their neutral values
besides None. Beams are refused here."""


def check_mode(config: Any, arguments: Mapping[str, Any]) -> None:
    """Raise `ParameterError` for settings that a scheduler's loop cannot follow: those of a
    `GenerationConfig`, and further arguments of `generate`."""
    for field, neutral in _REFUSED.items():
        value = arguments.get(field, getattr(config, field, None))
        if value is not None and value not in neutral:
            allowed = " or ".join(["None", *map(str, neutral)])
            raise ParameterError(f"{field}={_shown(value)} is not allowed with custom_generate: {allowed}")


def _shown(value: Any) -> str:
    """`value`, or the class of a model, whose repr has a line for each layer."""
    return f"<{type(value).__name__}>" if hasattr(value, "parameters") else repr(value)


class Mapped(NamedTuple):
    """The result of mapping prepared processors or criteria to parameters.

    params  the equivalent parameters.
    rest    processors or criteria without a parameter, in order: they run unchanged.
    """

    params: dict[str, Any]
    rest: list[Any]


def map_processors(processors: Sequence[Any], columns: int) -> Mapped:
    """Read processors as parameters under our order "transformers".

    Only processors at the end of the list can be mapped, not followed by any that must run unchanged, and
    only in their usual order. columns: the columns of the prompts.
    """
    params: dict[str, Any] = {"order": "transformers"}
    unmapped = list(processors)
    limit = len(_ORDER)
    while unmapped:
        processor = unmapped[-1]
        if not _is_neutral(processor):
            read = _read(processor, columns, unmapped)
            if read is None or _order_index(processor) >= limit:
                break
            limit = _order_index(processor)
            if "min_tokens" in read:
                read["min_tokens"] = max(read["min_tokens"], params.get("min_tokens", 0))
            params |= read
        unmapped.pop()
    return Mapped(params, unmapped)


def _read(processor: Any, columns: int, before: Sequence[Any]) -> dict[str, Any] | None:
    """The parameters of `processor`, the last of `before`; None if ours cannot express its behaviour."""
    reader = _READERS.get(type(processor).__name__) if _is_theirs(processor) else None
    if reader is not None:
        forced = any(type(other).__name__ == "ForcedBOSTokenLogitsProcessor" for other in before)
        first = columns + (forced and columns == 1)
        return reader(processor, columns) if getattr(processor, "begin_index", first) == first else None
    mapping = _mapping_of(processor)
    if mapping is None or mapping.param is None:
        return None
    value = _value(processor, mapping)
    return {mapping.param: max(0, value - columns) if mapping.field == "min_length" else value}


def without_configured(processors: Sequence[Any], config: Any) -> list[Any]:
    """`processors` without neutral ones and without those whose value is the one in `config`."""
    return [p for p in processors if not (_is_neutral(p) or _is_configured(p, config))]


def map_criteria(criteria: Sequence[Any], columns: int) -> Mapped:
    """Read limits as parameters, and EOS ids as `eos_token_ids`. columns: the columns of the prompts."""
    params: dict[str, Any] = {}
    unmapped = []
    for criterion in criteria:
        name = type(criterion).__name__ if _is_theirs(criterion) else ""
        if name == "MaxLengthCriteria":
            params["max_tokens"] = max(1, criterion.max_length - columns)
        elif name == "MaxTimeCriteria":
            params["max_time"] = criterion.max_time
        elif name == "EosTokenCriteria":
            params["eos_token_ids"] = [int(i) for i in criterion.eos_token_id]
        else:
            unmapped.append(criterion)
    return Mapped(params, unmapped)


def _is_theirs(part: Any) -> bool:
    return type(part).__module__.startswith("transformers.")


def _is_neutral(processor: Any) -> bool:
    """Whether `processor` only adds the same number to a whole row."""
    return _is_theirs(processor) and type(processor).__name__ == "LogitNormalization"


def _mapping_of(processor: Any) -> _Mapping | None:
    """How to read `processor`; None if our parameters cannot express its behaviour completely."""
    expressible = (
        _is_theirs(processor)
        and getattr(processor, "min_tokens_to_keep", 1) == 1
        and getattr(processor, "filter_value", -math.inf) == -math.inf
        and not isinstance(getattr(processor, "prompt_ignore_length", None), int)
    )
    return _MAPPINGS.get(type(processor).__name__) if expressible else None


def _order_index(processor: Any) -> int:
    return _ORDER.index(type(processor).__name__)


def _value(processor: Any, mapping: _Mapping) -> Any:
    value = getattr(processor, mapping.attribute)
    return float(f"{float(value):.7g}") if hasattr(value, "item") else value  # a float32 tensor


def _is_configured(processor: Any, config: Any) -> bool:
    mapping = _mapping_of(processor)
    return mapping is not None and _value(processor, mapping) == getattr(config, mapping.field, None)
