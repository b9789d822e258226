"""One attention layer, as the command line describes it."""
