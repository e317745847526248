"""What `generate` has prepared, read as parameters: its processors, its criteria, its configuration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...contract import ParameterError


class _Known(NamedTuple):
    """A processor of transformers: where its value is, and what it is called there and here.

    param  None where ours differs: then it stays as it is.
    """

    attribute: str
    field: str
    param: str | None


_KNOWN = {
    "RepetitionPenaltyLogitsProcessor": _Known("penalty", "repetition_penalty", "repetition_penalty"),
    "NoRepeatNGramLogitsProcessor": _Known("ngram_size", "no_repeat_ngram_size", "no_repeat_ngram_size"),
    "NoBadWordsLogitsProcessor": _Known("bad_word_ids", "bad_words_ids", "bad_words"),
    "MinLengthLogitsProcessor": _Known("min_length", "min_length", "min_tokens"),
    "MinNewTokensLengthLogitsProcessor": _Known("min_new_tokens", "min_new_tokens", "min_tokens"),
    "TemperatureLogitsWarper": _Known("temperature", "temperature", "temperature"),
    "TopHLogitsWarper": _Known("top_h", "top_h", None),  # of its 100 best tokens; ours of all
    "TopKLogitsWarper": _Known("top_k", "top_k", "top_k"),
    "TopPLogitsWarper": _Known("top_p", "top_p", "top_p"),
    "MinPLogitsWarper": _Known("min_p", "min_p", "min_p"),
    "TypicalLogitsWarper": _Known("mass", "typical_p", "typical_p"),
    "EpsilonLogitsWarper": _Known("epsilon", "epsilon_cutoff", "epsilon_cutoff"),
    "EtaLogitsWarper": _Known("epsilon", "eta_cutoff", "eta_cutoff"),
}
"""In the order in which `generate` runs them, which is that of our order "transformers"."""

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
}
"""Settings that ask for another way to generate than one token per row and step, and what is neutral
beside None. Beams: this is the place where they are refused."""


def check_mode(config: Any) -> None:
    """Raise `ParameterError` for settings of a `GenerationConfig` that no scheduler's loop can follow."""
    for field, neutral in _REFUSED.items():
        value = getattr(config, field, None)
        if value is not None and value not in neutral:
            allowed = " or ".join(["None", *map(str, neutral)])
            raise ParameterError(f"{field}={value!r} is not allowed with custom_generate: {allowed}")


class Mapped(NamedTuple):
    """What became of prepared processors and criteria.

    params  parameters that say the same.
    rest    what has no parameter, in order: it runs as it is.
    """

    params: dict[str, Any]
    rest: list[Any]


def map_processors(processors: Sequence[Any], columns: int) -> Mapped:
    """Read processors as parameters under our order "transformers".

    Only those at the end of the list can be, where nothing that must run as it is comes behind them, and
    only in their usual order. columns: those of the prompts.
    """
    params: dict[str, Any] = {"order": "transformers"}
    rest = list(processors)
    place = len(_KNOWN)
    while rest:
        processor = rest[-1]
        if not _changes_nothing(processor):
            known = _known(processor)
            if known is None or known.param is None or _place(processor) >= place:
                break
            place = _place(processor)
            value = _value(processor, known)
            if known.field == "min_length":
                value = max(0, value - columns, params.get("min_tokens", 0))
            params[known.param] = value
        rest.pop()
    return Mapped(params, rest)


def without_configured(processors: Sequence[Any], config: Any) -> list[Any]:
    """Processors but those that have a parameter of ours and the value which `config` says."""
    return [p for p in processors if not (_changes_nothing(p) or _is_configured(p, config))]


def map_criteria(criteria: Sequence[Any], columns: int) -> Mapped:
    """Read limits as parameters, and EOS ids as `eos_token_ids`. columns: those of the prompts."""
    params: dict[str, Any] = {}
    rest = []
    for criterion in criteria:
        name = type(criterion).__name__ if _is_theirs(criterion) else ""
        if name == "MaxLengthCriteria":
            params["max_tokens"] = max(1, criterion.max_length - columns)
        elif name == "MaxTimeCriteria":
            params["max_time"] = criterion.max_time
        elif name == "EosTokenCriteria":
            params["eos_token_ids"] = [int(i) for i in criterion.eos_token_id]
        else:
            rest.append(criterion)
    return Mapped(params, rest)


def _is_theirs(part: Any) -> bool:
    return type(part).__module__.startswith("transformers.")


def _changes_nothing(processor: Any) -> bool:
    """Whether `processor` adds the same to all of a row."""
    return _is_theirs(processor) and type(processor).__name__ == "LogitNormalization"


def _known(processor: Any) -> _Known | None:
    """How to read `processor`; None where no parameter of ours can say all that it does."""
    plain = (
        _is_theirs(processor)
        and getattr(processor, "min_tokens_to_keep", 1) == 1
        and getattr(processor, "filter_value", -math.inf) == -math.inf
        and not isinstance(getattr(processor, "prompt_ignore_length", None), int)
    )
    return _KNOWN.get(type(processor).__name__) if plain else None


def _place(processor: Any) -> int:
    return list(_KNOWN).index(type(processor).__name__)


def _value(processor: Any, known: _Known) -> Any:
    value = getattr(processor, known.attribute)
    return float(f"{float(value):.7g}") if hasattr(value, "item") else value  # a float32 tensor


def _is_configured(processor: Any, config: Any) -> bool:
    known = _known(processor)
    return known is not None and _value(processor, known) == getattr(config, known.field, None)
