"""Conditioned training: does a correction of the weights, or removing the outlier of attention, make a small transformer better?

Experiment: train small transformers (digits, ListOps, bytes of text) from the same weights, plain and altered, at several
    rates; choose each variant's rate by validation, compare on the test set, seed by seed; watch kappa(W), kappa(P X), kappa(J).
    Default sweep, 8 seeds, digits, pre-norm, 200 steps; test accuracy plain 92.8 %, change in points with 95 % interval:
        shift 0.5 +0.2 [-0.9, +1.3]; shift 10 -5.6 [-7.4, -3.9], at the largest rate tried; svd -2.8 [-5.2, -0.5];
        outlier removed +1.1 [-0.2, +2.3], in 5 [2, 8] fewer of 26 steps to half the loss of guessing.
    Without layer norm: shift 0.5 -0.5 [-3.0, +2.0]; shift 10 -25 [-33, -17]. Shift 0.5 with other attention: xcit (plain
    95.4 %) +0.1 [-0.5, +0.6]; window (95.1 %) +0.2 [-0.6, +0.9].
    One head, four rates to 0.03 (plain 91.9 %): shift 10 -1.3 [-4.7, +2.0]; an independent orthogonal matrix for queries, keys
    and values, of the same kappa(W) = 1.3, -17.9 [-21.8, -14.1]: kappa(W) is not what helps.
Theory: none is a law here; the paper's statements about training are claims, with the interval of each effect.
Figure: loss curves of all seeds, the effect of every variant with its interval, and kappa along training.
"""

from __future__ import annotations

import copy
import dataclasses
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmt.experiments import flags
from rmt.experiments.cli import run_experiment
from rmt.experiments.experiment import Bench, Cost, Experiment, by_quantity
from rmt.experiments.run import prepare
from rmt.experiments.setting import Meaningless, check_fields, choice, integer, real, text

if TYPE_CHECKING:
    from rmt.experiments.results import Results

SHIFTED = ("shift", "orthogonal_shared", "orthogonal_independent")
CONDITIONED = (*SHIFTED, "svd")
REMOVED = ("outlier_removed", "alpha_from_1", "alpha_from_0", "energy_matched")
VARIANTS = ("none", *CONDITIONED, *REMOVED, "residual_scaled")
FULL = {
    "--variant": VARIANTS,
    "--shift": ("0.5", "2", "10"),
    "--norm": ("pre", "none"),
    "--depth": ("2", "8"),
    "--steps": ("200", "800"),
}


@dataclasses.dataclass(frozen=True)
class Setting:
    """One variant at one rate; the draws are seeds."""

    task: str = choice("classify", "what is learned", ("classify", "causal-lm", "masked-lm", "listops"))
    attention: str = choice("softmax", "kind of attention", ("softmax", "xcit", "nystrom", "window"))
    variant: str = choice("none", "how the model is altered", VARIANTS)
    shift: float | None = real(0.5, "lambda of shifts and orthogonal controls", at_least=0)
    keep_norm: str = choice("no", "scale W + C to the norm of W", ("no", "yes"))
    corrected: str = choice("qkv", "which projections are conditioned", ("qkv", "qk", "v"))
    norm: str = choice("pre", "layer norm before or after the branch, or none", ("pre", "post", "none"))
    depth: int = integer(2, "layers")
    rate: float = real(3e-3, "step size of Adam", above=0)
    steps: int = integer(200, "training steps", at_least=10)
    batch: int = integer(100, "sequences of a step")
    width: int = integer(32, "token width")
    heads: int = integer(2, "heads")
    n: int = integer(16, "tokens; images always have 16", at_least=4)
    window: int | None = integer(4, "tokens in a block of window attention")
    landmarks: int | None = integer(4, "landmarks of Nystrom attention")
    images: str | None = text(None, "folder of images, one subfolder for each class (digits of scikit-learn)")

    def __post_init__(self) -> None:
        check_fields(self)
        derived: dict[str, Any] = {
            "shift": (0.5 if self.shift is None else self.shift) if self.variant in SHIFTED else None,
            "window": (self.window or 4) if self.attention == "window" else None,
            "landmarks": (self.landmarks or 4) if self.attention == "nystrom" else None,
        }
        if self.variant not in CONDITIONED:
            derived |= {"keep_norm": "no", "corrected": "qkv"}
        if self.task == "classify":
            derived["n"] = 16
        for name, value in derived.items():
            object.__setattr__(self, name, value)
        if self.images is not None and not Path(self.images).expanduser().is_dir():
            raise ValueError(
                f"--images {self.images}: is no folder; give one with a subfolder of images for each class"
            )
        if self.width % self.heads:
            raise Meaningless(f"--width {self.width}: does not split into {self.heads} heads")
        if self.images is not None and self.task != "classify":
            raise Meaningless(f"--images with --task {self.task}: pictures are classified only")
        if self.task == "causal-lm" and self.attention != "softmax":
            raise Meaningless(f"--task causal-lm with {self.attention} attention: only softmax has a causal mask here")
        if self.variant in REMOVED and self.attention not in ("softmax", "window"):
            raise Meaningless(
                f"--variant {self.variant} with {self.attention} attention: there is no outlier 11^T/n to remove"
            )


def measure(setting: Setting, draws: range, stream: Any, bench: Bench) -> dict[str, Any]:
    """Train once per draw."""
    import torch

    torch.set_num_threads(1)
    return by_quantity(_one_draw(setting, draw, stream) for draw in draws)


def _one_draw(setting: Setting, draw: int, stream: Any) -> dict[str, Any]:
    import torch

    from simulations.training.data import load
    from simulations.training.loop import Schedule, draw_weights, time_ratio, train
    from simulations.training.model import Architecture, Transformer
    from simulations.training.variants import altered, branch_factor

    data = load(setting.task, stream, draw, n=setting.n, images=setting.images)
    arch = Architecture(
        n=data.n,
        classes=data.classes,
        features=None if data.vocabulary else data.inputs.shape[2],
        vocabulary=data.vocabulary,
        per_token=data.targets.ndim == 2,
        width=setting.width,
        heads=setting.heads,
        depth=setting.depth,
        attention=setting.attention,
        causal=data.causal,
        window=setting.window or 1,
        landmarks=setting.landmarks or 1,
        norm=setting.norm,
        branch=branch_factor(setting.variant, setting.depth),
    )
    model = Transformer(arch)
    here = stream.within(f"training/width={setting.width}/depth={setting.depth}/{setting.task}")
    draw_weights(model, here, draw)
    plain = copy.deepcopy(model)
    inputs, _ = data.part("train")
    altered(
        model,
        setting.variant,
        shift=setting.shift,
        norm_preserving=setting.keep_norm == "yes",
        roles=setting.corrected,
        seed=draw,
        inputs=torch.from_numpy(inputs[:32] if data.vocabulary else inputs[:32].astype("float32")),
    )
    schedule = Schedule(setting.steps, setting.rate, min(setting.batch, data.splits[0]))
    ratio = time_ratio(model, plain, data, schedule)
    return {**train(model, data, schedule, here, draw), "_time_ratio": ratio}


def cost(setting: Setting, bench: Bench) -> Cost:
    """Rough time of one run on one core, and memory. Raises ValueError where a package that it needs is missing."""
    needs = {"torch": "torch"} | ({"sklearn": "data"} if setting.task == "classify" and setting.images is None else {})
    for module, extra in needs.items():
        if importlib.util.find_spec(module) is None:
            raise ValueError(f"--task {setting.task}: needs {module}; pip install 'rmt-attention[{extra}]'")
    tokens = setting.batch * setting.n
    step = setting.depth * (1e-3 + 7.5e-11 * tokens * setting.width * (24 * setting.width + 6 * setting.n))
    memory = 3 * 10**8 + 400 * tokens * setting.width * setting.depth
    return Cost(seconds=setting.steps * step + 0.3 + 0.1 * setting.depth, memory=memory, least_memory=memory)


def claims(results: Results) -> list[Any]:
    """Effects seed by seed with their intervals, and the paper's statements about training."""
    from simulations.claims.conditioned_training import all_claims

    return all_claims(results)


def summary(results: Results) -> str:
    """The effect of every variant on the test set, with its interval, whatever its sign."""
    from simulations.claims.conditioned_training import sentence

    return sentence(results)


def figure(results: Results) -> Any:
    """The page of this experiment."""
    from simulations.pages.conditioned_training import page

    return page(results)


EXPERIMENT = Experiment(
    "conditioned_training",
    Setting,
    measure,
    None,
    figure,
    sweep={"variant": ("none", "shift", "svd", "outlier_removed"), "shift": (0.5, 10.0), "rate": (1e-3, 3e-3, 1e-2)},
    claims=claims,
    summary=summary,
    headline=("test_accuracy", "test_loss", "steps_to_goal"),
    spectra=("none",),
    cost=cost,
)


def main(arguments: list[str]) -> int:
    """The command line; --full stands for every variant, norm, depth and horizon, and says its time before it starts."""
    if "--full" in arguments:
        arguments = [word for word in arguments if word != "--full"]
        for flag, values in FULL.items():
            if flag not in arguments:
                arguments += [flag, *values]
        parsed = flags.parser(EXPERIMENT).parse_args(arguments)
        try:
            planned = prepare(EXPERIMENT, flags.request(EXPERIMENT, parsed))
        except ValueError as reason:
            print(f"conditioned_training: error: {reason}", file=sys.stderr)
            return 2
        hours = planned.seconds(planned.tasks) / planned.workers / 3600
        runs = sum(task.count for task in planned.tasks)
        print(
            f"--full: {runs} runs, about {hours:.1f} hours on {planned.workers} cores without what is stored",
            file=sys.stderr,
        )
    return run_experiment(EXPERIMENT, arguments)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
