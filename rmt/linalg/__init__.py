"""Linear algebra that SciPy has not: certified leading values from products alone, whole spectra by the cheaper safe route."""
