"""`RowSampler`: rows of logits in, tokens out, for engines that keep the requests themselves."""

from __future__ import annotations

import secrets
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arithmetic import LogitRows, child_seed
from ..base.arguments import instance_of, integer_of
from ..base.errors import check_hashable, quoted
from ..contract import Backend, ParameterError
from ..params import RequestLimits, SamplingParams
from ..requests.ending import RequestError
from ..requests.results import StepResult, WithTensors
from ..scheduler.input_batch import InputBatch
from ..tokenizer import Tokenizer
from .keyed_requests import KeyedRequests
from .row_histories import KeptRow, RowHistories
from .row_logprobs import LogprobsTable, Wanted
from .row_masks import packed
from .row_params import RowParams
from .row_step import MaskedGroups, WithMasks

Histories = Sequence[Any] | None


@dataclass(frozen=True, eq=False)
class RowResult(WithTensors):
    """The result of `RowSampler.step`. It is equal to itself only: compare its parts.

    token_ids   int64 [rows], −1 where a row gave no token: a fault, or a draft's row after a mismatch.
    first_rows  int64 [keys], the first row of each key.
    errors      one per key: why a row of it gave no token, else None.
    seeds       one per key, those chosen at random included; 0 for a key that has never had a request.
    logprobs    the table that `logprobs` asks for, over the rows; None without it.
    given_logprobs  the chosen tokens and those of `logprob_token_ids`, over the rows; None without them.
    token_ids_on_device  as in `StepResult`.
    """

    token_ids: np.ndarray
    first_rows: np.ndarray
    errors: list[str | None]
    seeds: list[int]
    logprobs: LogprobsTable | None = None
    given_logprobs: LogprobsTable | None = None
    token_ids_on_device: Any = None

    def tokens(self, i: int) -> list[int]:
        """The tokens of key number i in this step: one, or several with drafts."""
        end = self.first_rows[i + 1] if i + 1 < len(self.first_rows) else len(self.token_ids)
        return [t for t in self.token_ids[self.first_rows[i] : end].tolist() if t >= 0]


class RowSampler:
    """Draws for rows of logits whose requests the engine keeps: it names each by a key, says what its
    parameters and its tokens are, and decides when it ends.

    vocab_size     tokens; logits may be wider (padded heads).
    tokenizer      for parameters given as text.
    eos_token_ids  what `min_tokens` and `ignore_eos` mask; default: the tokenizer's. Nothing ends a row.
    seed           the seeds of rows without one are children of it, in the order in which keys arrive: the
                   same on all ranks that see the same keys. Default: random ones.
    backend, num_threads, limits  as for `Scheduler`.

        sampler = RowSampler(vocab_size)
        drawn = sampler.step(logits, ["a", "b"], {"temperature": [0.7, 0.0]}, outputs=[output_a, output_b])

    Each row gets the token that `Scheduler.step` would give to its request alone, with these parameters, this
    prompt and this output. What has been built for a key stays until the key is missing from a call: one that
    repeats the keys, and whose outputs have grown by what was drawn, costs little more than a step. A row
    whose parameters change is built anew, without the others.

    A `RowSampler` belongs to one thread.
    """

    def __init__(
        self,
        vocab_size: int,
        tokenizer: Tokenizer | None = None,
        *,
        eos_token_ids: Sequence[int] = (),
        seed: int | None = None,
        backend: str | Backend = "auto",
        num_threads: int | None = None,
        limits: RequestLimits | None = None,
    ) -> None:
        self._requests = KeyedRequests(
            vocab_size,
            tokenizer,
            eos_token_ids=eos_token_ids,
            backend=backend,
            num_threads=num_threads,
            limits=limits,
            postpone=False,
            keep_faulty=True,
        )
        self._seed = None if seed is None else integer_of("seed", seed, 0) % 2**64
        self._unseeded = 0
        self._params = RowParams()
        self._histories = RowHistories(self._requests)
        self._masked = MaskedGroups()
        self._rows: dict[Hashable, KeptRow] = {}
        self._keys: list[Hashable] | None = None
        """Those of the last call; None if it was interrupted."""
        self._inputs: InputBatch | None = None
        self._returned: StepResult | None = None

    @staticmethod
    def check(params: SamplingParams) -> None:
        """Raise `ParameterError` for parameters that no row may have, such as `max_tokens` and grammars: for
        an engine that refuses requests when they arrive."""
        RowParams().check(params)

    @property
    def vocab_size(self) -> int:
        """The number of tokens."""
        return self._requests.vocabulary.size

    @property
    def backend(self) -> Backend | None:
        """The backend in use; None until the first step has chosen one."""
        return self._requests.backend

    def step(
        self,
        logits: Any,
        keys: Sequence[Hashable],
        columns: Mapping[str, Any] | None = None,
        *,
        params: SamplingParams | Sequence[SamplingParams] | None = None,
        prompts: Histories = None,
        outputs: Histories = None,
        mask: Any = None,
        draft_token_ids: Sequence[Sequence[int]] | Mapping[Hashable, Sequence[int]] | None = None,
        logprobs: int | None = None,
        logprobs_mode: str = "raw_logprobs",
        logprob_token_ids: Sequence[Sequence[int] | None] | None = None,
    ) -> RowResult:
        """Draw one token for each row of `logits` [rows, ≥ vocab].

        keys       the requests of the rows, in order, all different. Keys of the last call that are missing
                   are forgotten.
        columns    parameters by name, each an array or a list [keys]; a neutral value where a row does not
                   have it, or None, which leaves what `params` has. A list may hold values that are no
                   numbers, such as `logit_bias`: these are not to be changed, lists and arrays may be.
        params     the parameters that `columns` change, for all keys or one for each; default: neutral ones.
        prompts    the prompt of each key; None, for one or for all: as before, and empty for a new key.
        outputs    the output of each key so far; None, for one or for all: as before and what has been
                   drawn since. An output that differs from that is followed: tokens are added, taken back, or
                   replaced.
                   A list that was given before is only looked at near and after what it held then: change its
                   beginning in another list.
        mask       which tokens each row may draw in this step, bool [rows, vocab] or int32
                   [rows, ceil(vocab / 32)]: bit t % 32 of word t // 32 is token t. No logits are copied.
        draft_token_ids  guesses for each key, in row order or by key, see `Scheduler.step`: a key with k
                   drafts has k + 1 consecutive rows, of the mask as well.
        logprobs   how many of the likeliest tokens the table of logprobs has beside the drawn; −1 = all.
        logprobs_mode  "raw_logprobs", "processed_logprobs", "raw_logits" or "processed_logits": of the logits
                   as they come, or after the chain. Processed rows cost another pass; temperature 0 is left
                   out there.
        logprob_token_ids  further tokens of each row whose logprobs are wanted, or None.

        A row that is faulty, whose parameters are not allowed, or whose tokens are not in the vocabulary
        gives no token, and `RowResult.errors` says why; its request stays as it is, and the others draw.
        Raises ValueError, TypeError or `ParameterError` for wrong arrays, lengths, names and drafts, before
        anything changes.
        """
        rows = LogitRows(logits, self.vocab_size)
        names = list(keys)
        is_same = names == self._keys
        if not is_same:
            _check_keys(names)
        if columns is not None:
            instance_of(Mapping, "columns", columns, "an array or a list for each parameter's name")
        row_params = self._params.rows(len(names), params, columns or {})
        _check_length("prompts", prompts, len(names))
        _check_length("outputs", outputs, len(names))
        drafts = None if draft_token_ids is None else self._drafts(draft_token_ids, names)
        count = len(names) if drafts is None else len(names) + sum(map(len, drafts))
        if len(rows) != count:
            raise ValueError(f"logits have {len(rows)} rows; the keys and drafts need {count}")
        masks = None if mask is None else WithMasks(packed(mask, count, self.vocab_size), self._masked)
        wanted = Wanted.of(logprobs, logprobs_mode, logprob_token_ids, count, self.vocab_size)
        keys_before, self._keys = self._keys, None  # an exception leaves it like that
        if keys_before is None:
            self._recover()
        self._follow(names, is_same, row_params, prompts, outputs)
        return self._draw(names, rows, drafts, masks, wanted)

    # --- inside ----------------------------------------------------------------------------------

    def _drafts(
        self, drafts: Sequence[Sequence[int]] | Mapping[Hashable, Sequence[int]], keys: list[Hashable]
    ) -> list[list[int]]:
        """The drafts of each key, in row order."""
        if isinstance(drafts, Mapping):
            if unknown := [key for key in drafts if key not in set(keys)]:
                raise RequestError(
                    f"draft_token_ids names {quoted(unknown[0])}, which has no row in this step"
                )
            drafts = [drafts.get(key, ()) for key in keys]
        _check_length("draft_token_ids", drafts, len(keys))
        return self._requests.checked_drafts(drafts)

    def _recover(self) -> None:
        """After a call that did not return: what it has drawn does not count."""
        last = self._requests.last_result
        if last is not None and last is not self._returned:
            self._requests.take_back(last)
            self._returned = last

    def _follow(
        self,
        keys: list[Hashable],
        is_same: bool,
        row_params: Sequence[SamplingParams | ParameterError],
        prompts: Histories,
        outputs: Histories,
    ) -> None:
        """Bring the requests to what the call says of them."""
        if not is_same:
            self._seat(keys)
        rows = [self._rows[key] for key in keys]
        if self._histories.follow(rows, row_params, prompts, outputs, self._inputs if is_same else None):
            self._inputs = None
        if self._inputs is None or not is_same:
            self._inputs = self._requests.lay_out(keys)

    def _seat(self, keys: list[Hashable]) -> None:
        """Have rows for these keys, and for no others."""
        for key in self._rows.keys() - set(keys):
            self._requests.leave(key)
            del self._rows[key]
        for key in keys:
            if key not in self._rows:
                self._rows[key] = KeptRow(key, self._new_seed())

    def _new_seed(self) -> int:
        if self._seed is None:
            return secrets.randbits(64)
        self._unseeded += 1
        return child_seed(self._seed, self._unseeded)

    def _draw(
        self,
        keys: list[Hashable],
        rows: LogitRows,
        drafts: list[list[int]] | None,
        masks: WithMasks | None,
        wanted: Wanted | None,
    ) -> RowResult:
        assert self._inputs is not None
        processed = None
        if wanted is not None and wanted.of_processed:
            processed = np.full((len(rows), self.vocab_size), np.nan, np.float32)
        inputs = self._inputs
        result = self._requests.draw(inputs, rows, drafts, masks, processed)
        if len(keys) - result.finish_reasons.count(None) > len(inputs.skipped):  # a request has ended
            self._inputs = None
        errors, seeds = result.errors, result.seeds
        for i, _ in inputs.skipped:
            row = self._rows[keys[i]]
            errors[i], seeds[i] = row.fault, row.seed
        table = given_table = None
        if wanted is not None:
            shown = rows if processed is None else LogitRows(processed, self.vocab_size)
            assert self.backend is not None
            table = wanted.table(shown, result.token_ids, self.backend)
            given_table = wanted.given_table(shown, result.token_ids)
        on_device = result.token_ids_on_device
        drawn = RowResult(result.token_ids, result.first_rows, errors, seeds, table, given_table, on_device)
        self._keys, self._returned = keys, result
        return drawn


def _check_keys(keys: list[Hashable]) -> None:
    for key in keys:
        check_hashable("keys", key)
    if len(set(keys)) < len(keys):
        raise ValueError(f"keys={quoted(keys)} is not allowed: each key once")


def _check_length(name: str, values: Any, count: int) -> None:
    if values is not None and len(values) != count:
        raise ValueError(f"{name} has {len(values)} entries for {count} keys")
