"""What a folder is compared with: transformers' own output and its ``generate``.

``python -m tests.system.formats.hugging_face.parity [FILE]`` compares every family over
40 sentences and writes the table.
"""

from __future__ import annotations

import functools
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import visformer
from tests.system.formats.hugging_face import families
from tests.system.formats.hugging_face.families import FAMILIES, sentences
from visformer.core.decoding import Decoding
from visformer.formats.loading import load
from visformer.values.step import Strategy
from visformer.values.trace import Trace

CLOSE = 2e-5
BEAMS = 4
SAMPLED = {"temperature": 1.3, "top_k": 20, "top_p": 0.95}


class Compared(NamedTuple):
    """How far a folder is from what transformers itself makes of it."""

    attention: float  # the largest difference of a weight
    matrices: int  # that were compared
    greedy: int  # texts that are equal, token for token
    beams: int
    sampled: int


class Own:
    """A folder as transformers opens it."""

    def __init__(self, folder: Path, languages: tuple[str, str] | None) -> None:
        import transformers

        self.tokenizer = families.own_tokenizer(folder)
        if languages is not None:
            self.tokenizer.src_lang, self.tokenizer.tgt_lang = languages
        self._forced: dict[str, int] = {}
        if languages is not None:  # as the pages of these models on the Hub say
            id = self.tokenizer.convert_tokens_to_ids(languages[1])
            if hasattr(self.tokenizer, "get_lang_id"):
                id = self.tokenizer.get_lang_id(languages[1])
            starts = type(self.tokenizer).__name__ == "MBartTokenizer"
            key = "decoder_start_token_id" if starts else "forced_bos_token_id"
            self._forced = {key: id}
        config = transformers.AutoConfig.from_pretrained(folder)
        kind = getattr(transformers, config.architectures[0])
        self.model: Any = kind.from_pretrained(folder, attn_implementation="eager")
        self.model.eval()

    def ids(self, text: str) -> torch.Tensor:
        given: torch.Tensor = self.tokenizer(text, return_tensors="pt").input_ids
        return given

    def generated(self, text: str, **settings: Any) -> list[int]:
        """Return the ids that ``generate`` adds, up to the end of the sentence."""
        ids = self.ids(text)
        both = self.model.config.is_encoder_decoder
        settings = {"do_sample": False, **self._forced, **settings}
        made = self.model.generate(ids, attention_mask=torch.ones_like(ids), **settings)
        tokens: list[int] = made[0, 1 if both else ids.shape[1] :].tolist()
        return tokens

    def attention(self, trace: Trace) -> dict[Any, Any]:
        """Return the weights of each layer and kind, of the tokens of a Trace."""
        target = torch.tensor(trace.target_ids[None])
        inputs = {"input_ids": torch.tensor(trace.source_ids[None])}
        if self.model.config.is_encoder_decoder:
            inputs["decoder_input_ids"] = target
        elif not len(trace.source):
            inputs = {"input_ids": target}
        with torch.no_grad():
            output = self.model(**inputs, output_attentions=True)
        if not self.model.config.is_encoder_decoder:
            return {trace.kinds[0]: output.attentions}
        return {
            "encoder": output.encoder_attentions,
            "decoder": output.decoder_attentions,
            "cross": output.cross_attentions,
        }

    def apart(self, trace: Trace) -> tuple[float, int]:
        """Return the largest difference of a weight, and how many matrices there are.

        Every head of every layer of every kind is one; none may be missing.
        """
        worst, count = 0.0, 0
        own = self.attention(trace)
        assert set(own) == set(trace.kinds)
        for kind, layers in own.items():
            assert len(layers) == trace.layers(kind)
            for layer, weights in enumerate(layers):
                ours = trace.attention(kind, layer)
                assert ours.shape == weights[0].shape
                worst = max(worst, float(np.abs(ours - weights[0].numpy()).max()))
                count += len(ours)
        return worst, count


def compared(folder: Path, name: str, count: int) -> Compared:
    """Compare a family's folder with transformers, over some sentences."""
    family = FAMILIES[name]
    own = Own(folder, family.languages)
    checkpoint = opened_once(folder, family.languages)
    texts = sentences(count, seed=9)
    worst, matrices, greedy, beams, sampled = 0.0, 0, 0, 0, 0
    if family.suffix == "ForMaskedLM":
        texts = [
            text.replace(" ", f" {own.tokenizer.mask_token} ", 1) for text in texts
        ]
    for seed, text in enumerate(texts):
        trace = Decoding(checkpoint, text).finish()
        apart, several = own.apart(trace)
        worst, matrices = max(worst, apart), matrices + several
        if family.suffix == "ForMaskedLM":
            greedy += filled(own, trace)
            continue
        greedy += [s.id for s in trace.steps][-made(trace) :] == own.generated(text)
        theirs = own.generated(text, num_beams=BEAMS)
        read = own.tokenizer.decode(theirs, skip_special_tokens=True)
        beams += visformer.translate([text], checkpoint, BEAMS) == [read]
        strategy = Strategy("sample", seed=seed, **SAMPLED)  # type: ignore[arg-type]
        drawn = Decoding(checkpoint, text, strategy=strategy).finish()
        torch.manual_seed(seed)
        theirs = own.generated(text, do_sample=True, **SAMPLED)
        own_steps = drawn.steps[-made(drawn) :]
        same = [step.id for step in own_steps] == theirs
        sampled += same and all(step.drawn for step in own_steps)
    return Compared(worst, matrices, greedy, beams, sampled)


def made(trace: Trace) -> int:
    """Return how many tokens follow what was given."""
    return len(trace) - max(trace.prompt - 1, 0)


def filled(own: Own, trace: Trace) -> bool:
    """Whether the best tokens for each mask are those of the model's own logits."""
    with torch.no_grad():
        logits = own.model(input_ids=torch.tensor(trace.source_ids[None])).logits[0]
    masked = (trace.source_ids == own.tokenizer.mask_token_id).nonzero()[0].tolist()
    shares = logits.softmax(-1)
    return masked == list(trace.fills) and all(
        [c.id for c in fills[:8]] == shares[at].topk(8).indices.tolist()
        and np.isclose(fills[0].probability, float(shares[at].max()), atol=CLOSE)
        for at, fills in trace.fills.items()
    )


def opened(folder: Path, languages: tuple[str, str] | None = None) -> Any:
    source, target = languages or (None, None)
    return load(folder, device="cpu", source_language=source, target_language=target)


@functools.cache
def opened_once(folder: Path, languages: tuple[str, str] | None = None) -> Any:
    """Return the model of a folder, for those who change nothing in either."""
    return opened(folder, languages)


def table(count: int) -> str:
    """Return all families as Markdown."""
    lines = [
        f"| family | matrices | largest difference | greedy of {count} | "
        f"beam {BEAMS} | sampled |",
        "|---|---|---|---|---|---|",
    ]
    for name in FAMILIES:
        with tempfile.TemporaryDirectory() as there:
            row = compared(families.write_folder(Path(there), name), name, count)
        masks = FAMILIES[name].suffix == "ForMaskedLM"
        more = (
            "masks filled: the same | |" if masks else f"{row.beams} | {row.sampled} |"
        )
        cells = f"| {name} | {row.matrices:,} | {row.attention:.1e} | {row.greedy} |"
        lines.append(f"{cells} {more}")
        print(lines[-1], flush=True)
    return "\n".join(lines) + "\n"


def main(path: str = "") -> int:
    """Print the table of 40 sentences, or write it to a file too."""
    text = table(40)
    if path:
        Path(path).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
