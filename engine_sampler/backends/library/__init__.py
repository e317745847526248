"""Compiled backends: everything between `native/include/engine_sampler.h` and Python.

backend        `LibraryBackend`, any shared library behind the header.
header         the contract, cut from the C header, and the names in it.
binding        a shared library, checked and opened: `Library` and `Context`.
programs       chains as programs; functions: third-party samplers in them.
request_table  the parameters of the live requests, written once per request.
tensor         logits in the header's form.
session        the requests of one `SlotTable` on a library.
partition      which side, library or host, runs which segment of a chain.
calls          one step as one call, prepared once; segmented: chains that both sides run.
call_rows      the rows of a call, as arrays of its struct; outputs: where its results go, and whether to
               believe them; declined: what the library leaves to the host.
watchdog       a time limit for calls.
"""

from .backend import LibraryBackend
from .binding import LibraryError
