"""llama.cpp through llama-cpp-python.

One row: `create_completion` with llama.cpp's own sampling, the same with our `LogitsProcessor`, and our
`Session`.

Several rows: llama-cpp-python has no function for them, so its side is the loop of llama.cpp's server through
the C interface. The chain is a `llama_sampler` for each row. A grammar is asked about the drawn token, and
masks the row only if it refuses that token (`common_sampler_sample`). Logprobs are computed from the row, in
NumPy. Our sides are a `Scheduler` in the same loop, and our `Session`, which also makes texts.

Importing this module needs llama_cpp.
"""

from __future__ import annotations

import ctypes
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import llama_cpp
import llama_cpp.llama_cpp as lib
import numpy as np
from engine_sampler_llama_cpp import LogitsProcessor, Session, tokenizer_of

from engine_sampler import SamplingParams, Scheduler
from engine_sampler.params import build_chain
from tests.parity.llama import LlamaSampler, chain

from ..peers.candidates import Candidates
from .cases import SCHEMA, TOP_N, Case, compiled_grammar, prompts
from .race import ModelClock, Side

CONTEXT = 256
"""Tokens of prompt and output."""
OWN = "llama.cpp"


class Engine:
    """One model in a GGUF file, with all ways to generate what a case describes."""

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        logging.getLogger("llama-cpp-python").setLevel(logging.CRITICAL + 1)  # its default prints everything
        self._path, self._settings = path, settings
        self.clock = ModelClock()
        self._resources = ExitStack()
        self._llms: dict[bool, Any] = {}
        self._decoders: dict[int, Decoder] = {}
        self._sessions: dict[int, Session] = {}
        self._drawn: list[int] = []
        for module in (llama_cpp, lib):
            self._resources.callback(setattr, module, "llama_decode", module.llama_decode)
            module.llama_decode = self.clock.timed(module.llama_decode)

    def close(self) -> None:
        """Free the models."""
        self._sessions.clear()
        self._resources.close()

    def sides(self, case: Case) -> list[Side]:
        """All ways to generate what `case` describes, llama.cpp's own first."""
        session = Side("`Session`", partial(self._by_session, case))
        if case.rows > 1:
            own = Side(OWN, partial(self._by_own_loop, case))
            return [own, Side("`Scheduler`", partial(self._by_scheduler, case)), session]
        sides = [Side(OWN, partial(self._by_completion, case))]
        if not case.logprobs:  # the response of a completion has none of a processor
            sides.append(Side("`LogitsProcessor`", partial(self._by_processor, case)))
        return [*sides, session]

    # --- one row ---------------------------------------------------------------------------------

    def _by_completion(self, case: Case, seed: int) -> list[list[int]]:
        return self._complete(
            case,
            **self._settings,
            max_tokens=case.tokens,
            seed=seed,
            grammar=self._own_grammar if case.grammar else None,
            logprobs=TOP_N if case.logprobs else None,
        )

    def _by_processor(self, case: Case, seed: int) -> list[list[int]]:
        tokenizer = self._tokenizer
        processor = LogitsProcessor(self._params(case, seed), tokenizer, grammar=self._grammar(case))
        return self._complete(case, **processor.settings)

    def _complete(self, case: Case, **keywords: Any) -> list[list[int]]:
        llm = self._llm(case.logprobs)
        llm.reset()  # no side finds its prompt in the cache
        self._drawn.clear()
        llm.create_completion(prompts(1)[0], **keywords)
        return [self._drawn.copy()]

    def _llm(self, logits_all: bool) -> Any:
        """The model in llama-cpp-python; `logits_all` is what it needs to return logprobs."""
        if logits_all not in self._llms:
            llm = llama_cpp.Llama(
                str(self._path), n_ctx=CONTEXT, n_batch=CONTEXT, n_threads=1, n_threads_batch=1,
                logits_all=logits_all, verbose=False,
            )  # fmt: skip
            self._resources.callback(llm.close)
            llm.sample = _recorded(llm.sample, self._drawn)
            self._llms[logits_all] = llm
        return self._llms[logits_all]

    # --- any number of rows ----------------------------------------------------------------------

    def _by_session(self, case: Case, seed: int) -> list[list[int]]:
        if case.rows not in self._sessions:
            self._sessions[case.rows] = Session(str(self._path), context=CONTEXT, max_requests=case.rows)
        session = self._sessions[case.rows]
        grammar = {"json_schema": SCHEMA} if case.grammar else {}
        params = self._params(case, seed)
        requests = [
            session.add(params.replace(seed=seed * case.rows + row, **grammar), prompt)
            for row, prompt in enumerate(prompts(case.rows))
        ]
        while session.scheduler.request_ids:
            session.step()
        return [session.scheduler.remove(request).token_ids for request in requests]

    # --- several rows ----------------------------------------------------------------------------

    def _by_own_loop(self, case: Case, seed: int) -> list[list[int]]:
        decoder = self._decoder(case.rows)
        with ExitStack() as samplers:
            rows = [
                samplers.enter_context(self._sampler(case, decoder, seed * case.rows + row))
                for row in range(case.rows)
            ]

            def choose(logits: np.ndarray) -> list[int]:
                chosen = [draw(row, logits) for row, draw in enumerate(rows)]
                if case.logprobs:
                    top_logprobs(logits, chosen, TOP_N)
                return chosen

            return decoder.generate(prompts(case.rows), choose, case.tokens)

    @contextmanager
    def _sampler(self, case: Case, decoder: Decoder, seed: int) -> Iterator[Callable[..., int]]:
        """llama.cpp's sampling of one row, `draw(row number, logits) -> token id`."""
        params = SamplingParams(**self._settings, seed=seed)
        with chain(build_chain(params).for_choice().key, params, decoder.vocab_size) as own:

            def draw(row: int, logits: np.ndarray) -> int:
                return lib.llama_sampler_sample(own.pointer, decoder.context, row - case.rows)

            if not case.grammar:
                yield draw
                return
            grammar = lib.llama_sampler_clone(self._grammar_prototype)
            try:
                yield partial(self._draw_with_grammar, decoder, own, LlamaSampler(grammar))
            finally:
                lib.llama_sampler_free(grammar)

    def _draw_with_grammar(
        self, decoder: Decoder, own: LlamaSampler, grammar: LlamaSampler, row: int, logits: np.ndarray
    ) -> int:
        token = lib.llama_sampler_sample(own.pointer, decoder.context, row - len(logits))
        if not _admits(grammar, token):
            candidates = self._candidates
            candidates.prepare(logits[row])
            candidates.fill()
            candidates.apply(grammar)
            token = candidates.apply(own)
        grammar.accept([token])
        return token

    def _by_scheduler(self, case: Case, seed: int) -> list[list[int]]:
        decoder, grammar = self._decoder(case.rows), self._grammar(case)
        tokenizer = self._tokenizer
        scheduler = Scheduler(len(tokenizer), eos_token_ids=tokenizer.eos_token_ids)
        params = self._params(case, seed)
        for row in range(case.rows):
            own = params.replace(seed=seed * case.rows + row)
            scheduler.add(own, decoder.tokenized(prompts(case.rows)[row]), grammar=grammar)
        return decoder.generate(
            prompts(case.rows), lambda logits: scheduler.step(logits).token_ids.tolist(), case.tokens
        )

    def _decoder(self, rows: int) -> Decoder:
        if rows not in self._decoders:
            self._decoders[rows] = Decoder(self._path, rows)
            self._resources.callback(self._decoders[rows].close)
        return self._decoders[rows]

    # --- what all share --------------------------------------------------------------------------

    def _params(self, case: Case, seed: int) -> SamplingParams:
        logprobs = {"logprobs": TOP_N} if case.logprobs else {}
        return SamplingParams(**self._settings, **logprobs, seed=seed, max_tokens=case.tokens)

    def _grammar(self, case: Case) -> Any:
        """Ours, compiled; None without one."""
        return compiled_grammar(self._tokenizer) if case.grammar else None

    @cached_property
    def _tokenizer(self) -> Any:
        return tokenizer_of(self._llm(False))

    @cached_property
    def _own_grammar(self) -> Any:
        return llama_cpp.LlamaGrammar.from_json_schema(json.dumps(SCHEMA), verbose=False)

    @cached_property
    def _grammar_prototype(self) -> Any:
        vocab = lib.llama_model_get_vocab(self._llm(False).model)
        text = self._own_grammar._grammar.encode()
        pointer = lib.llama_sampler_init_grammar(vocab, text, b"root")
        self._resources.callback(lib.llama_sampler_free, pointer)
        return pointer

    @cached_property
    def _candidates(self) -> Candidates:
        return Candidates(len(self._tokenizer))


class Decoder:
    """A model whose sequences all get one token in each batch, through llama.cpp's C interface."""

    def __init__(self, path: Path, sequences: int) -> None:
        self._resources = ExitStack()
        self._model = lib.llama_model_load_from_file(str(path).encode(), lib.llama_model_default_params())
        self._resources.callback(lib.llama_model_free, self._model)
        self._vocab = lib.llama_model_get_vocab(self._model)
        self.vocab_size = lib.llama_vocab_n_tokens(self._vocab)
        options = lib.llama_context_default_params()
        options.n_ctx = options.n_batch = CONTEXT * sequences
        options.n_seq_max = sequences
        options.n_threads = options.n_threads_batch = 1
        self.context = lib.llama_init_from_model(self._model, options)
        self._resources.callback(lib.llama_free, self.context)
        self._batch = lib.llama_batch_init(options.n_batch, 0, 1)
        self._resources.callback(lib.llama_batch_free, self._batch)

    def close(self) -> None:
        """Free the model."""
        self._resources.close()

    def tokenized(self, text: str) -> list[int]:
        """The token ids of a text."""
        data = text.encode()
        ids = (lib.llama_token * len(data))()
        count = lib.llama_tokenize(self._vocab, data, len(data), ids, len(data), False, True)
        return list(ids[:count])

    def generate(
        self, prompts: Sequence[str], choose: Callable[[np.ndarray], list[int]], tokens: int
    ) -> list[list[int]]:
        """`tokens` tokens after each prompt. `choose` gets the logits [rows, vocab] of llama.cpp itself."""
        lib.llama_memory_clear(lib.llama_get_memory(self.context), True)
        new = [self.tokenized(prompt) for prompt in prompts]
        lengths = [0] * len(prompts)
        rows: list[list[int]] = [[] for _ in prompts]
        for _ in range(tokens):
            self._decode(new, lengths)
            lengths = [length + len(own) for length, own in zip(lengths, new, strict=True)]
            new = [[token] for token in choose(self._logits(len(prompts)))]
            for row, own in zip(rows, new, strict=True):
                row += own
        return rows

    def _decode(self, new: Sequence[Sequence[int]], lengths: Sequence[int]) -> None:
        """Run the `new` tokens of each sequence through the model, with logits for the last one."""
        batch, i = self._batch, 0
        for sequence, (token_ids, length) in enumerate(zip(new, lengths, strict=True)):
            for position, token in enumerate(token_ids, length):
                batch.token[i], batch.pos[i], batch.n_seq_id[i] = token, position, 1
                batch.seq_id[i][0], batch.logits[i] = sequence, 0
                i += 1
            batch.logits[i - 1] = 1
        batch.n_tokens = i
        if status := lib.llama_decode(self.context, batch):
            raise RuntimeError(f"llama_decode returned {status}")

    def _logits(self, rows: int) -> np.ndarray:
        """The logits of the last batch, a view of llama.cpp's own memory."""
        return np.ctypeslib.as_array(lib.llama_get_logits(self.context), (rows, self.vocab_size))


def top_logprobs(
    logits: np.ndarray, token_ids: Sequence[int], n: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The logprobs [rows] of `token_ids`, and the n likeliest tokens with theirs, [rows, n] each.

    llama.cpp's server sorts whole rows for this; here nothing is sorted.
    """
    peak = logits.max(axis=1, keepdims=True)
    normalizer = peak + np.log(np.exp(logits - peak).sum(axis=1, keepdims=True))
    best = np.argpartition(logits, -n, axis=1)[:, -n:]
    drawn = np.take_along_axis(logits, np.array(token_ids)[:, None], axis=1)
    return (drawn - normalizer)[:, 0], best, np.take_along_axis(logits, best, axis=1) - normalizer


def _admits(grammar: LlamaSampler, token: int) -> bool:
    """Whether llama.cpp's grammar allows `token` next."""
    one = lib.llama_token_data(token, 1.0, 0.0)
    array = lib.llama_token_data_array(data=ctypes.pointer(one), size=1, selected=-1, sorted=False)
    lib.llama_sampler_apply(grammar.pointer, ctypes.byref(array))
    return bool(one.logit > -np.inf)


def _recorded(sample: Callable[..., int], drawn: list[int]) -> Callable[..., int]:
    """`sample`, which also appends its tokens to `drawn`."""

    def record(*arguments: Any, **keywords: Any) -> int:
        token = sample(*arguments, **keywords)
        drawn.append(token)
        return token

    return record
