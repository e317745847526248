"""What `engine-sampler check` tries of a library on a device.

checking  all of it, by name.
room      requests on a device; memory: with guards; notices: what has happened to them; calling: one call
          from all sides, in two halves.
steps     what is tried everywhere; checks, changes, numbers, limits, leaks: series of calls, each for one
          law; random_requests: anything, for a chosen time; promises: each promise; survivors, reports: what
          a call must give.
"""

from .checking import checks_on, served
from .promises import DEVICE_PROMISES
