"""MLX: `make_sampler` and `make_logits_processors`, for use in place of mlx-lm's functions of these names.

    from engine_sampler_mlx import make_logits_processors, make_sampler
    from mlx_lm import load, stream_generate

    model, tokenizer = load(path)
    stream_generate(model, tokenizer, prompt, sampler=make_sampler(temp=0.8, min_p=0.05, seed=7),
                    logits_processors=make_logits_processors(repetition_penalty=1.1))

They take mlx arrays, NumPy arrays and torch tensors, and return the same kind:

>>> import numpy as np
>>> logprobs = np.log(np.array([[0.5, 0.3, 0.15, 0.05]], np.float32))
>>> make_sampler()(logprobs).tolist()
[0]
>>> sampler = make_sampler(temp=1.0, top_p=0.6, seed=7)
>>> {int(sampler(logprobs)[0]) for _ in range(50)} == {0, 1}
True
>>> (penalty,) = make_logits_processors(presence_penalty=0.5)
>>> penalty([0, 2, 2], np.zeros((1, 4), np.float32)).tolist()
[[-0.5, 0.0, -0.5, 0.0]]
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from engine_sampler import ParameterError, SamplingParams, process_logits, sample
from engine_sampler.arithmetic import child_seed
from engine_sampler.contract import Param
from engine_sampler.for_bridges import (
    CORE_PARAMS,
    MAX_COUNT,
    array_of,
    dtype_name,
    entries_of,
    instance_of,
    integers_of,
    like,
    not_allowed,
    to_numpy,
)

_SAMPLER_PARAMS = {
    param.name: param
    for param in (
        Param("temp", float, 0.0, low=0, high=1e6),
        Param("top_p", float, 0.0, low=0, high=1),
        Param("min_p", float, 0.0, low=0, high=1),
        Param("min_tokens_to_keep", int, 1, low=1, high=MAX_COUNT),
        Param("top_k", int, 0, low=-1, high=MAX_COUNT),
        Param("xtc_probability", float, 0.0, low=0, high=1),
        Param("xtc_threshold", float, 0.1, low=0, high=0.5),
    )
}
_TOKEN = Param("xtc_special_tokens", int, 0, low=0)


class MlxSampler:
    """A sampler as mlx-lm calls it: logprobs [B, V] in, tokens uint32 [B] out. Built by `make_sampler`.

    seed   64 bits, given or random. Row 0 draws from it, row i from its Philox child i, so that rows of
           one call are independent.
    calls  the number of calls so far, which is the position at which the next call draws. Resetting it,
           to 0 for a new text, repeats the tokens. Speculative decoding samples all rows of a step in
           one call.

    mlx-lm's global random state (`mx.random.seed`) has no effect.
    """

    def __init__(self, stages: Sequence[Mapping[str, Any]], spared: Sequence[int], seed: int) -> None:
        self.seed = seed
        self.calls = 0
        self._stages = stages
        self._spared = list(spared)
        self._rows: list[list[SamplingParams]] = []
        """For each row, the parameters of the stages with the row's seed."""

    def __call__(self, logprobs: Any) -> Any:
        """Draw a token per row of `logprobs` [..., V], float32, float16 or bfloat16: uint32 [...].

        Logits work as well. Raises ValueError for a row with NaN, +inf or only -inf; `calls` then stays
        unchanged.
        """
        array = to_numpy(logprobs)
        if array.ndim < 1 or array.dtype.kind != "f":
            raise not_allowed("logprobs", logprobs, "floats [..., vocab]")
        rows = array.reshape(-1, array.shape[-1])
        self._check_spared(rows.shape[1])
        stages = list(zip(*self._params(len(rows)), strict=True))
        positions = [self.calls] * len(rows)
        for params in stages[:-1]:
            left = process_logits(rows, params, positions=positions)
            if self._spared and params[0].xtc_probability > 0:
                left[:, self._spared] = rows[:, self._spared]
            rows = left
        sampled = sample(rows, stages[-1], positions=positions)
        for i, error in enumerate(sampled.errors):
            if error is not None:
                raise ValueError(f"row {i} of logprobs: {error}")
        self.calls += 1
        return like(logprobs, sampled.token_ids.reshape(array.shape[:-1]), "uint32")

    def _params(self, rows: int) -> list[list[SamplingParams]]:
        for i in range(len(self._rows), rows):
            seed = child_seed(self.seed, i)
            self._rows.append([SamplingParams(**stage, order="mlx", seed=seed) for stage in self._stages])
        return self._rows[:rows]

    def _check_spared(self, vocab: int) -> None:
        if self._spared and max(self._spared) >= vocab:
            raise ParameterError(f"xtc_special_tokens names token {max(self._spared)}; the row has {vocab}")


def make_sampler(
    temp: float = 0.0,
    top_p: float = 0.0,
    min_p: float = 0.0,
    min_tokens_to_keep: int = 1,
    top_k: int = 0,
    xtc_probability: float = 0.0,
    xtc_threshold: float = 0.1,
    xtc_special_tokens: Sequence[int] | None = None,
    seed: int | None = None,
) -> MlxSampler:
    """A sampler with mlx-lm's parameters; `seed` makes its draws repeatable.

    temp 0 chooses the best token and ignores all other parameters. Otherwise top_p, min_p, xtc and top_k
    filter in this order, all but the last before the logprobs are divided by temp.

    top_p               share of the probability mass to keep; 0 and 1 are off.
    min_p               minimum share of the best probability; `min_tokens_to_keep` tokens stay.
    top_k               tokens to keep; 0 and -1 are off.
    xtc_probability     how often all tokens with a probability of at least xtc_threshold except the last
                        of them are removed; `xtc_special_tokens` are never removed. Each row tosses a
                        coin of its own; mlx-lm tosses one for the batch.

    Ties in logprobs are broken by token id: exactly as many as needed stay, the lowest ids first. mlx-lm
    keeps all tokens that tie with the last token of top_p or of xtc, and does not specify which ones top_k
    keeps. Thresholds have the slack of the library's own samplers, 2^-20. Raises `ParameterError`.
    """
    given = {
        "temp": temp, "top_p": top_p, "min_p": min_p, "min_tokens_to_keep": min_tokens_to_keep,
        "top_k": top_k, "xtc_probability": xtc_probability, "xtc_threshold": xtc_threshold,
    }  # fmt: skip
    checked = {name: param.check(given[name]) for name, param in _SAMPLER_PARAMS.items()}
    listed = () if xtc_special_tokens is None else xtc_special_tokens
    spared = [
        _TOKEN.check(token) for token in entries_of("xtc_special_tokens", listed, "a list of token ids")
    ]
    seed = CORE_PARAMS["seed"].check(seed)
    return MlxSampler(_stages(checked, spared), spared, secrets.randbits(64) if seed is None else seed)


def _stages(settings: Mapping[str, Any], spared: Sequence[int]) -> list[dict[str, Any]]:
    """The chain as one stage, or as several stages if a setting applies to one filter only."""
    if settings["temp"] == 0:
        return [{"temperature": 0.0}]
    keep = settings["min_tokens_to_keep"]
    filters: list[dict[str, Any]] = []
    if 0 < settings["top_p"] < 1:
        filters.append({"top_p": settings["top_p"]})
    if settings["min_p"]:
        filters.append({"min_p": settings["min_p"], "min_keep": keep})
    if settings["xtc_probability"]:
        filters.append({name: settings[name] for name in ("xtc_probability", "xtc_threshold")})
    stages = [*filters, {"top_k": settings["top_k"], "temperature": settings["temp"]}]
    in_stages = keep > 1 or spared
    return stages if in_stages else [{name: value for stage in stages for name, value in stage.items()}]


class MlxLogitsProcessor:
    """A processor as mlx-lm calls it: (tokens, logits [B, V]) in, logits out. Built by
    `make_logits_processors`.

    `params` are the parameters it applies; `recent` selects the tokens it considers.
    """

    def __init__(self, params: SamplingParams, recent: slice) -> None:
        self.params = params
        self.recent = recent

    def __call__(self, tokens: Any, logits: Any) -> Any:
        """New logits in the library and dtype of `logits` [B, V]; `tokens` [n] belong to every row.

        The inputs are never written to. A row with NaN or +inf is returned as all NaN.
        """
        if not getattr(tokens, "shape", None):
            tokens = np.array(integers_of("tokens", tokens), np.int64)
        history = array_of("tokens", to_numpy(tokens[self.recent]), "iu", 1, "integers [length]").tolist()
        rows = array_of("logits", to_numpy(logits), "f", 2, "floats [rows, vocab]")
        processed = process_logits(rows, self.params, prompt_token_ids=[history] * len(rows))
        return like(logits, processed, dtype_name(logits))


def make_logits_processors(
    logit_bias: Mapping[int, float] | None = None,
    repetition_penalty: float | None = None,
    repetition_context_size: int | None = 20,
    presence_penalty: float | None = None,
    presence_context_size: int | None = 20,
    frequency_penalty: float | None = None,
    frequency_context_size: int | None = 20,
) -> list[MlxLogitsProcessor]:
    """Processors with mlx-lm's parameters, in its order: bias, repetition, presence, frequency.

    logit_bias           {token id: added value}; -inf removes the token.
    repetition_penalty   above 0: logits above 0 of recent tokens are divided by it, others multiplied.
    presence_penalty     subtracted once from each recent token.
    frequency_penalty    subtracted for each occurrence of a token, in one subtraction; mlx-lm subtracts
                         once per occurrence.
    *_context_size       how many of the last tokens of prompt and output are recent; 0 and None mean all
                         of them, as 0 does in mlx-lm.

    None and 0 are off. A removed token stays removed. Raises `ParameterError`.
    """
    processors = []
    if logit_bias is not None and instance_of(Mapping, "logit_bias", logit_bias, "{token id: value}"):
        processors.append(MlxLogitsProcessor(SamplingParams(logit_bias=logit_bias), slice(0)))
    for name, penalty, context_size in (
        ("repetition", repetition_penalty, repetition_context_size),
        ("presence", presence_penalty, presence_context_size),
        ("frequency", frequency_penalty, frequency_context_size),
    ):
        size = Param(f"{name}_context_size", int, None, low=0).check(context_size)
        if penalty is not None and Param(f"{name}_penalty", float, None).check(penalty):
            given: dict[str, Any] = {f"{name}_penalty": penalty, "penalty_scope": "all"}
            processors.append(MlxLogitsProcessor(SamplingParams(**given), slice(-(size or 0), None)))
    return processors
