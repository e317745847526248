"""`BatchHistogram`: a histogram that takes many observations in one call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from prometheus_client import Histogram


class BatchHistogram(Histogram):
    """A histogram with `observe_all`, which costs little more for a hundred amounts than for one.

    prometheus_client takes one amount in a call, so this adds to the buckets themselves.
    """

    def observe_all(self, amounts: Sequence[float]) -> None:
        """The same as `observe` for each amount."""
        self._sum.inc(sum(amounts))
        counts = np.bincount(np.searchsorted(self._upper_bounds, amounts))
        for bucket, count in zip(self._buckets, counts.tolist(), strict=False):
            if count:
                bucket.inc(count)
