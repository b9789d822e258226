"""Pages: how the experiments draw their results."""
