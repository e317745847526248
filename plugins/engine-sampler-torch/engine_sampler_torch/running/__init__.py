"""A step on a device: one upload, the chains of all groups, one download, which is the only synchronisation.

To follow a step, read `step.py` (`run_step`), then `pieces.py` (what is uploaded for some rows), `chain.py`
(what runs on the device) and `results.py` (what is downloaded). `transfer.py` holds the two copies.
"""
