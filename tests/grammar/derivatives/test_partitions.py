"""Classes of bytes that an expression does not distinguish."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from engine_sampler.grammar.derivatives.partitions import class_of, classes, meet, of_class
from engine_sampler.grammar.derivatives.states import byte_ranges


def random_mask(random: Random) -> int:
    return random.choice((0, (1 << 256) - 1, 1 << random.randrange(256), random.getrandbits(256)))


@pytest.mark.parametrize("seed", range(8))
def test_bytes_are_in_one_class_if_the_same_sets_contain_them(seed: int) -> None:
    random = Random(seed)
    masks = [random_mask(random) for _ in range(random.randint(1, 3))]
    partition = meet(map(of_class, masks))
    for byte in range(256):
        alike = [
            other for other in range(256) if all(mask >> byte & 1 == mask >> other & 1 for mask in masks)
        ]
        assert partition[byte] == alike[0]
        assert class_of(byte, partition) == sum(1 << other for other in alike)
    assert list(classes(partition)) == sorted(set(partition))


@pytest.mark.parametrize("seed", range(8))
def test_ranges_hold_the_bytes_of_a_mask(seed: int) -> None:
    mask = random_mask(Random(seed))
    ranges = list(byte_ranges(mask, 7))
    assert mask == sum((1 << high + 1) - (1 << low) for low, high, _ in ranges)
    assert {target for _, _, target in ranges} <= {7}
    assert all(high + 1 < low for (_, high, _), (low, _, _) in pairwise(ranges))
