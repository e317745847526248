"""Counts of the laws of parsing: generated calls of each family under ten tokenizations, and mutated texts.

`python -m tests.messages.counts --calls 10000 --mutations 2500` prints for each family, in rounds over all of
them, how many have been read and how many differ; exits with 1 if any do. 2,500 mutated texts of each
of forty families are 10^5.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from random import Random

from engine_sampler.grammar import TOOL_FAMILIES

from .test_laws import check_mutations, check_tokenizations

ROUND = 20
"""How many answers of a family are read before the next family has its turn."""


def main() -> int:
    """Read, count and print."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--calls", type=int, default=100, help="calls of each family")
    arguments.add_argument("--mutations", type=int, default=100, help="mutated texts of each family")
    arguments.add_argument("--seconds", type=float, default=float("inf"), help="when to stop")
    wanted = arguments.parse_args()
    calls, texts, faults = Counter[str](), Counter[str](), Counter[str]()
    end, seed = time.monotonic() + wanted.seconds, 0
    while time.monotonic() < end:
        left = [
            family
            for family in TOOL_FAMILIES
            if calls[family] < wanted.calls or texts[family] < wanted.mutations
        ]
        if not left:
            break
        for family in left:
            for number in range(seed, seed + ROUND):
                try:
                    if calls[family] < wanted.calls:
                        calls[family] += check_tokenizations(family, Random(number), 10)
                    if texts[family] < wanted.mutations:
                        texts[family] += check_mutations(family, Random(f"{number}"), bool(number % 2))
                except Exception:
                    faults[family] += 1
                    print(f"{family}, {number}:", traceback.format_exc(), flush=True)
        seed += ROUND
        for family in TOOL_FAMILIES:
            print(f"{family}: {calls[family]} calls, {texts[family]} mutated texts, {faults[family]} differ")
        print(
            f"in all: {calls.total()} calls, {texts.total()} mutated texts, {faults.total()} differ",
            flush=True,
        )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
