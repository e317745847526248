"""The tests of `engine_sampler_torch.ranks` run functions on four processes, which one pool keeps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from rank_pool import RankPool


@pytest.fixture(scope="session")
def ranks() -> Iterator[RankPool]:
    with RankPool(4) as pool:
        yield pool
