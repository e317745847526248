"""Whether texts are in a language, and their shortest completions.

    correction      the public functions `check` and `complete`
    search_space    the graph that is searched: the parser's configurations of a grammar, and the bytes that
                    lead from one to the next; the shortest path through it

The search is A*. It needs lower bounds on the cost from a configuration to the end:

    bounds          the cheapest text that a configuration of either parser still needs
    rule_bounds     the same for the rules of a grammar, whose registers may require more
    least_costs     the equations of all of these, and the cheapest texts of expressions
"""

from .correction import Check, check, complete
