"""Attention at initialisation: heads and scores, layers and networks with their gradients, Jacobians, and every repair."""
