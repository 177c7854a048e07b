"""Small models of every variant, and how Traces are compared."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import visformer
from tests.system.tutorials.d2l import D2l
from tests.system.tutorials.handout import Handout
from tests.system.tutorials.labml import Labml
from tests.system.tutorials.modular import Modular
from tests.system.tutorials.scratch import Scratch
from tests.system.tutorials.sizes import Sizes
from visformer.core.check import check
from visformer.core.checkpoint import Checkpoint
from visformer.core.model import Transformer
from visformer.core.models import Model
from visformer.core.passes import run
from visformer.formats.layouts import LAYOUTS
from visformer.formats.names import their_name
from visformer.values.config import ModelConfig
from visformer.values.facts import KINDS, Kind
from visformer.values.trace import Trace

SMALL: dict[str, Any] = {
    "source_vocabulary": 23,
    "target_vocabulary": 19,
    "d_model": 16,
    "heads": 4,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "feed_forward": 24,
}
SHARED = {"paper", "marian"}


def small(preset: str, seed: int = 0, **sizes: Any) -> Checkpoint:
    """Build a small preset, with biases and norms that are not their initial ones."""
    fields = {**SMALL, **sizes}
    if preset in SHARED:
        fields["source_vocabulary"] = fields["target_vocabulary"]
    checkpoint = visformer.build(preset, seed=seed, device="cpu", **fields)
    drawn = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in checkpoint.model.named_parameters():
            if parameter.dim() == 1 or "positions" in name:
                noise = torch.randn(parameter.shape, generator=drawn)
                parameter.add_(noise, alpha=0.2)
            elif ".layers." in name:
                parameter.mul_(2)  # attention far from uniform
    return checkpoint


def faults(model: Model, source: str | None = None) -> list[str]:
    """Return the ids of the faults that the table of checks finds."""
    every: Any = check(model, source)["checks"]
    return [one["id"] for one in every if one["verdict"] == "fault"]


ODD: dict[str, Any] = {
    "gate": {"gated": True, "activation": "gelu", "w2_bias": False},
    "no positions": {"positions": "none"},
    "learned": {"positions": "learned", "max_positions": 30},
    "odd width": {
        "positions": "learned",
        "max_positions": 30,
        "d_model": 15,
        "heads": 5,
    },
    "some biases": {"encoder_bias": "value_output", "decoder_bias": "value_output"},
    "pre-norm": {"norm_first": True, "final_norm": True},
    "norms without mean": {"norm": "rms", "norm_first": True, "final_norm": True},
    "scaling norms": {"norm_bias": False},
}


TUTORIALS = {
    "handout": Handout,
    "d2l": D2l,
    "labml": Labml,
    "modular": Modular,
    "scratch": Scratch,
}


def sizes_of(config: ModelConfig, *, dropout: float = 0.1) -> Sizes:
    """Return the sizes of a model as its tutorial's own program takes them."""
    return Sizes(
        source=config.source_vocabulary,
        target=config.target_vocabulary,
        width=config.d_model,
        heads=config.heads,
        encoder=config.encoder_layers,
        decoder=config.decoder_layers,
        feed=config.feed_forward,
        length=config.max_positions,
        dropout=dropout,
    )


def tutorial(checkpoint: Checkpoint, *given: Any, **choices: Any) -> Any:
    """Return the layout's own program with a checkpoint's weights, in eval mode."""
    config, names = checkpoint.config, LAYOUTS[checkpoint.layout].names
    sizes = sizes_of(config, dropout=0.0)
    made = TUTORIALS[checkpoint.layout](sizes, *given, **choices)
    own = {
        name: value for name, value in made.state_dict().items() if name[-3:] != ".pe"
    }
    weights = checkpoint.model.named_parameters()
    ours = {their_name(names, name): weight for name, weight in weights}
    assert own.keys() == ours.keys()
    fitting = {name: ours[name].detach().view(own[name].shape) for name in own}
    made.load_state_dict(fitting, strict=False)
    return made.eval()


@dataclass
class Result:
    """What a tutorial's pass gave: what the cross attention reads, and every weight."""

    memory: Tensor  # [B, S, D], or [S, B, D]
    logits: Tensor  # as it returns them
    maps: dict[tuple[Kind, int], Tensor]  # [B, H, Q, K]


def passed(model: Any, *given: Any) -> Result:
    """Run a tutorial's model, and collect what it kept."""
    memory: list[Tensor] = []
    encoder = getattr(model, "encoder", None) or model.encoder_layers[-1]
    with (
        torch.no_grad(),
        encoder.register_forward_hook(lambda _m, _given, made: memory.append(made)),
    ):
        logits = model(*given)
    return Result(memory[0], logits, maps_of(model))


def maps_of(model: nn.Module) -> dict[tuple[Kind, int], Tensor]:
    """Return the weights that attentions kept; self attention comes before cross."""
    kept = {n: m.seen for n, m in model.named_modules() if hasattr(m, "seen")}
    encoder = [seen for name, seen in kept.items() if name.startswith("encoder")]
    decoder = [seen for name, seen in kept.items() if name.startswith("decoder")]
    several: dict[Kind, list[Tensor]] = {
        "encoder": encoder,
        "decoder": decoder[::2],
        "cross": decoder[1::2],
    }
    return {(k, at): one for k in several for at, one in enumerate(several[k])}


def difference(ours: Any, theirs: Any) -> float:
    """Return the largest difference over max(1, largest magnitude); NaN meets NaN."""
    a, b = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    assert a.shape == b.shape
    assert np.array_equal(np.isnan(a), np.isnan(b))
    if np.isnan(b).all():
        return 0.0
    return float(np.nanmax(np.abs(a - b)) / max(1.0, float(np.nanmax(np.abs(b)))))


def assert_same(trace: Trace, checkpoint: Checkpoint) -> None:
    """Compare a decoding with the full pass over the same ids."""
    source, target = trace.source_ids.tolist(), trace.target_ids.tolist()
    full = run(checkpoint, [source], [target])[0]
    assert difference(trace.encoder_rows, full.encoder_rows) <= 2e-5
    assert difference(trace.memory_rows, full.memory_rows) <= 2e-5
    assert difference(trace.decoder_rows, full.decoder_rows) <= 2e-5
    assert difference(trace.logits, full.logits) <= 2e-5
    for kind in KINDS:
        assert np.array_equal(trace.masks[kind], full.masks[kind])
        assert difference(trace.attention(kind, 0), full.attention(kind, 0)) <= 2e-5


def torchs_own(model: Transformer) -> nn.Transformer:
    """Build ``torch.nn.Transformer`` with a model's weights."""
    config = model.config
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nested tensors are of no use to us
        other = nn.Transformer(
            config.d_model,
            config.heads,
            config.encoder_layers,
            config.decoder_layers,
            config.feed_forward,
            dropout=0.0,
            activation=F.silu if config.activation == "silu" else config.activation,
            batch_first=True,
            norm_first=config.norm_first,
        )
    if not config.final_norm:
        other.encoder.norm = other.decoder.norm = None
    other.load_state_dict(torch_tensors(model))
    return other.train()  # the fast path of eval mode is not the formula


def torch_tensors(model: Transformer) -> dict[str, Tensor]:
    """Return a model's weights under the names of ``torch.nn.Transformer``."""
    ours = {name: weight.detach() for name, weight in model.named_parameters()}
    tensors: dict[str, Tensor] = {}
    for stack in ("encoder", "decoder"):
        names = (f"{stack}.norm.{leaf}" for leaf in ("weight", "bias"))
        tensors |= {name: ours[name] for name in names if name in ours}
        for layer in range(getattr(model.config, f"{stack}_layers")):
            tensors |= torch_layer(ours, f"{stack}.layers.{layer}", stack)
    return tensors


def torch_layer(ours: dict[str, Tensor], at: str, stack: str) -> dict[str, Tensor]:
    attentions = {"self_attn": "self_attention"}
    norms = ["self_attention_norm", "feed_forward_norm"]
    if stack == "decoder":
        attentions["multihead_attn"] = "cross_attention"
        norms.insert(1, "cross_attention_norm")
    made = {}
    for leaf in ("weight", "bias"):
        for theirs, name in attentions.items():
            parts = [ours[f"{at}.{name}.{p}.{leaf}"] for p in ("query", "key", "value")]
            made[f"{at}.{theirs}.in_proj_{leaf}"] = torch.cat(parts)
            made[f"{at}.{theirs}.out_proj.{leaf}"] = ours[f"{at}.{name}.output.{leaf}"]
        for number, name in enumerate(norms, 1):
            made[f"{at}.norm{number}.{leaf}"] = ours[f"{at}.{name}.{leaf}"]
        made[f"{at}.linear1.{leaf}"] = ours[f"{at}.feed_forward.w1.{leaf}"]
        made[f"{at}.linear2.{leaf}"] = ours[f"{at}.feed_forward.w2.{leaf}"]
    return made
