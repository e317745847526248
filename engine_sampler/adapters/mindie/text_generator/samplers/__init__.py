"""The sampler of `mindie_llm.text_generator.samplers`."""
