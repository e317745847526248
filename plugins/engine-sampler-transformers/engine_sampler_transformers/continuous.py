"""`continuous_batching`: our draws inside transformers' continuous batching, with the parameters, the history
and the grammar of each request."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from engine_sampler import ParameterError, RowSampler, SamplingParams
from engine_sampler.arithmetic import child_seed
from engine_sampler.contract import Vocabulary, allocate_bitmask
from engine_sampler.for_backends import INTERRUPTIONS, structured_in, text_of
from engine_sampler.for_bridges import (
    GRAMMAR_OPTIONS,
    STRUCTURED_PARAMS,
    BridgeSampler,
    EngineRequest,
    child_seed_of,
    constraint_of,
    instance_of,
    matcher_of,
    packed,
    tokens_beside,
)
from engine_sampler.stateless import fill_bitmasks

from .caller import PEER
from .config import map_processors
from .following import tokenizer_of

if TYPE_CHECKING:
    import torch  # type: ignore[import-not-found]

logger = logging.getLogger("engine_sampler")

_OF_GRAMMARS = {*STRUCTURED_PARAMS, *GRAMMAR_OPTIONS}

ParamsOfRequest: TypeAlias = "SamplingParams | Callable[[str], SamplingParams]"


@contextmanager
def continuous_batching(
    model: Any,
    params: ParamsOfRequest | None = None,
    *,
    tokenizer: Any = None,
    seed: int | None = None,
) -> Iterator[None]:
    """Let managers that `model` makes within this block draw here: `generate_batch`,
    `init_continuous_batching`, and servers that use them.

        with continuous_batching(model, SamplingParams(min_p=0.1, seed=7), tokenizer=tokenizer):
            outputs = model.generate_batch(inputs, generation_config=config)

    params     for requests without their own, or a function of a request's id. Default: what the generation
               configuration says, under the order "transformers".
    tokenizer  a `Tokenizer` or a fast tokenizer of transformers, for parameters given as text, and grammars.
    seed       of requests without a seed: theirs follow from it and their ids. Default: a random one.

    `manager.add_request(ids, sampling_params=SamplingParams(…))` gives a request its own. A token depends on
    its request, seed and position, not on the batch. transformers ends requests, so parameters such as
    `max_tokens` and `stop` are not allowed. Without the block, everything is transformers' own.

    Raises `ParameterError` for parameters that are not allowed; a request that brings some ends at once.
    """
    if isinstance(params, SamplingParams):
        RowSampler.check(without_grammar(params))
    name = "init_continuous_batching"
    original, outer = getattr(model, name), vars(model).get(name)
    read = tokenizer_of(tokenizer)
    base = secrets.randbits(64) if seed is None else seed

    def init_with_ours(*arguments: Any, **keywords: Any) -> Any:
        manager = original(*arguments, **keywords)
        if manager.is_running():  # one that is kept from an earlier call
            processors = manager.logit_processor.logits_processor
            if not any(isinstance(processor, ContinuousLogitsProcessor) for processor in processors):
                raise RuntimeError("a manager is kept that draws as transformers does: destroy it first")
            return manager
        configuration = manager.generation_config
        mapped = map_processors(model._get_logits_processor(configuration), 0)
        ours = ContinuousLogitsProcessor(
            _configured(mapped.params, configuration) if params is None else params,
            read,
            eos_token_ids=_eos_of(configuration),
            seed=base,
        )
        manager.logit_processor = _list_of([*mapped.rest, ours], manager)
        return manager

    setattr(model, name, init_with_ours)
    try:
        yield
    finally:
        delattr(model, name) if outer is None else setattr(model, name, outer)


def _configured(params: dict[str, Any], configuration: Any) -> SamplingParams:
    """What a generation configuration says, of which `params` are the processors."""
    do_sample = getattr(configuration, "do_sample", True)
    return SamplingParams(**params) if do_sample else SamplingParams(**{**params, "temperature": 0.0})


def _list_of(processors: Sequence[Any], manager: Any) -> Any:
    """transformers' list of processors, the last of which is ours: a tensor of arguments more, for which it
    makes room only where it has converted a processor itself."""
    from transformers import LogitsProcessorList  # type: ignore[import-not-found]

    settings = manager.continuous_batching_config
    listed = type(manager.logit_processor)(
        LogitsProcessorList(processors),
        per_request_processors=settings.per_request_processors,
        drop_unsupported_processors=settings.drop_unsupported_processors,
    )
    listed.tensors_required += 1
    return listed


class ContinuousLogitsProcessor:
    """A `ContinuousBatchingLogitsProcessor` of transformers that leaves one token of each row: the drawn one.

    params         for requests whose `sampling_params` say nothing else, or a function of a request's id.
    tokenizer      as in `continuous_batching`, a `Tokenizer`.
    eos_token_ids  what `min_tokens` and `ignore_eos` mask, and what may follow a grammar's end.
    seed           see `continuous_batching`.

    A faulty row gets its likeliest token, and one whose parameters or grammar are not allowed can only end:
    both are logged, since a processor cannot end a request.
    """

    supported_kwargs: dict[str, type] = {"sampling_params": SamplingParams}
    ignored_kwargs: tuple[str, ...] = ()

    def __init__(
        self,
        params: ParamsOfRequest,
        tokenizer: Any = None,
        *,
        eos_token_ids: Sequence[int] = (),
        seed: int = 0,
    ) -> None:
        with PEER.compared():
            from transformers.generation.continuous_batching.cb_logits_processors import (  # type: ignore[import-not-found]
                ContinuousBatchingLogitsProcessor,
            )
        ContinuousBatchingLogitsProcessor.register(type(self))
        self._params, self._tokenizer, self._seed = params, tokenizer, seed
        self._eos = tuple(eos_token_ids or (() if tokenizer is None else tokenizer.eos_token_ids))
        self._bridge = BridgeSampler("transformers", tokenizer, eos_token_ids=self._eos, limits=None)
        self._rows: dict[str, _Row] = {}

    def fill_defaults(self, int32_tensor: torch.Tensor) -> None:
        """Nothing goes through the tensor of arguments."""
        int32_tensor.zero_()

    def prepare_tensor_args(self, requests_with_new_token: Sequence[Any]) -> torch.Tensor:
        """Take the histories of the requests whose rows come next."""
        import torch

        states = [request.state for request in requests_with_new_token]
        rows = {s.request_id: self._rows.get(s.request_id) or self._new_row(s) for s in states}
        for state in states:
            rows[state.request_id].follow(state)
        self._rows = rows
        return torch.zeros(len(rows), dtype=torch.int32)

    def __call__(self, scores: torch.Tensor, tensor_arg: torch.Tensor) -> torch.Tensor:
        """The scores [rows, width] with one token in each row that is a request's."""
        import torch

        if scores.is_cuda and torch.cuda.is_current_stream_capturing():
            raise RuntimeError(
                "engine_sampler draws on the host: ContinuousBatchingConfig(use_cuda_graph=False)"
            )
        rows, width = list(self._rows.values()), int(scores.shape[1])
        size = width if self._tokenizer is None else min(width, len(self._tokenizer))
        own = scores[: len(rows), :size]
        drawn = self._bridge.draw(own, rows, mask=self._mask(rows, size))
        out = scores.clone()
        for i, (row, token_id) in enumerate(zip(rows, tokens_beside(drawn, own).tolist(), strict=True)):
            out[i] = -torch.inf
            out[i, token_id] = 0.0
            row.output.append(token_id)
        return out

    # --- inside ----------------------------------------------------------------------------------

    def _new_row(self, state: Any) -> _Row:
        params = state.logit_processor_kwargs.get("sampling_params")
        try:
            if params is None:
                params = self._params(state.request_id) if callable(self._params) else self._params
            return _Row(
                state.request_id,
                instance_of(SamplingParams, "sampling_params", params, "a SamplingParams"),
                self._seed,
            )
        except INTERRUPTIONS:
            raise
        except Exception as error:  # of the function: the other requests go on
            logger.error("request %s ends: %s", state.request_id, text_of(error))
            return _Row(state.request_id, SamplingParams(), self._seed, is_allowed=False)

    def _mask(self, rows: Sequence[_Row], size: int) -> np.ndarray | None:
        """int32 [rows, words], what grammars allow; None without any."""
        masked = {i: row for i, row in enumerate(rows) if row.is_masked}
        if not masked:
            return None
        bitmask = allocate_bitmask(len(rows), size)
        matchers = {i: row.matcher(self._vocabulary(row, size)) for i, row in masked.items()}
        going = {i: m for i, m in matchers.items() if m is not None and not m.is_terminated()}
        faults = fill_bitmasks(list(going.values()), bitmask, list(going))
        for i, row in masked.items():
            if i not in going or i in faults:
                flags = np.zeros((1, size), bool)
                flags[0, [t for t in self._vocabulary(row, size).eos_token_ids if t < size]] = True
                bitmask[i] = packed(flags, 1, size)
        for i, fault in faults.items():
            logger.error("%s: %s", rows[i].name, fault)
        return bitmask

    def _vocabulary(self, row: _Row, size: int) -> Vocabulary:
        """The tokens as a request has them, which may have ends of its own."""
        return Vocabulary(size, row.eos_token_ids or self._eos, self._tokenizer)


class _Row(EngineRequest):
    """A request of transformers' continuous batching. Raises `ParameterError` for parameters of more than a
    draw and its grammar.

    params      what concerns a draw.
    is_allowed  whether it can have its parameters; it can only end if not.
    is_masked   whether its row has a mask.
    output      its tokens, those that transformers has not seen yet included.
    """

    output: list[int]

    def __init__(self, key: str, params: SamplingParams, seed: int, *, is_allowed: bool = True) -> None:
        sibling = int(key.rpartition("__child#")[2]) + 1 if "__child#" in key else 0
        own = child_seed_of(seed, key) if params.seed is None else child_seed(params.seed, sibling)
        drawing = without_grammar(params)
        RowSampler.check(drawing)
        super().__init__(drawing.replace(seed=own), output=[])
        self.name, self._asked, self.is_allowed = f"request {key}", params, is_allowed
        self.is_masked = bool(structured_in(params)) or not is_allowed
        self.eos_token_ids: tuple[int, ...] = ()
        self._state: Any = None
        self._before = 0
        self._matcher: Any = None
        self._accepted = 0

    def follow(self, state: Any) -> None:
        """Take over the tokens of a request, unless they are those that are known."""
        generated, known = state.generated_tokens, self.output
        behind = len(known) - self._before - len(generated)
        is_known = state is self._state and behind in (0, 1)  # 1: the last token is still on its way
        if is_known and (not generated or generated[-1] == known[self._before + len(generated) - 1]):
            return
        prompt_length = state._true_initial_tokens or len(state.initial_tokens)
        earlier = state.initial_tokens[prompt_length:]  # before it was put off
        self._state, self._before = state, len(earlier)
        self.eos_token_ids = tuple(sorted(state._eos_token_ids))
        self.begin(state.initial_tokens[:prompt_length], [*earlier, *generated])
        self._matcher, self._accepted = None, 0

    def matcher(self, vocabulary: Vocabulary) -> Any:
        """The matcher of its grammar at the end of its output; None if it can only end there."""
        if not self.is_allowed:
            return None
        if self._matcher is None:
            try:
                self._matcher = matcher_of(constraint_of(self._asked, vocabulary), vocabulary)
            except ParameterError as error:
                logger.error("%s ends: %s", self.name, error)
                self.is_allowed = False
                return None
        for token_id in self.output[self._accepted :]:
            if self._matcher.is_terminated() or not self._matcher.accept(token_id):
                return None
        self._accepted = len(self.output)
        return self._matcher


def without_grammar(params: SamplingParams) -> SamplingParams:
    """`params` as rows have them, whose masks are given."""
    return SamplingParams(**{n: params[n] for n in params.given if n not in _OF_GRAMMARS})


def _eos_of(configuration: Any) -> list[int]:
    ids = configuration.eos_token_id
    listed = [ids] if isinstance(ids, int) else [] if ids is None else [int(i) for i in ids]
    return [token_id for token_id in listed if token_id >= 0]
