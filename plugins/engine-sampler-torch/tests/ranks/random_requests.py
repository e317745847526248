"""Requests that join, draw, fork and leave at random on all ranks, next to one scheduler with whole rows."""

from __future__ import annotations

import hashlib
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from engine_sampler_torch.ranks import BatchShardedScheduler, VocabularyShards
from rank_pool import Place

from engine_sampler import Logprobs, SamplingParams, Scheduler, StepResult, Tokenizer

TEXTS = [bytes([i]) for i in range(32, 127)] + [b" the", b" and", b"ing", "é".encode(), "é".encode()[:1]]
SHORT = Tokenizer([*TEXTS, b"<eos>"], eos_token_ids=[len(TEXTS)])
EOS = len(TEXTS)
DTYPES = (torch.float32, torch.float16, torch.bfloat16)

SETTINGS: list[dict[str, Any]] = [
    {"temperature": 0},
    {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05},
    {"order": "vllm", "temperature": 1.3, "top_p": 0.9},
    {"mirostat": 2, "mirostat_tau": 3.0},
    {"dry_multiplier": 0.8, "xtc_probability": 0.5, "min_p": 0.05},
    {"typical_p": 0.6, "temperature": 0.9, "dynatemp_range": 0.5},
    {"repetition_penalty": 1.2, "frequency_penalty": 0.3, "penalty_last_n": 8},
    {"adaptive_target": 0.4, "min_p": 0.02},
    {"logit_bias": {3: 4.0, 70: -np.inf}, "no_repeat_ngram_size": 2},
    {"bad_words": ["the"], "min_tokens": 3, "ignore_eos": True},
    {"stop": ["ing", "a"], "temperature": 2.0},
    {"stop_regex": ["[0-9]{2}"], "include_stop_str_in_output": True},
    {"regex": "(ab|[0-9]+ )*x", "temperature": 1.5},
    {"choice": ["yes", "no", "perhaps the"]},
    {"regex": "[a-z]+", "grammar_bias": 3.0},
    {"thinking": {"start": "a", "end": "e", "starts_inside": True}, "thinking_token_budget": 3},
    {"logprobs": 0},
    {"logprobs": 4, "top_k": 3},
    {"logprobs": 2, "logprobs_mode": "processed", "top_p": 0.8},
    {"logprobs": 1, "logprobs_mode": ("raw", "penalized", "processed"), "presence_penalty": 0.5},
    {"return_sampling_mask": True, "min_p": 0.02},
    {"return_sampling_mask": 3, "top_k": 5, "logprob_token_ids": [5, 0, 70]},
    {"logprob_token_ids": [1, 2], "logprobs_mode": ("penalized", "processed"), "logprobs": 0, "top_k": 9},
    {"return_sampling_mask": True, "thinking": {"start": "a", "end": "e"}, "answer": {"top_k": 9}},
    {"deepconf_threshold": 6.0, "deepconf_window_size": 3, "deepconf_top_k": 4},
    {"deepconf_threshold": 5.0, "deepconf_window_size": 2, "logprobs": 2, "return_sampling_mask": 9},
    {"banned_strings": ["a", '" '], "return_sampling_mask": True, "logprobs": 1, "logit_bias": {65: 6.0}},
]
GROUPS: list[dict[str, Any]] = [
    {"n": 3, "temperature": 1.2},
    {"n": 1, "best_of": 2, "logprobs": 1},
    {"use_beam_search": True, "beam_width": 3, "max_tokens": 6},
]


def random_shards(rng: np.random.Generator, vocab_size: int, ranks: int) -> VocabularyShards:
    """Even with padding, or uneven, some of them empty."""
    if rng.random() < 0.3:
        return VocabularyShards.even(vocab_size, ranks, int(rng.choice([1, 8, 64])))
    cuts = np.sort(rng.integers(0, vocab_size + 1, ranks - 1))
    sizes = np.diff([0, *cuts, vocab_size])
    return VocabularyShards(sizes.tolist(), rng.integers(0, 4, ranks).tolist())


class RandomRequests:
    """The same calls on `all_ranks` and on `one`, which only one of the ranks has."""

    def __init__(self, place: Place, seed: int, max_model_len: int = 60, **options: Any) -> None:
        self.rng = np.random.default_rng(seed)
        self.place = place
        self.vocab_size = EOS + 1
        self.shards = random_shards(self.rng, self.vocab_size, place.size)
        self.dtype = DTYPES[seed % 3]
        options |= {"max_model_len": max_model_len}
        self.all_ranks = BatchShardedScheduler(self.shards, SHORT, group=place.group, **options)
        self.one = None
        if place.rank == seed % place.size:
            self.one = Scheduler(self.vocab_size, SHORT, **options)
        self.rows = 0
        self.results: list[str] = []

    def both(self, method: str, *arguments: Any, **keywords: Any) -> None:
        """Call a method of both."""
        got = getattr(self.all_ranks, method)(*arguments, **keywords)
        if self.one is not None:
            wanted = getattr(self.one, method)(*arguments, **keywords)
            if method not in ("remove", "suspend"):
                assert got == wanted, (method, got, wanted)

    def change(self) -> None:
        """Something happens to the requests."""
        rng, ids = self.rng, self.all_ranks.request_ids
        single = [r for r in ids if not str(r).startswith("g")]
        chosen = single[int(rng.integers(len(single)))] if single else None
        kind = rng.choice(["add", "add", "add", "group", "fork", "remove", "accept", "rollback", "pause"])
        tag = len(self.results) * 100 + self.all_ranks._ledger.calls
        prompt = rng.integers(0, EOS, int(rng.integers(0, 6))).tolist()
        if kind == "add" or chosen is None:
            own = SETTINGS[int(rng.integers(len(SETTINGS)))]
            params = SamplingParams(seed=int(rng.integers(2**63)), max_tokens=int(rng.integers(1, 12)), **own)
            self.both("add", params, prompt, request_id=tag)
        elif kind == "group":
            own = GROUPS[int(rng.integers(len(GROUPS)))]
            params = SamplingParams(**{"seed": int(rng.integers(2**63)), "max_tokens": 5, **own})
            count = params.beam_width or params.best_of or params.n
            self.both("add_group", params, prompt, request_ids=[f"g{tag}.{i}" for i in range(count)])
        elif kind == "fork":
            self.both("fork", chosen, new_request_id=tag, seed=int(rng.integers(2**63)))
        elif kind == "remove":
            self.both("remove", chosen)
        elif kind == "rollback":
            outputs = self.all_ranks._ledger.find(chosen).outputs
            self.both("rollback", chosen, int(rng.integers(0, 1 + min(outputs, 2))))
        elif kind == "pause":
            self.both("suspend", chosen)
            self.both("resume", chosen)

    def step(self, faulty: float = 0.1) -> None:
        """One step with all live requests, sometimes with drafts; a row is `faulty` with that probability."""
        inputs = self.inputs(self.all_ranks.request_ids, faulty)
        if inputs is None:
            return
        whole, named, drafts = inputs
        result = self.all_ranks.step(self.place.shard(self.shards, whole), named, **drafts)
        self.check(result, None if self.one is None else self.one.step(whole, named, **drafts))

    def inputs(self, ids: list[Any], faulty: float = 0.1) -> tuple[torch.Tensor, Any, Any] | None:
        """Whole rows for a step with these requests, in some order, and chains or trees of drafts as
        keywords; None for none."""
        rng = self.rng
        if not ids:
            return None
        drafts, keywords = None, {}
        if rng.random() < 0.3 and not any(str(r).startswith("g") for r in ids):
            drafts = [rng.integers(0, 3, int(rng.integers(0, 4))).tolist() for _ in ids]
            trees = [(draft, [int(rng.integers(-1, i)) for i in range(len(draft))]) for draft in drafts]
            keywords = {"draft_token_ids": drafts} if rng.random() < 0.5 else {"draft_trees": trees}
        rows = len(ids) if drafts is None else sum(1 + len(d) for d in drafts)
        logits = rng.normal(size=(rows, self.vocab_size)).astype(np.float32) * 3
        if drafts is not None:
            logits[:, :3] += 4
        if rng.random() < faulty:
            logits[int(rng.integers(rows)), int(rng.integers(self.vocab_size))] = np.nan
        whole = torch.from_numpy(logits).to(self.dtype)
        order = rng.permutation(len(ids)) if rng.random() < 0.2 else None
        self.rows += rows
        return whole, None if order is None else [ids[i] for i in order], keywords

    def check(self, result: StepResult, alone: StepResult | None) -> None:
        """Compare the results of a step."""
        self.results.append(repr(facts(result)))
        if alone is not None:
            wanted = facts(alone)
            assert facts(result) == wanted, f"\n{facts(result)}\n{wanted}\n{self.shards}"
            assert self.all_ranks.request_ids == self.one.request_ids
            for request_id, entry in self.all_ranks._ledger.live.items():
                assert entry.outputs == len(self.one.record(request_id).token_ids)


def facts(result: StepResult) -> dict[str, Any]:
    """All of a result, as plain values that can be compared."""
    of_rows = "sampling_mask", "given_logprobs"
    apart = {"token_ids", "first_rows", "skipped", "logprobs", "token_ids_on_device", *of_rows}
    plain = {f.name: getattr(result, f.name) for f in fields(result) if f.name not in apart}
    tables = {"": None} if result.logprobs is None else result.logprobs.by_mode
    return {
        **plain,
        "token_ids": result.token_ids.tolist(),
        "first_rows": result.first_rows.tolist(),
        "skipped": list(result.skipped),
        "logprobs": {mode: _plain(table) for mode, table in tables.items()},
        **{name: table and table.to_dict() for name in of_rows for table in [getattr(result, name)]},
    }


def _plain(table: Logprobs | None) -> list[Any]:
    if table is None:
        return []
    values = np.nan_to_num(table.entry_logprobs, nan=7.0, neginf=-1e30)
    return [a.tolist() for a in (table.entry_token_ids, values, table.starts, table.ranks)]


def live(place: Place, seed: int, steps: int) -> tuple[int, str]:
    """Requests at random; returns how many rows they had, and a digest of all results."""
    requests = RandomRequests(place, seed)
    for _ in range(steps):
        for _ in range(int(requests.rng.integers(0, 5))):
            requests.change()
        requests.step()
    return requests.rows, hashlib.sha256("".join(requests.results).encode()).hexdigest()
