"""Small random models of each family with tokenizers trained on the spot: nothing comes from the network.

Weights are drawn wide, so that attention is far from even; sizes are different primes where the family lets them.
"""

import json
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import ByteLevelBPETokenizer
from torch import Tensor

from heedmap import Checkpoint
from heedmap.checkpoint.huggingface.library import quiet
from heedmap.text.tokenizers import TextTokenizer, train_tokenizer
from tests.toy import sentences

TEXT = [side for pair in sentences(61, seed=61) for side in pair]
LONGEST = 41


@cache
def pieces() -> TextTokenizer:
    """A SentencePiece vocabulary; pad, unknown, start and end mark are ids 0 to 3."""
    return train_tokenizer(TEXT, 61)


def write_marian_tokenizer(folder: Path) -> None:
    """Two SentencePiece models and the table of ids that they share."""
    for name in ("source.spm", "target.spm"):
        (folder / name).write_bytes(pieces().model)
    names = pieces().labels(range(len(pieces())))
    order = ["</s>", "<unk>", *(name for name in names if name not in {"</s>", "<unk>", "<pad>"}), "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({name: i for i, name in enumerate(order)}))
    settings = {"tokenizer_class": "MarianTokenizer", "source_lang": "en", "target_lang": "de"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def write_t5_tokenizer(folder: Path) -> None:
    """The marks that T5 knows and SentencePiece's pieces, as the fast tokenizer saves them."""
    names = ["<pad>", "</s>", "<unk>", *pieces().labels(range(4, len(pieces())))]
    vocab = [(name, -float(i)) for i, name in enumerate(names)]
    transformers.T5Tokenizer(vocab=vocab, extra_ids=0).save_pretrained(folder)


def byte_pairs(marks: list[str]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Byte-level vocabulary and merges, with `marks` first."""
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(TEXT, vocab_size=300, special_tokens=marks, show_progress=False)
    model = json.loads(trained.to_str())["model"]
    return model["vocab"], [tuple(pair) for pair in model["merges"]]


def write_bart_tokenizer(folder: Path) -> None:
    vocab, merges = byte_pairs(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    transformers.BartTokenizer(vocab=vocab, merges=merges).save_pretrained(folder)


def write_gpt2_tokenizer(folder: Path) -> None:
    vocab, merges = byte_pairs(["<|endoftext|>"])
    transformers.GPT2Tokenizer(vocab=vocab, merges=merges).save_pretrained(folder)


def write_bert_tokenizer(folder: Path) -> None:
    words = sorted({word for text in TEXT for word in text.lower().replace(".", " .").split()})
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words, "##s", "##es", "play", "##ing"]
    transformers.BertTokenizer(vocab={name: i for i, name in enumerate(names)}).save_pretrained(folder)


def write_llama_tokenizer(folder: Path) -> None:
    vocab, merges = byte_pairs(["<s>", "</s>", "<unk>"])
    plain = {token.replace("Ġ", "▁"): i for token, i in vocab.items()}
    joined = [(a.replace("Ġ", "▁"), b.replace("Ġ", "▁")) for a, b in merges]
    transformers.LlamaTokenizer(vocab=plain, merges=joined).save_pretrained(folder)


MARKS: dict[str, Any] = dict(initializer_range=0.4, bos_token_id=0, eos_token_id=0)
SHARED: dict[str, Any] = dict(vocab_size=307, max_position_embeddings=LONGEST)
STACKS: dict[str, Any] = dict(d_model=21, encoder_attention_heads=3, decoder_attention_heads=3, encoder_ffn_dim=11)
STACKS |= dict(decoder_ffn_dim=13, encoder_layers=2, decoder_layers=3, init_std=0.4)
ENCODER: dict[str, Any] = dict(hidden_size=21, num_attention_heads=3, intermediate_size=11, num_hidden_layers=2)
DECODER: dict[str, Any] = dict(intermediate_size=11, num_hidden_layers=2, initializer_range=0.4)

CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "marian": (
        "MarianMTModel",
        SHARED | STACKS | dict(d_model=24, pad_token_id=60, eos_token_id=0, decoder_start_token_id=60),
    ),
    "bart": ("BartForConditionalGeneration", SHARED | STACKS | dict(pad_token_id=1)),
    "t5": (
        "T5ForConditionalGeneration",
        dict(vocab_size=307, d_model=23, d_kv=7, num_heads=3, d_ff=11, num_layers=2, num_decoder_layers=3)
        | dict(decoder_start_token_id=0, relative_attention_num_buckets=6, relative_attention_max_distance=11),
    ),
    "bert": ("BertForMaskedLM", SHARED | ENCODER | dict(initializer_range=0.4)),
    "gpt2": ("GPT2LMHeadModel", dict(vocab_size=307, n_positions=LONGEST, n_embd=21, n_head=3, n_layer=2) | MARKS),
    "llama": (
        "LlamaForCausalLM",
        SHARED | DECODER | dict(hidden_size=24, num_attention_heads=6, num_key_value_heads=2, head_dim=4),
    ),
}
"""The class of each family and its config: Llama's six heads share two heads of keys."""

TOKENIZERS = {
    "marian": write_marian_tokenizer,
    "bart": write_bart_tokenizer,
    "t5": write_t5_tokenizer,
    "bert": write_bert_tokenizer,
    "gpt2": write_gpt2_tokenizer,
    "llama": write_llama_tokenizer,
}


def random_model(class_name: str, options: dict[str, Any], seed: int = 0) -> Any:
    """A model of the library with random weights, and its biases too."""
    kind = getattr(transformers, class_name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = kind(kind.config_class(**options)).eval()
        for name, parameter in model.named_parameters():
            if name.endswith(("bias", "relative_attention_bias.weight")):
                torch.nn.init.normal_(parameter, std=0.5)
    return model


def save_random(folder: Path, class_name: str, options: dict[str, Any]) -> Path:
    """A folder of such a model, without a tokenizer."""
    with quiet():
        random_model(class_name, options).save_pretrained(folder)
    return folder


def native(folder: Path | None, kind: str = "AutoModelForCausalLM", attention: str = "eager") -> Any:
    """The model of a folder as the library itself loads it."""
    with quiet():
        maker = getattr(transformers, kind)
        return maker.from_pretrained(folder, attn_implementation=attention, local_files_only=True).eval()


AUTO = {"seq2seq": "AutoModelForSeq2SeqLM", "decoder": "AutoModelForCausalLM", "encoder": "AutoModel"}
"""The library's class for each kind of model."""


def library_inputs(checkpoint: Checkpoint, source: Tensor, target: Tensor | None) -> dict[str, Any]:
    """What the library's model reads, padding marked."""
    config = checkpoint.model.config
    inputs: dict[str, Any] = {"input_ids": source, "attention_mask": (source != config.pad_id).long()}
    inputs |= {} if target is None else {"decoder_input_ids": target}
    return inputs if config.kind == "encoder" else inputs | {"use_cache": False}


def eager(checkpoint: Checkpoint, source: Tensor, target: Tensor | None, dtype: torch.dtype) -> tuple[Any, Any]:
    """The library's own maps by site, and its output."""
    kind = checkpoint.model.config.kind
    net = native(checkpoint.folder, AUTO[kind]).to(dtype)
    with torch.inference_mode():
        output = net(**library_inputs(checkpoint, source, target), output_attentions=True)
    groups = {f"{kind}.{{}}.self": "attentions"}
    if target is not None:
        groups = {"encoder.{}.self": "encoder_attentions", "decoder.{}.self": "decoder_attentions"}
        groups["decoder.{}.cross"] = "cross_attentions"
    return {site.format(i): w for site, name in groups.items() for i, w in enumerate(getattr(output, name))}, output


_KEPT = tempfile.TemporaryDirectory(prefix="families-")


@cache
def _usual(family: str, tokenizer: bool) -> Path:
    """A folder of the usual sizes, which copies are taken of: training tokenizers is slow."""
    return _written(Path(_KEPT.name) / f"{family}-{tokenizer}", family, tokenizer, {})


def write_folder(folder: Path, family: str, tokenizer: bool = True, **options: Any) -> Path:
    """A folder as `save_pretrained` leaves it: config.json, model.safetensors, and the family's tokenizer."""
    if options:
        return _written(folder, family, tokenizer, options)
    return Path(shutil.copytree(_usual(family, tokenizer), folder, dirs_exist_ok=True))


def _written(folder: Path, family: str, tokenizer: bool, options: dict[str, Any]) -> Path:
    class_name, usual = CONFIGS[family]
    folder.mkdir(parents=True, exist_ok=True)
    with quiet():
        model = random_model(class_name, usual | options)
        if family == "bart":
            model.generation_config.forced_bos_token_id = 0
        model.save_pretrained(folder)
        if tokenizer:
            TOKENIZERS[family](folder)
    return folder
