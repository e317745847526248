"""The laws of backends whose logits may lie on a device."""

from __future__ import annotations

import numpy as np

from ..arithmetic import FLT_MAX, LogitRows, RowFault, checked_row
from ..backends.numpy import NumpyBackend
from ..base.errors import PluginFault, described
from ..contract import PreparedMasks
from ..contract import unpack_bitmask as unpacked
from .backend_trials import BackendTrials
from .batches import new_batch, on_host, packed, results_of, run_batch
from .chains import ChainTrial

FAULTS = {
    "NaN": np.nan,
    "+inf": np.inf,
    "a logit above 2^100": 2.0**101,
    "only -inf": -np.inf,
}
"""What makes a row faulty."""


class DeviceLaws(BackendTrials):
    """What a backend promises about tensors on its device; host backends keep these laws by doing nothing."""

    def test_token_ids_on_a_device_are_the_token_ids(self) -> None:
        for trial in self.trials():
            logits = trial.logits.copy()
            logits[1::3] = np.nan
            batch = new_batch(self.place(logits), [self.group(self.backend, trial)], None)
            self.backend.run(batch)
            if batch.token_ids_on_device is not None:
                found = on_host(batch.token_ids_on_device)
                same = found.dtype == np.int64 and np.array_equal(found, batch.token_ids)
                assert same, f"token_ids_on_device holds {found}, token_ids {batch.token_ids}, {trial}"

    def test_a_step_in_two_halves_is_that_of_the_reference(self) -> None:
        for number, trial in enumerate(self.trials()):
            logits = trial.logits.copy()
            logits[::5] = np.nan
            groups = [self.group(b, trial) for b in (self.backend, NumpyBackend())]
            if number % 3 == 0:  # one that is given up
                self.backend.begin(new_batch(self.place(logits), groups[:1], None))
            batch = new_batch(self.place(logits), groups[:1], None)
            finish = self.backend.begin(batch)
            early = batch.token_ids_on_device
            assert finish is None or callable(finish), f"begin gives {described(finish)}, {trial}"
            if finish is not None:
                finish()
            right = run_batch(NumpyBackend(), logits, groups[1:])
            self.expect(trial, results_of(batch), right, "begun and finished")
            if batch.token_ids_on_device is not None:
                assert batch.token_ids_on_device is early, f"the tokens on the device are others, {trial}"

    def test_masks_may_be_prepared(self) -> None:
        for number, trial in enumerate(self.trials()):
            n, size = len(trial.rows), trial.case.vocab_size
            random = np.random.default_rng(number)
            early, late = (packed(random.random((n, size)) < 0.5) for _ in range(2))
            given, device = early.copy(), LogitRows(self.place(trial.logits), size).device
            handle = self.backend.prepare_masks(given, range(n), device)
            given[:] = 0
            for changed in (range(0), range(0, n, 2)):
                mask = early.copy()
                mask[changed] = late[changed]
                groups = [self.group(b, trial, masked=True) for b in (self.backend, NumpyBackend())]
                batch = new_batch(self.place(trial.logits), groups[:1], mask)
                batch.prepared_masks = None if handle is None else PreparedMasks(handle, changed)
                self.backend.run(batch)
                right = run_batch(NumpyBackend(), trial.logits, groups[1:], mask)
                where = f"with prepared masks of which {len(changed)} have changed"
                self.expect(trial, results_of(batch), right, where)

    def test_process_is_that_of_the_reference(self) -> None:
        for number, trial in enumerate(self.trials()):
            n, size = trial.logits.shape
            logits = trial.logits.copy()
            logits[::4] = list(FAULTS.values())[number % len(FAULTS)]
            mask = packed(np.random.default_rng(number).random((n, size)) < 0.9)
            batch = new_batch(self.place(logits), [self.group(self.backend, trial, masked=True)], mask)
            found = self.backend.process(batch)
            if found is None:
                continue
            rows, right = on_host(found), self._processed(trial, logits, mask)
            form = rows.dtype == np.float32 and rows.shape == (n, size)
            assert form, f"process gives {described(rows)}, not float32 {[n, size]}, {trial}"
            for i in range(n):
                processed, expected = (row[i] + np.float32(0) for row in (rows, right))
                if np.isnan(expected).any():
                    same = np.isnan(processed).all() and batch.errors[i] is not None
                else:
                    same = processed.tobytes() == expected.tobytes() and batch.errors[i] is None
                assert same or not self.backend.exact, (
                    f"process gives {processed[:5]} in row {i}, not {expected[:5]}, {trial}"
                )

    def _processed(self, trial: ChainTrial, logits: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """The rows after the chain by the reference, one by one; faulty ones are NaN."""
        reference, size = NumpyBackend(), logits.shape[1]
        out = np.full(logits.shape, np.nan, np.float32)
        for i in range(len(logits)):
            try:
                row = checked_row(logits[i]).copy()
                row[~unpacked(mask[i], size)] = -np.inf
                rows = trial.rows.take(slice(i, i + 1)).under(mask[i : i + 1])
                reference.apply(reference.compile(trial.chain), row[None], rows)
            except (RowFault, PluginFault):
                continue
            if -np.inf < row.max() <= FLT_MAX:
                out[i] = row
        return out
