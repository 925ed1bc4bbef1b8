"""The same graph on disk, mapped into memory."""
