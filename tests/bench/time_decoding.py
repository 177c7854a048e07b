"""Benchmarks of decoding: one step of one sentence, everything kept, on one thread.

The first steps are not timed, which excludes the encoder and the preparation of a
sentence.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.bench.measurements import Clock, Measurement, Turns, seconds, take_turns
from visformer import paths
from visformer.core.checkpoint import Checkpoint
from visformer.core.decoding import Decoding
from visformer.core.generation import Generation
from visformer.core.packed import Affine
from visformer.formats.layouts.marian import MARIAN
from visformer.formats.loading import build
from visformer.formats.names import their_name
from visformer.values.trace import Trace

SOURCE, STEPS, ROUNDS = 64, 30, 5
LONG = 300  # steps: more than the scheduler's bonus for a waking process
TOLERANCE = 1e-6  # of attention weights, compared with a peer


def prepared(sizes: dict[str, int]) -> tuple[Checkpoint, list[int]]:
    """Return a model with random weights and a source, to run on one thread."""
    torch.set_num_threads(1)
    checkpoint = random_checkpoint(**sizes)
    return checkpoint, random_source(checkpoint, SOURCE)


def timed_steps(
    checkpoint: Checkpoint,
    source: list[int],
    steps: int = STEPS,
    clock: Clock = time.process_time,
) -> float:
    """Return the seconds of some steps after the second, which prepares a GPU's."""
    decoding = Decoding(checkpoint, source, limit=steps + 2)
    decoding.step(2)
    return seconds(lambda: [decoding.step() for _step in range(steps)], clock)


# ---- 1 and 2: peers ------------------------------------------------------------


def against_transformers() -> list[Measurement]:
    """Compare a step with ``generate`` that returns all attentions."""
    musts = {"small": 2.3, "opus": 1.9}
    return [against_generate(name, SHAPES[name], must) for name, must in musts.items()]


def against_generate(
    shape: str, sizes: dict[str, int], must: float, steps: int = STEPS
) -> Measurement:
    """Compare a shape's step with transformers'."""
    what = (
        "speed of a step, everything kept, relative to transformers with attentions: "
        f"{shape}"
    )
    checkpoint, source = prepared(sizes)
    absent = functools.partial(Measurement, 1, what, None, "x", "at least", must)
    try:
        peer = transformers_marian(checkpoint)
    except MissingPeer as error:
        return absent(note=str(error))
    far = _difference(Decoding(checkpoint, source, limit=9).finish(), peer, source)
    if far > TOLERANCE:
        return absent(note=f"the peer's attention differs by {far:.1g}")
    turns = _turns(checkpoint, source, steps, lambda n: generate(peer, source, n))
    parts = turns.milliseconds("step", "its step", steps)
    parts["largest difference of a weight"] = far
    return Measurement(1, what, turns.faster, "x", "at least", must, parts)


def against_ctranslate2() -> list[Measurement]:
    """Compare a step with CTranslate2's, which keeps only one reduced matrix."""
    musts = {"small": 0.6, "opus": 1.2}
    return [against_translate(name, SHAPES[name], must) for name, must in musts.items()]


def against_translate(
    shape: str, sizes: dict[str, int], must: float, steps: int = STEPS
) -> Measurement:
    """Compare a shape's step with CTranslate2's."""
    what = (
        "speed of a step, everything kept, relative to CTranslate2 with one attention: "
        f"{shape}"
    )
    checkpoint, source = prepared(sizes)
    absent = functools.partial(Measurement, 2, what, None, "x", "at least", must)
    with tempfile.TemporaryDirectory() as folder:
        try:
            peer = ctranslate2_marian(checkpoint, Path(folder))
        except MissingPeer as error:
            return absent(note=str(error))
    own = [step.id for step in Decoding(checkpoint, source, limit=9).finish().steps]
    if translate(peer, source, 9) != own:
        return absent(note="the peer chooses other tokens")
    turns = _turns(checkpoint, source, steps, lambda n: translate(peer, source, n))
    parts = turns.milliseconds("step", "its step", steps)
    return Measurement(2, what, turns.faster, "x", "at least", must, parts)


def _turns(
    checkpoint: Checkpoint,
    source: list[int],
    steps: int,
    theirs: Callable[[int], object],
    *,
    clock: Clock = time.process_time,
) -> Turns:
    """Compare steps after the first; ``theirs(n)`` decodes n steps from the start."""

    def their_steps() -> float:
        many = seconds(lambda: theirs(steps + 1), clock)
        return many - seconds(lambda: theirs(1), clock)

    return take_turns(
        lambda: timed_steps(checkpoint, source, steps, clock),
        their_steps,
        rounds=ROUNDS,
    )


def _difference(trace: Trace, peer: Any, source: list[int]) -> float:
    """Return the largest difference of a weight; infinite if tokens differ."""
    theirs = generate(peer, source, len(trace))
    if theirs.sequences[0, 1:].tolist() != [step.id for step in trace.steps]:
        return float("inf")
    differences = [0.0]
    for t in range(len(trace)):
        for layer in range(trace.layers("cross")):
            own = trace.attention("decoder", layer)[:, t, : t + 1]
            cross = trace.attention("cross", layer)[:, t]
            their_own = theirs.decoder_attentions[t][layer][0, :, 0].numpy()
            their_cross = theirs.cross_attentions[t][layer][0, :, 0].numpy()
            differences.append(float(abs(own - their_own).max()))
            differences.append(float(abs(cross - their_cross).max()))
    return max(differences)


# ---- 3: products ---------------------------------------------------------------


def against_memory() -> list[Measurement]:
    """Compare a step with the products of its weights alone."""
    return [against_reading(SHAPES["opus"])]


def against_reading(sizes: dict[str, int], steps: int = STEPS) -> Measurement:
    """Compare a shape's step with the fastest products over the same weights."""
    checkpoint, source = prepared(sizes)
    packed = checkpoint.packed
    assert packed is not None
    weights = [weight for layer in packed.layers for weight in layer]
    matrices = [packed.output, *(w for w in weights if isinstance(w, Affine))]
    rows = {matrix: torch.randn(1, len(matrix.weight)) for matrix in matrices}
    products: dict[str, Callable[[Affine], object]] = {
        "numpy": lambda one: np.dot(rows[one].numpy()[0], one.product.weight),
        "mm": lambda one: torch.mm(rows[one], one.weight),
        "addmm": lambda one: one(rows[one]),
    }
    turns = {
        name: take_turns(
            lambda: timed_steps(checkpoint, source, steps) / steps,
            lambda: seconds(lambda: [multiply(one) for one in matrices]),  # noqa: B023
            rounds=ROUNDS,
        )
        for name, multiply in products.items()
    }
    fastest = max(turns, key=lambda name: turns[name].slower)
    parts = turns[fastest].milliseconds("step", fastest)
    parts["MB of weights"] = sum(one.weight.numel() for one in matrices) * 4 / 1e6
    what = "time of a step relative to the fastest products of its weights: opus"
    slower = turns[fastest].slower
    return Measurement(3, what, slower, "x", "at most", 1.7, parts)


# ---- 17: a known pair ----------------------------------------------------------


def known_pair() -> list[Measurement]:
    """Compare a reference of 64 tokens in one pass with 64 decoding steps."""
    return [against_decoding(SHAPES["small"])]


def against_decoding(sizes: dict[str, int], tokens: int = 64) -> Measurement:
    """Compare teacher forcing in one pass with the same number of steps."""
    checkpoint, source = prepared(sizes)
    target = random_source(checkpoint, tokens)

    def one_pass() -> float:
        decoding = Decoding(checkpoint, source, limit=tokens)
        return seconds(lambda: decoding.feed(target))

    turns = take_turns(
        one_pass, lambda: timed_steps(checkpoint, source, tokens), rounds=ROUNDS
    )
    parts = turns.milliseconds("pass", "steps")
    what = (
        f"speed of {tokens} known tokens in one pass relative to decoding them: small"
    )
    return Measurement(17, what, turns.faster, "x", "at least", 4, parts)


# ---- 18: other work ------------------------------------------------------------


def beside_work() -> list[Measurement]:
    """Compare a step beside two busy processes with an idle one, in wall time."""
    checkpoint, source = prepared(SHAPES["small"])

    def alone() -> float:
        return timed_steps(checkpoint, source, LONG, clock=time.perf_counter)

    def beside() -> float:
        with busy(2):
            return alone()

    turns = take_turns(beside, alone, rounds=ROUNDS)
    parts = turns.milliseconds("beside", "alone", LONG)
    what = "time of a step beside two busy processes relative to alone: small"
    return [Measurement(18, what, turns.slower, "x", "at most", 2.5, parts)]


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """Keep ``count`` processes busy."""
    code = "print(flush=True)\nwhile True: pass"
    processes = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        for _process in range(count)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()  # wait until it runs
        yield
    finally:
        for process in processes:
            process.kill()
            process.communicate()


# ---- 19: length ----------------------------------------------------------------


def growth() -> list[Measurement]:
    """Compare how a step and its arithmetic grow with the length."""
    return [growth_with_length(SHAPES["small"], 16, 4096)]


def growth_with_length(
    sizes: dict[str, int], short: int, long: int, steps: int = STEPS
) -> Measurement:
    """Compare the extra time of a step for a long source with that of its attention."""
    torch.set_num_threads(1)
    checkpoint = random_checkpoint(**sizes, max_positions=long)
    sources = {length: random_source(checkpoint, length) for length in (short, long)}
    times = {
        length: timed_steps(checkpoint, source, steps) / steps
        for length, source in sources.items()
    }
    config = checkpoint.config
    added = [
        config.decoder_layers
        * attention_seconds(config.heads, config.head_size, length, steps)
        for length in (short, long)
    ]
    parts: dict[str, float] = {}
    for length, source in sources.items():
        parts[f"ms at {length}"] = 1e3 * times[length]
        parts[f"calls at {length}"] = calls(checkpoint, source)
    parts["attention ms"] = 1e3 * (added[1] - added[0])
    grown = (times[long] - times[short]) / (added[1] - added[0])
    what = (
        f"growth of a step from {short:,} to {long:,} source tokens relative to its "
        "attention's"
    )
    return Measurement(19, what, grown, "x", "at most", 1.5, parts)


def attention_seconds(heads: int, size: int, length: int, repeat: int) -> float:
    """Return the seconds that one query's attention over ``length`` keys takes."""
    # enough layers that the keys come from main memory, as in a step
    drawn = np.random.default_rng(0)
    keys = drawn.standard_normal((8, heads, length, size), np.float32)
    query = drawn.standard_normal((heads, size, 1), np.float32)

    def attend(at: int) -> None:
        scores = torch.from_numpy(np.matmul(keys[at % 8], query)[:, :, 0])
        np.matmul(scores.softmax(-1).numpy()[:, None], keys[(at + 1) % 8])

    attend(0)
    return seconds(lambda: list(map(attend, range(0, 2 * repeat, 2)))) / repeat


def calls(checkpoint: Checkpoint, source: list[int]) -> int:
    """Count the Python and built-in calls of a step."""
    decoding, total = Decoding(checkpoint, source, limit=3), [0]
    decoding.step()

    def count(frame: object, event: str, argument: object) -> None:
        total[0] += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        decoding.step()
    finally:
        sys.setprofile(None)
    return total[0]


# ---- 21: a GPU -----------------------------------------------------------------


def on_gpu() -> list[Measurement]:
    """Time a step on a GPU, in turn with transformers' there."""
    what = "wall time of a step on a GPU, everything kept: opus"
    absent = functools.partial(Measurement, 21, what, None, "ms", "at most", 1.5)
    if not torch.cuda.is_available():
        return [absent(note="there is no GPU that CUDA can use")]
    checkpoint, source = prepared(SHAPES["opus"])
    try:
        peer = transformers_marian(checkpoint).to("cuda")
    except MissingPeer as error:
        return [absent(note=str(error))]
    checkpoint.model.to("cuda")
    turns = _turns(
        checkpoint,
        source,
        STEPS,
        lambda n: generate(peer, source, n),
        clock=time.perf_counter,
    )
    parts = turns.milliseconds("step", "transformers' step", STEPS)
    return [Measurement(21, what, parts["step ms"], "ms", "at most", 1.5, parts)]


BENCHMARKS: dict[int, Callable[[], list[Measurement]]] = {
    1: against_transformers,
    2: against_ctranslate2,
    3: against_memory,
    17: known_pair,
    18: beside_work,
    19: growth,
    21: on_gpu,
}


class MissingPeer(Exception):
    """A peer is not installed."""

    def __init__(self, package: str) -> None:
        super().__init__(f"needs {package}: pip install '.[dev]'")


def imported(package: str) -> Any:
    """Import a peer, which then says nothing; MissingPeer if it is not there."""
    try:
        module = importlib.import_module(package)
    except ImportError:
        raise MissingPeer(package) from None
    if package == "transformers":
        module.logging.set_verbosity_error()
        module.logging.disable_progress_bar()
    return module


def our_tensors(checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
    """Return a model's tensors under transformers' names."""
    return {
        their_name(MARIAN.names, name): tensor
        for name, tensor in checkpoint.model.named_parameters(remove_duplicate=False)
    }


def our_settings(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return a model's settings under transformers' names."""
    config, tokenizer = checkpoint.config, checkpoint.tokenizer
    return {
        "vocab_size": config.target_vocabulary,
        "d_model": config.d_model,
        "encoder_layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        "encoder_attention_heads": config.heads,
        "decoder_attention_heads": config.heads,
        "encoder_ffn_dim": config.feed_forward,
        "decoder_ffn_dim": config.feed_forward,
        "max_position_embeddings": config.max_positions,
        "scale_embedding": config.embedding_scale,
        "pad_token_id": tokenizer.pad,
        "eos_token_id": tokenizer.eos,
        "forced_eos_token_id": None,
        "decoder_start_token_id": tokenizer.bos,
    }


def transformers_marian(checkpoint: Checkpoint) -> Any:
    """Return transformers' model with the same weights and eager attention."""
    transformers = imported("transformers")
    settings = our_settings(checkpoint)
    config = transformers.MarianConfig(**settings, activation_function="swish")
    model = transformers.MarianMTModel(config)
    tensors = our_tensors(checkpoint)
    bias = tensors.pop("final_logits_bias")
    tensors["final_logits_bias"] = bias.view(1, -1)
    keys = model.load_state_dict(tensors, strict=False)
    absent = [name for name in keys.missing_keys if "embed_" not in name]
    if keys.unexpected_keys or absent:
        raise RuntimeError(f"the peer's weights differ: {keys}")
    model.set_attn_implementation("eager")
    return model.eval()


def generate(peer: Any, source: list[int], tokens: int) -> Any:
    """Decode n ``tokens`` greedily with transformers, returning all attentions."""
    ids = torch.tensor([source], device=peer.device)
    return peer.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=tokens,
        num_beams=1,
        do_sample=False,
        output_attentions=True,
        return_dict_in_generate=True,
    )


def ctranslate2_marian(checkpoint: Checkpoint, folder: Path) -> Any:
    """Return CTranslate2's translator with the same weights, on one thread.

    Its converter reads a folder in the format of transformers; both are in ``folder``.
    """
    ctranslate2 = imported("ctranslate2")
    transformers_marian(checkpoint).save_pretrained(folder)
    # the converter requires a tokenizer, but only reads the vocabulary
    pieces = next(paths.checkpoint().glob("*.model"))
    for name in ("source.spm", "target.spm"):
        shutil.copy(pieces, folder / name)
    pad = checkpoint.tokenizer.pad
    tokens = {"</s>": 0, "<unk>": 1, "<pad>": pad}
    tokens |= {token_of(id): id for id in range(2, pad)}
    (folder / "vocab.json").write_text(json.dumps(tokens))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a package that only normalises text
        converter = ctranslate2.converters.TransformersConverter(str(folder))
        converted = converter.convert(str(folder / "ctranslate2"))
    return ctranslate2.Translator(
        converted, compute_type="float32", inter_threads=1, intra_threads=1
    )


def token_of(id: int) -> str:
    """Return the name of an ordinary token."""
    return f"t{id}"


def translate(peer: Any, source: list[int], tokens: int) -> list[int]:
    """Decode n ``tokens`` greedily with CTranslate2, returning one attention."""
    results = peer.translate_batch(
        [[token_of(id) for id in source]],
        beam_size=1,
        max_decoding_length=tokens,
        min_decoding_length=tokens,
        return_attention=True,
    )
    return [int(token[1:]) for token in results[0].hypotheses[0]]


SHAPES: dict[str, dict[str, int]] = {
    "small": {
        "d_model": 256,
        "encoder_layers": 4,
        "decoder_layers": 4,
        "heads": 8,
        "feed_forward": 1024,
        "source_vocabulary": 8000,
        "target_vocabulary": 8000,
    },
    "opus": {  # of the OPUS-MT models
        "d_model": 512,
        "encoder_layers": 6,
        "decoder_layers": 6,
        "heads": 8,
        "feed_forward": 2048,
        "source_vocabulary": 58_101,
        "target_vocabulary": 58_101,
    },
}
NEVER = -1e4  # logit of tokens that would end a sentence


def random_checkpoint(**sizes: Any) -> Checkpoint:
    """Return a Marian model with random weights that never ends a sentence."""
    checkpoint = build("marian", device="cpu", **sizes)
    tokenizer, model = checkpoint.tokenizer, checkpoint.model
    model.output.bias[[tokenizer.eos, tokenizer.pad]] = NEVER
    # CTranslate2 assumes that Marian's decoder starts from a zero embedding
    model.target_embedding.weight[tokenizer.pad] = 0
    return dataclasses.replace(checkpoint, generation=Generation())


def random_source(checkpoint: Checkpoint, length: int) -> list[int]:
    """Return source ids without special tokens."""
    drawn = torch.Generator().manual_seed(0)
    size = checkpoint.config.source_vocabulary
    ids: list[int] = torch.randint(2, size - 1, (length,), generator=drawn).tolist()
    return ids
