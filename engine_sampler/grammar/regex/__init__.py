"""Regular expressions in Python's and ECMAScript's syntax, read into expressions over bytes.

syntax      rewrites a pattern to the form that `parsing` reads
parsing     Python's syntax as nested items, without `re`; `characters` and `inline_flags` read their parts
tree        the items as a small tree: five kinds of nodes
pattern     the tree as an expression, where the operators of expressions suffice
lookarounds what is found before and behind a place, as part of such an expression
order       whether the order in which `re.match` prefers ways can matter
ordered     the tree as a deterministic automaton, for the patterns that need one
whole_text  what `re.match` matches of a text that is known to its end
automaton   automata over classes of characters, and their conversion to automata over bytes
"""
