"""Training: small transformers, their data, their variants, and the probes that watch them. Needs torch."""
