"""Changes of listed tokens: masks, biases and penalties."""
