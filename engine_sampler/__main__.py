"""`python -m engine_sampler` is the `engine-sampler` command."""

import sys

from .cli import main

sys.exit(main())
