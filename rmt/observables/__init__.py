"""observables."""
