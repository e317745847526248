"""What everything stands on: the files that come with the package, and properties that are computed once."""
