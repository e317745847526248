"""Wrong backends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from engine_sampler.arithmetic import LogitRows, row_logprobs
from engine_sampler.backends.numpy import NumpyBackend
from engine_sampler.contract import Batch, Chain, Group, Rows, Selection

from .collection import ANY, breaks
from .right import Plain

TOKENS = "tokens_and_notes_are_those_of_the_reference"
FAULT = "a_fault_stays_in_its_row"
STATES = "tokens_rollback_and_forks_are_followed"
STEPS = "random_steps_are_those_of_the_reference"


@breaks("the_declaration_is_sound")
class ScoresNaN(Plain):
    """Has no number for a device that it does not know."""

    def score(self, device: str) -> float:
        return 1.0 if device == "cpu" else float("nan")


@breaks("the_declaration_is_sound")
class HasNoReason(Plain):
    """Has None as its reason."""

    reason: Any = None


@breaks("a_step_in_two_halves_is_that_of_the_reference")
class DrawsTwice(Plain):
    """Draws when a step begins, and leaves the rows of its last group without tokens when it is finished."""

    def begin(self, batch: Batch) -> Any:
        self.run(batch)

        def finish() -> None:
            batch.token_ids[batch.groups[-1].index] = -1

        return finish


@breaks("a_step_in_two_halves_is_that_of_the_reference")
class BeginsNothing(Plain):
    """Says that a step is done which it has not begun."""

    def begin(self, batch: Batch) -> None:
        return None


@breaks("a_batch_may_be_repeated_in_other_rows", ANY)
class RepeatsNothing(Plain):
    """Says that a batch has been repeated in other rows, and has left them as they were."""

    follows_rows = True

    def repeated(self, cache: dict[Any, Any]) -> Any:
        return lambda rows: True


@breaks("supports_gives_a_bool_and_the_same_one_again", ANY)
class SupportsByName(Plain):
    """Returns a match in place of a bool."""

    def supports(self, sampler: Any) -> Any:
        return sampler.name


@breaks("supports_gives_a_bool_and_the_same_one_again", ANY)
class ChangesItsMind(Plain):
    """Supports a part every second time that it is asked."""

    asked = 0

    def supports(self, sampler: Any) -> bool:
        self.asked += 1
        return self.asked % 2 == 0


@breaks("some_chain_is_supported")
class SupportsNothing(Plain):
    """Supports no part at all."""

    def supports(self, sampler: Any) -> bool:
        return False


class Skipping(Plain):
    """Leaves samplers out of chains."""

    def left_out(self, sampler: Any) -> bool:
        raise NotImplementedError

    def compile(self, chain: Chain) -> Chain:
        return Chain(tuple(s for s in chain.samplers if not self.left_out(s)), chain.selector)


@breaks(TOKENS, ANY)
class SkipsWhatItDoesNotKnow(Skipping):
    """Claims to support every sampler, and skips those of other distributions."""

    def left_out(self, sampler: Any) -> bool:
        return sampler.name.startswith("foreign")


@breaks("survivors_are_those_of_the_reference", ANY, chains=12)
class SkipsPenalties(Skipping):
    """Skips what depends on the history."""

    def left_out(self, sampler: Any) -> bool:
        return sampler.role == "penalty"


@breaks(TOKENS, ANY)
class AlwaysDraws(Plain):
    """Knows one selector."""

    def compile(self, chain: Chain) -> Chain:
        from engine_sampler.registry import default_registry

        return Chain(chain.samplers, default_registry().catalogue.selectors["dist"])


@breaks(TOKENS, ANY)
class RunsBackwards(Plain):
    """Runs the chain from its end."""

    def compile(self, chain: Chain) -> Chain:
        return Chain(chain.samplers[::-1], chain.selector)


@breaks(TOKENS, ANY)
class ForgetsNotes(Plain):
    """Does not fill in notes."""

    def run(self, batch: Batch) -> None:
        super().run(batch)
        batch.notes[:] = np.nan


@breaks("survivors_are_those_of_the_reference", ANY)
class ForgetsSurvivors(Plain):
    """Ignores want_processed."""

    def run(self, batch: Batch) -> None:
        super().run(batch)
        batch.survivors.clear()


@breaks("survivors_are_those_of_the_reference", ANY)
class ReportsRawSurvivors(Plain):
    """Reports the logits as they were given."""

    def run(self, batch: Batch) -> None:
        super().run(batch)
        for row, (ids, _) in list(batch.survivors.items()):
            batch.survivors[row] = ids, batch.logits.row(row)[ids]


@breaks("several_chains_share_a_batch", ANY)
class RunsTheFirstGroup(Plain):
    """Runs the first group of a batch alone."""

    def run(self, batch: Batch) -> None:
        super().run(replace(batch, groups=batch.groups[:1]))


@breaks("several_chains_share_a_batch", ANY)
class RunsAllByTheFirstPlan(Plain):
    """Runs the chain of the first group for all."""

    def run(self, batch: Batch) -> None:
        super().run(replace(batch, groups=[replace(g, plan=batch.groups[0].plan) for g in batch.groups]))


@breaks("a_row_depends_on_itself_only", ANY)
class TakesRowsInOrder(Plain):
    """Ignores the index of a group."""

    def run(self, batch: Batch) -> None:
        groups = [replace(g, index=np.arange(len(g.index))) for g in batch.groups]
        super().run(replace(batch, groups=groups))


@breaks("a_row_depends_on_itself_only", ANY)
class FillsAllRows(Plain):
    """Writes a token to rows that no group names."""

    def run(self, batch: Batch) -> None:
        super().run(batch)
        if batch.errors.count(None) == len(batch.errors):
            batch.token_ids[batch.token_ids < 0] = 0


@breaks("masks_are_heeded", ANY, says="under a mask")
class IgnoresMasks(Plain):
    """Does not read the bitmask."""

    def run(self, batch: Batch) -> None:
        super().run(replace(batch, bitmask=None))


@breaks("masks_are_heeded", ANY)
class MasksAfterTheChain(Plain):
    """Replaces a masked choice by the first token that is allowed."""

    def run(self, batch: Batch) -> None:
        super().run(replace(batch, bitmask=None))
        if batch.bitmask is not None:
            for i, words in enumerate(batch.bitmask):
                bits = np.unpackbits(words.view(np.uint8), bitorder="little")
                if batch.token_ids[i] >= 0 and not bits[batch.token_ids[i]] and bits.any():
                    batch.token_ids[i] = bits.argmax()


@breaks("a_mask_holds_for_groups_that_are_masked_only", ANY)
class MasksAllGroups(Plain):
    """Applies the mask to rows of groups without a grammar."""

    def run(self, batch: Batch) -> None:
        masked = batch.bitmask is not None
        super().run(replace(batch, groups=[replace(g, masked=masked) for g in batch.groups]))


@breaks(FAULT, ANY, says="with faulty rows")
class FailsAsAWhole(Plain):
    """Gives no row a token if one is faulty."""

    def run(self, batch: Batch) -> None:
        super().run(batch)
        first = next((error for error in batch.errors if error), None)
        if first:
            batch.errors[:] = [first] * len(batch.errors)
            batch.token_ids[:] = -1


@breaks(FAULT, ANY)
class Raises(Plain):
    """Raises for a faulty row."""

    def run(self, batch: Batch) -> None:
        super().run(batch)
        if any(batch.errors):
            raise ValueError("a row is faulty")


@breaks(FAULT, ANY)
class HidesFaults(Plain):
    """Gives a faulty row token 0."""

    def run(self, batch: Batch) -> None:
        super().run(batch)
        for i, error in enumerate(batch.errors):
            if error:
                batch.errors[i], batch.token_ids[i] = None, 0


@breaks(FAULT, ANY)
class MendsFaults(Plain):
    """Replaces NaN by −inf, and infinity by a large number."""

    def run(self, batch: Batch) -> None:
        rows = np.stack([batch.logits.row(i) for i in range(len(batch.logits))])
        mended = np.nan_to_num(rows, nan=-np.inf, posinf=2.0**99, neginf=-np.inf)
        super().run(
            replace(batch, logits=LogitRows(np.minimum(mended, np.float32(2.0**99)), batch.logits.vocab_size))
        )


@breaks(FAULT, ANY)
class HasCodesForErrors(Plain):
    """Has numbers in place of messages."""

    def run(self, batch: Batch) -> None:
        super().run(batch)
        errors: list[Any] = batch.errors
        errors[:] = [error and 3 for error in errors]


@breaks("a_sampler_that_raises_ends_its_row_alone", ANY, chains=12)
class LetsASamplerEndItsGroup(Plain):
    """Ends all rows of a group when a sampler raises in one."""

    def run(self, batch: Batch) -> None:
        super().run(batch)
        for group in batch.groups:
            failed = next(
                (e for e in (batch.errors[i] for i in group.index.tolist()) if e and "failed" in e), None
            )
            if failed:
                for i in group.index.tolist():
                    batch.errors[i], batch.token_ids[i] = failed, -1


@breaks("inputs_are_only_read", ANY)
class WritesLogits(Plain):
    """Marks its choice in the logits."""

    def run(self, batch: Batch) -> None:
        super().run(batch)
        for i, token in enumerate(batch.token_ids.tolist()):
            if token >= 0 and batch.logits.array.flags.writeable:
                batch.logits.array[i, token] += 1


@breaks("inputs_are_only_read", ANY)
class MovesPositions(Plain):
    """Advances the positions itself."""

    def run(self, batch: Batch) -> None:
        super().run(batch)
        for group in batch.groups:
            group.rows.slots.positions[group.rows.slot_numbers] += 1


@breaks("drafts_get_the_results_of_the_reference")
class DrawsAllAhead(Plain):
    """Draws the rows of drafts together, though their histories count."""

    def draws_ahead(self, plan: Any) -> bool:
        return True


@breaks("drafts_get_the_results_of_the_reference")
class DrawsAheadOneDay(Plain):
    """Returns None where a bool is asked for."""

    def draws_ahead(self, plan: Any) -> Any:
        return None


@breaks("drafts_get_the_results_of_the_reference")
class FollowsDraftsOneDay(Plain):
    """Returns None where a bool is asked for."""

    def follows_drafts(self, plan: Any, tokens: int) -> Any:
        return None


@breaks("what_is_decided_is_counted_and_never_less")
class CountsDecisionsBackwards(Plain):
    """Counts its decisions of one step."""

    left = 1000

    def decisions(self, slots: Any, plan: Any = None) -> tuple[int, int]:
        self.left -= 1
        return self.left, 0


@breaks("logits_may_have_any_layout", ANY)
class TakesPaddingForTokens(Plain):
    """Draws the token with the greatest logit of the array, padding included."""

    def run(self, batch: Batch) -> None:
        super().run(batch)
        padding = batch.logits.array[:, batch.logits.vocab_size :]
        if padding.shape[1]:
            batch.token_ids[:] = np.where(padding.max(axis=1) > 40, batch.logits.vocab_size, batch.token_ids)


@breaks("logits_may_have_any_layout", ANY)
class IgnoresStrides(Plain):
    """Reads the memory behind the first row."""

    def run(self, batch: Batch) -> None:
        array = batch.logits.array
        if array.strides[0] < 0:
            batch = replace(batch, logits=LogitRows(array[::-1], batch.logits.vocab_size))
        super().run(batch)


@breaks("a_batch_may_be_run_again_with_its_cache", ANY)
class CachesTokens(Plain):
    """Keeps the tokens of a batch in its cache."""

    def run(self, batch: Batch) -> None:
        super().run(batch)
        batch.token_ids[:] = batch.cache.setdefault("tokens", batch.token_ids.copy())


@breaks(STATES, ANY)
class CachesHistories(Plain):
    """Reads the seed and position of a slot once."""

    def __init__(self) -> None:
        super().__init__()
        self.positions: dict[int, int] = {}

    def run(self, batch: Batch) -> None:
        for group in batch.groups:
            slots = group.rows.slots
            kept = slots.positions.copy()
            for slot in group.rows.slot_numbers.tolist():
                slots.positions[slot] = self.positions.setdefault((id(slots), slot), int(kept[slot]))
            super().run(replace(batch, groups=[group]))
            slots.positions[:] = kept


@breaks("a_slot_may_change_hands", ANY)
class CachesParameters(Plain):
    """Takes the seed of a slot from its first request."""

    def __init__(self) -> None:
        super().__init__()
        self.seeds: dict[Any, int] = {}

    def run(self, batch: Batch) -> None:
        for group in batch.groups:
            slots = group.rows.slots
            kept = slots.seeds.copy()
            for slot in group.rows.slot_numbers.tolist():
                slots.seeds[slot] = self.seeds.setdefault((id(slots), slot), int(kept[slot]))
            super().run(replace(batch, groups=[group]))
            slots.seeds[:] = kept


@breaks("a_scheduler_gives_the_same_results", ANY)
class FailsForMixedBatches(Plain):
    """Gives the rows of a second group to the first one's requests."""

    def run(self, batch: Batch) -> None:
        super().run(batch)
        if len(batch.groups) > 2:
            batch.token_ids[batch.groups[2].index] = 0


@breaks("apply_and_select_are_those_of_the_reference", ANY)
class AppliesToACopy(Plain):
    """Does not write what `apply` computes."""

    def apply(self, plan: Any, logits: np.ndarray, rows: Rows) -> None:
        super().apply(plan, logits.copy(), rows)


@breaks("apply_and_select_are_those_of_the_reference")
class SelectsTheBest(Plain):
    """Chooses the best token in `select`."""

    def select(self, plan: Any, logits: np.ndarray, rows: Rows) -> Selection:
        return Selection(logits.argmax(axis=1))


@breaks("logprobs_are_those_of_the_reference", ANY)
class WritesRoughLogprobs(Plain):
    """Writes logprobs that are off by a hundredth."""

    def run(self, batch: Batch) -> None:
        super().run(batch)
        if batch.logprobs is not None:
            for table in batch.logprobs.out:
                if table is not None:
                    table.logprobs[:] = -0.01
            batch.logprobs.done[:] = True


@breaks("logprobs_are_those_of_the_reference")
class RanksFromZero(Plain):
    """Counts ranks from 0 in `logprobs`."""

    def logprobs(self, logits: LogitRows, token_ids: np.ndarray, top_n: int) -> Any:
        from engine_sampler.arithmetic import gather, row_logprobs

        table = gather([row_logprobs(logits.row(i), int(t), top_n) for i, t in enumerate(token_ids.tolist())])
        table.ranks -= 1
        return table


@breaks("the_declaration_is_sound")
class ReadsFromSomewhere(Plain):
    """Gives no bool for the devices that it reads from."""

    def reads_from(self, device: str) -> Any:
        return None


@breaks("token_ids_on_a_device_are_the_token_ids")
class LeavesOldTokens(Plain):
    """Leaves the tokens of faulty rows on its device at 0."""

    def run(self, batch: Batch) -> None:
        super().run(batch)
        batch.token_ids_on_device = np.maximum(batch.token_ids, 0)


@breaks("masks_may_be_prepared")
class ForgetsChangedMasks(Plain):
    """Keeps prepared masks, whatever has changed."""

    def prepare_masks(self, bitmask: np.ndarray, rows: Any, device: str) -> Any:
        return bitmask.copy()

    def run(self, batch: Batch) -> None:
        if batch.prepared_masks is not None:
            batch.bitmask = batch.prepared_masks.handle
        super().run(batch)


@breaks("masks_may_be_prepared")
class KeepsTheCallersMasks(ForgetsChangedMasks):
    """Prepares masks without a copy."""

    def prepare_masks(self, bitmask: np.ndarray, rows: Any, device: str) -> Any:
        return bitmask

    def run(self, batch: Batch) -> None:
        if batch.prepared_masks is not None and not len(batch.prepared_masks.changed):
            batch.bitmask = batch.prepared_masks.handle
        NumpyBackend.run(self, batch)


class ProcessesOnTheHost(Plain):
    """Processes rows as the host does, without masks."""

    def process(self, batch: Batch) -> Any:
        out = np.stack([batch.logits.row(i) for i in range(len(batch.logits))])
        for group in batch.groups:
            rows = out[group.index]
            self.apply(group.plan, rows, group.rows)
            out[group.index] = rows
        return out


@breaks("process_is_that_of_the_reference", ANY)
class ProcessesWithoutMasks(ProcessesOnTheHost):
    """Processes rows of a grammar as if it allowed all tokens, and faulty rows as if they were sound."""


@breaks(TOKENS, ANY)
class IsNotExactThoughItClaims(Plain):
    """Draws from rounded logits."""

    def run(self, batch: Batch) -> None:
        rows = np.stack([batch.logits.row(i) for i in range(len(batch.logits))])
        with np.errstate(all="ignore"):
            rough = rows.astype(np.float16).astype(np.float32)
        rough[np.isinf(rough) & np.isfinite(rows)] = 1e5
        super().run(replace(batch, logits=LogitRows(rough, batch.logits.vocab_size)))


@breaks(TOKENS, ANY)
class ChoosesRemovedTokensThoughNotExact(Plain):
    """Is not exact, and may choose what its chain removes."""

    exact = False

    def run(self, batch: Batch) -> None:
        super().run(batch)
        for group in batch.groups:
            _shift(batch, group)


def _shift(batch: Batch, group: Group) -> None:
    """Choose the token after the right one."""
    right = batch.token_ids[group.index]
    size = group.rows.vocabulary.size
    batch.token_ids[group.index] = np.where(right < 0, right, (right + 1) % size)


class Bits(Plain):
    """Right: sees what it is given before it runs."""

    def wrong_at(self, batch: Batch) -> list[int]:
        """Rows that get a wrong token."""
        raise NotImplementedError

    def run(self, batch: Batch) -> None:
        super().run(batch)
        for row in self.wrong_at(batch):
            if batch.errors[row] is None:
                batch.token_ids[row] ^= 1


@breaks(STEPS, says="of bfloat16")
class TakesBfloat16ForFloat16(Bits):
    """Reads bfloat16 as float16."""

    def wrong_at(self, batch: Batch) -> list[int]:
        return list(range(len(batch.token_ids))) if batch.logits.bfloat16 else []


@breaks(STEPS, ANY)
class HasRoomForTwentyRowsOfAGroup(Bits):
    """Is wrong from the 21st row of a group on."""

    def wrong_at(self, batch: Batch) -> list[int]:
        return [int(row) for group in batch.groups for row in group.index[20:]]


@breaks(STEPS, ANY)
class Reads64Tokens(Bits):
    """Is wrong for histories of more than 64 tokens."""

    def wrong_at(self, batch: Batch) -> list[int]:
        return [
            int(row)
            for group in batch.groups
            for i, row in enumerate(group.index)
            if len(group.rows.token_ids(i)) > 64
        ]


@breaks(STEPS, ANY)
class MasksThreeRows(Bits):
    """Is wrong in masked rows from row 3 on."""

    def wrong_at(self, batch: Batch) -> list[int]:
        return [int(row) for group in batch.groups if group.masked for row in group.index if row >= 3]


@breaks(STEPS, ANY)
class ForgetsTheHighestBitOfSeeds(Bits):
    """Is wrong for seeds of 2^63 and above."""

    def wrong_at(self, batch: Batch) -> list[int]:
        return [
            int(row)
            for group in batch.groups
            for row, seed in zip(group.index, group.rows.seed, strict=True)
            if seed >> np.uint64(63)
        ]


@breaks(STEPS, ANY)
class IsForSmallVocabularies(Bits):
    """Is wrong above 20,000 tokens."""

    def wrong_at(self, batch: Batch) -> list[int]:
        return list(range(len(batch.token_ids))) if batch.logits.vocab_size > 20_000 else []


@breaks(STEPS, ANY, "logprobs_are_those_of_the_reference", says="penalized")
class TakesPenalizedForProcessed(Plain):
    """Writes raw logprobs in place of penalized ones."""

    def run(self, batch: Batch) -> None:
        super().run(batch)
        request = batch.logprobs
        if request is None or request.out[1] is None:
            return
        table = request.out[1]
        for row in range(len(batch.token_ids)):
            if batch.errors[row] is None and request.kinds[row] == 2:
                start, end = table.starts[row : row + 2]
                k = min(max(int(request.top_n[row]), 0), end - start - 1)
                answer = row_logprobs(batch.logits.row(row), int(batch.token_ids[row]), k)
                end = start + len(answer.token_ids)
                table.entry_token_ids[start:end] = answer.token_ids
                table.entry_logprobs[start:end] = answer.logprobs
                table.ranks[row] = answer.rank
                request.done[row] = True


@breaks(STEPS, ANY)
class HasRoomFor150Rows(Bits):
    """Is wrong from row 150 on."""

    def wrong_at(self, batch: Batch) -> list[int]:
        return [int(row) for group in batch.groups for row in group.index if row >= 150]
