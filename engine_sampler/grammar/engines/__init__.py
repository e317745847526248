"""The engines that compute masks from a program: native (C) and reference (Python), with equal results."""
