"""How long sampling takes, beside the peers and the time to read the logits once; see README.md.

Importing this package keeps NumPy and torch, imported later, on one thread.
"""

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"
