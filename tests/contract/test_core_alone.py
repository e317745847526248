"""The core, from `scheduler` down, imports and runs without the grammar engine, the readers of answers, and lark."""

from __future__ import annotations

import subprocess
import sys

WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "lark" or name.startswith(("engine_sampler.grammar", "engine_sampler.messages")):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
import numpy as np
from engine_sampler import ParameterError, SamplingParams, Scheduler, Tokenizer

tokenizer = Tokenizer([bytes([i]) for i in range(256)] + [b"</s>"], eos_token_ids=[256])
scheduler = Scheduler(257, tokenizer)
params = SamplingParams(max_tokens=5, seed=1, temperature=0.8, top_p=0.9, min_p=0.01, dry_multiplier=1, stop=["##"])
request_id = scheduler.add(params, [1, 2])
random = np.random.default_rng(0)
while scheduler.request_ids:
    scheduler.step(random.normal(size=(1, 257)).astype(np.float32))
print(scheduler.record(request_id).token_ids)
try:
    scheduler.add(SamplingParams(regex="a+"))
except ParameterError as error:
    print(error)
"""

LOADED = """
import sys
import engine_sampler
print(sorted({m for m in sys.modules if m == "lark" or m.startswith(("engine_sampler.grammar", "engine_sampler.messages"))}))
engine_sampler.SamplingParams(temperature=0.5, stop_regex=())
print("lark" in sys.modules)
"""


def output_of(program: str) -> list[str]:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.splitlines()


def test_a_scheduler_runs_where_there_is_no_grammar_engine() -> None:
    tokens, error = output_of(WITHOUT)
    with_grammars, _ = output_of(WITHOUT.replace("sys.meta_path.insert(0, Missing())", ""))[:1] + [""]
    assert tokens == with_grammars
    assert error == "regex is not allowed: no grammar engine is installed"


def test_importing_the_package_loads_neither_grammars_nor_lark() -> None:
    assert output_of(LOADED) == ["[]", "False"]
