"""The embedded engine and the demo: real logits without a download. Needs the extra `demo`."""
