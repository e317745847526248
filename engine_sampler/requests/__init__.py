"""One request: its tokens, its states, its text, its constraint, and what ends it. A `scheduler` steps many.

request          a request and its `parts`, brought forward and back together
history, slots   its tokens in one pool with those of all others, and the numbers that backends read
state            the states of its samplers
constraint       its grammar: the matcher, and whether its mask still holds
budget           how the work of grammars is shared out, and who is postponed
detokenizer      its text, as it becomes certain
stop_checks      whether it ends; `called_criteria` are criteria that are called as in transformers
results          what a step and a request report
"""
