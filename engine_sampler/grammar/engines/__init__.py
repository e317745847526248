"""The engines that make masks from a program: native (C) and reference (Python); equal results."""
