"""The candidates of a row, found and put in order by one program: what `scan.begin`, `scan.gather` and
`few.rank` do, in one launch, for chains that want few.

What a program has written for itself, it reads behind a barrier of its own; nothing passes between two.
"""

import triton.language as tl

from .few import ranked
from .numbers import kernel, key_of_number, value_of
from .scan import begun, places_of, read_hot


@kernel()
def candidates(logits, index, bitmask, edit_ids, edit_values, spans, scales,
               highest, first, alive, maxima, needs,
               peaks, faults, best, last, counts, hot, ordered, by_id, tokens,
               row_stride, mask_stride, edit_stride, spans_stride, tiles, vocab,
               groups, need,
               TILE: tl.constexpr, GROUP: tl.constexpr,
               TILES: tl.constexpr, GROUPS: tl.constexpr, COARSE: tl.constexpr, WHOLE: tl.constexpr,
               CAPACITY: tl.constexpr, AT_ONCE: tl.constexpr, STEP: tl.constexpr,
               MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr,
               NEEDS: tl.constexpr):  # fmt: skip
    """All that those write but `hot_counts`; grid (rows,). AT_ONCE groups are read at a time, and STEP
    candidates compared. Groups are read by ascending ids, and candidates put in places that are counted, so
    that they are found by id."""
    row = tl.program_id(0)
    source = logits + tl.load(index + row) * row_stride
    scale = tl.load(scales + row) if HEATED else 1.0
    hot_count, bound = begun(row, source, bitmask, edit_ids, edit_values, spans, scale, highest, first, alive,
                             maxima, needs, peaks, faults, best, last, hot, tokens, mask_stride, edit_stride,
                             spans_stride, tiles, vocab, groups, need, TILE, GROUP, TILES, GROUPS, COARSE,
                             WHOLE, MASKED, EDITED, HEATED, True, NEEDS, False)  # fmt: skip
    words = bitmask + row.to(tl.int64) * mask_stride
    edits = row.to(tl.int64) * edit_stride
    at = row.to(tl.int64) * CAPACITY
    count = 0
    tl.debug_barrier()
    for start in range(0, hot_count, AT_ONCE):
        values, ids = read_hot(source, words, edit_ids + edits, edit_values + edits,
                               spans + row * spans_stride, scale, hot + row * groups, start, hot_count, vocab,
                               TILE, GROUP, AT_ONCE, MASKED, EDITED, HEATED)  # fmt: skip
        # The bound is the last key of some logit, so that ids need not be looked at.
        passing = values >= value_of(~(bound >> 32).to(tl.int32))
        places, added = places_of(passing)
        places += count
        tl.store(by_id + at + places, key_of_number(values, ids), mask=passing & (places < CAPACITY))
        count += added
    tl.store(counts + row, count)
    if count <= CAPACITY:
        tl.debug_barrier()
        ranked(by_id + at, ordered + at, by_id, tl.arange(0, CAPACITY), count, CAPACITY, STEP, False)
