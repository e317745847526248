"""transformers (5.23): our chains, criteria and scheduler inside its `generate`, its models in our loop.

    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from engine_sampler import SamplingParams
    from engine_sampler_transformers import ChainLogitsProcessor, NEUTRAL, custom_generate

    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
    ))
    prompts = torch.tensor([[5, 6, 7, 8], [9, 10, 11, 12]])
    mask = torch.ones_like(prompts)

    # A whole generate() on our scheduler, each row with its own settings.
    creative = SamplingParams(top_p=0.9, dry_multiplier=0.8, seed=7, max_tokens=5)
    output = model.generate(
        prompts, attention_mask=mask, max_new_tokens=8, eos_token_id=None, return_dict_in_generate=True,
        custom_generate=custom_generate, sampling_params=[SamplingParams(temperature=0), creative],
    )
    assert output.sequences.shape == (2, 12)
    assert [len(record.token_ids) for record in output.records] == [8, 5]

    # Our samplers as a logits processor; transformers draws.
    chain = ChainLogitsProcessor(SamplingParams(xtc_probability=0.5, seed=7))
    drawn = model.generate(
        prompts, attention_mask=mask, max_new_tokens=8, eos_token_id=None, do_sample=True, **NEUTRAL,
        logits_processor=[chain],
    )
    assert drawn.shape == (2, 12)

`continuous_batching` draws in its continuous batching.
`stopping_criteria` passes our stopping criteria to its `generate`; `Session` runs one of its models from a
directory. Importing this module imports neither torch nor transformers.
"""

from .continuous import ContinuousLogitsProcessor, continuous_batching
from .generate import custom_generate
from .processor import NEUTRAL, ChainLogitsProcessor
from .session import Session
from .stopping import Stops, stopping_criteria

__all__ = [
    "NEUTRAL",
    "ChainLogitsProcessor",
    "ContinuousLogitsProcessor",
    "Session",
    "Stops",
    "continuous_batching",
    "custom_generate",
    "stopping_criteria",
]
