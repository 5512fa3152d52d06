"""Every model of text that the installed transformers library knows, built tiny: shown, or refused by name.

`python -m tests.checkpoint.huggingface.sweep [MODEL_TYPE ...]` writes one line a type: how it is recorded and how far
that is from the library's eager attention, or the code of the refusal. It ends with status 1 where anything else
happened: an error of Python, or a map that differs. What the library itself cannot build or run at such sizes is left
out by name. Measured by hand, not in the tests: some 200 models take minutes.
"""

import sys
import tempfile
from collections import Counter
from contextlib import suppress
from typing import Any

import torch
import transformers
from transformers.models.auto import modeling_auto as auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

from tests.checkpoint.huggingface.table import difference
from transformer import Checkpoint, DecodingOptions, load, run_any
from transformer.checkpoint.checkpoint import HUGGING_FACE
from transformer.checkpoint.huggingface.library import quiet
from transformer.errors import HeedmapError

TABLES = (
    auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    auto.MODEL_MAPPING_NAMES,
)
"""Where the class of a type stands, the one with the most that is shown here first."""

SIZES: dict[str, int] = {
    "vocab_size": 97, "hidden_size": 24, "d_model": 24, "n_embd": 24, "dim": 24, "emb_dim": 24, "embed_dim": 24,
    "embedding_size": 24, "intermediate_size": 16, "ffn_dim": 16, "d_ff": 16, "d_inner": 16, "hidden_dim": 16,
    "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "n_inner": 16, "moe_intermediate_size": 16,
    "num_attention_heads": 3, "num_heads": 3, "n_head": 3, "n_heads": 3, "encoder_attention_heads": 3,
    "decoder_attention_heads": 3, "num_encoder_attention_heads": 3, "num_decoder_attention_heads": 3,
    "num_key_value_heads": 3, "num_kv_heads": 3, "head_dim": 8, "d_kv": 8, "d_head": 8, "rotary_dim": 4,
    "num_hidden_layers": 2, "num_layers": 2, "n_layer": 2, "n_layers": 2, "encoder_layers": 2, "decoder_layers": 2,
    "num_encoder_layers": 2, "num_decoder_layers": 2, "num_experts": 2, "num_local_experts": 2, "n_routed_experts": 2,
    "num_experts_per_tok": 1, "max_position_embeddings": 64, "n_positions": 64, "n_ctx": 64, "max_seq_len": 64,
    "max_target_positions": 64, "max_source_positions": 64, "image_size": 28, "patch_size": 14,
    "word_embed_proj_dim": 24, "decoder_start_token_id": 2, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2,
}  # fmt: skip
"""Numbers of a config that are made small, wherever it has them."""

WIDE = 0.15
"""How far weights of matrices are spread."""

MOST_PARAMETERS = 3_000_000
LENGTH = "5 7 9 11 6 8 20"


def class_of(family: str) -> str:
    """The library's class that is built for a type; empty where it has none that could be of text."""
    found = next((table[family] for table in TABLES if family in table), "")
    return found if isinstance(found, str) else next(iter(found), "")


def shrunk(config: Any, seen: set[int] | None = None) -> Any:
    """A config with its sizes made small, those of its parts too."""
    seen = set() if seen is None else seen
    if id(config) in seen:
        return config
    seen.add(id(config))
    for name, size in SIZES.items():
        if type(getattr(config, name, None)) is int or name.endswith("_token_id"):
            with suppress(AttributeError):  # some are worked out from others
                setattr(config, name, size)
    for value in list(vars(config).values()):
        if isinstance(value, transformers.PreTrainedConfig):
            shrunk(value, seen)
    kinds = getattr(config, "layer_types", None)
    if isinstance(kinds, list):
        with suppress(AttributeError):
            config.layer_types = kinds[:2]
    return config


def small_model(family: str) -> Any:
    """A small random model of a type; None where its default config cannot be made small."""
    maker = getattr(transformers, class_of(family), None)
    kind = getattr(transformers, CONFIG_MAPPING_NAMES[family], None)
    if maker is None or kind is None:
        return None
    config = shrunk(kind())
    with torch.device("meta"):
        size = sum(one.numel() for one in maker(config).parameters())
    if size > MOST_PARAMETERS:
        return None
    torch.manual_seed(5)
    net = maker(shrunk(kind())).eval()
    with torch.no_grad():
        for one in net.parameters():
            if one.dim() == 2:
                one.normal_(0, WIDE)  # as drawn, attention is as good as even, and nothing would differ
    return net


def outcome(family: str) -> str:
    """What happens to a type, in a few words; `DEFECT` begins what should not."""
    with tempfile.TemporaryDirectory() as place, quiet():
        try:
            net = small_model(family)
            if net is None:
                return "not built: too large, or no class"
            net.save_pretrained(place)
        except Exception as error:  # noqa: BLE001  (whatever the library says to sizes that nobody trains)
            return f"not built: {type(error).__name__}: {str(error).splitlines()[:1]}"[:150]
        try:
            checkpoint = load(place)
        except HeedmapError as error:
            return f"refused: {getattr(error.message, 'code', '?')}: {error.message}"[:250]
        except Exception as error:  # noqa: BLE001  (that is what is looked for)
            return f"DEFECT in load: {type(error).__name__}: {error}"[:250]
        if not checkpoint.architecture.startswith(HUGGING_FACE):
            return f"read as files are: {checkpoint.architecture}"
        return shown(checkpoint)


def shown(checkpoint: Checkpoint) -> str:
    """How a model that was loaded is recorded."""
    model: Any = checkpoint.model
    try:
        run_any(checkpoint, LENGTH, DecodingOptions(max_length=5))
        apart = difference(checkpoint)
    except Exception as error:  # noqa: BLE001
        return f"DEFECT in run: {type(error).__name__}: {error}"[:250]
    verdict = "" if apart < 1e-5 else "DEFECT differs: "
    return f"{verdict}{'eagerly' if model.eager else 'lazily'}, {model.config.kind}, {apart:.1g}"


def main(families: list[str]) -> int:
    """One line a type; 1 if one is neither shown nor refused."""
    torch.set_num_threads(1)
    counts = Counter[str]()
    for family in families or sorted(CONFIG_MAPPING_NAMES):
        if not class_of(family):
            continue
        found = outcome(family)
        counts[found.split(":")[0].split(",")[0]] += 1
        sys.stdout.write(f"{family}: {found}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{dict(counts)}\n")
    return int(any(name.startswith("DEFECT") for name in counts))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
