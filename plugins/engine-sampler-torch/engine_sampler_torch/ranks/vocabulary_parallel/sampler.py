"""`VocabularyParallelSampler`: tokens from shards of the vocabulary, of which only summaries travel."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from engine_sampler import SamplingParams, Tokenizer, Vocabulary, bitmask_words
from engine_sampler.arithmetic import child_seed
from engine_sampler.for_backends import token_ids_in

from ..exchange import Exchange, digest
from ..shards import DTYPES, VocabularyShards
from .local_shard import LocalShard
from .parallel_rows import ParallelRows
from .step import ParallelSample, ParallelStep

Histories = Sequence[Sequence[int]] | None


class VocabularyParallelSampler:
    """Draws tokens where each rank holds the logits of some tokens, and leaves the logits there.

    Edits apply at the rank that holds the token. Then the ranks exchange, in int64, so that sums do not
    depend on their order: packed maxima (sortable logit · 2^32 + ~id), sums of weights, up to 128 candidates
    each for a top_k or a top_p, and for a top_p that needs more tokens four histograms of weight over eight
    bits of the logits each (a radix select). The draw is by the weights before each rank, in the order of
    ids. All by the arithmetic contract (`engine_sampler.arithmetic`): the tokens are those of
    `engine_sampler.sample` with whole rows, bit for bit, for any number of ranks and any shards.

    It knows temperature, top_k up to 128, top_p with its rules, min_p, in any order; before them logit_bias,
    penalties (without a slope) and masks. `rows` refuses everything else by its name: `BatchShardedScheduler`
    has it.

    shards  which rank has which tokens.
    group   the ranks, a process group with a backend for the device of the logits. None: the default group.
    eos_token_ids, tokenizer  as in `Scheduler`, for parameters that need them.

    The constructor communicates, and so does `sample`; all ranks make the same calls with the same arguments.
    A rank that fails makes all raise `RankError`; nothing is kept between steps, so that another step may
    follow. For a rank that is gone, torch.distributed's error or timeout passes through.

    **Messages of a step**, one after the other, whatever mixture of chains the rows have, in bytes from each
    rank, with 8 more for each message's status: one of 40 to agree; one of 24 a row for the maxima; one of
    8 + 1,024 a row for a top_p, and five of 4 · 2,048 + 8 together for the rows whose top_p needs more than
    the candidates; one of 8·k a row for a top_k; two of 8 a row for a draw among more than candidates. So a
    step has 2 messages at least and 11 at most.
    """

    def __init__(
        self,
        shards: VocabularyShards,
        *,
        group: dist.ProcessGroup | None = None,
        eos_token_ids: Sequence[int] = (),
        tokenizer: Tokenizer | None = None,
    ) -> None:
        self.shards = shards
        self._exchange = Exchange(group)
        eos = tuple(eos_token_ids) or (tokenizer.eos_token_ids if tokenizer else ())
        self._vocabulary = Vocabulary(shards.vocab_size, eos, tokenizer)

        def facts() -> dict[str, int]:
            if len(shards.sizes) != self.size:
                raise ValueError(f"shards={shards} is not allowed: {self.size} shards, one for each rank")
            self._vocabulary.check_ids("eos_token_ids", eos)
            return {"arguments": digest(repr(shards), repr(eos))}

        self._exchange.agree("VocabularyParallelSampler(…)", facts, lambda: f"{shards}, eos_token_ids={eos}")
        self._seed = int(self._exchange.gather((1,), lambda: [secrets.randbits(63)])[0, 0])
        """The first rank's, from which the seeds of requests without one are derived."""
        self._unseeded = 0
        first = shards.offsets[self.rank]
        self._columns = range(first, first + shards.sizes[self.rank])

    @property
    def rank(self) -> int:
        """This rank's number."""
        return self._exchange.rank

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return self._exchange.size

    def rows(
        self,
        params: Sequence[SamplingParams],
        *,
        prompt_token_ids: Histories = None,
        output_token_ids: Histories = None,
        positions: Sequence[int] | None = None,
    ) -> ParallelRows:
        """The rows of a batch, one for each of `params`: what `sample` needs, made once for several steps.

        The other arguments are those of `engine_sampler.sample`. A request without a seed gets a random one,
        the same on all ranks: `ParallelRows.seeds`. `ParallelRows.accept` adds the tokens of a step.

        Raises `ParameterError` for parameters and ids that are not allowed, and ValueError for lists of other
        lengths. Does not communicate.
        """
        count = len(params)
        by_parameter = {
            "prompt_token_ids": prompt_token_ids,
            "output_token_ids": output_token_ids,
            "positions": positions,
        }
        for name, values in by_parameter.items():
            if values is not None and len(values) != count:
                raise ValueError(f"{name} has {len(values)} entries for {count} rows")
        prompts, outputs = (
            [token_ids_in(name, ids, self._vocabulary) for ids in by_parameter[name] or [()] * count]
            for name in ("prompt_token_ids", "output_token_ids")
        )
        if positions is None:
            positions = [len(p) + len(o) for p, o in zip(prompts, outputs, strict=True)]
        seeds = np.array([self._seed_of(own) for own in params], np.uint64)
        return ParallelRows(
            params, self._vocabulary, self._columns, seeds, prompts, outputs, np.array(positions, np.int64)
        )

    def sample(self, logits: Tensor, rows: ParallelRows) -> ParallelSample:
        """Draw one token for each row.

        logits  this rank's shard, [rows, sizes[rank] + padding[rank]], float32, float16 or bfloat16, of the
                same dtype on all ranks. Not written to.

        A faulty row has an error and no token. Raises `RankError`; and TypeError or ValueError if the logits
        of all ranks are not allowed.
        """
        prepared: list[LocalShard] = []

        def facts() -> dict[str, int]:
            tokens = self.shards.tokens_of(self.rank, logits, rows.count)
            words = bitmask_words(self.shards.vocab_size)
            if rows.bitmask is not None and tuple(rows.bitmask.shape) != (rows.count, words):
                shape = list(rows.bitmask.shape)
                raise ValueError(f"bitmask has shape {shape}; allowed is [{rows.count}, {words}]")
            prepared.append(LocalShard(tokens, self._columns.start))
            return {"rows": rows.count, "requests": rows.digest(), "dtype": DTYPES.index(logits.dtype)}

        self._exchange.agree("sample", facts, lambda: f"{rows.count} rows of {logits.dtype}")
        if not rows.count:
            return ParallelSample(torch.empty(0, dtype=torch.int64, device=logits.device), [])
        return ParallelStep(self._exchange, self.shards, rows, prepared[0]).run()

    def _seed_of(self, params: SamplingParams) -> int:
        seed: int | None = params["seed"]
        if seed is None:
            self._unseeded += 1
            seed = child_seed(self._seed, self._unseeded)
        return seed
