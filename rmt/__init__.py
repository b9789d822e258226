"""rmt: random-matrix theory of softmax attention, simulated, predicted and compared."""

__version__ = "0.1.0"
