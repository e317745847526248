"""engine-sampler on torch: logits stay on their device, with the same tokens."""
