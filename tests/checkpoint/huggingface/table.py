"""The table of families in docs/hugging-face.md: how each is recorded, and how far from its own eager attention.

`python -m tests.checkpoint.huggingface.table` measures every family with a small random model, in float32 with a padded
row, writes `measured.json` beside this file, and the table into that page. A test compares the two.
"""

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers

from heedmap import Checkpoint, load, recording
from heedmap.checkpoint.huggingface.library import quiet
from heedmap.errors import CheckpointError
from tests.checkpoint.huggingface.families import eager, random_model

MEASURED = Path(__file__).with_name("measured.json")
PAGE = Path(__file__).parents[3] / "docs" / "hugging-face.md"
START, END = "<!-- families -->", "<!-- end of families -->"
SOURCE, TARGET, PADDED = 11, 7, 3

SHARED: dict[str, Any] = dict(vocab_size=97, max_position_embeddings=41, initializer_range=0.4)
LAYERS: dict[str, Any] = dict(num_hidden_layers=2, num_attention_heads=6, hidden_size=24, intermediate_size=12)
READS = SHARED | LAYERS
WRITES = READS | dict(num_key_value_heads=2, head_dim=4)
STACKS: dict[str, Any] = dict(
    vocab_size=97, max_position_embeddings=41, d_model=24, encoder_layers=2, decoder_layers=2,
    encoder_attention_heads=3, decoder_attention_heads=3, encoder_ffn_dim=11, decoder_ffn_dim=13, init_std=0.4,
    pad_token_id=1, bos_token_id=0, eos_token_id=2, decoder_start_token_id=2,
)  # fmt: skip
T5: dict[str, Any] = dict(vocab_size=97, d_model=23, d_kv=7, num_heads=3, d_ff=11, num_layers=2, num_decoder_layers=2)
T5 |= dict(decoder_start_token_id=0)
GPT: dict[str, Any] = dict(vocab_size=97, n_positions=41, n_embd=24, n_head=3, n_layer=2, initializer_range=0.4)
EXPERTS: dict[str, Any] = dict(num_experts=2, num_sparse_encoder_layers=1, num_sparse_decoder_layers=1)
FALCON: dict[str, Any] = SHARED | dict(hidden_size=24, num_attention_heads=6, num_hidden_layers=2)
HALF: dict[str, Any] = READS | dict(pad_token_id=0)
USUAL: dict[str, Any] = LAYERS | dict(vocab_size=97, num_key_value_heads=2, initializer_range=0.4)
"""What a family's own config says of positions."""
BOTH: dict[str, Any] = dict(hidden_size=24, num_encoder_layers=2, num_decoder_layers=2, num_encoder_attention_heads=3)
BOTH |= dict(num_decoder_attention_heads=3, vocab_size=97, max_position_embeddings=41, init_std=0.4)
RELATIVE: dict[str, Any] = READS | dict(relative_attention=True, pos_att_type=["p2c", "c2p"])
MARKS: dict[str, Any] = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2)
LED: dict[str, Any] = {key: value for key, value in STACKS.items() if key != "max_position_embeddings"}
SWITCH: dict[str, Any] = {key: value for key, value in T5.items() if key != "num_decoder_layers"}
MIXED: dict[str, Any] = dict(num_experts=2, encoder_sparse_step=2, decoder_sparse_step=2, expert_capacity=8)

FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "ALBERT": ("AlbertForMaskedLM", READS | dict(embedding_size=24)),
    "BART": ("BartForConditionalGeneration", STACKS),
    "BERT": ("BertForMaskedLM", READS),
    "BERT to BERT": ("EncoderDecoderModel", {}),
    "BigBird, block-sparse": ("BigBirdForMaskedLM", READS | dict(block_size=4, num_random_blocks=1)),
    "BigBird, full attention": ("BigBirdForMaskedLM", READS | dict(attention_type="original_full")),
    "Bloom": ("BloomForCausalLM", dict(vocab_size=97, hidden_size=24, n_head=3, n_layer=2, initializer_range=0.4)),
    "DeBERTa": ("DebertaForMaskedLM", RELATIVE),
    "DeBERTa v2, v3": ("DebertaV2ForMaskedLM", RELATIVE),
    "DistilBERT": ("DistilBertForMaskedLM", SHARED | dict(dim=24, n_heads=3, hidden_dim=11, n_layers=2)),
    "ELECTRA": ("ElectraForMaskedLM", READS | dict(embedding_size=13)),
    "Falcon, a key for all heads": ("FalconForCausalLM", FALCON),
    "Falcon, a key for a group": ("FalconForCausalLM", FALCON | dict(new_decoder_architecture=True, num_kv_heads=2)),
    "Funnel": (
        "FunnelForMaskedLM",
        dict(vocab_size=97, block_sizes=[1, 1], d_model=16, n_head=2, d_head=8, d_inner=24),
    ),
    "Gemma 2": ("Gemma2ForCausalLM", WRITES),
    "Gemma 3, of text and pictures": ("Gemma3ForConditionalGeneration", {}),
    "GPT-2": ("GPT2LMHeadModel", GPT),
    "GPT-J": ("GPTJForCausalLM", GPT | dict(rotary_dim=4)),
    "GPT-Neo": (
        "GPTNeoForCausalLM",
        SHARED | dict(hidden_size=24, num_heads=3, num_layers=2, attention_types=[[["global", "local"], 1]]),
    ),
    "GPT-NeoX": ("GPTNeoXForCausalLM", READS),
    "gpt-oss": (
        "GptOssForCausalLM",
        WRITES | dict(num_local_experts=2, num_experts_per_tok=1, layer_types=["full_attention"] * 2),
    ),
    "LED": ("LEDForConditionalGeneration", LED | dict(attention_window=4, max_encoder_position_embeddings=64)),
    "Llama": ("LlamaForCausalLM", WRITES),
    "Longformer": ("LongformerForMaskedLM", READS | dict(attention_window=4)),
    "M2M100, NLLB": ("M2M100ForConditionalGeneration", STACKS),
    "Mamba": ("MambaForCausalLM", dict(vocab_size=97, hidden_size=16, num_hidden_layers=2)),
    "Marian": ("MarianMTModel", STACKS),
    "Megatron-BERT": ("MegatronBertForMaskedLM", READS),
    "mBART": ("MBartForConditionalGeneration", STACKS),
    "Mistral, in a window": ("MistralForCausalLM", WRITES | dict(sliding_window=5)),
    "ModernBERT": ("ModernBertForMaskedLM", READS | MARKS),
    "MPNet": ("MPNetForMaskedLM", READS),
    "MPT": ("MptForCausalLM", dict(vocab_size=97, d_model=24, n_heads=3, n_layers=2, max_seq_len=41)),
    "MVP": ("MvpForConditionalGeneration", STACKS),
    "NLLB-MoE": ("NllbMoeForConditionalGeneration", STACKS | MIXED),
    "Nystromformer": ("NystromformerForMaskedLM", READS | dict(num_landmarks=8)),
    "OPT": ("OPTForCausalLM", READS | dict(ffn_dim=11, word_embed_proj_dim=24, init_std=0.4)),
    "Pegasus": ("PegasusForConditionalGeneration", STACKS),
    "Pegasus-X": ("PegasusXForConditionalGeneration", STACKS),
    "Phi": ("PhiForCausalLM", READS),
    "ProphetNet": (
        "ProphetNetForConditionalGeneration",
        BOTH | dict(encoder_ffn_dim=11, decoder_ffn_dim=13, decoder_start_token_id=0),
    ),
    "Qwen 2, with its usual config": ("Qwen2ForCausalLM", USUAL),
    "Qwen 3, with its usual config": ("Qwen3ForCausalLM", USUAL | dict(head_dim=4)),
    "RemBERT": ("RemBertForMaskedLM", READS | dict(input_embedding_size=24, output_embedding_size=13)),
    "RoBERTa, XLM-R": ("RobertaForMaskedLM", READS | dict(max_position_embeddings=43)),
    "RoFormer": ("RoFormerForMaskedLM", READS | dict(embedding_size=24)),
    "Switch": ("SwitchTransformersForConditionalGeneration", SWITCH | EXPERTS),
    "T5, mT5": ("T5ForConditionalGeneration", T5),
    "XGLM": (
        "XGLMForCausalLM",
        dict(vocab_size=97, max_position_embeddings=41, d_model=24, ffn_dim=11, num_layers=2, attention_heads=3)
        | dict(init_std=0.4),
    ),
    "XLM": ("XLMWithLMHeadModel", dict(vocab_size=97, emb_dim=24, n_layers=2, n_heads=3, embed_init_std=0.4)),
}  # fmt: skip
"""By name, the library's class and the sizes of a small model; those of BERT to BERT and Gemma 3 stand in `small`."""


def small(name: str) -> Any:
    """A small random model of a family."""
    class_name, options = FAMILIES[name]
    if class_name == "EncoderDecoderModel":
        halves = (transformers.BertConfig(**HALF), transformers.BertConfig(**HALF | {"vocab_size": 101}))
        config = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(*halves)
        config.decoder_start_token_id, config.pad_token_id = 1, 0
        return transformers.EncoderDecoderModel(config)
    if class_name == "Gemma3ForConditionalGeneration":
        seen = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24)
        seen |= dict(image_size=28, patch_size=14)
        config = transformers.Gemma3Config(text_config=WRITES, vision_config=seen)
        return transformers.Gemma3ForConditionalGeneration(config)
    return random_model(class_name, options, seed=len(name))


def difference(checkpoint: Checkpoint) -> float:
    """The largest difference of a recorded weight from the library's eager attention, over rows that are no padding."""
    model: Any = checkpoint.model
    config = model.config
    drawn = torch.Generator().manual_seed(2)
    source = torch.randint(5, 90, (2, SOURCE), generator=drawn)
    target = torch.randint(5, 90, (2, TARGET), generator=drawn) if config.kind == "seq2seq" else None
    if config.pad_id >= 0:
        source[1, SOURCE - PADDED :] = config.pad_id
    expected, _ = eager(checkpoint, source, target, torch.float32)
    with torch.inference_mode(), recording() as seen:
        model.run(source, target)
    largest = 0.0
    for site in seen.sites:
        kept = seen.source(site)
        for batch in range(2):
            padded = batch and config.pad_id >= 0 and kept.n_queries == SOURCE
            rows, keys = slice(0, SOURCE - PADDED if padded else kept.n_queries), slice(0, kept.n_keys)
            for head in range(kept.n_heads):
                distance = kept.weights(batch, head, rows, keys) - expected[site][batch, head, rows]
                largest = max(largest, float(distance.abs().max()))
    return largest


def measured(name: str) -> dict[str, Any]:
    """How a family is recorded and how exactly; or why it is refused."""
    with tempfile.TemporaryDirectory() as place, torch.random.fork_rng(devices=[]):
        torch.manual_seed(len(name))
        with quiet():
            small(name).eval().save_pretrained(place)
        try:
            checkpoint = load(place)
        except CheckpointError as error:
            code = error.message.code
            return {"recorded": "refused", "code": code, "why": OWN_REASONS.get(name, REASONS[code])}
        model: Any = checkpoint.model
        return {"recorded": "eagerly" if model.note else "lazily", "difference": f"{difference(checkpoint):.1g}"}


REASONS = {
    "attention_by_offsets": "its maps are offsets in a window, or pooled positions",
    "no_attention": "it returns no attention of every query to every key",
    "attention_cannot_be_run": "its landmarks do not fit every length",
    "refused": "it reads more than text",
}
"""Why families are refused, by the code of the error."""


OWN_REASONS = {"ProphetNet": "its decoder asks for several tokens ahead at once"}
"""The same, where the code says less."""


def table(found: dict[str, dict[str, Any]]) -> str:
    """The table as Markdown."""
    lines = ["| family | recorded | largest difference from its eager attention |", "| --- | --- | --- |"]
    for name in sorted(found, key=str.casefold):
        one = found[name]
        last = f"refused by name: {one['why']}" if one["recorded"] == "refused" else one["difference"]
        lines.append(f"| {name} | {'' if one['recorded'] == 'refused' else one['recorded']} | {last} |")
    return "\n".join(lines)


def on_page() -> str:
    """The table that the page holds."""
    found = re.search(f"{START}\n(.*?)\n{END}", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return found.group(1) if found else ""


def main() -> None:
    """Measure, and write both."""
    torch.set_num_threads(1)
    found = {}
    for name in FAMILIES:
        found[name] = measured(name)
        sys.stdout.write(f"{name}: {found[name]}\n")
        sys.stdout.flush()
    MEASURED.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    block = f"{START}\n{table(found)}\n{END}"
    PAGE.write_text(re.sub(f"{START}.*{END}", lambda _: block, text, flags=re.DOTALL), encoding="utf-8")


if __name__ == "__main__":
    main()
