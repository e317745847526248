"""Which rows of a step a device runs: whole chains, the first part of them up to a cut, or none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ....base.errors import INTERRUPTIONS, failure
from ....contract import Batch, Group, LogprobsRequest
from ...host_run import HostRun, Reason, members_of
from ..binding import Answer, LibraryError
from ..call_rows import Entry
from ..declined import Fallback
from ..header import number as code_of
from ..partition import Requirements
from ..session import Parts
from .calls import CallLimits, DeviceCall
from .logits import DeviceTensor
from .parts import DeviceParts


class DeviceHost(HostRun):
    """Runs on the host what a device leaves to it. Raises `LibraryError`, before anything has changed, if its
    rows cannot be read, as when the device is lost: the engine may have them elsewhere."""

    def run(self, batch: Batch, groups: Sequence[Group], why: Reason | None) -> None:
        try:
            batch.logits.fetch([row for group in groups for row in group.index.tolist()])
        except (MemoryError, *INTERRUPTIONS):
            raise
        except BaseException as error:
            what = f"backend {self.backend}: reading the logits on {batch.logits.device}"
            raise LibraryError(failure(what, error)) from error
        super().run(batch, groups, why)


_CUT_AGAIN = {"top_k", "min_p"}
"""Truncations that keep the same tokens of what one like them has left."""


class _Cut(NamedTuple):
    """The first part of the chains of some groups; `steps` says with which of its samplers the host goes on
    for each."""

    call: DeviceCall
    groups: list[Group]
    steps: list[int]


class StepOnDevice:
    """The groups of a step on a device: begun and finished while they stay the same.

    wholes  calls that run whole chains.
    cuts    calls that run chains up to a truncation; the host goes on with what these leave.
    hosted  the groups that the host runs.
    """

    def __init__(self, parts: DeviceParts, host: DeviceHost) -> None:
        self.host = host
        self.parts = parts
        self.wholes: list[DeviceCall] = []
        self.cuts: list[_Cut] = []
        self.hosted: list[Group] = []
        self.generation = parts.session.generation
        """Of the session, as the step was prepared."""

    def begin(self, batch: Batch) -> bool:
        """Queue the device's work; False, with nothing queued, if this preparation does not fit `batch`."""
        if self.parts.session.generation != self.generation:
            return False
        self.parts.begin_step(batch)
        calls = self._calls()
        begun = 0
        try:
            while begun < len(calls) and calls[begun].begin(batch):
                begun += 1
        finally:
            if begun < len(calls):
                self.settle_down()
        if len(calls) > 1 or self.hosted or self.cuts:
            batch.token_ids_on_device = None
        return begun == len(calls)

    def finish(self, batch: Batch) -> None:
        """Wait for the device, take its results, and run the rest on the host."""
        for call in self.wholes:
            if len(call.finish(batch)):
                batch.token_ids_on_device = None
        for cut in self.cuts:
            declined = cut.call.finish(batch)
            survivors = cut.call.survivors(declined)
            for group, step in zip(cut.groups, cut.steps, strict=True):
                own = {row: survivors[row] for row in group.index.tolist() if row in survivors}
                if own:
                    self.host.resume(batch, group, step, own, "unsupported")
        if self.hosted:
            self.host.run(batch, self.hosted, "unsupported")
        self.host.tell()

    def is_done(self) -> bool:
        """Whether `finish` need not wait for the device, as far as the library can tell."""
        self.parts.session.context.enter()
        return all(call.is_done() for call in self._calls())

    def settle_down(self) -> None:
        """Wait until the device no longer works for this step, and drop its results."""
        for call in self._calls():
            call.settle_down()

    def _calls(self) -> list[DeviceCall]:
        return [*self.wholes, *(cut.call for cut in self.cuts)]


def prepare_step(
    parts: DeviceParts,
    fallback: Fallback,
    name: str,
    exact: bool,
    batch: Batch,
    groups: Sequence[Group],
    tensor: DeviceTensor,
) -> StepOnDevice:
    """Decide which rows of `groups` the device of `parts` runs."""
    step = StepOnDevice(parts, DeviceHost(name))
    wholes: dict[tuple[Any, ...], list[_Offer]] = defaultdict(list)
    cuts: dict[tuple[Any, ...], list[_Offer]] = defaultdict(list)
    reports = batch.logprobs is not None and exact
    for group in groups:
        need = Requirements(tensor.layout, group.masked, group.want_processed, exact)
        writes = reports and not group.want_survivors
        for offer in _within_limits(parts, group, need, tensor, step.hosted, reports=writes):
            chosen = wholes if offer.steps is None else cuts
            chosen[offer.answer.random, offer.answer.random_width, offer.edits is None].append(offer)
    most = 0 if batch.logprobs is None else _most_logprobs(batch.logprobs)
    for offers in wholes.values():
        entries = [Entry(offer.group, offer.parts, offer.number, offer.edits) for offer in offers]
        limits = CallLimits.of([offer.answer for offer in offers])
        reported = offers[0].edits is not None
        call = DeviceCall(
            parts, fallback, step.host, entries, tensor, limits, reports=reported, most_logprobs=most
        )
        step.wholes.append(call)
    for offers in cuts.values():
        entries = [Entry(offer.group, offer.parts, offer.number) for offer in offers]
        limits = CallLimits.of([offer.answer for offer in offers])
        call = DeviceCall(parts, fallback, step.host, entries, tensor, limits, cuts=True)
        step.cuts.append(_Cut(call, [o.group for o in offers], [o.steps or 0 for o in offers]))
    step.generation = parts.session.generation  # the library may have refused programs meanwhile
    return step


def _most_logprobs(request: LogprobsRequest) -> int:
    """The most of the likeliest tokens that a row wants, rounded up to a power of two; −1: all."""
    most = int(request.top_n.max(initial=0))
    return -1 if (request.top_n < 0).any() else 1 << max(most - 1, 0).bit_length()


class _Offer(NamedTuple):
    """A program that the library runs for a group: the whole chain, or the first part of it, after which the
    host goes on with the sampler number `steps`. `edits` as in `Entry`."""

    group: Group
    parts: Parts
    number: int
    answer: Answer
    steps: int | None = None
    edits: int | None = None


def _within_limits(
    parts: DeviceParts,
    group: Group,
    need: Requirements,
    tensor: DeviceTensor,
    hosted: list[Group],
    *,
    reports: bool,
) -> list[_Offer]:
    """What the library runs of a group; rows that are beyond its limits go to `hosted`."""
    offer = (_reporting(parts, group, need, tensor) if reports else None) or _offer(
        parts, group, need, tensor
    )
    if offer is None:
        hosted.append(group)
        return []
    beyond = _beyond_top_k(offer)
    if beyond.any():
        hosted.append(members_of(group, np.flatnonzero(beyond)))
        if beyond.all():
            return []
        rest = members_of(group, np.flatnonzero(~beyond))
        rest.edits = group.edits
        offer = offer._replace(group=rest)
    return [offer]


def _beyond_top_k(offer: _Offer) -> np.ndarray:
    """bool [n]: the rows whose top_k is greater than the library takes, or that have none."""
    group, most = offer.group, offer.answer.max_top_k
    if not most or not any(part.name == "top_k" for part in offer.parts):
        return np.zeros(len(group.index), bool)
    top_k = np.asarray(group.rows["top_k"])
    beyond: np.ndarray = (top_k < 1) | (top_k > most)
    return beyond


def _reporting(parts: DeviceParts, group: Group, need: Requirements, tensor: DeviceTensor) -> _Offer | None:
    """The whole chain of a group, if the library also writes its logprobs: then nobody needs the rows."""
    whole: Parts = (*group.plan.samplers, group.plan.selector)
    answer = _accepted(parts, whole, replace(need, processed=False), tensor)
    if answer is None or (compiled := parts.session.compile(whole)) is None:
        return None
    edits = parts.session.edits_program(group, whole, tensor.layout)
    return None if edits is None else _Offer(group, whole, compiled, answer, edits=edits)


def _offer(parts: DeviceParts, group: Group, need: Requirements, tensor: DeviceTensor) -> _Offer | None:
    """The longest part of a chain that the library runs on logits as they lie; None if there is none."""
    chain = group.plan
    whole: Parts = (*chain.samplers, chain.selector)
    answer = _accepted(parts, whole, need, tensor)
    if answer is not None and (compiled := parts.session.compile(whole)) is not None:
        return _Offer(group, whole, compiled, answer)
    for n in range(len(chain.samplers), 0, -1):
        first: Parts = chain.samplers[:n]
        answer = _accepted(parts, first, replace(need, processed=False), tensor)
        if answer is None or not answer.promise("SURVIVORS") or answer.max_survivors < 1:
            continue
        keeps_ties = answer.ties == code_of("ES_TIES_KEPT")
        if keeps_ties and not all(part.name in _CUT_AGAIN for part in first):
            continue
        if (compiled := parts.session.compile(first)) is not None:
            # With ties kept, the library leaves too many tokens: the host cuts again.
            return _Offer(group, first, compiled, answer, 0 if keeps_ties else n)
    return None


def _accepted(parts: DeviceParts, program: Parts, need: Requirements, tensor: DeviceTensor) -> Answer | None:
    """The library's answer for a program, if it is sufficient for these logits."""
    answer = parts.session.query(program, need.layout, need.masked)
    if not need.met_by(answer, as_given=True, processed=need.processed) or answer is None:
        return None
    return None if answer.alignment > tensor.alignment else answer
