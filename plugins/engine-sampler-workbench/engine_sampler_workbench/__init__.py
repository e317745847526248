"""A local page in the browser that shows what sampling does: `engine-sampler workbench`.

sources   rows of logits: a model in a process of its own, or a file
settings  the state of a page: parameters, presets, the link that restores it
session   the model of a page: a text with its rows, and two chains compared
picture   what a page shows, as SVG
server, page, chain, tabs   the view, in NiceGUI; nothing above imports it
"""
