"""From a Hugging Face folder to a model that is ready to run and be watched.

Whether attention can be recorded lazily is found out, not believed: a few tokens are run both ways, with padding, and
what was recorded of fused attention is held against what the model's own eager attention says. Where they differ, the
model runs eagerly, and the weights that it writes out are recorded; where those are not seen either, it is refused.
"""

import copy
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.checkpoint.foreign.report import Report
from transformer.checkpoint.huggingface.folder import FolderContents, check_sizes, checked_contents, unreadable
from transformer.checkpoint.huggingface.kinds import (
    MAKERS,
    MANY,
    UNSHOWN,
    check_of_text,
    head_of,
    kind_of,
    labels_of,
    no_model_of_text,
    saved_by,
)
from transformer.checkpoint.huggingface.library import library, quiet
from transformer.checkpoint.huggingface.model import (
    HuggingFaceConfig,
    HuggingFaceModel,
    HuggingFaceReader,
    HuggingFaceTranslator,
    Kind,
)
from transformer.checkpoint.huggingface.probing import FAILURES, find_places
from transformer.checkpoint.huggingface.shared_layers import set_layers_apart
from transformer.checkpoint.huggingface.tokenizer import read_tokenizer
from transformer.checkpoint.ours.validate import SPARE_NUMBERS
from transformer.errors import CheckpointError, HeedmapError
from transformer.messages import Message
from transformer.safe.limits import DEFAULT_LIMITS, ReadLimits
from transformer.safe.refusal import refused
from transformer.text.base import FolderTokenizer, Tokenizer
from transformer.text.vocabulary import id_tokenizers

CLASSES = {"seq2seq": "AutoModelForSeq2SeqLM", "decoder": "AutoModelForCausalLM", "encoder": "AutoModel"}
"""The library's class for each kind of model."""

POOLER = "pooler."
"""The layer behind an encoder's last one that summarises a sentence; models that fill in words are saved without."""

UNMATCHED = Message("ignored_unmatched")
"""Why a weight may stand in the file and not, so called, in the model."""

EXAMPLE = "A man is riding a bicycle."
"""What is read at first, since such folders bring no examples."""

SPARE_PARTS = 2_000
"""A config may describe so many tensors more than twice those of its weights before it is refused outright."""

USUAL_LENGTH = 512
"""How many positions are read where nothing says."""

TITLES = {
    "seq2seq": Message("kind_seq2seq"),
    "decoder": Message("kind_decoder"),
    "encoder": Message("kind_encoder"),
}
"""What a report calls each kind of model."""


def load_hugging_face(
    path: Path, limits: ReadLimits = DEFAULT_LIMITS, tokenizer_at: Callable[[Path], FolderTokenizer] = read_tokenizer
) -> Checkpoint:
    """The checkpoint in a local folder of config.json, safetensors and a tokenizer. Nothing is fetched, no code run.

    `tokenizer_at` reads the folder's tokenizer.

    Raises:
        CheckpointError: the library is not installed; the folder is refused, or does not fit its config; or its
            attention cannot be watched.
    """
    path = path.resolve()
    contents = checked_contents(path, limits)
    check_of_text(contents.name, contents.family, contents.config)
    settings = _settings(path, contents)
    kind = kind_of(contents.name, contents.family, contents.config, settings.is_encoder_decoder)
    tokenizer = tokenizer_at(path) if contents.has_tokenizer else None
    _described(contents, _maker(contents, kind, settings), settings)
    config = _config(contents, settings, kind, tokenizer)
    model, spare = _watchable(path, config, settings, lambda spare: _check_used(contents, spare, limits))
    assumptions: list[str] = [model.note] if model.note else []
    if saved_by(contents).endswith(UNSHOWN):
        assumptions.append(Message("head_not_shown", saved=saved_by(contents)))
    if spare:
        some: tuple[str, ...] = tuple(spare[:3])
        if len(spare) > len(some):
            some = (*some, Message("and_more", count=len(spare) - len(some)))
        assumptions.append(Message("weights_not_used", names=some))
    languages = tokenizer.languages if tokenizer is not None else ("", "")
    reader: Tokenizer | None = tokenizer
    writer: Tokenizer | None = None
    if tokenizer is None:
        assumptions.append(Message("folder_without_tokenizer"))
        reader, ids = id_tokenizers(config)
        writer = ids if kind == "seq2seq" else None
    elif kind == "seq2seq":
        writer = tokenizer.as_target()
    return Checkpoint(
        name=path.name,
        model=model,
        tokenizer=reader,
        target_tokenizer=writer,
        languages=(languages[0] or "source", languages[1] or "target"),
        examples=(EXAMPLE,) if tokenizer else (),
        folder=path,
        assumptions=tuple(assumptions),
    )


def report_hugging_face(path: Path, limits: ReadLimits = DEFAULT_LIMITS) -> Report:
    """What the folder is taken for; its weights are not read.

    Raises:
        CheckpointError: as `load_hugging_face`, as far as that can be told without the weights.
    """
    path = path.resolve()
    contents = checked_contents(path, limits)
    check_of_text(contents.name, contents.family, contents.config)
    settings = _settings(path, contents)
    kind = kind_of(contents.name, contents.family, contents.config, settings.is_encoder_decoder)
    matched = _matched(contents, _described(contents, _maker(contents, kind, settings), settings))
    return Report(
        source=path.name,
        layout="hugging-face",
        title=Message("title_hugging_face", family=contents.family, kind=TITLES[kind]),
        confidence=len(matched) / len(contents.shapes),
        reasons=(Message("reason_model_type", family=contents.family),),
        matched=matched,
        ignored={name: UNMATCHED for name in contents.shapes if name not in matched},
        config=contents.config,
        format="safetensors",
    )


def _settings(path: Path, contents: FolderContents) -> Any:
    """The library's config of the folder."""
    found = library()
    known = found.models.auto.configuration_auto.CONFIG_MAPPING_NAMES
    if contents.family not in known:
        file, remedy = f"{contents.name}/config.json", Message("remedy_newer_library")
        raise refused("model_type_unknown", file, remedy, family=f"{contents.family!r:.80}")
    try:
        with quiet():
            return found.AutoConfig.from_pretrained(path, local_files_only=True, trust_remote_code=False)
    except Exception as error:
        raise unreadable(f"{contents.name}/config.json", error) from error


def _config(
    contents: FolderContents, settings: Any, kind: Kind, tokenizer: FolderTokenizer | None
) -> HuggingFaceConfig:
    """The sizes and special ids that are needed here; generation settings go before the config's own."""

    def special_id(name: str) -> int:
        told = (contents.generation.get(name), contents.config.get(name), getattr(settings, name, None))
        value = next((value for value in told if value is not None), None)
        if isinstance(value, list):
            value = next(iter(value), None)
        return value if isinstance(value, int) else -1

    pad, bos, eos = (special_id(f"{name}_token_id") for name in ("pad", "bos", "eos"))
    if kind == "seq2seq":
        start = special_id("decoder_start_token_id")
        bos = start if start >= 0 else bos
        if bos < 0:
            raise refused("no_start_mark", f"{contents.name}/config.json", Message("remedy_start_mark"))
    elif pad in {bos, eos}:
        pad = -1  # an id that stands in texts is no padding
    configs = [settings, *(getattr(settings, side, None) for side in ("encoder", "decoder"))]
    longest = [getattr(one, name, None) for one in configs for name in ("max_position_embeddings", "n_positions")]
    longest.append(tokenizer.max_length if tokenizer else None)
    return HuggingFaceConfig(
        family=contents.family,
        kind=kind,
        source_vocab=_vocab(contents, settings, "encoder"),
        target_vocab=getattr(settings, "decoder_vocab_size", None) or _vocab(contents, settings, "decoder"),
        max_length=min((n for n in longest if isinstance(n, int) and n > 0), default=USUAL_LENGTH),
        pad_id=pad,
        bos_id=bos,
        eos_id=eos,
        forced_first_id=special_id("forced_bos_token_id") if kind == "seq2seq" else -1,
        head=(head := head_of(contents, kind, settings)),
        labels=labels_of(settings) if head in {"classes", "scores", "tokens"} else (),
        one_label=getattr(settings, "problem_type", None) != MANY,
    )


def _maker(contents: FolderContents, kind: Kind, settings: Any) -> str:
    """The library's class that builds the model, with the head that it was saved with."""
    head = head_of(contents, kind, settings)
    return MAKERS[head] if head else CLASSES[kind]


def _vocab(contents: FolderContents, settings: Any, side: str) -> int:
    """Tokens that a model knows, of one side where its config has a config for each.

    Raises:
        CheckpointError: nothing says it; so configs of models that read more than text look.
    """
    for one in (settings, getattr(settings, side, None)):
        found = getattr(one, "vocab_size", None)
        if isinstance(found, int):
            return found
    raise no_model_of_text(contents.name, contents.family, contents.config)


def _watchable(
    path: Path, config: HuggingFaceConfig, settings: Any, check: Callable[[list[str]], None]
) -> tuple[HuggingFaceModel, list[str]]:
    """The model with its sites named, recorded lazily if that is exact; and the names of weights that it left over.

    `check` may refuse those names before the model runs.
    """
    reason: str = ""
    try:
        model, spare = _built(path, config, settings, "sdpa")
    except CheckpointError:  # the family has none: then the eager way says whether the folder is sound
        reason = Message("attention_of_its_own", family=config.family)
    else:
        check(spare)
        try:
            reason = find_places(model, fused=True)
        except (HeedmapError, *FAILURES) as error:
            reason = _line(error)
        if model.places:
            return model, spare
    model, spare = _built(path, config, settings, "eager")
    check(spare)
    model.note = Message("kept_eagerly", reason=reason)
    try:
        reason = find_places(model, fused=False)
    except CheckpointError:
        raise
    except (HeedmapError, *FAILURES) as error:
        raise CheckpointError("attention_cannot_be_run", family=config.family, error=_line(error)) from error
    if reason:
        raise CheckpointError("attention_not_recorded", family=config.family, reason=reason)
    return model, spare


def _line(error: Exception) -> str:
    """What an error says, in a line."""
    if isinstance(error, HeedmapError):
        return error.message
    return next(iter(str(error).splitlines()), "")[:300] or type(error).__name__


def _built(path: Path, config: HuggingFaceConfig, settings: Any, attention: str) -> tuple[HuggingFaceModel, list[str]]:
    """The model, with its head where the weights fill it, and the names of weights that it did not take.

    Raises:
        CheckpointError: the library cannot build it, or the weights do not fill what lies below the head.
    """
    headed: Any = None
    if config.head:
        with suppress(CheckpointError):  # what matters is whether it can be built without its head
            headed, spare = _net(path, MAKERS[config.head], settings, attention)
    net: Any = getattr(headed, "base_model", None)
    if headed is None or net is headed:
        config, headed = replace(config, head="", labels=()), None
        net, spare = _net(path, CLASSES[config.kind], settings, attention)
    set_layers_apart(net)
    config = replace(config, max_length=min(config.max_length, _positions(net, config.max_length)))
    build = HuggingFaceTranslator if config.kind == "seq2seq" else HuggingFaceReader
    return build(config, net, headed=headed), spare


def _positions(net: nn.Module, usual: int) -> int:
    """How many positions there are where a table of them starts after the padding id, as RoBERTa's does."""
    tables = [table for name, table in net.named_modules() if name.endswith("position_embeddings")]
    sizes = [(t.num_embeddings, t.padding_idx) for t in tables if isinstance(t, nn.Embedding)]
    return min((rows - padding - 1 for rows, padding in sizes if padding is not None), default=usual)


def _net(path: Path, maker_name: str, settings: Any, attention: str) -> tuple[Any, list[str]]:
    """The library's model of this class with the folder's weights as float32; and the weights that it did not take.

    Raises:
        CheckpointError: the library cannot build it, or the weights do not fill it.
    """
    maker = getattr(library(), maker_name)
    try:
        with quiet(), torch.random.fork_rng(devices=[]):
            net, found = maker.from_pretrained(
                path,
                config=copy.deepcopy(settings),
                attn_implementation=attention,
                dtype=torch.float32,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                ignore_mismatched_sizes=True,  # they are told below, by name
                output_loading_info=True,
            )
    except Exception as error:
        raise unreadable(path.name, error) from error
    missing = [name for name in sorted(found["missing_keys"]) if not name.startswith(POOLER)]
    if missing or found["mismatched_keys"] or found["error_msgs"]:
        wrong = [str(entry[0]) for entry in found["mismatched_keys"]]
        nothing = Message("nothing")
        raise CheckpointError(
            "folder_does_not_fit",
            folder=path.name,
            missing=str(missing[:3]) if missing else nothing,
            wrong=str(wrong[:3]) if wrong else nothing,
        )
    if found["missing_keys"]:
        net.pooler = None  # it follows the attention and was not saved: nothing random is kept
    broken = next((name for name, p in net.named_parameters() if not bool(p.isfinite().all())), None)
    if broken is not None:
        raise CheckpointError("weight_not_finite", name=path.name, tensor=broken)
    return net.eval(), sorted(found["unexpected_keys"])


class _Parts(TorchFunctionMode):
    """Counts the tensors that are made for a model, and refuses those beyond what the folder's weights can be."""

    def __init__(self, contents: FolderContents) -> None:
        super().__init__()
        self._name, self._n_tensors = f"{contents.name}/config.json", len(contents.shapes)
        self._made = 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self._made += func is torch.empty
        if self._made > 2 * self._n_tensors + SPARE_PARTS:
            raise refused("parts_beyond_weights", self._name, parts=self._made, tensors=self._n_tensors)
        return func(*args, **(kwargs or {}))


def _check_used(contents: FolderContents, spare: list[str], limits: ReadLimits) -> None:
    """What a config asks for rests on tensors that the model uses: others beside them cost nothing."""
    check_sizes(contents.config, f"{contents.name}/config.json", len(contents.shapes) - len(spare), limits)


def _described(contents: FolderContents, maker_name: str, settings: Any) -> Any:
    """The model that the config describes, without memory for its weights.

    Raises:
        CheckpointError: it describes none, or one that would take far more memory, or have far more parts, than the
            weights hold.
    """
    maker = getattr(library(), maker_name)
    try:
        with quiet(), torch.device("meta"), _Parts(contents):
            net = maker.from_config(copy.deepcopy(settings), trust_remote_code=False)
    except CheckpointError:
        raise
    except Exception as error:
        raise unreadable(f"{contents.name}/config.json", error) from error
    described = sum(tensor.numel() for tensor in (*net.parameters(), *net.buffers()))
    held = sum(math.prod(shape) for shape in contents.shapes.values())
    if described > 2 * held + SPARE_NUMBERS:
        raise refused("config_numbers", f"{contents.name}/config.json", described=described, held=held)
    return net


def _matched(contents: FolderContents, net: Any) -> tuple[str, ...]:
    """The weights that stand in the model under the same name, up to its prefix, and in the same shape."""
    prefix = f"{net.base_model_prefix}."
    needed = {name.removeprefix(prefix): tuple(tensor.shape) for name, tensor in net.state_dict().items()}
    return tuple(name for name, shape in contents.shapes.items() if needed.get(name.removeprefix(prefix)) == shape)
