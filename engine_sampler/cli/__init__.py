"""The `engine-sampler` command line."""
