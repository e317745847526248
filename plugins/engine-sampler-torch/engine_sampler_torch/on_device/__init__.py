"""What needs a card, in one command: `python -m engine_sampler_torch.on_device`."""
