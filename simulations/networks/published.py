"""The networks behind the published figures of *Mind the Gap*: sizes, configurations, and what is measured on each.

How the public reference code differs from what one would expect (found by reading it; none of it is copied):
1. With skip connections and no MLP a block ends in x + x: every output is doubled. Ranks of attention that does not look
   at its tokens do not notice; logits of A(X) and gradients would.
2. A(X) is configured there with Xavier weights on unit-norm tokens: its logits have deviation 1/d, attention is uniform to
   O(1/d). The published curves of A(X) agree only with N(0, 1) weights, beta = 1, which is what is drawn here.
3. Inputs are Q D Q for a Haar Q and signs D: orthogonal, but not Haar. Nothing here depends on it.
4. The parameter sigma_A does nothing there: sigma = 1 throughout (beta^2 = ln 2).
5. Ranks come from a float32 SVD: an excess over one below 1e-7 is rounding. Here it is exact (`rmt.observables.collapse`).
6. Tokens grow like d^(l/2) with unit weights: squares of the Gram matrix leave float32 at layer 10 of T = 150 (nan).
7. The gradient there is evaluated at X_0 and contracted on the feature axis, which is no Frobenius norm; here it is exact.

Their code, run once outside this repository (T = d = 150, 5 runs, mean and half a 95 % interval), beside ours (5 runs, 95 %
interval); Gram stable rank after layers 1 and 10:
    identity             19.6 +- 1.1, nan           19.6 [19.0, 20.3], 3.57 [2.7, 4.8]
    A                    1.017 +- .005, nan         1.018 [1.013, 1.023], 1.000
    A removed            10.5 +- 1.3, 2.2 +- .7     9.9 [9.0, 10.8], 1.9 [1.6, 2.4]
    A removed, norm      12.3 +- .8, 3.4 +- .6      10.9 [9.5, 12.6], 2.9 [2.6, 3.3]
    A removed, skip      13.9 +- 2.8, 9.0 +- .9     14.5 [12.9, 16.3], 9.2 [7.2, 11.9]
    A removed, skip+norm 15.1 +- 1.1, 9.0 +- 1.8    15.7 [13.9, 17.7], 10.3 [8.7, 12.2]
"""

from __future__ import annotations

import math
from typing import Any

SQRT_LN2 = math.sqrt(math.log(2.0))
LAYERS = 10

# Figure VII: name -> fields of the network. Value weights N(0, 1), X_0 X_0^T = I, layer norm after the sum.
NINE: dict[str, dict[str, Any]] = {
    "identity": {"variant": "identity"},
    "A": {},
    "A, norm": {"norm": "post"},
    "A, skip": {"skip": 1.0},
    "A, skip, norm": {"skip": 1.0, "norm": "post"},
    "A removed": {"variant": "outlier_removed"},
    "A removed, norm": {"variant": "outlier_removed", "norm": "post"},
    "A removed, skip": {"variant": "outlier_removed", "skip": 1.0},
    "A removed, skip, norm": {"variant": "outlier_removed", "skip": 1.0, "norm": "post"},
}

# Read off figure VII at T = 150: layers 1 and 10 of the Gram stable rank.
READ_OFF_VII = {
    "identity": (20.0, 3.0),
    "A removed": (9.7, 1.9),
    "A removed, norm": (11.5, 3.2),
    "A removed, skip": (13.7, 9.0),
    "A removed, skip, norm": (16.7, 9.5),
    "A": (1.04, 1.0),
}

# Figures X and XI: context length -> stable rank after layer 1, read off.
READ_OFF_X = {15: 1.30, 80: 1.08, 150: 1.06, 350: 1.025}
READ_OFF_XI = {150: 8.6, 350: 16.0}
# Figure VI: layers 1 and 12, original and removed.
READ_OFF_VI = {"plain": (1.03, 1.005), "outlier_removed": (None, 1.26)}

SIZES = {
    ("VII", "paper"): (150,),
    ("VII", "ours"): (512,),
    ("VIII", "paper"): (20, 33, 55, 90, 148),
    ("VIII", "ours"): (64, 128, 256),
    ("X", "paper"): (15, 40, 80, 150, 350),
    ("X", "ours"): (128, 256, 512),
    ("XI", "paper"): (15, 40, 80, 150, 350),
    ("XI", "ours"): (128, 256, 512),
    ("V", "paper"): (75, 150, 282),
    ("V", "ours"): (512,),
    ("VI", "paper"): (282,),
    ("VI", "ours"): (512,),
    ("I", "paper"): (75, 282, 446),
    ("II", "paper"): (75, 282, 446),
    ("III", "paper"): (155, 312, 437),
    ("IV", "paper"): (280,),
    ("IX", "paper"): (200, 400, 800),
    ("I", "ours"): (512,),
    ("II", "ours"): (512,),
    ("III", "ours"): (512,),
    ("IV", "ours"): (512,),
    ("IX", "ours"): (512,),
}
PANELS = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI")
RATIOS = (0.1, 0.5, 2.0, 10.0)  # n/d of figure IX

# Models of figures I to VI at random initialisation: width, head width, deviation of the weights.
LARGE, TINY = (768, 64, 0.02), (312, 26, 0.02)
MODELS = {"I": LARGE, "II": LARGE, "III": TINY, "IV": LARGE, "V": LARGE, "VI": LARGE}


def fixed_network(n: int, fields: dict[str, Any], **more: Any) -> Any:
    """A network of figure VII: iid logits with sigma = 1, unit value weights on unit tokens, width n."""
    from rmt.attention.network import Network

    words = {"beta": SQRT_LN2, "norm_kind": "layer", "unit_weights": True, "token_norm": "one", **fields, **more}
    return Network(n=n, width=n, **words)


def looking_network(n: int, variant: str, *, beta: float = 1.0, **more: Any) -> Any:
    """A(X) of figures VIII, X and XI: queries and keys from N(0, 1) weights of width n, one head."""
    from rmt.attention.network import Network

    words = {"model": "own", "head_dim": n, "beta": beta, "unit_weights": True, "token_norm": "one", **more}
    return Network(n=n, width=n, variant=variant, **words)


def language_network(panel: str, n: int, variant: str, stream: Any, draw: int) -> Any:
    """A model of BERT's kin at random initialisation: 12 heads, post-norm, GELU, weights N(0, 0.02^2)."""
    from rmt.attention.network import Network

    width, head, deviation = MODELS[panel]
    return Network(
        n=n,
        width=width,
        model="own",
        beta=deviation**2 * width,
        heads=12,
        head_dim=head,
        tokens="gaussian",
        tokens_given=embeddings(panel, n, stream, draw),
        skip=1.0,
        norm="post",
        norm_kind="layer",
        mlp="gelu",
        output_weights=True,
        weight_deviation=deviation,
        variant=variant,
    )


def embeddings(panel: str, n: int, stream: Any, draw: int) -> Any:
    """Normalised tokens (n, width) of a random model: words, positions and, in BERT's kin, one type shared by all tokens.

    The shared type is a third of every token before the norm, so that tokens start with a mean cosine of 1/3. Panel I
    repeats words as text does (Zipf's law over 50265 ranks); the others have independent words.
    """
    import numpy as np

    from rmt.arrays import CPU
    from rmt.kernels import kernels_for

    width, variates = MODELS[panel][0], kernels_for(CPU).variates
    here = stream.within(f"model/{panel}/n={n}")
    X = variates(here.words("words", draw), 0, n, width).astype(np.float64)
    if panel == "I":
        uniform = variates(here.words("ranks", draw), 0, n, 1, law="uniform")[:, 0]
        rank = np.floor(50265.0**uniform).astype(int)  # density 1/rank
        _, first, which = np.unique(rank, return_index=True, return_inverse=True)
        X = X[first][which]
    X += variates(here.words("positions", draw), 0, n, width)
    if panel != "IV":
        X += variates(here.words("type", draw), 0, 1, width)
    X -= X.mean(axis=1, keepdims=True)
    return X / np.sqrt(np.mean(X**2, axis=1, keepdims=True))


def model_attention(panel: str, n: int, stream: Any, draw: int) -> Any:
    """Attention (n, n) of the first head of the first layer of a random model, dense; panel IV is causal."""
    import numpy as np

    from rmt.arrays import CPU
    from rmt.attention.mixing import Mixing
    from rmt.ensembles.attention import key_query_rows
    from rmt.kernels import kernels_for

    width, head, deviation = MODELS[panel]
    here, variates = stream.within(f"model/{panel}/n={n}"), kernels_for(CPU).variates
    X = embeddings(panel, n, stream, draw)
    Q, K = (X @ (deviation * variates(here.words(name, draw), 0, width, head)) for name in ("query", "key"))
    mask = "causal" if panel == "IV" else "none"
    return Mixing(key_query_rows(Q, K, 1 / math.sqrt(head), mask, np.dtype(np.float64), CPU)).dense()


def gaussian_attention(n: int, ratio: float, stream: Any, draw: int) -> Any:
    """Attention of figure IX: Gaussian tokens of unit norm, width n/ratio, N(0, 1) weights; dense."""
    import numpy as np

    from rmt.arrays import CPU
    from rmt.attention.mixing import Mixing
    from rmt.ensembles.attention import key_query_rows
    from rmt.kernels import kernels_for

    width = max(round(n / ratio), 1)
    here, variates = stream.within(f"unit rows/n={n}/width={width}"), kernels_for(CPU).variates
    X = variates(here.words("tokens", draw), 0, n, width).astype(np.float64)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    # Products with d x d Gaussian weights: X W_Q W_K^T X^T needs W_Q W_K^T only through X, so multiply in turn.
    Q, K = (X @ variates(here.words(name, draw), 0, width, width) for name in ("query", "key"))
    return Mixing(key_query_rows(Q, K, 1 / math.sqrt(width), "none", np.dtype(np.float64), CPU)).dense()
