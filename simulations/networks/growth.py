"""How a gradient grows on its way back through a network, and where it goes."""

from __future__ import annotations

from typing import Any

from simulations.networks.setting import NetworkSetting


def gradient_growth(network: Any, setting: NetworkSetting, stream: Any, draw: int) -> dict[str, float]:
    """|dX_L^T G/dX_0|^2 / |G|^2 for Gaussian G, averaged over `probes`: 1 for a network that only turns its tokens.

    gradient_factor follows every path; frozen_gradient_factor only those through the values (attention matrices held
    fixed), as far as attention looks at its tokens. first_token_share and last_half_share: the parts of the frozen
    squared gradient that belong to the first token and to the last half of the tokens.
    """
    import numpy as np

    from rmt.attention.gradient_norms import gaussian_cotangent
    from rmt.attention.gradients import network_backward

    n = setting.n
    sums = np.zeros(4)
    for probe in range(setting.probes):
        G = gaussian_cotangent(network, stream, draw, probe)
        size = float(np.sum(G**2))
        *_, (_, frozen) = network_backward(network, stream, draw, setting.depth, G, frozen=True)
        rows = np.sum(frozen.tokens**2, axis=1)
        full = float(rows.sum())
        if setting.model == "own":
            *_, (_, found) = network_backward(network, stream, draw, setting.depth, G)
            full = float(np.sum(found.tokens**2))
        sums += full / size, rows.sum() / size, rows[0] / size, rows[n // 2 :].sum() / size
    full, frozen_factor, first, half = (float(value) / setting.probes for value in sums)
    share = frozen_factor if frozen_factor > 0 else np.nan
    return {
        "gradient_factor": full,
        "frozen_gradient_factor": frozen_factor,
        "first_token_share": first / share,
        "last_half_share": half / share,
    }
