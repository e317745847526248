"""The modules of `mindie_llm.text_generator` from which callers import, under the same names."""
