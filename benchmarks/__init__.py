"""Sampling times, compared with the peers and with reading the logits once; see README.md.

Importing this package limits NumPy and torch to one thread, as long as they are imported afterwards.
"""

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"
