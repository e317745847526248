"""The core, from `scheduler` down, runs without the grammar engine, the readers of answers, and lark."""

from __future__ import annotations

import subprocess
import sys

STEPS = """
import numpy as np
from engine_sampler import ParameterError, SamplingParams, Scheduler, Tokenizer

tokenizer = Tokenizer([bytes([i]) for i in range(256)] + [b"</s>"], eos_token_ids=[256])
scheduler = Scheduler(257, tokenizer)
params = SamplingParams(max_tokens=5, seed=1, temperature=0.8, top_p=0.9, dry_multiplier=1, stop=["##"])
request_id = scheduler.add(params, [1, 2])
assert SamplingParams.from_dict({"max_completion_tokens": 5, "stream": True}).max_tokens == 5
random = np.random.default_rng(0)
while scheduler.request_ids:
    scheduler.step(random.normal(size=(1, 257)).astype(np.float32))
print(scheduler.record(request_id).token_ids)
try:
    scheduler.add(SamplingParams(regex="a+"))
    print("a grammar")
except ParameterError as error:
    print(error)
try:
    print("a body:", SamplingParams.from_dict({"response_format": {"type": "json_object"}}).json_object)
except ParameterError as error:
    print(error)
"""

ABOVE = """
import sys

ABOVE = ("engine_sampler.grammar", "engine_sampler.messages", "lark")
"""

WITHOUT = f"""
{ABOVE}
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.startswith(ABOVE):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
"""

LOADED = f"""
{ABOVE}
import engine_sampler
print([name for name in sys.modules if name.startswith(ABOVE)])
engine_sampler.SamplingParams(temperature=0.5)
print("lark" in sys.modules)
"""


def output_of(program: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_a_scheduler_runs_where_there_is_no_grammar_engine() -> None:
    tokens, refusal, of_a_body = output_of(WITHOUT + STEPS)
    assert output_of(STEPS) == [tokens, "a grammar", "a body: True"]
    assert refusal == "regex is not allowed: no grammar engine is installed"
    assert of_a_body.startswith("unknown parameter 'response_format'")


def test_importing_the_package_loads_neither_grammars_nor_lark() -> None:
    assert output_of(LOADED) == ["[]", "False"]
