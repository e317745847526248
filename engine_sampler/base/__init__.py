"""What everything stands on: files that come with the package, calls of plugins, the wording of their faults,
threads that let a step go first, and locks that survive a fork."""
