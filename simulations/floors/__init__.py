"""Whether the bands of approximations are as wide as their measured errors, and not much wider."""
