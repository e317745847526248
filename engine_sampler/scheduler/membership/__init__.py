"""Who is in a scheduler: requests are added, wait for grammars, join, pause and leave, one change at a time.

joining        what the scheduler is told of requests, checked, and what is built from it; `siblings` are many
waiting        requests whose grammars are being compiled
directory      all requests by id
seats          which of them have slots
live_requests  how they come, pause and leave
planning       which of them are in a step
keeping        what an interrupted call leaves as it was
observers      who is told of all that
step_lock      one call at a time
"""
