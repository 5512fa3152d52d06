"""Files that are known by their names, and cannot be run from them alone: what each is, and what to bring.

Nothing here makes a model. A family of the transformers library is read through it once its config is there: what
shapes cannot tell (heads, rotary or relative positions, how far they reach) stands in it.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from transformer.messages import Message

MOST, LONGEST = 5_000, 200
"""So many names are looked at, and so many characters of each: signs stand in every layer, at the end."""


@dataclass(frozen=True)
class Stranger:
    """What a file is, why it is not run, and what to bring instead; whether its model attends at all."""

    title: str
    reason: str
    remedy: str
    attends: bool = True


def _of_library(family: str) -> Stranger:
    return Stranger(
        Message("title_stranger", family=family),
        Message("stranger_library", family=family),
        Message("stranger_bring_config"),
    )


_VISION = Stranger(Message("title_stranger_vision"), Message("stranger_vision"), Message("stranger_bring_vision"))
_RECURRENT = r"(?s)\A(?=.*(?:^|[.\n])embedding\.weight)(?=.*(?:^|[.\n])(?:gru|rnn|lstm)\.weight_ih_l0)"
"""The tensors of a recurrent net that reads tokens."""

_SIGNS: tuple[tuple[str, Stranger], ...] = (
    (
        rf"{_RECURRENT}(?=.*(?:^|[.\n])(?:attn|attention|attn_combine|concat)\.)(?!.*(?:^|[.\n])encoder\.)",
        Stranger(Message("title_half_decoder"), Message("stranger_half_decoder"), Message("stranger_bring_encoder")),
    ),
    (
        rf"{_RECURRENT}(?!.*att)(?!.*[.\n]concat\.)",
        Stranger(Message("title_blind"), Message("stranger_blind"), Message("stranger_bring_decoder"), attends=False),
    ),
    (
        r"(?:encoder|decoder)\.\d+\.self_attention\.query\.weight|(?m:^decoder\.weight_hh$)",
        Stranger(Message("title_ours"), Message("stranger_ours"), Message("stranger_bring_ours")),
    ),
    (
        r"lora_[AB]\.",
        Stranger(Message("title_stranger_adapter"), Message("stranger_adapter"), Message("stranger_merge")),
    ),
    (
        r"layernorm_before\.|patch_embed|(?:class|patch)_embedding|encoder_layer_\d+\.self_attention\.|vision_model\.",
        _VISION,
    ),
    (r"layer\.\d+\.attention\.self\.query\.weight", _of_library("BERT, RoBERTa or ELECTRA")),
    (r"layer\.\d+\.attention\.q_lin\.weight", _of_library("DistilBERT")),
    (r"encoder\.layers\.\d+\.self_attn\.q_proj\.weight", _of_library("BART, mBART, Marian or Pegasus")),
    (r"block\.\d+\.layer\.\d+\.SelfAttention\.q\.weight", _of_library("T5, mT5 or UMT5")),
    (r"albert_layer_groups\.", _of_library("ALBERT")),
    (r"attention\.self\.query_proj\.weight|attention\.self\.in_proj\.weight", _of_library("DeBERTa")),
    (r"attention\.query_key_value\.weight", _of_library("Bloom, Falcon, GPT-NeoX")),
    (r"layers\.\d+\.mlp\.gate_(?:up_)?proj\.weight", _of_library("Llama, Mistral, Qwen or Gemma")),
    (r"decoder\.layers\.\d+\.self_attn\.q_proj\.weight", _of_library("OPT, XGLM or BioGPT")),
    (r"h\.\d+\.attn\.(?:attention\.)?q_proj\.weight", _of_library("GPT-J or GPT-Neo")),
    (
        r"layers\.\d+\.attention\.wq\.weight",
        Stranger(
            Message("title_stranger", family="Llama"), Message("stranger_consolidated"), Message("stranger_convert")
        ),
    ),
)  # fmt: skip


def stranger(names: Iterable[str]) -> Stranger | None:
    """What the file with these names is, if its names say that it is none of the layouts."""
    lines = "\n".join(name[-LONGEST:] for name in islice(names, MOST))
    return next((found for sign, found in _SIGNS if re.search(sign, lines)), None)
