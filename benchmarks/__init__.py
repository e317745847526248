"""Sampling times, compared with the peers and with reading the logits once; see docs/benchmarks.

Importing this package limits NumPy and torch to one thread, as long as they are imported afterwards.
"""

import os
import sys
from pathlib import Path

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

# Integrations are distributions of their own; they are measured from where they are, without an install.
sys.path += [str(path) for path in Path(__file__).resolve().parents[1].glob("plugins/engine-sampler-*")]
