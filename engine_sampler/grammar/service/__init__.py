"""Compiling grammars beside a running engine, in processes of their own.

    compiler = GrammarCompiler(processes=2)
    scheduler = Scheduler(vocab_size, tokenizer, grammar_compiler=compiler)

`GrammarSource` names a grammar that has not been read yet. A process runs `worker`, which reads it into a
`Program`, the slow part in Python; `wire` sends its arrays back, and a thread of this process compiles them
for the vocabulary, in C and without the interpreter's lock. `pool` has the threads, `process` is a worker as
they see it, `turns` says whose grammar is next, and `lifetime` how long a worker lives.
"""

from .compiler import GrammarCompiler
from .source import GrammarSource
