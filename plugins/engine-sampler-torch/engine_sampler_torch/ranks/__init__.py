"""Sampling where each rank of a torch.distributed group holds a shard of the vocabulary.

`BatchShardedScheduler` is a `Scheduler` over all ranks: each rank gets whole rows of the requests that it
owns. Any sampler, selector, plugin, grammar and stopping criterion works. The tokens are those of one rank
with whole rows, bit for bit, for any number of ranks and any shards.
"""

from .batch_sharded import BatchShardedScheduler
from .errors import RankError
from .shards import VocabularyShards

__all__ = ["BatchShardedScheduler", "RankError", "VocabularyShards"]
