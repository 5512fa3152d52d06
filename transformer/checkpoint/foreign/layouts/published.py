"""Published models with names of their own: Transformers, and recurrent pairs as tutorials write them.

- The Annotated Transformer (Rush 2018; Huang, Subramanian, Sum, Almubarak and Biderman 2022): both editions name alike.
- jadore801120/attention-is-all-you-need-pytorch: `{'epoch', 'settings', 'model'}`, or its weights alone. The settings
  (an argparse.Namespace) answer what shapes cannot.
- The k-mer classifier: convolutions of several widths, then encoder layers of torch's attention.
- GPT-2 as the transformers library saves it, nanoGPT and minGPT, without their config. GPT-2 stores its linear maps
  with the inputs first; the other two as torch.nn.Linear does. Forks change much under the same names: it is asked.

Recurrent encoder-decoders with attention, an encoder's file and a decoder's or one of both; nets may be called `gru`,
`rnn` or `lstm`:

- The PyTorch seq2seq tutorial, first generation: `attn` looks by location and `attn_combine` mixes. Second: `attention`
  with Wa, Ua, Va (Bahdanau).
- "Dive into Deep Learning", section 11.4: `attention` with W_q, W_k, w_v and without biases; `dense`.
- The PyTorch chatbot tutorial (Luong et al. 2015): `concat`, and `attn.attn` where the score is no plain product. The
  encoder reads both ways and adds the two; the decoder begins with the encoder's first states.

Each layout is given what stands before the names of its parts (`root`).
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from math import gcd
from typing import Any

import torch

from ....errors import ConfigError
from ....messages import Message
from ....nn.kmer import KmerConfig
from ....nn.recurrent import RecurrentConfig
from ....nn.seq2seq import preset
from ....nn.stacks import DecoderConfig
from ....safe.contents import Contents, Shape
from ..report import Questionnaire
from .base import Fit, Source, Sources, attention, layer_count, linear, linears, size, sizes_of

_MAPS = ("query", "key", "value", "output")
_NORM = ("a_2", "b_2")


def _stacks(
    shapes: Mapping[str, Shape], root: str, layers: str, layer: Callable[[str, str, tuple[str, ...]], Sources]
) -> Sources:
    """What `layer` gives for each layer of both stacks, from our prefix, theirs and its kinds of attention."""
    found: Sources = {}
    for half, kinds in (("encoder", ("self",)), ("decoder", ("self", "cross"))):
        for i in range(layer_count(shapes, f"{root}{half}.{layers}.")):
            found |= layer(f"{half}.{i}.", f"{root}{half}.{layers}.{i}.", kinds)
    return found


def annotated(contents: Contents, answers: Questionnaire, root: str) -> Fit:
    """An `EncoderDecoder`: all but the number of heads and the special ids stands in names and shapes."""
    sources = {
        "source_embedding.weight": Source(f"{root}src_embed.0.lut.weight"),
        "target_embedding.weight": Source(f"{root}tgt_embed.0.lut.weight"),
        **linears("", root, {"encoder_norm": "encoder.norm", "decoder_norm": "decoder.norm"}, _NORM),
        **linear("projection", f"{root}generator.proj"),
        **_stacks(contents.shapes, root, "layers", _annotated_layer),
    }
    stored = f"{root}src_embed.1.pe" in contents.tensors
    if stored:
        sources["source_positions.table"] = Source(f"{root}src_embed.1.pe")
        sources["target_positions.table"] = Source(f"{root}tgt_embed.1.pe")
    sizes = {"max_length": 5000} | sizes_of(sources, contents.shapes)
    config = preset(
        "annotated",
        **sizes,
        n_heads=answers.heads(sizes["d_model"]),
        positions="stored" if stored else "sinusoidal",
        norm_eps=answers.norm_eps(1e-6),
        **answers.seq2seq_ids(),
    )
    return Fit("seq2seq", config, sources, (Message("reason_annotated_attention"), Message("reason_annotated_norm")))


def _annotated_layer(ours: str, theirs: str, kinds: tuple[str, ...]) -> Sources:
    """Attention, then the feed-forward net, each with the norm of its sub-layer."""
    maps = {"feed_forward.widen": "feed_forward.w_1", "feed_forward.narrow": "feed_forward.w_2"}
    for kind, name in zip(kinds, ("self_attn", "src_attn"), strict=False):
        maps |= {f"{kind}_attention.{mine}": f"{name}.linears.{i}" for i, mine in enumerate(_MAPS)}
    norms = {f"{part}_residual.norm": f"sublayer.{i}.norm" for i, part in enumerate((*kinds, "feed_forward"))}
    return linears(ours, theirs, maps) | linears(ours, theirs, norms, _NORM)


def jadore(contents: Contents, answers: Questionnaire, root: str) -> Fit:
    """A `Transformer`: heads, padding and scaling are asked, and told by the settings if they came along."""
    shapes = contents.shapes
    source_table, target_table = f"{root}encoder.src_word_emb.weight", f"{root}decoder.trg_word_emb.weight"
    projection, first = f"{root}trg_word_prj.weight", f"{root}encoder.layer_stack.0.slf_attn"
    shared, tied = contents.same(source_table, target_table), contents.same(projection, target_table)
    sources = {
        "source_embedding.weight": Source(source_table),
        "source_positions.table": Source(f"{root}encoder.position_enc.pos_table"),
        "target_positions.table": Source(f"{root}decoder.position_enc.pos_table"),
        **linears("", root, {"source_norm": "encoder.layer_norm", "target_norm": "decoder.layer_norm"}),
        **({} if shared else {"target_embedding.weight": Source(target_table)}),
        **({} if tied else {"projection.weight": Source(projection)}),
        **_stacks(shapes, root, "layer_stack", _jadore_layer),
    }
    sizes = sizes_of(sources, shapes)
    rows_k, rows_v = (size(shapes, (f"{first}.{name}.weight", 0)) for name in ("w_qs", "w_vs"))
    n_heads = answers.heads(gcd(rows_k, rows_v))
    scales = ("prj", "emb", "none")
    scale = answers.choice("scale_emb_or_prj", scales, Message("why_original_default")) if tied else "none"
    config = preset(
        "jadore",
        **sizes,
        n_heads=n_heads,
        d_k=rows_k // n_heads,
        d_v=rows_v // n_heads,
        positions="stored",
        tie_embeddings=shared,
        tie_projection=tied,
        scale_embedding=scale == "emb",
        projection_scale=sizes["d_model"] ** -0.5 if scale == "prj" else 1.0,
        norm_eps=answers.norm_eps(1e-6),
        **answers.seq2seq_ids(),
    )
    copies = (*((target_table,) if shared else ()), *((projection,) if tied else ()))
    reasons = (Message("reason_jadore_attention"), Message("reason_tied" if tied else "reason_not_tied"))
    return Fit("seq2seq", config, sources, reasons, copies)


def _jadore_layer(ours: str, theirs: str, kinds: tuple[str, ...]) -> Sources:
    """Each sub-layer holds its own norm; attention has no biases."""
    names = {"feed_forward.widen": "w_1", "feed_forward.narrow": "w_2", "feed_forward_residual.norm": "layer_norm"}
    sources = linears(ours, f"{theirs}pos_ffn.", names)
    for kind, name in zip(kinds, ("slf_attn", "enc_attn"), strict=False):
        for mine, foreign in zip(_MAPS, ("w_qs", "w_ks", "w_vs", "fc"), strict=True):
            sources[f"{ours}{kind}_attention.{mine}.weight"] = Source(f"{theirs}{name}.{foreign}.weight")
        sources |= linear(f"{ours}{kind}_residual.norm", f"{theirs}{name}.layer_norm")
    return sources


_KMER_LAYER = {
    "self_residual.norm": "norm_1",
    "feed_forward.widen": "ff.linear_1",
    "feed_forward.narrow": "ff.linear_2",
    "feed_forward_residual.norm": "norm_2",
}


def kmer(contents: Contents, answers: Questionnaire, root: str) -> Fit:
    """An `Encoder` with `kmer_aggregation`: widths of the windows stand in the shapes; heads are asked."""
    shapes, gathered = contents.shapes, f"{root}kmer_aggregation.convs."
    widths = tuple(size(shapes, (f"{gathered}{i}.weight", 2)) for i in range(layer_count(shapes, gathered)))
    names = {"kmers.norm": "kmer_aggregation.norm", "encoder_norm": "norm"}
    names |= {"hidden": "decoder.linear_1", "classifier": "decoder.classifier"}
    names |= {f"kmers.convolutions.{i}": f"kmer_aggregation.convs.{i}" for i in range(len(widths))}
    sources = {"embedding.weight": Source(f"{root}embed.weight"), **linears("", root, names)}
    for i in range(layer_count(shapes, f"{root}layers.")):
        ours, theirs = f"encoder.{i}.", f"{root}layers.{i}."
        sources |= linears(ours, theirs, _KMER_LAYER)
        sources |= attention(f"{ours}self_attention", f"{theirs}attn.in_proj_", f"{theirs}attn.out_proj", bias=True)
    stored, why = f"{root}pe.pe" in shapes, Message("why_published")
    if stored:
        sources["positions.table"] = Source(f"{root}pe.pe")
    sizes = {"max_length": 200} | sizes_of(sources, shapes)
    d_hidden = size(shapes, (f"{root}decoder.classifier.weight", 1), (f"{root}decoder.linear_1.weight", 0))
    config = KmerConfig.of(
        **sizes,
        n_classes=size(shapes, (f"{root}decoder.classifier.weight", 0)),
        n_heads=answers.heads(sizes["d_model"]),
        widths=widths,
        d_hidden=0 if d_hidden == sizes["d_model"] else d_hidden,
        norm_eps=answers.norm_eps(1e-5),
        norm_first=answers.choice("norm_first", (False, True), why),
        activation=answers.choice("activation", ("relu", "gelu"), why),
        positions="stored" if stored else answers.choice("positions", ("doubled", "sinusoidal"), why),
        scale_embedding=answers.choice("scale_embedding", (True, False), why),
        pad_id=answers.special_id("pad_id", -1),
    )
    return Fit("kmer", config, sources, (Message("reason_kmer", widths=widths),))


def gpt(contents: Contents, answers: Questionnaire, root: str) -> Fit:
    """A decoder alone: norms before its sub-layers, the future hidden. Sizes from shapes; heads are asked."""
    shapes, tokens, first = contents.shapes, f"{root}wte.weight", f"{root}h.0.attn.c_attn"
    bias, rows = f"{first}.bias" in shapes, shapes.get(f"{first}.weight", ())
    transposed = len(rows) == 2 and rows[1] == 3 * rows[0]
    scores = f"{root.removesuffix('transformer.')}lm_head.weight"
    own = scores in shapes and not contents.same(scores, tokens)
    sources = {
        "embedding.weight": Source(tokens),
        "positions.table": Source(f"{root}wpe.weight"),
        **linear("decoder_norm", f"{root}ln_f", bias=bias),
        **({"projection.weight": Source(scores)} if own else {}),
    }
    maps = {"feed_forward.widen": "mlp.c_fc", "feed_forward.narrow": "mlp.c_proj"}
    norms = {"self_residual.norm": "ln_1", "feed_forward_residual.norm": "ln_2"}
    lay = {"bias": bias, "transposed": transposed}
    for i in range(layer_count(shapes, f"{root}h.")):
        ours, theirs = f"decoder.{i}.", f"{root}h.{i}."
        sources |= attention(f"{ours}self_attention", f"{theirs}attn.c_attn.", f"{theirs}attn.c_proj", **lay)
        sources |= linears(ours, theirs, maps, **lay) | linears(ours, theirs, norms, bias=bias)
    sizes, masks, why = sizes_of(sources, shapes), _masks(contents, root), Message("why_original")
    usual = ("gelu_tanh", "gelu", "relu") if transposed or masks else ("gelu", "gelu_tanh", "relu")
    scales = {"d_head": 0.0, "d_model": sizes["d_model"] ** -0.5, "nothing": 1.0}  # 0 stands for d_head^-0.5
    config = DecoderConfig.of(
        **sizes,
        n_heads=answers.heads(sizes["d_model"]),
        norm_eps=answers.norm_eps(1e-5),
        norm_first=answers.choice("norm_first", (True, False), why),
        norm_after_stack=True,
        attention_bias=bias,
        attention_scale=scales[answers.choice("scores_divided_by", tuple(scales), why)],
        activation=answers.choice("activation", usual, why),
        positions="learned",
        tie_projection=not own,
        pad_id=answers.special_id("pad_id", -1),
    )
    reasons = (
        Message("reason_gpt", count=config.n_layers),
        Message("reason_inputs_first" if transposed else "reason_outputs_first"),
        Message("reason_not_tied" if own else "reason_tied_to_tokens"),
    )
    copies = () if own or scores not in shapes else (scores,)
    return Fit("decoder", config, sources, reasons, copies, dict.fromkeys(masks, Message("ignored_mask")))


def _masks(contents: Contents, root: str) -> list[str]:
    """The stored masks over the future (ones on and below the diagonal), and what stands in for hidden scores."""
    found = []
    for name, tensor in contents.tensors.items():
        if name.startswith(f"{root}h."):
            square = tensor.dim() == 4 and tensor.shape[:2] == (1, 1) and tensor.shape[2] == tensor.shape[3]
            if name.endswith("attn.masked_bias") and not tensor.shape:
                found.append(name)
            if name.endswith("attn.bias") and square and torch.equal(tensor != 0, torch.ones_like(tensor).tril() != 0):
                found.append(name)
    return found


_GATES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
_FIRST = re.compile(r"(?P<net>(?:.*\.)?(?:gru|rnn|lstm))\.weight_ih_l0")


@dataclass(frozen=True)
class Tutorial:
    """What one tutorial calls the decoder's parts, and how they are used. Called, it fits contents to its layout.

    `compared` are the maps of query, key and score, if each is one of its own. `context_first` says in which order the
    cell reads context and token. A decoder of several layers looks with the state of one of them: `looks_with` is asked
    where the original has one layer.
    """

    code: str
    compared: tuple[str, ...] = ()
    biased: bool = True
    projection: str = "out"
    context_first: bool = False
    looks_with: tuple[str, ...] = ()
    ids: tuple[int, int, int] = (-1, 0, 1)

    def __call__(self, contents: Contents, answers: Questionnaire, root: str) -> Fit | None:
        """The encoder and the decoder; None of anything else, a decoder alone included.

        Every size stands in the shapes; special ids are asked, and what the state of several layers does.

        Raises:
            ConfigError: the two halves have other depths, and nothing tells which states the decoder begins with.
        """
        shapes, decoder = contents.shapes, f"{root}decoder."
        if not any(name.startswith(f"{root}encoder.") for name in shapes):
            return None
        (reads, of_encoder), (writes, layers) = _net(shapes, f"{root}encoder."), _net(shapes, decoder)
        hidden = size(shapes, (f"{writes}.weight_hh_l0", 1), (f"{reads}.weight_hh_l0", 1))
        read = size(shapes, (f"{reads}.weight_hh_l0", 1), (f"{writes}.weight_hh_l0", 1))
        embedding = size(shapes, (f"{decoder}embedding.weight", 1))
        options: dict[str, Any] = {"attention": "additive"}
        if self.code == "chatbot":
            both = f"{reads}.weight_ih_l0_reverse" in shapes
            options = {"attend_after": True, "sum_directions": both, "copy_states": both, "bidirectional": both}
            mapped = "general" if f"{decoder}attn.attn.weight" in shapes else "dot"
            options["attention"] = "additive" if f"{decoder}attn.v" in shapes else mapped
        elif layers != of_encoder:
            raise ConfigError("halves_of_other_depth", encoder=of_encoder, decoder=layers)
        elif layers > 1 and self.looks_with:
            options["query_layer"] = answers.choice("query_layer", self.looks_with, Message("why_most_common"))
        if self.code == "1":
            options |= {"attention": "location", "max_length": size(shapes, (f"{decoder}attn.weight", 0))}
        config = RecurrentConfig.of(
            source_vocab=size(shapes, (f"{root}encoder.embedding.weight", 0)),
            target_vocab=size(shapes, (f"{decoder}embedding.weight", 0)),
            hidden=hidden,
            d_embedding=0 if embedding == hidden else embedding,
            encoder_hidden=0 if read == hidden else read,
            cell="lstm" if size(shapes, (f"{writes}.weight_hh_l0", 0)) == 4 * hidden else "gru",
            n_layers=layers,
            n_encoder_layers=0 if of_encoder == layers else of_encoder,
            **(options | answers.special_ids(*self.ids)),
        )
        sources = {
            "source_embedding.weight": Source(f"{root}encoder.embedding.weight"),
            "target_embedding.weight": Source(f"{decoder}embedding.weight"),
            **linear("projection", f"{decoder}{self.projection}"),
            **self._attention(decoder, config),
        }
        for way in ("", "_reverse") if config.encoder.bidirectional else ("",):
            for gate in (f"{gate}_l{layer}{way}" for layer in range(of_encoder) for gate in _GATES):
                sources[f"encoder.{gate}"] = Source(f"{reads}.{gate}")
        for layer in range(layers):
            ours = f"upper.{layer - 1}" if layer else "decoder"
            sources |= {f"{ours}.{gate}": Source(f"{writes}.{gate}_l{layer}") for gate in _GATES}
        if self.context_first:
            features, width = config.source_features, embedding + config.source_features
            turned = ((features, width), (0, features))
            sources["decoder.weight_ih"] = Source(f"{writes}.weight_ih_l0", runs=turned, width=width)
        return Fit("recurrent", config, sources, (Message(f"reason_tutorial_{self.code}"),))

    def _attention(self, decoder: str, config: RecurrentConfig) -> Sources:
        """Where the tensors of the attention stand; a score's own bias changes no weight."""
        if config.attention.kind == "location":
            return linears("", decoder, {"attention.where": "attn", "combine.0": "attn_combine"})
        if self.compared:
            names = {f"attention.{part}": f"attention.{name}" for part, name in zip(_PARTS, self.compared, strict=True)}
            return linears("", decoder, names, bias=self.biased)
        sources = linear("deepen.0", f"{decoder}concat")
        joint, hidden = f"{decoder}attn.attn", config.decoder.hidden
        width = hidden + config.source_features
        if config.attention.kind == "general":
            sources |= linear("attention.key", joint)
        if config.attention.kind == "additive":
            sources |= linear("attention.query", joint) | linear("attention.key", joint, bias=False)
            sources["attention.query.weight"] = Source(f"{joint}.weight", runs=((0, hidden),), width=width)
            sources["attention.key.weight"] = Source(f"{joint}.weight", runs=((hidden, width),), width=width)
            sources |= {"attention.score.weight": Source(f"{decoder}attn.v"), "attention.score.bias": Source(None)}
        return sources


_PARTS = ("query", "key", "score")


def _net(names: Collection[str], start: str) -> tuple[str, int]:
    """The path of the net in the half whose names begin with `start`, and how many layers it has."""
    found = (_FIRST.fullmatch(name) for name in names if name.startswith(start))
    net = next((first["net"] for first in found if first), f"{start}gru")
    return net, max(1, sum(bool(re.fullmatch(rf"{re.escape(net)}\.weight_ih_l\d+", name)) for name in names))


TUTORIALS = {
    "rnn-tutorial-1": ("attn_combine", Tutorial("1", looks_with=("first", "last"))),
    "rnn-tutorial-2": (r"attention\.Wa", Tutorial("2", ("Wa", "Ua", "Va"), looks_with=("last", "first"))),
    "rnn-d2l": (
        r"attention\.W_q",
        Tutorial("d2l", ("W_q", "W_k", "w_v"), False, "dense", context_first=True, ids=(-1, 2, 3)),
    ),
    "rnn-chatbot": ("concat", Tutorial("chatbot", ids=(0, 1, 2))),
}
"""A name in the decoder that no other tutorial has, and the tutorial."""
