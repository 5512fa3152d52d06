"""From weights that were recognised to a model: ours, or the transformers library's where only that has the family."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from transformer.checkpoint.checkpoint import Checkpoint
from transformer.checkpoint.foreign import build as own
from transformer.checkpoint.foreign.layouts.t5 import LibraryModel
from transformer.checkpoint.foreign.recognition import Recognition
from transformer.checkpoint.huggingface.attention import NAME
from transformer.checkpoint.huggingface.folder import unreadable
from transformer.checkpoint.huggingface.library import library, quiet
from transformer.checkpoint.huggingface.model import HuggingFaceConfig, HuggingFaceReader, HuggingFaceTranslator
from transformer.checkpoint.huggingface.probing import lazy_sites
from transformer.checkpoint.ours.folder import in_precision_of
from transformer.errors import CheckpointError
from transformer.tokens.vocabulary import id_tokenizers

LONGEST = 512
"""Positions that a model with relative ones is made to read here."""


def build(recognition: Recognition, name: str) -> Checkpoint:
    """The model that was recognised. Its text is typed and shown as ids, until a vocabulary is brought.

    Raises:
        CheckpointError: it fits no layout (the message is the report); or it is of the library, which is not installed.
    """
    fit = recognition.fit
    if fit is None or not recognition.report.fits or not isinstance(fit.config, LibraryModel):
        return own.build(recognition, name)
    own.check_answered(recognition.report)
    described, kept = fit.config, {*(fit.needed or {}), *fit.copies}
    weights = {key: tensor for key, tensor in recognition.contents.tensors.items() if key in kept}
    config = HuggingFaceConfig(
        family=described.family,
        kind=described.kind,
        source_vocab=described.source_vocab,
        target_vocab=described.target_vocab,
        max_length=LONGEST,
        pad_id=described.pad_id,
        bos_id=described.bos_id,
        eos_id=described.eos_id,
    )
    maker = HuggingFaceTranslator if described.kind == "seq2seq" else HuggingFaceReader
    model = maker(config, _net(described, weights, name))
    model.sites, reason = lazy_sites(model.net, config)
    if not model.sites:
        raise CheckpointError("attention_cannot_be_run", family=described.family, error=reason)
    in_precision_of(model, weights)
    reader, writer = id_tokenizers(config)
    return Checkpoint(
        name=name,
        model=model,
        tokenizer=reader,
        target_tokenizer=writer if described.kind == "seq2seq" else None,
        assumptions=recognition.report.assumptions,
    )


def _net(described: LibraryModel, weights: Mapping[str, Tensor], name: str) -> Any:
    """The library's model with these weights, in single precision."""
    found = library()
    for key, tensor in weights.items():
        if not bool(tensor.isfinite().all()):
            raise CheckpointError("weight_not_finite", name=name, tensor=key)
    embedding = weights[described.embedding].float()
    state = {key.removeprefix(described.root): tensor.float() for key, tensor in weights.items()}
    try:
        with quiet(), torch.random.fork_rng(devices=[]):
            settings = found.AutoConfig.for_model(described.family, **described.settings)
            net = getattr(found, described.maker)._from_config(settings, attn_implementation=NAME, dtype=torch.float32)
            if described.kind == "seq2seq" and not described.tied:  # the library ties them, whatever it is told
                net.lm_head.weight = nn.Parameter(torch.zeros_like(embedding))
            net.load_state_dict(dict.fromkeys(net.state_dict(), embedding) | state)
    except Exception as error:
        raise unreadable(name, error) from error
    # one option stands for two things in the library: what is scaled is told here, what is tied was done above
    net.config.scale_decoder_outputs = net.config.tie_word_embeddings = described.scaled
    _norm_in_full(net)
    return net.eval()


def _norm_in_full(net: nn.Module) -> None:
    """Let norms compute in the model's own precision; the library's are in single precision whatever that is."""
    for module in list(net.modules()):
        norms: list[tuple[str, Any]] = [(n, norm) for n, norm in module.named_children() if n.endswith("layer_norm")]
        for name, norm in norms:
            exact = nn.RMSNorm(len(norm.weight), eps=norm.variance_epsilon)
            exact.weight = norm.weight
            setattr(module, name, exact)
