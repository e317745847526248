"""Wrong plugins: each is a right one with one mistake, and names the law that it breaks.

`right` holds the right ones; every other module, by kind, marks its wrong ones with `breaks`.
"""
