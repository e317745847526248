"""A `Session` with a GGUF model: many requests in one batch of llama.cpp."""

from __future__ import annotations

import itertools
import logging
import os
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from engine_sampler import RequestLimits, Scheduler
from engine_sampler.for_backends import RequestId
from engine_sampler.for_bridges import Session as AnySession
from engine_sampler.for_bridges import instance_of, integer_of, named_backend

from .library import library
from .vocabulary import tokenize, tokenizer_of_vocabulary

_DEFAULT_CONTEXT = 8192
"""The default context length in tokens, for models that support a longer one."""
_BATCH = 512


class Session(AnySession):
    """One `Scheduler` fed by a model that runs in llama.cpp.

    model         a GGUF file.
    backend       as for `Scheduler`.
    context       maximum tokens of prompt and output together; default: the model's own, at most 8192.
    max_requests  maximum number of live requests; each has its own cache of `context` tokens.

        session = Session("model.gguf")
        request = session.add(SamplingParams(top_k=40, max_tokens=100, seed=7), "Once upon a time")
        while session.scheduler.request_ids:
            print(session.step().text[0], end="")

    Raises OSError or ValueError for a file that llama.cpp cannot load, `PeerError` without
    llama-cpp-python, or with a release that lacks what is used here.
    """

    def __init__(
        self, model: str, backend: str = "auto", *, context: int | None = None, max_requests: int = 1
    ) -> None:
        instance_of((str, os.PathLike), "model", model, "the path of a GGUF file")
        if context is not None:
            integer_of("context", context, 1)
        integer_of("max_requests", max_requests, 1)
        named_backend(backend)
        self._model = _Model(model, context, max_requests)
        tokenizer = tokenizer_of_vocabulary(self._model.vocab, self._model)
        super().__init__(
            Scheduler(
                len(tokenizer),
                tokenizer,
                max_model_len=self._model.context_length,
                backend=backend,
                limits=RequestLimits.none(),
            ),
            max_requests,
        )
        self.chat_template = self._model.chat_template
        named = {"bos_token": self._model.bos, "eos_token": next(iter(tokenizer.eos_token_ids), -1)}
        self.template_tokens = {
            name: tokenizer.token_bytes[i].decode(errors="replace") if i >= 0 else ""
            for name, i in named.items()
        }
        self._sequences: dict[RequestId, int] = {}
        """The sequence id of each request in the model's cache."""
        self._cached: dict[RequestId, int] = {}
        """How many tokens of each request are in the cache."""
        self._rows: dict[RequestId, np.ndarray] = {}
        """The logits after these tokens. A request whose pass was interrupted has none."""

    def encode(self, prompt: str) -> list[int]:
        instance_of(str, "prompt", prompt, "a text")
        token_ids = tokenize(self._model.vocab, prompt, special=True)
        if not token_ids:
            raise ValueError("prompt is empty, and the model adds no BOS token")
        return token_ids

    def forward(self, contexts: Mapping[RequestId, list[int]]) -> np.ndarray:
        """float32 [rows, vocab], valid until the next call; only new tokens run through the model. A request
        without one, which was postponed, gets the same logits again."""
        return self.forward_drafts(contexts, {})

    def forward_drafts(
        self, contexts: Mapping[RequestId, list[int]], drafts: Mapping[RequestId, Sequence[int]]
    ) -> np.ndarray:
        """As `forward`, and the logits after each draft, in the same pass. Their last bits may differ from
        those of a pass for one token."""
        for request_id in contexts.keys() - self._rows.keys():
            self.forget(request_id)  # the pass of its tokens was interrupted, if there was one
        cached, rows = self._cached, self._rows
        kept = {r: rows[r].copy() for r, ids in contexts.items() if len(ids) == cached.get(r)}
        self._rows = {r: row.copy() for r, row in rows.items() if r not in contexts}
        new: list[tuple[int, int, int, int]] = []
        ends = [0]
        for request_id, context in contexts.items():
            token_ids, sequence = [*context, *drafts.get(request_id, ())], self._sequence_of(request_id)
            begin, first = cached.get(request_id, 0), max(len(context) - 1, cached.get(request_id, 0))
            places = range(begin, len(token_ids))
            new += [(token_ids[i], i, sequence, ends[-1] + i - first if i >= first else -1) for i in places]
            cached[request_id] = len(token_ids)
            ends.append(ends[-1] + len(token_ids) - first)
        logits = self._model.run(new, ends[-1])
        parts = [logits[begin:end] for begin, end in itertools.pairwise(ends)]
        if kept:
            parts = [
                np.concatenate([kept[r][None], part]) if r in kept else part
                for r, part in zip(contexts, parts, strict=True)
            ]
            logits = np.concatenate(parts)
        self._rows |= {r: part[-1] for r, part in zip(contexts, parts, strict=True)}
        return logits

    def rewind(self, request_id: RequestId, length: int) -> None:
        """Cut a request's cache, if the model's can be cut."""
        kept = min(self._cached.get(request_id, 0), length - 1)  # the last token runs again, for its logits
        if kept > 0 and self._model.clear(self._sequences[request_id], kept):
            self._cached[request_id] = kept
        else:
            self.forget(request_id)

    def forget(self, request_id: RequestId) -> None:
        self._cached.pop(request_id, None)
        self._rows.pop(request_id, None)
        sequence = self._sequences.pop(request_id, None)
        if sequence is not None:
            self._model.clear(sequence)

    def _sequence_of(self, request_id: RequestId) -> int:
        if request_id not in self._sequences:
            for stale in set(self._sequences) - set(self.scheduler.request_ids):
                self.forget(stale)  # removed without a step
            taken = set(self._sequences.values())
            self._sequences[request_id] = min(set(range(self._model.sequences)) - taken)
        return self._sequences[request_id]


class _Model:
    """llama.cpp's model, context and batch, freed with this object."""

    def __init__(self, path: str, context_length: int | None, sequences: int) -> None:
        if not os.path.isfile(path):
            raise FileNotFoundError(f"--model {path}: no such file")
        lib = library()
        log = logging.getLogger("llama-cpp-python")
        if log.level == logging.NOTSET:  # this level prints llama.cpp's whole log
            log.setLevel(logging.CRITICAL + 1)
        self._lib = lib
        self.sequences = sequences
        resources = ExitStack()
        self._close = weakref.finalize(self, resources.close)
        self._model = lib.llama_model_load_from_file(os.fsencode(path), lib.llama_model_default_params())
        if not self._model:
            raise ValueError(f"--model {path}: llama.cpp cannot load it")
        resources.callback(lib.llama_model_free, self._model)
        self.vocab = lib.llama_model_get_vocab(self._model)
        self._vocab_size = lib.llama_vocab_n_tokens(self.vocab)
        self.bos = lib.llama_vocab_bos(self.vocab)
        template = lib.llama_model_chat_template(self._model, None)
        self.chat_template = None if template is None else template.decode()
        trained_length = lib.llama_model_n_ctx_train(self._model)
        self.context_length = context_length or min(trained_length, _DEFAULT_CONTEXT)
        options = lib.llama_context_default_params()
        options.n_ctx = self.context_length * sequences
        options.n_seq_max = sequences
        options.n_batch = _BATCH
        options.n_threads_batch = _cores()
        options.n_threads = max(options.n_threads_batch // 2, 1)
        self._context = lib.llama_init_from_model(self._model, options)
        if not self._context:
            raise ValueError(f"--model {path}: llama.cpp cannot create a context of {options.n_ctx} tokens")
        resources.callback(lib.llama_free, self._context)
        self._batch = lib.llama_batch_init(_BATCH, 0, 1)
        resources.callback(lib.llama_batch_free, self._batch)

    def run(self, tokens: list[tuple[int, int, int, int]], rows: int) -> np.ndarray:
        """Run (token id, position, sequence, row or −1) through the model, rows ascending; returns the logits
        of the rows. If all tokens fit into one batch, they are a view of llama.cpp's memory."""
        if 0 < len(tokens) <= _BATCH:
            self._decode(tokens)
            return self._logits(rows)
        logits = np.empty((rows, self._vocab_size), np.float32)
        for start in range(0, len(tokens), _BATCH):
            chunk = tokens[start : start + _BATCH]
            self._decode(chunk)
            if own := [row for *_, row in chunk if row >= 0]:
                logits[own] = self._logits(len(own))
        return logits

    def _decode(self, tokens: list[tuple[int, int, int, int]]) -> None:
        """Run one batch."""
        self._fill(tokens)
        if status := self._lib.llama_decode(self._context, self._batch):
            raise RuntimeError(f"llama.cpp cannot run {len(tokens)} tokens through the model ({status})")

    def _logits(self, rows: int) -> np.ndarray:
        """The logits of the last batch, which had this many rows."""
        return np.ctypeslib.as_array(self._lib.llama_get_logits(self._context), (rows, self._vocab_size))

    def clear(self, sequence: int, begin: int = -1) -> bool:
        """Drop a sequence from a position on, or all of it; False where only all of it can be dropped."""
        memory = self._lib.llama_get_memory(self._context)
        return bool(self._lib.llama_memory_seq_rm(memory, sequence, begin, -1))

    def _fill(self, tokens: list[tuple[int, int, int, int]]) -> None:
        batch: Any = self._batch
        batch.n_tokens = len(tokens)
        for i, (token_id, position, sequence, row) in enumerate(tokens):
            batch.token[i] = token_id
            batch.pos[i] = position
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = sequence
            batch.logits[i] = row >= 0


def _cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
