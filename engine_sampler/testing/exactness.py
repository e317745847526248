"""The laws of exactness that samplers and selectors share: no libm, no float sums, no other randomness."""

from __future__ import annotations

import numpy as np

from .cases import Case
from .laws import Contract
from .search.live import Live
from .watching import Source, Watched, draws_of_other_seeds, watching

OTHER_SEEDS = {"low": (1, 2, 3, 1 << 20), "high": (1 << 32, 2 << 32, 3 << 32, 1 << 62)}
OTHER_POSITIONS = {
    "low": (1, 2, 3, 1000),
    "16 low": (1 << 16, 2 << 16, 3 << 16, 1 << 20),
    "32 low": (1 << 32, 2 << 32, 3 << 32, 1 << 40),
}
OTHER_STREAM = 0x5EED
DRAWS = "rows.draw: a seed serves that alone"


class ExactContract(Contract):
    """`Contract`, and what makes results the same on every machine and backend."""

    def test_nothing_rests_on_libm(self) -> None:
        self._expect_independence("libm", "engine_sampler.arithmetic has weights, log2_64, exp2_64 and power")

    def test_nothing_rests_on_the_order_of_a_float_sum(self) -> None:
        self._expect_independence("sums", "sums of weights are integers")

    def test_no_integer_overflows(self) -> None:
        for case in self.cases(wide=True):
            with watching("integers", self.part) as watch:
                self._watched_outcome(case)
            used = ", ".join(sorted(watch.used))
            assert not watch.used, (
                f"an integer overflows in {used} for rows such as {case.kinds[0]!r} with a vocabulary of "
                f"{case.vocab_size}: a sum of weights has 47 bits, one of their squares 77"
            )

    def test_the_sign_of_zero_does_not_matter(self) -> None:
        for case in self.cases():
            plus, minus = (np.where(case.logits == 0, np.float32(zero), case.logits) for zero in (0.0, -0.0))
            one, other = (self.outcome(logits, Live(self, case).rows) for logits in (plus, minus))
            case.expect_equal(other + 0.0, one + 0.0, "when zeros have another sign")

    def test_randomness_depends_on_the_seed_and_the_position(self) -> None:
        if not self._is_random():
            return
        for which, shifts in OTHER_SEEDS.items():
            changed = any(self._differs(seed=shift) for shift in shifts)
            assert changed, f"{self.part.name} draws the same for seeds that differ in their {which} 32 bits"
        for which, shifts in OTHER_POSITIONS.items():
            changed = any(self._differs(position=shift) for shift in shifts)
            bits = "" if which == "low" else f" that have the same {which} bits"
            assert changed, (
                f"{self.part.name} draws the same at all positions{bits}: its randomness uses the seed alone"
            )

    def test_randomness_comes_from_draw(self) -> None:
        if not self._is_random():
            return
        message = (
            f"{self.part.name} takes random numbers that are not those of rows.draw, which alone are the "
            "same on every backend and differ from those of other samplers"
        )
        assert self._differs(stream=OTHER_STREAM), message
        for case in (one for each in self.drawn() for one in (each, each.reversed())):
            expected = self.continued(case).outcome()
            random = np.random.default_rng(len(case))
            for shift in (1 << 63, *random.integers(0, 2**64, 3, np.uint64).tolist()):
                live = self.continued(case)
                live.shift(shift, 0)
                with draws_of_other_seeds(shift):
                    case.expect_equal(live.outcome(), expected, f"for other seeds with the same {DRAWS}")

    # --- helpers ---------------------------------------------------------------------------------

    def _expect_independence(self, source: Source, instead: str) -> None:
        for case in self.cases():
            expected = self.continued(case).outcome()
            with watching(source, self.part) as watch:
                outcome = self._watched_outcome(case)
            used = ", ".join(sorted(watch.used))
            case.expect_equal(np.asarray(outcome), expected, f"with another {used} ({instead})")

    def _watched_outcome(self, case: Case) -> np.ndarray:
        live = self.continued(case)
        try:
            rows = live.rows
            for param in self.part.params:
                rows[param.name]  # so that the column exists
                live.replace_column(param.name, Watched)
            return self.outcome(case.logits.view(Watched), live.rows)
        except Exception:  # code that takes plain arrays alone
            return self.continued(case).outcome()

    def _is_random(self) -> bool:
        """Whether another seed gives another result for any row."""
        for case in self.listed():
            live = Live(self, case)
            before = live.outcome()
            for shift in (shift for shifts in OTHER_SEEDS.values() for shift in shifts):
                live.shift(shift, 0)
                if not np.array_equal(live.outcome(), before, equal_nan=True):
                    return True
                live.shift(shift, 0)  # the seeds as they were
        return False

    def _differs(self, seed: int = 0, position: int = 0, stream: int | None = None) -> bool:
        """Whether any row has another result with seeds and positions that differ by these bits."""
        for case in self.listed():
            live = Live(self, case)
            before = live.outcome()
            live.shift(seed, position)
            rows = live.rows
            if stream is not None:
                rows._stream = stream
            if not np.array_equal(self.outcome(case.logits, rows), before, equal_nan=True):
                return True
        return False
