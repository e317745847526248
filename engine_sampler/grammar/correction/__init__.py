"""Whether texts are in a language, and their shortest completions.

    correction      the public functions `check` and `complete`
    search_space    the graph that is searched: the parser's configurations of a grammar, and the bytes that
                    lead from one to the next; the shortest path through it

The search is A*. It needs lower bounds on the cost from a configuration to the end:

    lower_bounds    the cheapest text that a configuration still needs
    stack_bounds    the same for an LALR parser
    rule_bounds     the same for the rules of a grammar, whose registers may require more
"""

from .correction import Check, check, complete

__all__ = ["Check", "check", "complete"]
