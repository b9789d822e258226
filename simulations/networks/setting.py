"""One setting for every experiment on a network of attention layers at initialisation."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from rmt.experiments.experiment import Bench
from rmt.experiments.setting import Meaningless, check_fields, choice, integer, real, text

SQRT_LN2 = math.sqrt(math.log(2.0))  # beta for which the weights have standard deviation equal to their mean
SKIP_WORDS = ("1/sqrtL", "1/sqrtd")


@dataclasses.dataclass(frozen=True)
class NetworkSetting:
    """A network of `depth` layers of width `width` over n tokens."""

    n: int = integer(256, "context length")
    depth: int = integer(6, "layers")
    model: str = choice(
        "iid", "logits: independent, queries times keys, or of the layer's own tokens", ("iid", "keyquery", "own")
    )
    beta: float = real(SQRT_LN2, "nominal standard deviation of the logits", at_least=0, at_most=1e4)
    head_dim: int | None = integer(64, "width d_k of queries and keys")
    heads: int = integer(1, "attention heads")
    kv_heads: int | None = integer(None, "heads of keys and values (heads)")
    mask: str = choice("none", "which keys a query sees", ("none", "causal", "window"))
    window: int | None = integer(None, "keys that a query sees under mask window (64)")
    position: str = choice("none", "how the place of a token enters", ("none", "rope", "alibi"))
    tokens: str | None = text(None, "orthonormal, gaussian, or FILE.npy (n, width) (orthonormal where n <= width)")
    width: int | None = integer(None, "token width d (the smaller of n and 1024)")
    value_width: int | None = integer(None, "value columns of all heads together (the token width)")
    variant: str = text("plain", "how the layer is altered")
    eta: float = real(0.0, "share of the outlier that outlier_scaled keeps")
    differential_lambda: float = real(0.2, "weight of the second attention of differential", at_least=0)
    skip_scale: str = text("0", "s in X + s branch(X); 0 is no skip; a number, 1/sqrtL or 1/sqrtd")
    norm: str = choice("none", "where the norm sits", ("none", "pre", "post", "branch"))
    norm_kind: str = choice("rms", "root mean square, or layer norm", ("rms", "layer"))
    mlp: str | None = choice(None, "activation of a perceptron behind each attention (none)", ("relu", "gelu"))
    weight_init: str = choice(
        "gaussian", "law of all weights", ("gaussian", "uniform", "truncated", "orthogonal", "rademacher")
    )
    value_scale: str = choice("1/sqrtd", "standard deviation of the value weights", ("1/sqrtd", "1"))
    precision: str = choice("double", "of the tokens after each layer", ("double", "bf16"))
    probes: int = integer(16, "weight draws or cotangents over which a gradient norm is averaged in one draw")

    def __post_init__(self) -> None:
        check_fields(self)
        width = self.width or min(self.n, 1024)
        derived: dict[str, Any] = {
            "width": width,
            "value_width": self.value_width or width,
            "head_dim": None if self.model == "iid" else self.head_dim or 64,
            "window": (self.window or 64) if self.mask == "window" else None,
            "kv_heads": self.kv_heads or self.heads,
            "tokens": _tokens(self.tokens or ("orthonormal" if self.n <= width else "gaussian"), self.n, width),
            "eta": self.eta if self.variant == "outlier_scaled" else 0.0,
            "differential_lambda": self.differential_lambda if self.variant == "differential" else 0.2,
            "norm_kind": "rms" if self.norm == "none" else self.norm_kind,
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)
        self.skip  # noqa: B018  # refuses words that are no scale
        _check(self)

    @property
    def but_for_size(self) -> tuple[Any, ...]:
        """All that a line against n keeps fixed."""
        sizes = ("n", "width", "value_width", "tokens")
        return tuple(value for name, value in dataclasses.asdict(self).items() if name not in sizes)

    @property
    def skip(self) -> float | None:
        """The scale s of the branch beside a skip; None without one."""
        if self.skip_scale in SKIP_WORDS:
            size = self.depth if self.skip_scale == "1/sqrtL" else self.width
            return 1 / math.sqrt(size or 1)
        try:
            value = float(self.skip_scale)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and value >= 0):
            words = ", ".join(SKIP_WORDS)
            raise ValueError(f"--skip-scale {self.skip_scale}: must be a number >= 0 or one of {words}")
        return value or None


def network_of(setting: NetworkSetting, bench: Bench) -> Any:
    """The network that a setting describes."""
    import numpy as np

    from rmt.attention.network import Network
    from rmt.ensembles.token_files import tokens_from

    given = None
    if setting.tokens not in ("orthonormal", "gaussian"):
        given = tokens_from(str(setting.tokens)).astype(np.float64)
    return Network(
        n=setting.n,
        width=setting.width or setting.n,
        model=setting.model,
        beta=setting.beta,
        head_dim=setting.head_dim or 64,
        heads=setting.heads,
        kv_heads=setting.kv_heads,
        mask=setting.mask,
        window=setting.window,
        position=setting.position,
        mlp=setting.mlp,
        weight_init=setting.weight_init,
        variant=setting.variant,
        tokens="gaussian" if given is not None else str(setting.tokens),
        tokens_given=given,
        value_width=setting.value_width,
        unit_weights=setting.value_scale == "1",
        skip=setting.skip,
        norm=setting.norm,
        norm_kind=setting.norm_kind,
        eta=setting.eta,
        differential_lambda=setting.differential_lambda,
        dtype=bench.dtype,
        workers=bench.workers,
    )


def _check(setting: NetworkSetting) -> None:
    """What the fields must obey together."""
    from rmt.attention.repairs import CAUSAL_ONLY, REPAIRS

    heads, groups, values = setting.heads, setting.kv_heads or setting.heads, setting.value_width or 1
    if setting.variant not in REPAIRS:
        raise ValueError(f"--variant {setting.variant}: must be one of {', '.join(REPAIRS)}")
    if heads % groups:
        raise ValueError(f"--kv-heads {groups}: must divide --heads {heads}")
    if values % heads:
        raise ValueError(f"--heads {heads}: must divide the value width {values}; choose a divisor or --value-width")
    if setting.variant in CAUSAL_ONLY and setting.mask != "causal":
        raise Meaningless(f"variant {setting.variant} with mask {setting.mask}: it needs --mask causal")
    if setting.position == "rope" and (setting.model == "iid" or (setting.head_dim or 0) % 2):
        raise Meaningless(
            f"position rope with model {setting.model}, head_dim {setting.head_dim}: it turns pairs of queries"
        )
    if setting.tokens == "orthonormal" and setting.n > (setting.width or 0):
        raise Meaningless(
            f"n = {setting.n} orthonormal tokens of width {setting.width}: needs n <= width; raise --width"
        )


def _tokens(name: str, n: int, width: int) -> str:
    """The word, or FILE.npy#digest for a file that holds finite tokens of the right shape."""
    if name in ("orthonormal", "gaussian"):
        return name
    from rmt.ensembles.token_files import is_file, named, tokens_from

    if not is_file(name):
        raise ValueError(f"--tokens {name}: must be orthonormal, gaussian or the path of a .npy file")
    found = named(name)
    if tokens_from(found).shape != (n, width):
        raise ValueError(f"--tokens {name}: holds {tokens_from(found).shape} numbers; must be ({n}, {width})")
    return found
