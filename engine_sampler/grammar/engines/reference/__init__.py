"""The grammar engine in Python and NumPy: the fallback for the native engine, and its reference in tests.

    grammar = ReferenceGrammar(program, token_bytes, eos_token_ids, special_token_ids)
    matcher = grammar.matcher()

From the bottom up, each concept in its module:

    automata         positions in rules, which are automata with registers
    rows, lr         parser rows: Earley item sets, or the stacks of an LALR parser
    scans, lexers    progress within a terminal, by derivatives of its expression
    configurations   the set of threads of a text: all the ways to read it, followed at once
    threads, lexing  the threads of the Earley parser, and of the LALR parser with its lexers
    trie, walk       the vocabulary as a trie, and its traversal with states
    masks, summaries the tokens that may follow a configuration
    tables           all of these for one program, shared by its matchers
"""

from .matcher import ReferenceGrammar, ReferenceMatcher
from .vocabulary import ReferenceVocabulary
