"""Race one attention layer, forward pass and gradient of its input: `python -m benchmarks.gradient_norms [--n 4096]`.

Against PyTorch's scaled_dot_product_attention with autograd (goal: 1.7 times as fast, one thread, float32, agreement 1e-5)
and against the same written with whole n x n arrays in PyTorch. Needs torch (any 2.x); nothing else here does.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from benchmarks.race import race, report
from rmt.arrays import CPU
from rmt.attention.mixing import Mixing
from rmt.attention.softmax_backward import attention_backward
from rmt.ensembles.attention import key_query_rows

Arrays = tuple[np.ndarray, np.ndarray]


def inputs(n: int, width: int) -> list[np.ndarray]:
    """Tokens, query, key and value weights, and the cotangent of the output: float32."""
    generator = np.random.default_rng(0)
    shapes = [(n, width), *[(width, width)] * 3, (n, width)]
    scales = [1.0, *[width**-0.5] * 3, 1.0]
    pairs = zip(shapes, scales, strict=True)
    return [(scale * generator.standard_normal(shape)).astype(np.float32) for shape, scale in pairs]


def ours(X: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray, G: np.ndarray) -> Arrays:
    """Output and gradient of the input, in one sweep."""
    scale = W_Q.shape[1] ** -0.5
    rows = key_query_rows(X @ W_Q, X @ W_K, scale, "none", np.dtype(np.float32), CPU)
    found = attention_backward(Mixing(rows), X @ W_V, G, dtype=np.float32)
    keys, values = (x.astype(np.float32) for x in (found.keys, found.values))
    return found.output, scale * found.queries @ W_Q.T + keys @ W_K.T + values @ W_V.T


def pytorch(torch: Any, arrays: list[np.ndarray], *, fused: bool) -> Arrays:
    """The same by automatic differentiation."""
    X, W_Q, W_K, W_V, G = (torch.from_numpy(x) for x in arrays)
    X = X.clone().requires_grad_()
    Q, K, V = ((X @ W)[None, None] for W in (W_Q, W_K, W_V))
    if fused:
        Y = torch.nn.functional.scaled_dot_product_attention(Q, K, V)[0, 0]
    else:
        Y = (torch.softmax(Q @ K.transpose(-1, -2) / W_Q.shape[1] ** 0.5, -1) @ V)[0, 0]
    Y.backward(G)
    return Y.detach().numpy(), X.grad.numpy()


def main() -> None:
    """Print the races."""
    import torch
    from threadpoolctl import threadpool_limits

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, nargs="+", default=[1024, 4096])
    parser.add_argument("--width", type=int, default=64)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with threadpool_limits(1):
        for n in arguments.n:
            arrays = inputs(n, arguments.width)
            mine, exact = ours(*arrays), pytorch(torch, arrays, fused=True)
            error = max(np.abs(a - b).max() / np.abs(b).max() for a, b in zip(mine, exact, strict=True))
            for words, fused, goal in (("fused attention", True, "1.7x"), ("whole arrays", False, "")):
                seconds = race(lambda a=arrays: ours(*a), lambda a=arrays, f=fused: pytorch(torch, a, fused=f))
                report(f"forward and gradient, n = {n}, PyTorch {words}", *seconds, goal, f"agreement {error:.1e}")


if __name__ == "__main__":
    main()
