"""What every sampler and selector does on a device, one file each, in four rooms: `edits`, `truncations`,
`transforms` and `selectors`. A new file in one of them is discovered automatically.

`infill` has none: which tokens it merges depends on their bytes and, one after the other, on what is left of
the tokens merged before. `logits_processors` calls functions with arrays of the host.
"""

from .base import Block, DeviceSelector, DeviceStep, FigureStep, Given
from .discovery import selector_of, step_of
