"""Small modules that are called as the models of fairseq, OpenNMT and JoeyNMT are.

Written anew from what their texts describe; each attention keeps its weights.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from tests.system.tutorials.sizes import by_exponential

WIDTH, HEADS, LAYERS, WORDS, PAD = 16, 4, 2, 24, 1
Saved = dict[str, dict[str, Tensor]]


class FairseqAttention(nn.Module):
    """Sequence first; heads beside the batch; keys and values of earlier steps kept."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name, self.scaling = name, (WIDTH // HEADS) ** -0.5
        parts = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = parts
        self.kept: list[Tensor] = []

    def forward(
        self,
        query: Tensor,  # [T, B, C]
        key: Tensor,
        key_padding_mask: Tensor | None = None,
        attn_mask: Tensor | None = None,
        saved: Saved | None = None,
        *,
        static_kv: bool = False,
    ) -> tuple[Tensor, Tensor]:
        steps, rows, _width = query.shape
        before = {} if saved is None else saved.setdefault(self.name, {})
        q = self.heads(self.q_proj(query) * self.scaling)
        if static_kv and "k" in before:
            k, v = before["k"], before["v"]
        else:
            k, v = self.heads(self.k_proj(key)), self.heads(self.v_proj(key))
            if "k" in before:
                k, v = torch.cat([before["k"], k], 1), torch.cat([before["v"], v], 1)
        before.update(k=k, v=v)
        scores = torch.bmm(q, k.transpose(1, 2))
        if attn_mask is not None:
            scores = scores + attn_mask[None]
        if key_padding_mask is not None:
            scores = scores.view(rows, HEADS, steps, -1)
            hidden = key_padding_mask[:, None, None]
            scores = scores.masked_fill(hidden, float("-inf")).flatten(0, 1)
        weights = scores.float().softmax(-1).type_as(scores)
        self.kept.append(weights.view(rows, HEADS, steps, -1).detach())
        mixed = torch.bmm(weights, v).transpose(0, 1).contiguous()
        return self.out_proj(mixed.view(steps, rows, WIDTH)), weights

    def heads(self, x: Tensor) -> Tensor:
        x = x.contiguous().view(x.shape[0], x.shape[1] * HEADS, WIDTH // HEADS)
        return x.transpose(0, 1)


class FairseqLayer(nn.Module):
    def __init__(self, name: str, *, cross: bool) -> None:
        super().__init__()
        self.self_attn = FairseqAttention(f"{name}.self")
        self.encoder_attn = FairseqAttention(f"{name}.cross") if cross else None
        self.fc1, self.fc2 = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))

    def forward(
        self,
        x: Tensor,
        hidden: Tensor | None,
        memory: Tensor | None = None,
        memory_hidden: Tensor | None = None,
        mask: Tensor | None = None,
        saved: Saved | None = None,
    ) -> Tensor:
        y, _weights = self.self_attn(x, x, hidden, mask, saved)
        x = self.norms[0](x + y)
        if self.encoder_attn is not None:
            y, _weights = self.encoder_attn(
                x, memory, memory_hidden, None, saved, static_kv=True
            )
            x = self.norms[1](x + y)
        return self.norms[2](x + self.fc2(self.fc1(x).relu()))  # type: ignore[no-any-return]


class FairseqHalf(nn.Module):
    def __init__(self, *, cross: bool) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(WORDS, WIDTH, padding_idx=PAD)
        self.register_buffer("table", by_exponential(200, WIDTH))
        self.table: Tensor
        self.layers = nn.ModuleList(
            FairseqLayer(str(at), cross=cross) for at in range(LAYERS)
        )

    def embedded(self, tokens: Tensor, start: int = 0) -> Tensor:
        x = math.sqrt(WIDTH) * self.embed_tokens(tokens)
        at = torch.arange(start, start + tokens.shape[1], device=tokens.device)
        return (x + self.table[at]).transpose(0, 1)  # type: ignore[no-any-return]


class EncoderOut(NamedTuple):
    """What older versions of fairseq's encoders return; newer ones a dict of lists."""

    encoder_out: Tensor  # [S, B, C]
    encoder_padding_mask: Tensor


class FairseqEncoder(FairseqHalf):
    def __init__(self, form: str) -> None:
        super().__init__(cross=False)
        self.form = form

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None) -> Any:
        hidden = src_tokens.eq(PAD)
        x = self.embedded(src_tokens)
        for layer in self.layers:
            x = layer(x, hidden)
        if self.form == "tuple":
            return EncoderOut(x, hidden)
        return {"encoder_out": [x], "encoder_padding_mask": [hidden]}


class FairseqDecoder(FairseqHalf):
    def __init__(self) -> None:
        super().__init__(cross=True)

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: Any = None,
        incremental_state: Saved | None = None,
    ) -> tuple[Tensor, dict[str, Any]]:
        if isinstance(encoder_out, EncoderOut):
            memory, hidden = encoder_out
        else:
            (memory,) = encoder_out["encoder_out"]
            (hidden,) = encoder_out["encoder_padding_mask"]
        steps, start, mask = prev_output_tokens.shape[1], 0, None
        if incremental_state is not None:  # only the last token is new
            prev_output_tokens, start = prev_output_tokens[:, -1:], steps - 1
        else:
            mask = torch.full((steps, steps), float("-inf")).triu(1)
        x = self.embedded(prev_output_tokens, start)
        for layer in self.layers:
            x = layer(x, None, memory, hidden, mask, incremental_state)
        logits = nn.functional.linear(x.transpose(0, 1), self.embed_tokens.weight)
        return logits, {"attn": [None], "inner_states": [x]}


class Fairseq(nn.Module):
    """fairseq's: the names of ``net_input``; the encoder's result is one argument."""

    def __init__(self, form: str = "dict") -> None:
        super().__init__()
        self.encoder, self.decoder = FairseqEncoder(form), FairseqDecoder()

    def forward(
        self, src_tokens: Tensor, src_lengths: Tensor, prev_output_tokens: Tensor
    ) -> tuple[Tensor, dict[str, Any]]:
        encoder_out = self.encoder(src_tokens, src_lengths=src_lengths)
        return self.decoder(prev_output_tokens, encoder_out=encoder_out)  # type: ignore[no-any-return]


class OpenNMT(nn.Module):
    """OpenNMT's: ids [T, B, 1], the target whole; a decoder that keeps its source."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = FairseqEncoder("tuple"), FairseqDecoder()
        self.state: dict[str, Tensor] = {}

    def forward(
        self, src: Tensor, tgt: Tensor, lengths: Tensor, bptt: bool = False
    ) -> tuple[Tensor, dict[str, Any]]:
        dec_in = tgt[:-1]  # without the last one
        memory_bank = self.encoder(src.squeeze(2).transpose(0, 1), lengths)
        self.state["src"] = src
        logits, attns = self.decoder(dec_in.squeeze(2).transpose(0, 1), memory_bank)
        return logits.transpose(0, 1), attns


class JoeyNMT(nn.Module):
    """JoeyNMT's: all that a batch has as keywords, and a ``return_type``."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = FairseqEncoder("tuple"), FairseqDecoder()

    def forward(self, return_type: str | None = None, **kwargs: Any) -> Any:
        memory = self.encoder(kwargs["src"], kwargs["src_length"])
        logits, _attns = self.decoder(kwargs["trg_input"], memory)
        if return_type != "loss":
            return logits, None, None, None
        log_probs = logits.log_softmax(-1)
        gold = kwargs["trg"]
        loss = nn.functional.nll_loss(log_probs.flatten(0, 1), gold.flatten())
        return loss, log_probs, None, int((log_probs.argmax(-1) == gold).sum())
