"""`python -m engine_sampler_ascend`: verify and measure on an NPU."""

import sys

from .on_device import main

sys.exit(main())
