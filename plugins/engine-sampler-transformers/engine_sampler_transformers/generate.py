"""`custom_generate`: a whole `generate()` of transformers on a `Scheduler`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from engine_sampler import (
    ParameterError,
    Record,
    RequestLimits,
    SamplingParams,
    Scheduler,
    StepResult,
    Tokenizer,
)
from engine_sampler.arithmetic import child_seed
from engine_sampler.contract import Backend, token_rows
from engine_sampler.for_backends import RequestId
from engine_sampler.for_bridges import dtype_name, like, tokenizer_given_as

from .caller import arguments_of_generate
from .config import check_mode, map_criteria, map_processors, without_configured
from .following import grammars_of_rows, listed, spread, tokenizer_of
from .outputs import GenerateOutputs

if TYPE_CHECKING:
    import torch  # type: ignore[import-not-found]


def custom_generate(
    model: Any,
    input_ids: torch.LongTensor,
    logits_processor: Any,
    stopping_criteria: Any,
    generation_config: Any,
    sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
    sampling_seed: int | None = None,
    sampling_grammar: Any = None,
    sampling_tokenizer: Any = None,
    sampling_streamer: Any = None,
    sampling_backend: str | Backend = "auto",
    **model_kwargs: Any,
) -> Any:
    """Decode on our scheduler: `model.generate(**inputs, custom_generate=custom_generate, …)`.

    `generate` passes the first five arguments and the model's; the others are keywords of `generate`:

    sampling_params     one `SamplingParams` for all rows, or one per prompt. The temperature, top_p,
                        repetition_penalty and the like in `generation_config` are then ignored; its limits
                        apply to rows without max_tokens or max_time.
    sampling_seed       the seed, if `generation_config` defines the sampling.
    sampling_grammar    as in `Scheduler.add`, one for all rows or a list with one per prompt.
    sampling_tokenizer  a `Tokenizer` or a fast tokenizer of transformers, for stop strings, grammars and
                        other parameters given as text. (`generate` does not pass `tokenizer=` on.)
    sampling_streamer   gets the prompts, each step's tokens and the end, as `streamer` does.
    sampling_backend    as in `Scheduler`.

    Without sampling_params the prepared processors become parameters under the order "transformers", and
    without do_sample the best token is chosen. Processors without an equivalent parameter, including the
    caller's, run first and unchanged; the caller's stopping criteria are called after each step.

    The rows that `num_return_sequences` makes of a prompt draw with children of its seed, as in
    `Scheduler.add_group`. Padding on the left, by `attention_mask`, belongs to no history. A row that has
    ended gets pad_token_id (else the first EOS id, else 0) while others continue. A row that ends with an
    error is reported by a warning.

    Returns int64 [rows, length], or with return_dict_in_generate transformers' output object. Its `scores`
    are those after the chain and before the choice, as criteria and `compute_transition_scores` expect them;
    temperature 0 is part of the choice. It also has `records` (a `Record` per row) and `steps` (the
    `StepResult` of every step, whose request ids are row numbers).

    Raises `ParameterError`, before the model runs, for everything that `SamplingParams` and `Scheduler.add`
    refuse. A setting that requests beams, an assistant or another generation mode is named in one.
    """
    arguments = arguments_of_generate()
    check_mode(generation_config, arguments)
    streamer = _streamer(arguments.get("streamer"), sampling_streamer, input_ids)
    columns = input_ids.shape[1]
    limits = map_criteria(stopping_criteria, columns)
    eos = limits.params.pop("eos_token_ids", [])
    if sampling_params is None:
        greedy = {} if generation_config.do_sample else {"temperature": 0.0}
        mapped = map_processors(logits_processor, columns)
        sampling_params = SamplingParams(**{**mapped.params, **greedy}, seed=sampling_seed)
        processors = mapped.rest
    elif sampling_seed is not None:
        raise ParameterError(
            f"sampling_seed={sampling_seed} is not allowed with sampling_params: give seed there"
        )
    else:
        processors = without_configured(logits_processor, generation_config)
    params = _row_params(
        sampling_params, len(input_ids), generation_config.num_return_sequences or 1, limits.params
    )
    _check_cache_size(model_kwargs.get("past_key_values"), limits.params.get("max_tokens"), params)
    scheduler = _scheduler(model, tokenizer_of(sampling_tokenizer), eos, sampling_backend)
    grammars = grammars_of_rows(sampling_grammar, len(params))
    prompts = _prompts(model, input_ids, model_kwargs)
    with tokenizer_given_as("sampling_tokenizer"):
        for row, prompt in enumerate(prompts):
            scheduler.add(params[row], prompt, request_id=row, grammar=grammars[row])
    loop = _Loop(
        model,
        scheduler,
        processors=type(logits_processor)(processors),
        criteria=type(stopping_criteria)(limits.rest),
        padding=_padding(generation_config, eos),
        streamer=streamer,
    )
    return loop.run(input_ids, generation_config, model_kwargs)


class _Loop:
    """The loop of forward pass, processors, scheduler and criteria, until every row has ended."""

    def __init__(
        self, model: Any, scheduler: Scheduler, *, processors: Any, criteria: Any, padding: int, streamer: Any
    ) -> None:
        self._model = model
        self._scheduler = scheduler
        self._processors = processors
        self._criteria = criteria
        self._padding = padding
        self._streamer = streamer
        self._ended: dict[RequestId, Record] = {}
        """The records of rows that the caller's criteria have ended."""

    def run(self, input_ids: Any, config: Any, model_kwargs: dict[str, Any]) -> Any:
        """Generate after `input_ids` [rows, length]; returns the result of `generate`."""
        import torch

        model, scheduler, rows = self._model, self._scheduler, len(input_ids)
        is_encoder_decoder = bool(model.config.is_encoder_decoder)
        collected = GenerateOutputs(config, is_encoder_decoder)
        outputs = model._prefill(input_ids, config, model_kwargs)
        while True:
            scheduler.prepare()  # on a GPU the forward pass is still running
            model_kwargs = model._update_model_kwargs_for_generation(
                outputs, model_kwargs, is_encoder_decoder=is_encoder_decoder
            )
            logits = outputs.logits[:, -1].to(copy=True, dtype=torch.float32, device=input_ids.device)
            collected.add_logits(outputs, logits)
            scores = self._processors(input_ids, logits)
            live = scheduler.request_ids
            processed_scores = self._processed_scores(scores, live) if collected.scores is not None else None
            result = scheduler.step(scores if len(live) == rows else scores[live], live)
            collected.add_step(result, processed_scores)
            input_ids = torch.cat([input_ids, self._tokens(result, live, input_ids)[:, None]], dim=-1)
            self._apply_criteria(input_ids, collected.scores)
            if not scheduler.request_ids:
                break
            next_length = 1 if model_kwargs.get("use_cache") else None
            inputs = model.prepare_inputs_for_generation(
                input_ids, next_sequence_length=next_length, **model_kwargs
            )
            outputs = model(**inputs, return_dict=True)
        if self._streamer is not None:
            self._streamer.end()
        return collected.finish(input_ids, self._records(rows), model_kwargs)

    def _tokens(self, result: StepResult, live: list[RequestId], input_ids: Any) -> Any:
        """The new token of every row, where `input_ids` are: the drawn ones, which may be there already, for
        the rows `live`, and padding."""
        import torch

        def padded(drawn: Any) -> Any:
            drawn = drawn.masked_fill(drawn < 0, self._padding).to(input_ids.dtype)
            if len(live) == len(input_ids):
                return drawn
            tokens = torch.full((len(input_ids),), self._padding, dtype=drawn.dtype, device=drawn.device)
            tokens[live] = drawn
            return tokens

        on_host = torch.from_numpy(result.token_ids)
        if self._streamer is not None:
            self._streamer.put(padded(on_host))
        drawn = on_host if result.token_ids_on_device is None else result.token_ids_on_device
        return padded(drawn.to(input_ids.device))

    def _processed_scores(self, scores: Any, live: list[RequestId]) -> Any:
        """`scores` after the chains; rows that have ended stay unchanged."""
        import torch

        rows = self._scheduler.process(scores[live], live, before_choice=True, on_device=True)
        processed = like(scores, rows, dtype_name(scores))
        processed_scores = scores.clone()
        processed_scores[live] = -torch.inf
        processed_scores[live, : processed.shape[1]] = processed
        return processed_scores

    def _apply_criteria(self, input_ids: Any, scores: Any) -> None:
        """End the rows that are done by the caller's criteria."""
        if not self._criteria:
            return
        done = self._criteria(input_ids, scores).cpu()
        for row in self._scheduler.request_ids:
            if done[row]:
                record = self._scheduler.remove(row)
                self._ended[row] = replace(record, finish_reason="stop", stop_reason="stopping_criteria")

    def _records(self, rows: int) -> list[Record]:
        """The record of each row, with a warning for every error."""
        records = [self._ended.get(row) or self._scheduler.record(row) for row in range(rows)]
        for record in records:
            if record.error is not None:
                warnings.warn(f"row {record.request_id} ended with an error: {record.error}", stacklevel=4)
        return records


def _streamer(streamer: Any, sampling_streamer: Any, input_ids: Any) -> Any:
    """The streamer for the tokens; it has had the prompts, which `generate` gives to its own."""
    if sampling_streamer is None:
        return streamer
    if streamer is not None:
        raise ParameterError("sampling_streamer is not allowed with streamer: one of them")
    sampling_streamer.put(input_ids.cpu())
    return sampling_streamer


def _row_params(
    params: SamplingParams | Sequence[SamplingParams], rows: int, siblings: int, limits: Mapping[str, Any]
) -> list[SamplingParams]:
    """The settings of every row: `limits` replace missing ones, and siblings get seeds of their own."""
    row_params = []
    for row, own in enumerate(spread("params", listed(params), rows)):
        if (own.best_of or own.n) > 1:
            raise ParameterError(f"n={own.n}, best_of={own.best_of} is not allowed: use num_return_sequences")
        changes = {name: value for name, value in limits.items() if own[name] is None}
        if own.seed is not None and row % siblings:
            changes["seed"] = child_seed(own.seed, row % siblings)
        row_params.append(own.replace(**changes))
    return row_params


def _check_cache_size(cache: Any, limit: int | None, params: Sequence[SamplingParams]) -> None:
    """Raise `ParameterError` if a row may outgrow the fixed-size cache that `generate` has allocated."""
    from transformers import StaticCache  # type: ignore[import-not-found]

    longest = max((own.max_tokens or 0 for own in params), default=0)
    if isinstance(cache, StaticCache) and limit is not None and longest > limit:
        raise ParameterError(
            f"max_tokens={longest} is not allowed: the cache is allocated for max_new_tokens={limit}"
        )


def _scheduler(
    model: Any, tokenizer: Tokenizer | None, eos: Sequence[int], backend: str | Backend
) -> Scheduler:
    size = model.config.get_text_config(decoder=True).vocab_size
    if tokenizer is not None:
        size = min(size, len(tokenizer))
    return Scheduler(
        size,
        tokenizer,
        eos_token_ids=[i for i in eos if 0 <= i < size],
        backend=backend,
        limits=RequestLimits.none(),  # the caller's own program writes the parameters
        postpone=False,
    )


def _prompts(model: Any, input_ids: Any, model_kwargs: dict[str, Any]) -> list[list[int]]:
    """The tokens of every row, without padding."""
    key = "decoder_attention_mask" if model.config.is_encoder_decoder else "attention_mask"
    mask = model_kwargs.get(key)
    rows = token_rows(input_ids)
    if mask is None or tuple(mask.shape) != rows.shape:
        return rows.tolist()
    return [row[attended].tolist() for row, attended in zip(rows, token_rows(mask.long()) != 0, strict=True)]


def _padding(config: Any, eos: Sequence[int]) -> int:
    """The token that pads a row after its end."""
    return int(config.pad_token_id if config.pad_token_id is not None else next(iter(eos), 0))
