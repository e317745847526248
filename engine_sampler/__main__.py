"""`python -m engine_sampler` is the `engine-sampler` command."""

import sys

from .cli.main import main

sys.exit(main())
