"""The cache of grammars: bounded by weights that grow."""

import gc
import weakref

from engine_sampler.grammar.cache import Cache


def grown(values: int) -> tuple[Cache[list[int]], list[list[int]]]:
    """A cache of lists, which weigh what they contain, and those lists."""
    cache: Cache[list[int]] = Cache(10_000, 10_000, sum, grow=True)
    lists = [[1] for _ in range(values)]
    for number, one in enumerate(lists):
        cache.put(number, one)
    return cache, lists


def test_values_that_grow_are_dropped_once_others_came() -> None:
    cache, lists = grown(100)
    lists[50][0] = 10_000
    for number in range(100, 208):
        cache.put(number, [1])
    assert cache.find(50) is None


def test_one_more_value_weighs_one_of_the_others_again() -> None:
    weighed = []

    def weigh(value: int) -> int:
        weighed.append(value)
        return 1

    cache: Cache[int] = Cache(10_000, 10_000, weigh, grow=True)
    for number in range(1000):
        cache.put(number, number)
    weighed.clear()
    cache.put(1000, 1000)
    assert len(weighed) == 2


def test_the_counts_include_all_growth() -> None:
    cache, lists = grown(100)
    for one in lists:
        one.append(2)
    assert cache.info().weight == 300


def test_values_that_do_not_grow_are_weighed_once() -> None:
    cache: Cache[list[int]] = Cache(10, 10, sum)
    one = cache.put("one", [1])
    one.append(5)
    cache.put("two", [1])
    assert cache.info().weight == 2


class Heavy:
    """A value that can be observed."""


def test_a_dropped_value_is_released_although_it_was_to_be_weighed_again() -> None:
    cache: Cache[Heavy] = Cache(8, 10_000, lambda _: 1, grow=True)
    first = Heavy()
    released = weakref.ref(first)
    cache.put("first", first)
    del first
    for number in range(8):
        cache.put(number, Heavy())
    gc.collect()
    assert released() is None
    assert cache.info().weight == 8
