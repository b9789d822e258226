"""Simulations: one module per scientific question; the folder is the registry."""
