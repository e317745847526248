"""Finished texts: whether they are in a language, their shortest completions, and their nearest repairs.

    correction      the public functions `check`, `complete` and `repair`
    search_space    the graph that is searched: the parser's configurations of a grammar, and the bytes that
                    lead from one to the next; the shortest path through it, for completions
    nearest         the search for the nearest text of the language, for repairs

Both searches are A*. It needs lower bounds on the cost from a configuration to the end:

    lower_bounds    the cheapest text that a configuration still needs
    stack_bounds    the same for an LALR parser
    rule_bounds     the same for the rules of a grammar, whose registers may require more
    approximation   a finite automaton for a superset of the language, and the edits that a text needs there
"""

from .correction import Change, Check, Repair, check, complete, repair

__all__ = ["Change", "Check", "Repair", "check", "complete", "repair"]
