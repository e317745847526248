"""`BatchShardedScheduler`: one scheduler over the ranks that hold the shards of the vocabulary."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist

from engine_sampler import (
    BegunStep,
    Record,
    RequestError,
    RequestLimits,
    SamplingParams,
    Scheduler,
    StepResult,
    Tokenizer,
)
from engine_sampler.contract import Backend, Param, ParameterError
from engine_sampler.for_backends import (
    Newcomers,
    RequestId,
    check_single,
    checked_count,
    chosen_tokens_in,
    quoted,
)

from ..exchange import Exchange, digest
from ..shards import VocabularyShards
from .announcement import Meeting
from .device_tokens import DeviceTokens
from .ledger import Beams, Ledger, LedgerEntry
from .owner import Owner
from .questions import _Questions
from .rank_steps import RankSteps
from .row_move import RowRoom
from .soundness import Soundness

_POSITION = Param("position", int, None, low=0, high=2**62)
_NOT_OFFERED = ("prompt_logprobs", "prompt_logprob_token_ids")
"""Parameters that ask for what ranks do not exchange."""

Chains = Sequence[Sequence[int]] | Mapping[RequestId, Sequence[int]] | None
Trees = Sequence[Any] | Mapping[RequestId, Any] | None
"""The drafts of a step's requests."""


class BatchShardedScheduler(_Questions):
    """A `Scheduler` for an engine whose ranks hold shards of the vocabulary: every rank has one of these,
    gives it its shard of each row, and gets the tokens of all rows.

    A step sends whole rows to the ranks that own their requests (one `all_to_all_single` of the logits'
    bytes), which sample them with schedulers of their own, and gathers the answers. The results are equal on
    all ranks, and equal to those of one `Scheduler` with whole rows, for any number of ranks and any shards:
    a row's token depends on nothing but its request. Samplers, selectors, plugins, grammars, drafts,
    draft trees, logprobs, sampling masks, stop strings, groups and beam searches work unchanged, on any
    backend.

    shards          which rank has which tokens. The same on all ranks, as everything here.
    tokenizer, eos_token_ids, max_model_len, backend, num_threads, limits, postpone
                    as in `Scheduler`. Work that grammars may do in one step is counted by rank, so a request
                    may be postponed in another step than on one rank; its tokens are the same.
    group           the ranks, as a process group that the engine already has; it moves the logits, so it
                    needs a backend for their device. None: the default group.
    control_group   a group of the same ranks, in the same order, for the messages besides the logits: a gloo
                    group, if the engine has one, keeps them off the device, and lets `finish` of a step that
                    has begun overlap with the next pass, behind which they wait on the device. None: `group`.

    **The same calls on every rank.** Every rank makes the same calls with the same arguments in the same
    order, from one thread. `announce`, `step`, `begin`, `finish` of a step that has begun, `record`, `best`,
    `forced_tokens`, `draft` and the constructor communicate. Ranks that differ raise `RankError` in the next
    of these, on all ranks. Ids of requests should be numbers or strings; of grammars and criteria that are
    objects, only the types are compared.

    **Ownership.** A request gets a slot, the lowest free number, and belongs to rank (slot mod ranks). Its
    owner alone has its history, its grammar, compiled there only, and its states; the others know its
    parameters and how many tokens it has. Siblings of a group, and forks, stay with the owner of the first.
    Observers see the requests of their own rank.

    **Errors of requests.** What is wrong with parameters, ids and limits raises on all ranks alike, before
    anything changes. What the owner alone can find out, a grammar that does not compile above all, ends the
    request with `error` in its first step, on all ranks. Likewise a request that `accept` or `rollback` has
    ended stays in `request_ids` until the next step, which reports its end (`StepResult.skipped`).

    **Errors of ranks.** A rank that fails makes all of them raise `RankError` with its number and its reason,
    and leaves none waiting. If it fails before the logits have moved, nothing has changed; if all fail, each
    raises its own error (a wrong id is a `RequestError`, say). If it fails while it samples,
    `RankError.result` has what the others have drawn. A rank that failed outside of a step makes all
    following steps fail. For a rank that is gone, torch.distributed's error or timeout passes through.

    Not offered: `process`, `last_result`, `strict`; `grammar_compiler` with all that waits (`on_ready`,
    `client`, `waiting_ids`, `wait_ready`); `grammar_limits`, `grammar_engine`, `keep_faulty`; `name`;
    `export` and `add_exported`; `score_prompt`, and the parameters `prompt_logprobs` and
    `prompt_logprob_token_ids`; `parser`: feed a `MessageParser` with the tokens of the results; calls from
    other threads. `remove` and `suspend` give no record; `explain` and the `backend` are those of `local`.

    **Messages of a step**, in bytes from each rank: 48 to agree; its shard of all rows but its own; and 24 +
    8·rows + 8·requests + details, rows and requests being the most that a rank owns, details 64, and 32 for
    each request if there is a tokenizer, and what its logprobs and masks need. Details that do not fit follow
    in one message more. The first of them overlaps with the forward pass if the step is announced; 48 bytes
    more then go beside the logits, and tell whether every rank has them. Of a step in halves, the logits and
    8·rows for the tokens on the device are the only ones between these; `finish` sends 48 bytes, to know that
    all finish it, and the answers.
    """

    def __init__(
        self,
        shards: VocabularyShards,
        tokenizer: Tokenizer | None = None,
        *,
        eos_token_ids: Sequence[int] = (),
        max_model_len: int | None = None,
        backend: str | Backend = "auto",
        num_threads: int | None = None,
        limits: RequestLimits | None = None,
        postpone: bool = True,
        group: dist.ProcessGroup | None = None,
        control_group: dist.ProcessGroup | None = None,
    ) -> None:
        self.shards = shards
        self._control = Exchange(group if control_group is None else control_group)
        if (dist.get_rank(group), dist.get_world_size(group)) != (self.rank, self.size):
            raise ValueError(
                "control_group is not allowed: it must have the ranks of the group, in their order"
            )

        def facts() -> dict[str, int]:
            if len(shards.sizes) != self.size:
                raise ValueError(f"shards={shards} is not allowed: {self.size} shards, one for each rank")
            self.local = Scheduler(
                shards.vocab_size,
                tokenizer,
                eos_token_ids=eos_token_ids,
                max_model_len=max_model_len,
                backend=backend,
                num_threads=num_threads,
                limits=limits,
                postpone=postpone,
            )
            own = [shards, self.local.vocabulary.eos_token_ids, max_model_len, limits, tokenizer is None]
            return {"arguments": digest(*map(repr, own))}

        self._control.agree(
            "BatchShardedScheduler(…)", facts, lambda: f"{shards}, max_model_len={max_model_len}, …"
        )
        self._owner = Owner(self.local)
        self._ledger = Ledger(self.size, self.local.vocabulary)
        self._soundness = Soundness()
        meeting = Meeting(self._control, group, shards, RowRoom(), DeviceTokens(group))
        self._steps = RankSteps(meeting, self._owner, self._ledger, self._soundness)

    local: Scheduler
    """The scheduler of the requests that this rank owns. To look at: `explain`, `backend`."""

    @property
    def rank(self) -> int:
        """This rank's number."""
        return self._control.rank

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return self._control.size

    @property
    def request_ids(self) -> list[RequestId]:
        """The live requests of all ranks, in order of arrival."""
        return list(self._ledger.live)

    @property
    def request_ids_by_owner(self) -> list[RequestId]:
        """The same, those that rank 0 owns first, then those of rank 1, and so on. A step whose rows come so
        (`step(logits, request_ids_by_owner)`) sends them from where they are, if they have no padding; any
        other order costs a copy of the shard."""
        return self._ledger.by_owner()

    def owner_of(self, request_id: RequestId) -> int:
        """The rank that owns a request; raises `RequestError` for an unknown one."""
        return self._ledger.owner(self._ledger.find(request_id))

    # --- requests --------------------------------------------------------------------------------

    def add(
        self,
        params: SamplingParams,
        prompt_token_ids: Sequence[int] = (),
        *,
        request_id: RequestId | None = None,
        output_token_ids: Sequence[int] = (),
        grammar: Any = None,
        stopping_criteria: Sequence[Callable[..., Any]] = (),
        position: int | None = None,
    ) -> RequestId:
        """`Scheduler.add`. Raises `ParameterError` and `RequestError` on all ranks alike."""
        check_single(params, self._count(params, grammar))
        position = _POSITION.check(position)
        ids = self._ledger.free_ids(None if request_id is None else [request_id], 1)
        tokens = prompt_token_ids, output_token_ids
        newcomers = Newcomers.of(self.local, ids, params, tokens, stopping_criteria)

        def add() -> None:
            self.local.add(
                params,
                prompt_token_ids,
                request_id=ids[0],
                output_token_ids=output_token_ids,
                grammar=grammar,
                stopping_criteria=stopping_criteria,
                position=position,
            )

        self._join("add", newcomers, (grammar, list(stopping_criteria), position), add)
        return ids[0]

    def add_group(
        self,
        params: SamplingParams,
        prompt_token_ids: Sequence[int] = (),
        *,
        request_ids: Sequence[RequestId] | None = None,
        grammar: Any = None,
        stopping_criteria: Sequence[Callable[..., Any]] = (),
    ) -> list[RequestId]:
        """`Scheduler.add_group`: siblings and beam searches, all with one owner. Raises as `add`."""
        ids = self._ledger.free_ids(request_ids, self._count(params, grammar))
        tokens = prompt_token_ids, ()
        newcomers = Newcomers.of(self.local, ids, params, tokens, stopping_criteria, is_group=True)
        beams = Beams(ids) if params["use_beam_search"] else None

        def add() -> None:
            self.local.add_group(
                params,
                prompt_token_ids,
                request_ids=ids,
                grammar=grammar,
                stopping_criteria=stopping_criteria,
            )

        self._join("add_group", newcomers, (params, grammar, list(stopping_criteria)), add, beams)
        return ids

    def accept(self, request_id: RequestId, token_ids: Sequence[int], logprobs: Sequence[float] = ()) -> None:
        """`Scheduler.accept`: tokens chosen elsewhere. If they end the request, the next step says so."""
        entry = self._ledger.find_single(request_id)
        tokens, _ = chosen_tokens_in(token_ids, logprobs, self.local.vocabulary)
        with self._changing("accept", entry, tokens, list(logprobs)):
            entry.outputs += len(tokens)
            self._change(entry, lambda: self.local.accept(request_id, tokens, logprobs))

    def rollback(self, request_id: RequestId, n: int) -> None:
        """`Scheduler.rollback`: undo the last n output tokens."""
        entry = self._ledger.find_single(request_id)
        if not 0 <= n <= entry.outputs:
            raise RequestError(
                f"n={n} is not allowed: request {request_id!r} has {entry.outputs} output tokens"
            )
        self._steps.check_idle()
        with self._changing("rollback", entry, n):
            entry.outputs -= n
            self._change(entry, lambda: self.local.rollback(request_id, n))

    def fork(
        self, request_id: RequestId, *, new_request_id: RequestId | None = None, seed: int | None = None
    ) -> RequestId:
        """`Scheduler.fork`: a copy that continues on its own, at the same owner."""
        seed = SamplingParams(seed=seed)["seed"]
        parent = self._ledger.find_single(request_id)
        child_id = self._ledger.free_ids(None if new_request_id is None else [new_request_id], 1)[0]
        self._steps.check_idle()
        with self._changing("fork", parent, child_id, seed):
            child = copy.copy(parent)
            child.id = child_id
            self._ledger.join_beside(child, parent)
            if self._owns(parent):
                self._owner.fork(request_id, child_id, seed)
        return child_id

    def suspend(self, request_id: RequestId) -> None:
        """`Scheduler.suspend`: take a request out of the steps. Its owner keeps it."""
        entry = self._ledger.find_single(request_id)
        self._steps.check_idle()
        with self._changing("suspend", entry):
            self._ledger.suspend(entry)
            self._change(entry, lambda: self.local.suspend(request_id))

    def resume(self, request_id: RequestId) -> None:
        """`Scheduler.resume`: take a suspended request back into the steps."""
        entry = self._ledger.find(request_id)
        if request_id not in self._ledger.suspended:
            raise RequestError(f"request {request_id!r} is not suspended")
        self._steps.check_idle()
        with self._changing("resume", entry):
            self._ledger.resume(entry)
            self._change(entry, lambda: self.local.resume(request_id))

    def remove(self, request_id: RequestId) -> None:
        """Forget a request; a live one ends with `abort`, and so does its beam search."""
        entry = self._ledger.find(request_id)
        with self._changing("remove", entry):
            self._ledger.forget(entry)
            if self._owns(entry):
                self._owner.remove(request_id)

    # --- steps -----------------------------------------------------------------------------------

    def prepare(self, request_ids: Sequence[RequestId] | None = None) -> None:
        """Fill the grammar masks of this rank's requests for the next step, while the forward pass runs."""
        ids = self.request_ids if request_ids is None else request_ids
        entries = [self._ledger.find_live(request_id) for request_id in ids]
        self._steps.check_idle()
        with self._soundness.guarded():
            self._owner.prepare([entry.id for entry in entries if self._owns(entry)])

    def announce(
        self,
        request_ids: Sequence[RequestId] | None = None,
        draft_token_ids: Chains = None,
        *,
        draft_trees: Trees = None,
    ) -> None:
        """Agree with the other ranks on the next step while the forward pass runs; returns at once. A `step`
        or `begin` with these arguments, logits of the dtype of the step before, and no call that changes
        requests in between sends its logits without asking first. Every rank announces a step, or none
        does."""
        self._steps.announce(request_ids, _drafts(draft_token_ids, draft_trees))

    def step(
        self,
        logits: torch.Tensor,
        request_ids: Sequence[RequestId] | None = None,
        draft_token_ids: Chains = None,
        *,
        draft_trees: Trees = None,
    ) -> StepResult:
        """Sample one token for each row, on all ranks: `Scheduler.step`, whose result all of them get, with
        `token_ids_on_device` on the device of their own logits.

        logits           this rank's shard, [rows, sizes[rank] + padding[rank]], float32, float16 or bfloat16,
                         of the same dtype on all ranks, on a device that the group serves. Not written to.
        request_ids      the requests of the rows, in order; default: all live ones. Those that have left are
                         skipped, as in `Scheduler.step`.
        draft_token_ids, draft_trees  as in `Scheduler.step`: a request with k drafts has k + 1 rows.

        Raises `RankError` as the class says, and before anything has changed `RequestError`,
        `ParameterError`, TypeError or ValueError if all ranks are given what is not allowed.
        """
        return self._steps.step(logits, request_ids, _drafts(draft_token_ids, draft_trees))

    def begin(
        self,
        logits: torch.Tensor,
        request_ids: Sequence[RequestId] | None = None,
        draft_token_ids: Chains = None,
        *,
        draft_trees: Trees = None,
    ) -> BegunStep:
        """The first half of `step`: `Scheduler.begin` over all ranks. The logits move, each owner begins with
        its rows, and the group gathers the tokens of all: `token_ids_on_device`, int64 [rows] on the device
        of this rank's logits, in the order of its stream, before the host of any rank knows them. Nothing
        waits for the device. `finish` does the rest, on all ranks, and gives the result of `step`.

        Where a token is not there, the row has −1, on all ranks alike. It is so in all rows of a rank that
        has failed, or on which `Scheduler.begin` has none: its backend does not work on the device, or leaves
        a row to the host; one of its rows belongs to a beam search; the mask of a draft is not known. And it
        is so in rows that give none: postponed, skipped, behind a wrong draft, most faulty ones. After
        `finish`, `StepResult.token_ids_on_device` is the same tensor if all in it are the tokens of the step;
        else None: then the rows of which it holds others need the pass again that is under way.

        Until it is finished, the step counts as running: requests can be added, `accept` waits for its end,
        `remove`, `record` and `best` are possible, and `announce` for the next step; other calls raise
        RuntimeError. Name the requests of the pass that is under way in the next step, which skips those that
        have left.

        Arguments are those of `step`. Raises what `step` does before logits move. Whatever fails after that,
        or on some ranks of a step that is announced, an interruption too, is raised by `finish`, or by what
        is called before it, so that all ranks can launch the same pass. `finish` raises what `step` does. If
        a rank has no logits to give, or does not finish the step, the `RankError` has no `result`: the step
        is given up on all ranks, and has not been done. All may give it up (`give_up`), or drop it.
        """
        return self._steps.begin(logits, request_ids, _drafts(draft_token_ids, draft_trees))

    # --- inside ----------------------------------------------------------------------------------

    def _count(self, params: SamplingParams, grammar: Any) -> int:
        """How many requests `params` describe. Raises `ParameterError`."""
        count = checked_count(self.local, params, grammar)
        for name in _NOT_OFFERED:
            if name in params.given:
                raise ParameterError(f"{name}={quoted(params[name])} is not allowed among ranks")
        return count

    def _owns(self, entry: LedgerEntry) -> bool:
        return self._ledger.owner(entry) == self.rank

    def _join(
        self,
        name: str,
        newcomers: Newcomers,
        arguments: tuple[Any, ...],
        add: Callable[[], object],
        beams: Beams | None = None,
    ) -> None:
        """Add the newcomers, at their owner by `add`. Every rank finds out before whether they can be built,
        but for their grammar."""
        ids, request = newcomers.ids, newcomers.first_without_grammar()
        prompt, output = request.history.prompt_token_ids, request.history.output_token_ids
        wants = request.logprobs_modes, request.raw_logprobs, request.details
        entries = [LedgerEntry(i, request.params, -1, len(output), beams, *wants) for i in ids]

        def unable(reason: str) -> list[Record]:
            request.fail(reason)
            return [replace(request.record(), request_id=request_id) for request_id in ids]

        with self._soundness.guarded():
            self._ledger.note(f"{name} {quoted(ids[0])}", ids, request.params, prompt, output, *arguments)
            if self._ledger.join(entries) == self.rank:
                self._owner.add(unable, add)

    @contextmanager
    def _changing(self, name: str, entry: LedgerEntry, *arguments: Any) -> Iterator[None]:
        """Around a change of one request, which is noted in the ledger."""
        with self._soundness.guarded():
            self._ledger.note(f"{name} {quoted(entry.id)}", entry.id, *arguments)
            yield

    def _change(self, entry: LedgerEntry, call: Callable[[], object]) -> None:
        """Do `call` to a request at its owner."""
        if self._owns(entry):
            self._owner.change(entry.id, call)


def _drafts(chains: Chains, trees: Trees) -> tuple[Chains, Trees] | None:
    """The drafts of a step, as `Ledger.plan` takes them."""
    return None if chains is None and trees is None else (chains, trees)
