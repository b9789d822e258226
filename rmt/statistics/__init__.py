"""Statistics: estimates from draws, verdicts on predictions, claims over a sweep. It sees arrays, never an ensemble."""
