"""Benchmarks of whole calls of the library: texts, pictures, pages, importance."""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

import visformer
from tests.bench.measurements import Measurement, seconds, take_turns
from tests.bench.time_decoding import (
    SHAPES,
    MissingPeer,
    generate,
    imported,
    our_settings,
    our_tensors,
    random_checkpoint,
    random_source,
)
from visformer import paths
from visformer.core.checkpoint import Checkpoint
from visformer.core.decoding import Decoding
from visformer.core.translation import translate

ROUNDS, PICTURES, TOKENS, STEPS = 3, 9, 64, 16
PARTS = (  # of 500 sentences
    ("I", "You", "My brother", "The children", "The old man next door"),
    ("will buy", "cannot find", "want to see", "have never forgotten", "need"),
    ("a book", "the key", "your new house", "the letter that I wrote yesterday"),
    ("", "today", "with her", "before the train leaves", "because it is raining"),
)
SENTENCE = "The animal didn't cross the street because it was too tired."


# ---- 25: many texts ------------------------------------------------------------


def bulk() -> list[Measurement]:
    """Compare translating 500 lines by the bundled model, on one thread each."""
    torch.set_num_threads(1)
    checkpoint = visformer.load(paths.checkpoint(), device="cpu")
    every = itertools.product(*PARTS)
    lines = [" ".join(filter(None, parts)) + "." for parts in every]
    return [
        figure for beams in (1, 4) for figure in against_peers(checkpoint, lines, beams)
    ]


def against_peers(
    checkpoint: Checkpoint, lines: list[str], beams: int
) -> list[Measurement]:
    """Compare translating lines with each peer that has the same weights.

    The peers read and write with our vocabulary: each makes texts of texts.
    """
    vocabulary = checkpoint.vocabulary
    figures, made = [], dict[str, list[Any]]()
    musts: dict[str, tuple[float, Callable[..., Translates]]] = {
        "transformers": (1.2, _by_transformers),
        "CTranslate2": (0.8, _by_ctranslate2),
    }
    for name, (must, make) in musts.items():
        what = (
            f"speed of {len(lines)} lines translated relative to {name}, beams: {beams}"
        )
        absent = partial(Measurement, 25, what, None, "x", "at least", must)
        try:
            peer = make(checkpoint, beams)
        except MissingPeer as error:
            figures.append(absent(note=str(error)))
            continue

        def ours() -> None:
            made["ours"] = translate(checkpoint, lines, beam=beams)

        def theirs() -> None:
            ids = peer([vocabulary.read(line).ids for line in lines])  # noqa: B023
            made["theirs"] = [vocabulary.text(one) for one in ids]

        turns = take_turns(lambda: seconds(ours), lambda: seconds(theirs), rounds=2)
        parts = turns.milliseconds("line", "its line", len(lines))
        parts["equal texts"] = sum(map(str.__eq__, made["ours"], made["theirs"]))
        figures.append(
            Measurement(25, what, turns.faster, "x", "at least", must, parts)
        )
    return figures


Translates = Callable[[list[list[int]]], list[list[int]]]


def pegasus(checkpoint: Checkpoint) -> Any:
    """Return transformers' model with norms first and a checkpoint's weights."""
    transformers = imported("transformers")
    settings, activation = our_settings(checkpoint), checkpoint.config.activation
    config = transformers.PegasusConfig(**settings, activation_function=activation)
    model = transformers.PegasusForConditionalGeneration(config)
    tensors = our_tensors(checkpoint)
    for name in [name for name in tensors if ".norm." in name]:
        side, _norm, leaf = name.split(".")
        tensors[f"model.{side}.layer_norm.{leaf}"] = tensors.pop(name)
    model.load_state_dict(tensors, strict=False)
    with torch.no_grad():
        most = config.max_position_embeddings
        table = checkpoint.model.position_table("source")[:most]
        for stack in (model.model.encoder, model.model.decoder):
            stack.embed_positions.weight.copy_(table)  # fixed, the same for both
    return model.eval()


def _by_transformers(checkpoint: Checkpoint, beams: int, size: int = 64) -> Translates:
    model, pad = pegasus(checkpoint), checkpoint.tokenizer.pad

    @torch.inference_mode()
    def peer(sources: list[list[int]]) -> list[list[int]]:
        order = sorted(range(len(sources)), key=lambda at: len(sources[at]))
        made: dict[int, list[int]] = {}
        for first in range(0, len(order), size):
            batch = order[first : first + size]
            longest = len(sources[batch[-1]])
            ids = torch.tensor(
                [sources[at] + [pad] * (longest - len(sources[at])) for at in batch]
            )
            found = model.generate(
                ids,
                attention_mask=(ids != pad).long(),
                num_beams=beams,
                do_sample=False,
                early_stopping=True,
                length_penalty=1.0,
                max_new_tokens=2 * longest + 50,
            )
            made |= zip(batch, found[:, 1:].tolist(), strict=True)
        return [made[at] for at in range(len(sources))]

    return peer


def _by_ctranslate2(checkpoint: Checkpoint, beams: int) -> Translates:
    ctranslate2, model = imported("ctranslate2"), pegasus(checkpoint)
    model.config.normalize_before, model.config.normalize_embedding = True, False
    loader = ctranslate2.converters.transformers.PegasusLoader()
    spec, tokenizer = loader.get_model_spec(model), checkpoint.tokenizer
    names = [f"t{id}" for id in range(checkpoint.config.target_vocabulary)]
    start, end = f"t{tokenizer.bos}", f"t{tokenizer.eos}"
    spec.register_source_vocabulary(names)
    spec.register_target_vocabulary(names)
    spec.config.bos_token = spec.config.decoder_start_token = start
    spec.config.eos_token, spec.config.unk_token = end, "t1"
    spec.validate()
    spec.optimize(quantization=None)
    with tempfile.TemporaryDirectory() as folder:
        spec.save(folder)
        translator = ctranslate2.Translator(
            folder, compute_type="float32", inter_threads=1, intra_threads=1
        )

    def peer(sources: list[list[int]]) -> list[list[int]]:
        found = translator.translate_batch(
            [[names[id] for id in ids] for ids in sources],
            beam_size=beams,
            max_batch_size=2048,
            batch_type="tokens",
        )
        return [[int(name[1:]) for name in one.hypotheses[0]] for one in found]

    return peer


# ---- 30: folders of transformers -----------------------------------------------


def folder_steps() -> list[Measurement]:
    """Compare a step of a folder with transformers' own, with attentions."""
    torch.set_num_threads(1)
    what = "time of a step of a T5 folder relative to transformers' own: small"
    try:
        transformers = imported("transformers")
    except MissingPeer as error:
        absent = Measurement(30, what, None, "x", "at most", 1.5, note=str(error))
        return [absent]
    sizes = SHAPES["small"]
    config = transformers.T5Config(
        vocab_size=sizes["source_vocabulary"],
        d_model=sizes["d_model"],
        d_kv=sizes["d_model"] // sizes["heads"],
        d_ff=sizes["feed_forward"],
        num_layers=sizes["encoder_layers"],
        num_heads=sizes["heads"],
        eos_token_id=None,
        decoder_start_token_id=0,
    )
    peer = transformers.T5ForConditionalGeneration(config).eval()
    peer.set_attn_implementation("eager")
    source = list(range(3, 3 + TOKENS))
    with tempfile.TemporaryDirectory() as folder:
        peer.save_pretrained(folder)
        model = visformer.load(folder)

        def ours() -> float:
            decoding = Decoding(model, source, limit=STEPS + 1)
            decoding.step()
            return seconds(lambda: [decoding.step() for _step in range(STEPS)])

        def theirs() -> float:
            long = seconds(lambda: generate(peer, source, STEPS + 1))
            return long - seconds(lambda: generate(peer, source, 1))

        turns = take_turns(ours, theirs, rounds=ROUNDS)
    parts = turns.milliseconds("step", "its step", STEPS)
    return [Measurement(30, what, turns.slower, "x", "at most", 1.5, parts)]


# ---- 26, 31 and 32: a picture, importance, a page ------------------------------


def _run() -> Any:
    checkpoint = random_checkpoint(**SHAPES["small"])
    source = random_source(checkpoint, TOKENS)
    return Decoding(checkpoint, source, limit=TOKENS).finish()


def pictures() -> list[Measurement]:
    """Measure a picture in wall time, after the one that starts a process."""
    trace = _run()
    first, *others = [
        seconds(lambda: visformer.render(trace), time.perf_counter)
        for _picture in range(1 + PICTURES)
    ]
    what = "visformer.render, each picture after the first"
    value, parts = 1e3 * statistics.median(others), {"first ms": 1e3 * first}
    return [Measurement(26, what, value, "ms", "at most", 150, parts)]


def heads() -> list[Measurement]:
    """Measure the importance of all heads in wall time, on all cores."""
    checkpoint = visformer.load(paths.checkpoint(), device="cpu")
    what = "importance of all heads of the bundled model on one pair"
    times = [
        seconds(lambda: visformer.importance(checkpoint, SENTENCE), time.perf_counter)
        for _time in range(ROUNDS)
    ]
    return [Measurement(31, what, statistics.median(times), "s", "at most", 2)]


def page() -> list[Measurement]:
    """Measure the web page of a run, and the processor time until it is made."""
    trace, pages = _run(), list[str]()
    taken = seconds(lambda: pages.append(visformer.to_html(trace)))
    what = f"web page of a run, {TOKENS} + {TOKENS} tokens, 32 heads"
    size = len(pages[0].encode()) / 1e6
    return [
        Measurement(32, what, size, "MB", "at most", 2),
        Measurement(32, what, taken, "s", "at most", 2),
    ]


BENCHMARKS: dict[int, Callable[[], list[Measurement]]] = {
    25: bulk,
    26: pictures,
    30: folder_steps,
    31: heads,
    32: page,
}
