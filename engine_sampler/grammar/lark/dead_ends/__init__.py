"""Can this text still be finished? A dead end is a beginning that a grammar allows and no text completes.

    start: A "b"
    A: /a(?!b)/        what must follow A is what its look-ahead forbids: A must not even begin

A mask that allowed such a beginning would lead a model to where nothing is allowed. So dead ends are searched
for once, when a grammar has been read, and removed from its rules:

    earley_dead_ends      terminals whose look-aheads forbid all that the rules expect next
    ignored_text          ignored text after which nothing can follow, for the Earley parser

Those of contextual lexers are found in `contextual/`. All stand on what may come where:

    follow_sets           which terminals may follow which
    preceding_characters  what stands right before a terminal; it gives `^`, `\\b` and look-behinds at its
                          beginning their meaning, too
    terminal_states       the states of the terminals of one grammar, by derivatives

Each search is bounded (`MAX_STATES`, `MAX_STEPS`, half of the work of reading a grammar). What it cannot
decide is taken to lead on, so that no text is refused that can be finished.
"""
