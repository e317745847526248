"""Our whole sampler beside engines' own: the same rows, parameters and histories, in one process."""
