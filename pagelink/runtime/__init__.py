"""What everything else runs on: array types, compiled kernels and their threads, files, time."""
