"""Every model type that the installed transformers library knows, built tiny: shown, or refused by name.

`python -m tests.checkpoint.huggingface.sweep [MODEL_TYPE ...]` writes one line a type: how it is recorded and how far
that is from the library's eager attention, or the code of the refusal. It ends with status 1 where anything else
happened: an error of Python, or a map that differs. Of a type that the library cannot build small, a folder of its
usual config is loaded, which refuses what is no model of text; others are named as not built. The whole sweep
takes minutes and leaves `swept.json` beside this file, which a test reads.
"""

import copy
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file
from transformers.models.auto import modeling_auto as auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

from tests.checkpoint.huggingface.table import difference
from transformer import Checkpoint, DecodingOptions, load, run_any
from transformer.checkpoint.checkpoint import HUGGING_FACE
from transformer.checkpoint.huggingface.library import quiet
from transformer.errors import HeedmapError

SWEPT = Path(__file__).with_name("swept.json")
"""What became of every type, without the reasons in full."""

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

MORE: dict[str, int] = {
    "q_lora_rank": 12, "kv_lora_rank": 10, "qk_nope_head_dim": 4, "qk_rope_head_dim": 4, "qk_head_dim": 8,
    "v_head_dim": 8, "index_n_heads": 2, "index_head_dim": 8, "index_topk": 64, "o_lora_rank": 8, "o_groups": 1,
    "entity_vocab_size": 11, "entity_emb_size": 8, "d_latents": 24, "num_latents": 8, "num_self_attends_per_block": 2,
    "num_self_attention_heads": 3, "num_cross_attention_heads": 3, "qk_channels": 24, "v_channels": 24, "lru_width": 24,
    "pronunciation_vocab_size": 11, "pronunciation_embed_dim": 8, "shape_vocab_size": 11, "shape_embed_dim": 8,
    "encoder_hash_byte_group_vocab": 50, "linear_num_key_heads": 2, "linear_num_value_heads": 2,
    "linear_key_head_dim": 8, "linear_value_head_dim": 8, "mamba_n_heads": 6, "mamba_d_head": 8, "mamba_n_groups": 1,
    "mamba_d_state": 8, "mamba_num_heads": 6, "mamba_head_dim": 8, "n_groups": 1, "ssm_state_size": 8, "state_size": 8,
    "n_shared_experts": 1, "num_experts_per_token": 1, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1,
    "moe_topk": 1, "zero_expert_num": 1, "expert_ffn_hidden_size": 16, "ffn_hidden_size": 16,
    "hidden_size_per_layer_input": 8,
    "vocab_size_per_layer_input": 97, "num_kv_shared_layers": 0, "num_global_key_value_heads": 3, "global_head_dim": 8,
    "shared_expert_intermediate_size": 16, "moe_shared_expert_intermediate_size": 16, "max_sequence_length": 64,
    "dense_intermediate_size": 16, "moe_num_experts": 2, "num_local_experts": 2, "prediction_length": 4,
}  # fmt: skip
"""More of them, of rarer parts, which not every type bears made small: tried first."""

WIDER: dict[str, int] = dict.fromkeys([name for name, size in SIZES.items() if size == 24], 32)
WIDER |= dict.fromkeys([name for name, size in SIZES.items() if size == 3], 4) | {"num_key_value_heads": 2}
"""Widths and heads for types that part them by groups of 16 or 32, or in two."""

ROPE = dict(rope_type="default", rope_theta=10_000.0)

OF_TYPE: dict[str, dict[str, Any]] = {
    "funnel": dict(block_sizes=[1, 1], num_decoder_layers=1),
    "gpt_neo": dict(attention_types=[[["global", "local"], 1]], num_layers=2),
    "reformer": dict(axial_pos_embds_dim=(8, 24), axial_pos_shape=(8, 8), attn_layers=["local", "local"]),
    "cohere_compass_text": dict(rope_parameters=dict.fromkeys(("full_attention", "sliding_attention"), ROPE)),
    "neomme": dict(head_dim=16),
    "emu3": dict(vocabulary_map={"<image>": 5}),
    **{f"{name}_text": dict(per_layer_config={}) for name in ("gemma4", "gemma4_unified")},
    "dots3_note_text": dict(per_layer_config={}, num_attention_heads=3, num_key_value_heads=3),
    **{name: {} for name in ("gemma4", "gemma4_unified", "dots3_note")},
    "recurrent_gemma": dict(lru_width=24, attention_window_size=16),
    "longcat_flash": dict(
        q_lora_rank=12, kv_lora_rank=10, qk_nope_head_dim=4, qk_rope_head_dim=4, v_head_dim=8, head_dim=4, num_layers=2
    ),
    "mimo_v2_flash": dict(
        num_attention_heads=4,
        num_key_value_heads=2,
        swa_num_attention_heads=4,
        swa_num_key_value_heads=4,
        hidden_size=32,
    ),
    "dots1": dict(
        n_routed_experts=2, num_experts_per_tok=1, n_shared_experts=1, first_k_dense_replace=1, n_group=1, topk_group=1
    ),
    "lfm2_moe": dict(layer_types=["conv", "full_attention"], num_dense_layers=1),
    "mamba2": dict(num_heads=6, head_dim=8, expand=2, n_groups=1, state_size=8),
    "prophetnet": dict(num_encoder_layers=2, num_decoder_layers=2),
}
"""What types are told beside, since it cannot be told from others."""

WIDE = 0.15
"""How far weights of matrices are spread."""

MOST_PARAMETERS = 20_000_000
TENSORS = 200
"""As many as a folder needs at least for the layers that its config describes."""

LENGTH = "5 7 9 11 6 8 20"


def class_of(family: str) -> str:
    """The library's class that is built for a type; empty where it has none that could be of text."""
    found = next((table[family] for table in TABLES if family in table), "")
    return found if isinstance(found, str) else next(iter(found), "")


def types() -> list[str]:
    """The types that the installed library has a class for, by name."""
    return sorted(family for family in CONFIG_MAPPING_NAMES if class_of(family))


def shrunk(config: Any, sizes: dict[str, int], seen: set[int] | None = None) -> Any:
    """A config with its sizes made small, those of its parts too."""
    seen = set() if seen is None else seen
    if id(config) in seen:
        return config
    seen.add(id(config))
    for name, size in sizes.items():
        with suppress(Exception):  # some are worked out from others, or differ from layer to layer
            if type(getattr(config, name, None)) is int or name.endswith("_token_id"):
                setattr(config, name, size)
    for value in list(vars(config).values()):
        if isinstance(value, transformers.PreTrainedConfig):
            shrunk(value, sizes, seen)
    for name in ("layer_types", *vars(config)):
        with suppress(Exception):
            value = getattr(config, name)
            if isinstance(value, list) and name.endswith("layer_types"):
                setattr(config, name, value[:2])
    return config


def constructed(kind: Any, sizes: dict[str, int], more: dict[str, Any]) -> Any:
    """A config that was small from the beginning, so that what it works out fits; the sizes of its parts too."""
    usual, known = kind(), getattr(kind, "__dataclass_fields__", {})
    attributes = getattr(kind, "attribute_map", {})
    given: dict[str, Any] = {}
    for name, size in sizes.items():
        own = attributes.get(name, name)
        value = None
        with suppress(Exception):
            value = getattr(usual, own, None)
        if own in known and (type(value) is int or own.endswith("_token_id") or (value is None and own in UNSAID)):
            given.setdefault(own, size)
    for name, part in getattr(kind, "sub_configs", {}).items():
        if part is not transformers.AutoConfig and getattr(usual, name, None) is not None:
            given[name] = constructed(part, sizes, OF_TYPE.get(part.model_type, {}))
    return kind(**given | more)


UNSAID = frozenset({"head_dim", "num_key_value_heads", "vocab_size"})
"""What some configs leave out and their models ask for."""


def attempts(family: str) -> Iterator[Any]:
    """Small configs of a type, the likeliest first; what cannot be made is left out."""
    kind, more = getattr(transformers, CONFIG_MAPPING_NAMES[family], None), OF_TYPE.get(family, {})
    if kind is None:
        return
    for sizes in (SIZES, SIZES | MORE, SIZES | WIDER, SIZES | MORE | WIDER):
        makers = (lambda: shrunk(kind(), sizes), lambda: constructed(kind, sizes, more))  # noqa: B023
        for make in makers if family not in OF_TYPE else makers[1:]:
            with suppress(Exception):  # whatever the library says to sizes that nobody trains
                yield make()


def makers_of(family: str) -> list[Any]:
    """The library's classes of a type, of which the first that takes its config is built."""
    image = auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
    names = [class_of(family), *(table[family] for table in (image, auto.MODEL_MAPPING_NAMES) if family in table)]
    return [found for name in names if isinstance(name, str) and (found := getattr(transformers, name, None))]


def small_model(family: str, place: str) -> bool:
    """Whether a small random model of a type was built and saved."""
    for config in attempts(family):
        for maker in makers_of(family):
            with suppress(Exception):
                again = copy.deepcopy(config)
                with torch.device("meta"):
                    size = sum(one.numel() for one in maker(copy.deepcopy(config)).parameters())
                if size > MOST_PARAMETERS:
                    continue
                torch.manual_seed(5)
                net = maker(again).eval()
                with torch.no_grad():
                    for one in net.parameters():
                        if one.dim() == 2:
                            one.normal_(0, WIDE)  # as drawn, attention is as good as even, and nothing would differ
                net.save_pretrained(place)
                return True
    return False


def only_described(family: str, place: str) -> None:
    """A folder of the type's usual config, saved by its class, and small tensors: enough for what is no text."""
    folder = Path(place)
    for file in folder.iterdir():
        file.unlink()
    kind: Any = getattr(transformers, CONFIG_MAPPING_NAMES[family], None)
    about: dict[str, Any] = {}
    with suppress(Exception):  # some have no usual config
        about = kind().to_dict()
    about = json.loads(json.dumps(about | {"model_type": family, "architectures": [class_of(family)]}, default=str))
    (folder / "config.json").write_text(json.dumps(about))
    save_file(
        {f"weight.{i}": torch.zeros(7) for i in range(TENSORS)}, folder / "model.safetensors", metadata={"format": "pt"}
    )


def outcome(family: str) -> str:
    """What happens to a type, in a few words; `DEFECT` begins what should not."""
    with tempfile.TemporaryDirectory() as place, quiet():
        built = small_model(family, place)
        if not built:
            only_described(family, place)
        try:
            checkpoint = load(place)
        except HeedmapError as error:
            code = getattr(error.message.fields.get("reason"), "code", error.message.code)
            verdict = "refused" if built or code == "no_model_of_text" else "not built"
            return f"{verdict}: {code}: {error.message.replace(Path(place).name, family)}"[:250]
        except Exception as error:  # noqa: BLE001  (that is what is looked for)
            return f"DEFECT in load: {type(error).__name__}: {error}"[:250]
        if not built:
            return "DEFECT: weights of another model were taken"
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


def kinds_of_outcome(found: dict[str, str]) -> Counter[str]:
    """How many types end how: the first word or two of their outcomes."""
    return Counter(one.split(":")[0].split(",")[0] for one in found.values())


def main(families: list[str]) -> int:
    """One line a type, and all of them on record; 1 if one is neither shown nor refused."""
    torch.set_num_threads(1)
    found = {}
    for family in families or types():
        found[family] = outcome(family)
        sys.stdout.write(f"{family}: {found[family]}\n")
        sys.stdout.flush()
    counts = kinds_of_outcome(found)
    sys.stdout.write(f"{dict(counts)}\n")
    if not families:
        short = {family: ": ".join(one.split(": ")[:2]) for family, one in found.items()}
        record = {"transformers": transformers.__version__, "types": short}
        SWEPT.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return int(any(name.startswith("DEFECT") for name in counts))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
