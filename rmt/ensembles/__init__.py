"""Ensembles: laws of random matrices, tokens and weights. They hold parameters; a draw is a function of its stream."""
