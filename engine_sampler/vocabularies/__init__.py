"""Where vocabularies come from: one module per source, each reading a `TokenTable`.

A module imports the library it is named after only when it is called, and `engine_sampler.tokenizer`
imports a module only when its classmethod is.
"""
