"""A local page in the browser that shows what sampling does: `engine-sampler workbench`.

sources, logprob_rows   rows of logits: a model in a process of its own, or a file
settings                the state of a page: parameters, presets, the link that restores it
session, row_view       the model of a page: a text, one of its rows step by step, two chains compared
picture, exports        what a page shows and gives away, as SVG and text
server, page, parts     the view, in NiceGUI; nothing above imports it
"""
