"""Sampling where each rank of a torch.distributed group holds a shard of the vocabulary.

`BatchShardedScheduler` is a `Scheduler` over all ranks: each rank gets whole rows of the requests that it
owns. Any sampler, selector, plugin, grammar and stopping criterion works.

`VocabularyParallelSampler` leaves the logits where they are and exchanges maxima, sums, candidates and
histograms: greedy and `dist` after temperature, top_k ≤ 128, top_p and min_p, with biases, penalties and
masks.

Both give the tokens of one rank with whole rows, bit for bit, for any number of ranks and any shards.
"""

from .batch_sharded import BatchShardedScheduler
from .errors import RankError
from .shards import VocabularyShards
from .vocabulary_parallel import ParallelRows, ParallelSample, VocabularyParallelSampler

__all__ = [
    "BatchShardedScheduler",
    "ParallelRows",
    "ParallelSample",
    "RankError",
    "VocabularyParallelSampler",
    "VocabularyShards",
]
