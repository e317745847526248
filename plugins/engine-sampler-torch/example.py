"""The demo's requests on several ranks, each with a shard of the vocabulary, next to one scheduler.

torchrun --nproc-per-node 4 example.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from engine_sampler_torch.ranks import BatchShardedScheduler, VocabularyShards

from engine_sampler import SamplingParams, Scheduler
from engine_sampler.demo.configurations import CONFIGURATIONS
from engine_sampler.demo.engine import Engine

dist.init_process_group("gloo")  # your engine has done so
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)

engine = Engine.load()  # stands for your model: an n-gram model, which learns for some seconds
tokenizer = engine.tokenizer
shards = VocabularyShards.even(len(tokenizer), ranks, multiple_of=64)
columns = slice(shards.offsets[rank], shards.offsets[rank] + shards.sizes[rank])

scheduler = BatchShardedScheduler(shards, tokenizer)
alone = Scheduler(len(tokenizer), tokenizer) if rank == 0 else None  # for comparison
texts, contexts = {}, {}
for seed, configuration in enumerate(CONFIGURATIONS):
    params = SamplingParams(**configuration.parameters, max_tokens=40, seed=seed)
    for each in filter(None, (scheduler, alone)):
        each.add(params, tokenizer.encode("The"), request_id=configuration.name)
    texts[configuration.name], contexts[configuration.name] = "The", tokenizer.encode("The")

steps = rows = 0
while scheduler.request_ids:
    ids = scheduler.request_ids
    logits = torch.from_numpy(engine.model.logits([contexts[i] for i in ids]))
    shard = torch.nn.functional.pad(logits[:, columns], (0, shards.padding[rank]))  # all that this rank gives
    result = scheduler.step(shard)
    for i, name in enumerate(ids):
        contexts[name] += result.tokens(i)
        texts[name] += result.text[i]
        if rank == 0 and result.finish_reasons[i]:
            owner = scheduler.owner_of(name)
            print(f"rank {owner} · {name} · {result.finish_reasons[i]}: {texts[name]!r}", flush=True)
    if alone is not None:
        wanted = alone.step(logits)
        assert (result.token_ids.tolist(), result.text) == (wanted.token_ids.tolist(), wanted.text)
    steps, rows = steps + 1, rows + len(ids)

if rank == 0:
    print(f"{rows} tokens in {steps} steps on {ranks} ranks: the same as on one")
dist.destroy_process_group()
