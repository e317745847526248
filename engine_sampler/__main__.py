"""The `engine-sampler` command as `python -m engine_sampler`."""

import sys

from .cli.main import main

sys.exit(main())
