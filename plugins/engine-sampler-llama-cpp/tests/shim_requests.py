"""Random requests that the shim and a scheduler both know."""

from __future__ import annotations

from typing import Any

import numpy as np

VOCAB = 300

CHOICES: dict[str, tuple[Any, ...]] = {
    "temperature": (0.0, 0.3, 0.7, 1.3),
    "dynatemp_range": (0.4,),
    "smoothing_factor": (0.3,),
    "top_k": (1, 5, 40),
    "top_p": (0.3, 0.9),
    "top_p_cut": ("exceed", "below"),
    "min_p": (0.02, 0.3),
    "typical_p": (0.8,),
    "tfs": (0.9,),
    "tfs_cut": ("koboldai",),
    "top_a": (0.1,),
    "top_h": (0.4,),
    "top_n_sigma": (1.5,),
    "p_less": (True,),
    "p_less_norm": (True,),
    "min_k": (True,),
    "min_k_tau": (200.0,),
    "epsilon_cutoff": (0.001,),
    "eta_cutoff": (0.002,),
    "xtc_probability": (0.5, 1.0),
    "xtc_threshold": (0.05,),
    "min_keep": (3,),
    "repetition_penalty": (1.2, 0.9),
    "repetition_penalty_range": (6, -1),
    "repetition_penalty_slope": (0.7,),
    "frequency_penalty": (0.4,),
    "presence_penalty": (-0.5,),
    "penalty_last_n": (8, 0),
    "penalty_decay_range": (5,),
    "penalty_scope": ("default", "output"),
    "no_repeat_ngram_size": (1, 2),
    "dry_multiplier": (0.8, 3.0),
    "dry_base": (1.2,),
    "dry_allowed_length": (0, 1),
    "dry_penalty_last_n": (12,),
    "dry_sequence_breakers": ([3, [7, 8]], [[1, 2, 3], 5, [1, 2], 5]),
    "mirostat": (1, 2),
    "mirostat_tau": (2.0,),
    "adaptive_target": (0.3,),
}

ORDER = ("xtc", "temperature", "min_p", "penalties", "top_p", "dry", "top_k", "no_repeat_ngram", "tfs",
         "top_a", "top_n_sigma", "typical_p", "p_less", "min_k", "epsilon_cutoff", "eta_cutoff", "top_h",
         "smoothing")  # fmt: skip


def random_request(random: np.random.Generator) -> dict[str, Any]:
    """Parameters of one request, a few of them not neutral."""
    names = random.choice([*CHOICES], random.integers(1, 9), replace=False)
    settings = {str(name): CHOICES[name][random.integers(len(CHOICES[name]))] for name in names}
    if "mirostat" in settings:
        settings.pop("adaptive_target", None)
    if random.random() < 0.3:
        settings["order"] = [ORDER[i] for i in random.permutation(len(ORDER))]
    settings["seed"] = int(random.integers(2**63))
    return settings


def random_text(random: np.random.Generator, n: int) -> list[int]:
    """Token ids that repeat often."""
    return [int(token) for token in random.integers(0, 12, n)]
