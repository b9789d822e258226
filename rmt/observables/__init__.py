"""Observables: what singular values, entries and tokens say, as plain functions of arrays."""
