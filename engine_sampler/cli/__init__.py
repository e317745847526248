"""The command line, `engine-sampler`."""
