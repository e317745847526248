"""Compiled backends: what lies between `native/include/engine_sampler.h` and Python.

header     the contract, cut from the C header, and the names in it.
binding    a shared library, checked and opened: `Library` and `Context`.
programs   chains as programs; functions: samplers of third parties in them.
table      the parameters of the live requests, written once per request.
tensor     logits as the header describes them.
session    the requests of one `Slots` on a library.
routes     who runs which part of a chain.
calls      one step as one call, prepared once; relay: chains that change hands.
golden     programs and rows on which a library is tried.
"""
