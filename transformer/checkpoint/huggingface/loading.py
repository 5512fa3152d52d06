"""From a Hugging Face folder to a model that is ready to run and be watched.

Where a `probe` finds fused attention recorded exactly, the model runs so; else it runs eagerly, and the weights that it
writes out are recorded; where those are not seen either, it is refused.
"""

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from ...errors import CheckpointError, HeedmapError
from ...messages import Message
from ...nn.common import share_weights_clone
from ...safe.limits import ReadLimits, refused
from ...text.base import Tokenizer
from ...text.tokenizers import id_tokenizers
from ..checkpoint import Checkpoint
from ..foreign.report import Report
from ..ours.config import SPARE_NUMBERS
from .folder import (
    MAKERS,
    MANY,
    FolderContents,
    Reader,
    check_sizes,
    checked_contents,
    head_of,
    kind_of,
    labels_of,
    no_model_of_text,
)
from .library import first_line, library, quiet, unreadable
from .model import Head, HuggingFaceConfig, HuggingFaceModel, HuggingFaceReader, HuggingFaceTranslator, Kind
from .probe import FAILURES, find_places

POOLER = "pooler."
"""The layer behind an encoder's last one that summarises a sentence; models that fill in words are saved without."""

EXAMPLE = "A man is riding a bicycle."
"""What is read at first, since such folders bring no examples."""

SPARE_PARTS = 2_000
"""A config may describe so many tensors more than twice those of its weights before it is refused outright."""

USUAL_LENGTH = 512
"""How many positions are read where nothing says."""

UNSHOWN = ("ForQuestionAnswering", "ForMultipleChoice", "ForNextSentencePrediction")
"""Heads that are no part of what is shown."""


def load_hugging_face(
    path: Path, limits: ReadLimits, tokenizer_at: Callable[[Path], Tokenizer], reader: Reader
) -> Checkpoint:
    """The checkpoint in a local folder of config.json, weights and a tokenizer. Nothing is fetched, no code run.

    `tokenizer_at` reads the folder's tokenizer, `reader` its weights.

    Raises:
        CheckpointError: the library is not installed; the folder is refused, or does not fit its config; or its
            attention cannot be watched.
    """
    path = path.resolve()
    contents, settings, kind, head, _ = _opened(path, limits, reader)
    tokenizer = tokenizer_at(path) if contents.has_tokenizer else None

    def check_used(spare: list[str]) -> None:
        """What a config asks for rests on tensors that the model uses: others beside them cost nothing."""
        check_sizes(contents.config, f"{contents.name}/config.json", len(contents.shapes) - len(spare), limits)

    model, spare = _watchable(contents, _config(contents, settings, kind, head, tokenizer), settings, check_used)
    assumptions: list[str] = [model.note] if model.note else []
    if contents.saved_by.endswith(UNSHOWN):
        assumptions.append(Message("head_not_shown", saved=contents.saved_by))
    if spare:
        more = (Message("and_more", count=len(spare) - 3),) if len(spare) > 3 else ()
        assumptions.append(Message("weights_not_used", names=(*spare[:3], *more)))
    if tokenizer is None:
        assumptions.append(Message("folder_without_tokenizer"))
    reads, writes = id_tokenizers(model.config) if tokenizer is None else (tokenizer, tokenizer.as_target())
    languages = tokenizer.languages if tokenizer else ("", "")
    return Checkpoint(
        name=path.name,
        model=model,
        tokenizer=reads,
        target_tokenizer=writes if kind == "seq2seq" else None,
        languages=(languages[0] or "source", languages[1] or "target"),
        examples=(EXAMPLE,) if tokenizer else (),
        folder=path,
        assumptions=tuple(assumptions),
    )


def report_hugging_face(path: Path, limits: ReadLimits, reader: Reader) -> Report:
    """What the folder is taken for; it is refused as `load_hugging_face` does, but its model is not built."""
    contents, _, kind, _, net = _opened(path.resolve(), limits, reader)
    prefix = f"{net.base_model_prefix}."  # the same name up to that, and the same shape
    needed = {name.removeprefix(prefix): tuple(tensor.shape) for name, tensor in net.state_dict().items()}
    matched = tuple(name for name, shape in contents.shapes.items() if needed.get(name.removeprefix(prefix)) == shape)
    return Report(
        source=contents.name,
        layout="hugging-face",
        title=Message("title_hugging_face", family=contents.family, kind=Message(f"kind_{kind}")),
        confidence=len(matched) / len(contents.shapes),
        reasons=(Message("reason_model_type", family=contents.family),),
        matched=matched,
        ignored={name: Message("ignored_unmatched") for name in contents.shapes if name not in matched},
        config=contents.config,
        format="safetensors",
    )


def _opened(path: Path, limits: ReadLimits, reader: Reader) -> tuple[FolderContents, Any, Kind, Head, Any]:
    """What the folder says of itself, the library's config, stacks and head, and the model without its weights."""
    found, contents = library(), checked_contents(path, limits, reader)
    file = f"{contents.name}/config.json"
    if contents.family not in found.models.auto.configuration_auto.CONFIG_MAPPING_NAMES:
        remedy = Message("remedy_newer_library")
        raise refused("model_type_unknown", file, remedy, family=f"{contents.family!r:.80}")
    with _read_by_library(file):
        settings = found.AutoConfig.from_pretrained(path, local_files_only=True, trust_remote_code=False)
    kind = kind_of(contents, settings.is_encoder_decoder)
    head = head_of(contents, kind, settings)
    with _read_by_library(file), torch.device("meta"), _Parts(contents):
        maker = getattr(found, MAKERS[head or kind])
        net = maker.from_config(copy.deepcopy(settings), trust_remote_code=False)
    described = sum(tensor.numel() for tensor in (*net.parameters(), *net.buffers()))
    stored = sum(math.prod(shape) for shape in contents.shapes.values())
    if described > 2 * stored + SPARE_NUMBERS:
        raise refused("config_numbers", file, described=described, kept=stored)
    return contents, settings, kind, head, net


@contextmanager
def _read_by_library(source: str) -> Iterator[None]:
    """What the library raises inside, whatever it is, is a refusal of `source`; what we raise stays."""
    try:
        with quiet():
            yield
    except CheckpointError:
        raise
    except Exception as error:
        raise unreadable(source, error) from error


def _config(
    contents: FolderContents, settings: Any, kind: Kind, head: Head, tokenizer: Tokenizer | None
) -> HuggingFaceConfig:
    """The sizes and special ids that are needed here; generation settings go before the config's own."""

    def special_id(name: str) -> int:
        values = (contents.generation.get(name), contents.config.get(name), getattr(settings, name, None))
        value = next((value for value in values if value is not None), None)
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
        head=head,
        labels=labels_of(settings) if head in {"classes", "scores", "tokens"} else (),
        one_label=getattr(settings, "problem_type", None) != MANY,
    )


def _vocab(contents: FolderContents, settings: Any, side: str) -> int:
    """Tokens that a model knows, of one side where its config has a config for each."""
    for one in (settings, getattr(settings, side, None)):
        found = getattr(one, "vocab_size", None)
        if isinstance(found, int):
            return found
    raise no_model_of_text(contents)


def _watchable(
    contents: FolderContents, config: HuggingFaceConfig, settings: Any, check: Callable[[list[str]], None]
) -> tuple[HuggingFaceModel, list[str]]:
    """The model with its sites named, recorded lazily if that is exact; and the names of weights that it left over.

    `check` may refuse those names before the model runs.
    """
    reason: str = ""
    for attention in ("sdpa", "eager"):
        fused = attention == "sdpa"
        try:
            model, spare = _built(contents, config, settings, attention)
        except CheckpointError:
            if not fused:
                raise
            reason = Message("attention_of_its_own", family=config.family)
            continue  # the family has none: then the eager way says whether the folder is sound
        check(spare)
        model.note = "" if fused else Message("kept_eagerly", reason=reason)
        try:
            reason = find_places(model, fused)
        except (HeedmapError, *FAILURES) as error:
            if fused:
                reason = first_line(error)
            elif isinstance(error, CheckpointError):
                raise
            else:
                raise CheckpointError(
                    "attention_cannot_be_run", family=config.family, error=first_line(error)
                ) from error
        if model.places:
            return model, spare
    raise CheckpointError("attention_not_recorded", family=config.family, reason=reason)


def _built(
    contents: FolderContents, config: HuggingFaceConfig, settings: Any, attention: str
) -> tuple[HuggingFaceModel, list[str]]:
    """The model, with its head where the weights fill it, and the names of weights that it did not take."""
    headed: Any = None
    if config.head:
        with suppress(CheckpointError):  # what matters is whether it can be built without its head
            headed, spare = _net(contents, MAKERS[config.head], settings, attention)
    net: Any = getattr(headed, "base_model", None)
    if headed is None or net is headed:
        config, headed = replace(config, head="", labels=()), None
        net, spare = _net(contents, MAKERS[config.kind], settings, attention)
    separate_layers(net)
    config = replace(config, max_length=min(config.max_length, _positions(net, config.max_length)))
    build = HuggingFaceTranslator if config.kind == "seq2seq" else HuggingFaceReader
    return build(config, net, headed=headed), spare


def _positions(net: nn.Module, usual: int) -> int:
    """How many positions there are where a table of them starts after the padding id, as RoBERTa's does."""
    tables = [table for name, table in net.named_modules() if name.endswith("position_embeddings")]
    sizes = [(t.num_embeddings, t.padding_idx) for t in tables if isinstance(t, nn.Embedding)]
    return min((rows - padding - 1 for rows, padding in sizes if padding is not None), default=usual)


def _net(contents: FolderContents, maker_name: str, settings: Any, attention: str) -> tuple[Any, list[str]]:
    """The library's model of this class with the folder's weights as float32; and the weights that it did not take."""
    maker = getattr(library(), maker_name)
    with _read_by_library(contents.name), torch.random.fork_rng(devices=[]):
        with torch.device("meta"):
            described = maker.from_config(copy.deepcopy(settings), trust_remote_code=False)
        net, found = type(described).from_pretrained(
            None,
            config=described.config,
            state_dict=dict(contents.tensors),
            attn_implementation=attention,
            dtype=torch.float32,
            local_files_only=True,
            ignore_mismatched_sizes=True,  # they are named below
            output_loading_info=True,
        )
    missing = [name for name in sorted(found["missing_keys"]) if not name.startswith(POOLER)]
    if missing or found["mismatched_keys"] or found["error_msgs"]:
        wrong = [str(entry[0]) for entry in found["mismatched_keys"]]
        names = {"missing": missing, "wrong": wrong}
        some = {key: str(found[:3]) if found else Message("nothing") for key, found in names.items()}
        raise CheckpointError("folder_does_not_fit", folder=contents.name, **some)
    if found["missing_keys"]:
        net.pooler = None  # it follows the attention and was not saved: nothing random is kept
    broken = next((name for name, p in net.named_parameters() if not bool(p.isfinite().all())), None)
    if broken is not None:
        raise CheckpointError("weight_not_finite", name=contents.name, tensor=broken)
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


def separate_layers(net: nn.Module) -> None:
    """Give layers that run several times a module for each run.

    Their weights stay the very same tensors: nothing is copied, and a change of one is a change of all.
    """
    for module in net.modules():
        if type(module).__name__ != "AlbertTransformer":
            continue
        several: Any = module
        groups, n_layers = several.albert_layer_groups, several.config.num_hidden_layers
        runs = [groups[int(i / (n_layers / len(groups)))] for i in range(n_layers)]  # as the library counts them
        several.albert_layer_groups = nn.ModuleList(share_weights_clone(group) for group in runs)
        several.config = copy.copy(several.config)
        several.config.num_hidden_groups = n_layers
