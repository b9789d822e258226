"""Attention matrices drawn with numpy, the oracle of the published tables of spectra."""

import numpy as np


def softmax(logits):
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def centred_values(matrix):
    """Singular values of sqrt(n) (I - 11^T/n) A, ascending; by the Gram matrix, those below 1e-8 of the largest are noise."""
    centred = matrix - matrix.mean(axis=0)
    return np.sqrt(np.maximum(np.linalg.eigvalsh(centred @ centred.T), 0.0) * len(matrix))


def distance(law, values):
    """Kolmogorov distance of a law to ascending values."""
    return np.abs(law.cdf(values) - (np.arange(values.size) + 0.5) / values.size).max()


def layer_normalised(tokens):
    centred = tokens - tokens.mean(axis=1, keepdims=True)
    return centred / centred.std(axis=1, keepdims=True)
