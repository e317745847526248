"""The data that `mindie_llm.text_generator.utils` describes a batch with."""
