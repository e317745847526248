"""What needs a card, in one command: `python -m on_device` in the folder above. Not part of the wheel."""
