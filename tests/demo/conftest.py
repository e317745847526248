"""A small embedded engine, learnt once."""

from __future__ import annotations

import pytest

TEXT = """\
The cat sat on the mat. The cat saw the rat, and the rat saw the cat.

A rat ran over the mat and the cat ran after it. Then the cat sat down again.

The dog slept under the table. The cat and the rat did not see the dog.
"""


@pytest.fixture(scope="session")
def engine():
    pytest.importorskip("tokenizers")
    from engine_sampler.demo.engine import Engine

    return Engine.learn([*TEXT.split("\n\n")])


@pytest.fixture
def demo(engine):
    from engine_sampler.demo.app import Demo
    from engine_sampler.demo.engine import DemoSession

    return Demo(DemoSession(engine), "The cat", seed=1)
