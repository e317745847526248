"""Our chain and our criteria as callables for llama-cpp-python."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from engine_sampler import Logprobs, Record, RequestLimits, SamplingParams, Scheduler, Tokenizer
from engine_sampler.contract import Backend
from engine_sampler.for_backends import RequestId
from engine_sampler.for_bridges import array_of, check_tokenizer, instance_of

from .completions import DirectSampler, KnownIds
from .refusals import OWN_GRAMMAR, SoleProcessors, refuse_own_grammar, samplers_after
from .responses import with_text
from .vocabulary import ends_inside_character, llama_of

logger = logging.getLogger("engine_sampler")

_REMOVED = np.float32(-1e12)
"""The logit of all tokens but the drawn one, which no later sampler chooses, whatever its temperature. It is
not −inf: a grammar of llama-cpp-python's own that refuses the drawn token would find no other, and end the
process."""


_BEST_TOKEN = [b"?penalties", b"greedy"]
"""llama.cpp's samplers for the best token; "?" means that they are off."""

_MISSING = 3
"""The most bytes that a character may lack, and so the most tokens that bring them."""


def neutral_settings() -> dict[str, Any]:
    """The keywords of `Llama.create_completion` and `create_chat_completion` that switch off all of
    llama-cpp-python's own samplers, which leaves a greedy choice."""
    return {
        "temperature": 0.0,
        "top_k": 0,
        "top_p": 1.0,
        "min_p": 0.0,
        "typical_p": 1.0,
        "repeat_penalty": 1.0,
        "frequency_penalty": 0.0,
        "presence_penalty": 0.0,
        "mirostat_mode": 0,
    }


class _Follower:
    """One request of a scheduler, included in step with the ids that llama-cpp-python passes in.

    Settings are checked at construction, by adding a request and removing it again: llama-cpp-python only
    prints exceptions raised by its callbacks.
    """

    def __init__(
        self,
        params: SamplingParams,
        tokenizer: Tokenizer | None = None,
        *,
        vocab_size: int | None = None,
        eos_token_ids: Sequence[int] = (),
        grammar: Any = None,
        stopping_criteria: Sequence[Callable[..., Any]] = (),
        backend: str | Backend = "auto",
    ) -> None:
        instance_of(SamplingParams, "params", params, "a SamplingParams")
        check_tokenizer(tokenizer)
        size = vocab_size if tokenizer is None else len(tokenizer)
        if size is None:
            raise ValueError(f"{type(self).__name__} needs a tokenizer or vocab_size")
        self.params = params
        self.scheduler = Scheduler(
            size,
            tokenizer,
            eos_token_ids=eos_token_ids,
            backend=backend,
            limits=RequestLimits.none(),  # the caller's own program writes the parameters
            postpone=False,
        )
        self._grammar = grammar
        self._criteria = stopping_criteria
        self._request: RequestId | None = None
        self.reset()
        self.scheduler.remove(self._add(()))

    @property
    def record(self) -> Record | None:
        """The completion's record (seed, text, finish and stop reason); None before the first call."""
        return None if self._request is None else self.scheduler.record(self._request)

    def reset(self) -> None:
        """Make the next call the first of a new completion, even if its prompt is the last one's text."""
        if self._request is not None:
            self.scheduler.remove(self._request)
        self._request = None
        self._known = KnownIds()
        """Prompt and output, as llama-cpp-python has them."""
        self._prompt_length = 0

    def _add(self, prompt: Sequence[int], output: Sequence[int] = (), **changes: Any) -> RequestId:
        is_matcher = hasattr(self._grammar, "fill_bitmask")
        return self.scheduler.add(
            self.params.replace(**changes) if changes else self.params,
            prompt,
            output_token_ids=output,
            grammar=self._grammar.fork() if is_matcher else self._grammar,
            stopping_criteria=self._criteria,
        )

    def _begin(self, prompt: np.ndarray) -> None:
        """Replace the request with a new one."""
        request = self._add(prompt.tolist())
        self.reset()
        self._request, self._known, self._prompt_length = request, KnownIds(prompt), len(prompt)

    @property
    def _finished(self) -> bool:
        return self._request not in self.scheduler.request_ids


class LogitsProcessor(_Follower):
    """One whole request, draw included, as a `logits_processor` of llama-cpp-python.

    It draws the token itself and removes all others: 0 for the drawn token, −1e12 for the rest. Any later
    sampler of llama-cpp-python must choose it, and llama-cpp-python's `seed` has no effect. So the tokens are
    those that a `Scheduler` draws from the same logits with the same seed.

        llm = llama_cpp.Llama("model.gguf")
        processor = LogitsProcessor(SamplingParams(top_k=40, xtc_probability=0.5, seed=7), tokenizer_of(llm))
        llm.create_completion("Once upon a time", **processor.settings)

    params     n and best_of must be 1.
    tokenizer  for parameters given as text, and for EOS; alternatively vocab_size and eos_token_ids.
    grammar, stopping_criteria  as for `Scheduler.add`.

    Called as fn(input_ids intc [L], scores float32 [V]) -> float32 [V]; `scores` is only read:

        >>> processor = LogitsProcessor(SamplingParams(temperature=0), vocab_size=3)
        >>> processor(np.array([0, 2]), np.array([1, 3, 2], np.float32))
        array([-1.e+12,  0.e+00, -1.e+12], dtype=float32)

    With `settings` as they are and the tokenizer of `tokenizer_of`, that happens for the first token only.
    From then on, the processor stands in for llama-cpp-python's samplers, which would leave its token anyway,
    and reads the logits where llama.cpp has them. `logprobs` has those that `params` ask for.

    A call whose ids are not those of the completion so far begins a new one, so an object serves one
    completion at a time. Once the request has ended, only EOS is left, which ends the completion. `record`
    holds the reason, and the error after a faulty row, which is also logged; llama-cpp-python's finish_reason
    is then "stop". With `stopping_criteria=processor.stopped`, `create_completion` raises the error;
    a vocabulary without EOS always needs it, and `settings` then holds it. Not for use with a `draft_model`:
    llama-cpp-python shows processors its drafts as if they were accepted.

    Nor for use with llama-cpp-python's `logit_bias` or a grammar of its own, which may refuse the drawn
    token: `grammar`, `response_format` with json_object, `tool_choice` with the name of a tool.
    `SamplingParams` take all of these. With the tokenizer of `tokenizer_of` a completion raises
    `ParameterError`, for a grammar in place of its second token; with another tokenizer, a warning is logged
    once the grammar has replaced a token.

    The caller's text is the record's, except that llama-cpp-python knows no patterns: with `stop_regex` it
    keeps what the record cuts off. `with_own_text` replaces it. For a token in `stop_token_ids`, whose text
    does not belong to the record's, llama-cpp-python gets EOS. Where `max_tokens` falls inside a character,
    llama-cpp-python asks for the rest of it: up to three more tokens, which the record then has, too.

    Raises `ParameterError` or ValueError for settings that cannot be used.
    """

    _warned = False

    @property
    def settings(self) -> dict[str, Any]:
        """All keywords for `Llama.create_completion` and `Llama.create_chat_completion`: this processor, the
        request's limits and stop strings, no grammar, and neutral values for the rest. Python refuses a
        keyword that is given beside them; `{**settings, "max_tokens": 9}` replaces one.

        Without an EOS token only `stopped` can end a completion: then it is among them, and
        `create_chat_completion`, which has no `stopping_criteria`, refuses them.
        """
        settings = {
            **neutral_settings(),
            "logits_processor": SoleProcessors([self]),
            "grammar": None,
            "max_tokens": self.params.max_tokens,
            "stop": [] if self._includes_stops else list(self.params.get("stop", ())),
        }
        has_eos = bool(self.scheduler.vocabulary.eos_token_ids)
        return settings if has_eos else {**settings, "stopping_criteria": self.stopped}

    @property
    def logprobs(self) -> Logprobs | None:
        """Those of the completion's tokens so far, one row for each of `record.token_ids`, in the form of
        `StepResult.logprobs`; None if `params` ask for none. llama-cpp-python's own `logprobs` are of its
        raw logits, and need `logits_all`."""
        steps = self._logprobs
        if not steps:
            return None
        modes = {mode: Logprobs.joined([step.modes[mode] for step in steps]) for mode in steps[0].modes}
        return replace(Logprobs.joined(steps), modes=modes)

    def reset(self) -> None:
        super().reset()
        self._logprobs: list[Any] = []
        self._has_ended = False

    def with_own_text(self, response: Any) -> Any:
        """A response of `create_completion` or `create_chat_completion`, or the chunks of a streamed one,
        with the record's text in place of llama-cpp-python's.

        A chunk has the text that no stop can cut off any more. Not for `echo`. Raises ValueError without a
        tokenizer.

            text = processor.with_own_text(llm.create_completion(prompt, **processor.settings))
        """
        if self.scheduler.vocabulary.tokenizer is None:
            raise ValueError("with_own_text needs a processor with a tokenizer")
        return with_text(response, self._own_text)

    def _own_text(self) -> tuple[str, bool]:
        record = self.record
        return ("", False) if record is None else (record.text or "", record.finish_reason is not None)

    @property
    def _includes_stops(self) -> bool:
        return bool(self.params.get("include_stop_str_in_output", False))

    def __call__(self, input_ids: np.ndarray, scores: np.ndarray) -> np.ndarray:
        ids = _ids_in(input_ids)
        row = array_of("scores", scores, "f", 1, "floats [vocab]").astype(np.float32)
        left = self._next(ids, row)
        if left is None:
            row[self._eos] = _REMOVED
        elif left:
            row.fill(_REMOVED)
            row[left] = 0.0
        return row

    def call_alone(self, input_ids: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """As llama-cpp-python calls the only processor of a completion. If it would then take the best token,
        as with `settings`, the next ones are drawn without its samplers: these need longer than the draw."""
        row = self(input_ids, scores)
        llm = self._llm
        if len(input_ids) == self._prompt_length and samplers_after(llm, input_ids) == _BEST_TOKEN:
            llm._sampler = DirectSampler(llm, self._choose)
        return row

    def _choose(self, ids: np.ndarray, row: np.ndarray) -> int:
        """The token that follows `ids`; the best one after a fault, in a vocabulary without EOS."""
        left = self._next(ids, row)
        return left[0] if left else int(row.argmax())

    @property
    def _llm(self) -> Any:
        return llama_of(self.scheduler.vocabulary.tokenizer)

    @property
    def _eos(self) -> list[int]:
        return list(self.scheduler.vocabulary.eos_token_ids)

    def _next(self, ids: np.ndarray, row: np.ndarray) -> list[int] | None:
        """The tokens of which llama-cpp-python must choose one, [] for any; None for any but EOS: an error
        about its own grammar then comes in place of the token after that."""
        if self._request is None or len(ids) != len(self._known) or not self._known.begin(ids):
            if refuse_own_grammar(self._llm, ids):
                logger.error("the completion ends: %s", OWN_GRAMMAR)
                return None
            self._warn_of_replaced(ids)
            self._begin(ids)
        if self._has_ended:
            self._complete_character()
        token = -1 if self._has_ended else self._draw(row)
        return [token] if token >= 0 else self._eos

    def _warn_of_replaced(self, ids: np.ndarray) -> None:
        """Log once that another token follows than the drawn one: in a new completion, perhaps."""
        known = self._known[:]
        if self._warned or not len(known) or self._has_ended or not np.array_equal(ids[:-1], known[:-1]):
            return
        self._warned = True
        logger.warning("token %d follows where %d was drawn. %s", ids[-1], known[-1], OWN_GRAMMAR)

    def _complete_character(self) -> None:
        """Let a request go on that `max_tokens` has ended inside a character."""
        record, tokenizer = self.record, self.scheduler.vocabulary.tokenizer
        if record is None or tokenizer is None or record.stop_reason != "max_tokens":
            return
        outputs, limit = record.token_ids, self.params.get("max_tokens")
        if len(outputs) != limit or not ends_inside_character(tokenizer, outputs):
            return
        request = self._add(record.prompt_token_ids, outputs, max_tokens=limit + _MISSING, seed=record.seed)
        self.scheduler.remove(self._request)
        self._request, self._has_ended = request, False

    def _draw(self, row: np.ndarray) -> int:
        """The token that llama-cpp-python gets next; −1 after a fault."""
        result = self.scheduler.step(row[None])
        token = int(result.token_ids[0])
        self._has_ended = result.finish_reasons[0] is not None
        if result.logprobs is not None and token >= 0:
            self._logprobs.append(result.logprobs)
        if token < 0:
            logger.error("the completion ends: %s", result.errors[0])
            return token
        eos = self.scheduler.vocabulary.eos_token_ids
        if eos and result.stop_reasons[0] == token and not self._includes_stops:
            token = eos[0]  # a stop token, whose text the record leaves out
        self._known.append(token)
        return token

    def stopped(self, input_ids: np.ndarray, logits: np.ndarray) -> bool:
        """The request's criteria as a `stopping_criteria`: whether the request has ended after `input_ids`.

        llama-cpp-python calls this before it appends the token it has just drawn, and drops that token if it
        stops. So the result refers to the preceding tokens. Raises ValueError for a completion with an error.
        """
        record = self.record
        if record is not None and record.error is not None:
            raise ValueError(record.error)
        return record is not None and record.finish_reason is not None and len(input_ids) >= len(self._known)


class StoppingCriteria(_Follower):
    """Our criteria as a `stopping_criteria` of llama-cpp-python, whichever sampler chooses the tokens.

        criteria = StoppingCriteria(SamplingParams(stop_regex=[r"\\n\\s*\\n"]), tokenizer_of(llm))
        llm.create_completion("Once upon a time", stopping_criteria=criteria)

    Called as fn(input_ids intc [L], logits float32 [V]) -> bool with the prompt first, then again after every
    appended token:

        >>> criteria = StoppingCriteria(SamplingParams(stop_token_ids=[2]), vocab_size=3)
        >>> [criteria(np.array([2, 1, 0, 2][:n]), None) for n in (2, 3, 4)]
        [False, False, True]

    Only parameters that end a request have an effect. A call whose ids do not continue the last call's begins
    a new completion; `reset` does so for a prompt that continues them. The same ids get the same answer:
    `create_completion` asks twice, and loses the text if the second answer differs. llama-cpp-python calls
    this before it appends the token it has just drawn, and drops that token if it stops: it samples one
    token, and runs one forward pass, beyond the end. The caller's text keeps what `record.text` leaves out.
    """

    def __call__(self, input_ids: np.ndarray, logits: Any) -> bool:
        ids = _ids_in(input_ids)
        continues = self._request is not None and self._known.begin(ids)
        if not continues or len(ids) == self._prompt_length:
            self._begin(ids)  # also if the prompt alone is asked about again: its time starts anew
        elif len(ids) > len(self._known) and not self._finished:
            new = ids[len(self._known) :].tolist()
            self.scheduler.accept(self._request, new)
            for token in new:
                self._known.append(token)
        return self._finished


def _ids_in(input_ids: Any) -> np.ndarray:
    """The ids that llama-cpp-python passes in."""
    return array_of("input_ids", input_ids, "iu", 1, "integers [length]")
