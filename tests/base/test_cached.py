"""Properties that are computed once, without making other objects wait."""

from __future__ import annotations

import threading

from engine_sampler.base.cached import cached_property


class Squared:
    def __init__(self, root: int) -> None:
        self.root, self.computed = root, 0
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()

    @cached_property
    def square(self) -> int:
        """root²"""
        self.begun.set()
        self.computed += 1
        assert self.go_on.wait(30)
        return self.root**2


def test_a_property_is_computed_once() -> None:
    one = Squared(3)
    assert (one.square, one.square, one.computed) == (9, 9, 1)


def test_the_class_gives_the_property_and_its_docstring() -> None:
    assert isinstance(Squared.square, cached_property)
    assert Squared.square.__doc__ == "root²"


def test_an_object_does_not_wait_for_what_a_thread_computes_for_another() -> None:
    slow, quick = Squared(2), Squared(5)
    slow.go_on.clear()
    thread = threading.Thread(target=lambda: slow.square)
    thread.start()
    assert slow.begun.wait(30)
    squares: list[int] = []
    reader = threading.Thread(target=lambda: squares.append(quick.square), daemon=True)
    reader.start()
    reader.join(30)
    slow.go_on.set()
    thread.join()
    assert squares == [25]


def test_of_two_threads_that_compute_a_value_both_get_the_first() -> None:
    class Token:
        @cached_property
        def value(self) -> object:
            barrier.wait()
            return object()

    barrier, token = threading.Barrier(2), Token()
    values: list[object] = []
    threads = [threading.Thread(target=lambda: values.append(token.value)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values[0] is values[1] is token.value
