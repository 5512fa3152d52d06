"""Recurrent encoder-decoders with input feeding: what one step ends with is read by the next (Luong et al. 2015, 3.3).

- Stanford's CS224n, the assignment on neural machine translation: `h_projection`, `c_projection`, `att_projection`,
  `combined_output_projection`.
- The published code that the assignment grew from, pytorch_basic_nmt: `att_src_linear`, `att_vec_linear`, `readout`.
- OpenNMT-py's RNN: `decoder.attn.linear_in`, `decoder.attn.linear_out`, cells in `decoder.rnn.layers`.
"""

from collections.abc import Iterable
from typing import Any

from transformer.checkpoint.foreign.layouts.base import Columns, Fit, Source, layer_count, linear, root_of, size
from transformer.checkpoint.foreign.questions import Answers, choice, special_id_questions
from transformer.checkpoint.safe.contents import Contents
from transformer.messages import Message
from transformer.models.recurrent import RecurrentConfig

_GATES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
ORDERS = ("context_first", "state_first")
"""In which order the last map before the projection reads the context and the state."""


def _net(ours: str, theirs: str, layers: int, ways: Iterable[str]) -> dict[str, Source]:
    """torch.nn.GRU or LSTM under another name."""
    names = [f"{gate}_l{layer}{way}" for layer in range(layers) for gate in _GATES for way in ways]
    return {f"{ours}.{name}": Source(f"{theirs}.{name}") for name in names}


def _deepen(theirs: str, order: str, hidden: int, features: int) -> dict[str, Source]:
    """W [state ; context], whose columns may stand in either order."""
    width = hidden + features
    runs = ((features, width), (0, features)) if order == "context_first" else ((0, width),)
    return {"deepen.0.weight": Columns(theirs, runs=runs, width=width), "deepen.0.bias": Source(None)}


class Cs224n:
    """The assignment's NMT model: an encoder of LSTMs that reads both ways, an LSTM cell that is fed."""

    name = "rnn-cs224n"
    title: str = Message("title_cs224n")

    def fit(self, contents: Contents, answers: Answers) -> Fit | None:
        """Every size stands in the shapes; the order of state and context is asked, it changed over the years."""
        shapes = contents.shapes
        root = root_of(shapes, r"combined_output_projection\.weight")
        if root is None:
            return None
        hidden = size(shapes, (f"{root}decoder.weight_hh", 1), (f"{root}h_projection.weight", 0))
        ids: dict[str, Any] = dict(special_id_questions(answers, 0, 1, 2))
        config = RecurrentConfig(
            source_vocab=size(shapes, (f"{root}model_embeddings.source.weight", 0)),
            target_vocab=size(shapes, (f"{root}model_embeddings.target.weight", 0)),
            hidden=hidden,
            d_embedding=size(shapes, (f"{root}model_embeddings.source.weight", 1)),
            encoder_hidden=size(shapes, (f"{root}encoder.weight_hh_l0", 1)),
            attention="general",
            cell="lstm",
            bidirectional=True,
            attend_after=True,
            feeds_input=True,
            first_states="linear",
            **ids,
        )
        order = choice(answers, "output_order", ORDERS, Message("why_published"))
        sources = {
            "source_embedding.weight": Source(f"{root}model_embeddings.source.weight"),
            "target_embedding.weight": Source(f"{root}model_embeddings.target.weight"),
            **_net("encoder", f"{root}encoder", 1, ("", "_reverse")),
            **{f"decoder.{gate}": Source(f"{root}decoder.{gate}") for gate in _GATES},
            **linear("bridge.0", f"{root}h_projection", has_bias=False),
            **linear("cell_bridge.0", f"{root}c_projection", has_bias=False),
            **linear("attention.key", f"{root}att_projection", has_bias=False),
            **_deepen(f"{root}combined_output_projection.weight", order, hidden, config.source_features),
            **linear("projection", f"{root}target_vocab_projection", has_bias=False),
        }
        return Fit("recurrent", config, sources, (Message("reason_cs224n"),))

    def typical_names(self) -> Iterable[str]:
        """The names of the assignment's model."""
        maps = (
            "h_projection",
            "c_projection",
            "att_projection",
            "combined_output_projection",
            "target_vocab_projection",
        )
        nets = [f"encoder.{gate}_l0{way}" for gate in _GATES for way in ("", "_reverse")]
        embeddings = ["model_embeddings.source.weight", "model_embeddings.target.weight"]
        return [*embeddings, *nets, *(f"decoder.{gate}" for gate in _GATES), *(f"{name}.weight" for name in maps)]


class BasicNmt:
    """pytorch_basic_nmt (Yin 2018): as in the assignment, but one map of the last cells makes the decoder's first."""

    name = "rnn-basic-nmt"
    title: str = Message("title_basic_nmt")

    def fit(self, contents: Contents, answers: Answers) -> Fit | None:
        """Sizes stand in the shapes, and whether its input is fed. Whether an early slip is in it is asked."""
        shapes = contents.shapes
        root = root_of(shapes, r"att_vec_linear\.weight")
        if root is None:
            return None
        hidden = size(shapes, (f"{root}decoder_lstm.weight_hh", 1), (f"{root}readout.weight", 1))
        embedding = size(shapes, (f"{root}src_embed.weight", 1))
        ids: dict[str, Any] = dict(special_id_questions(answers, 0, 1, 2))
        config = RecurrentConfig(
            source_vocab=size(shapes, (f"{root}src_embed.weight", 0)),
            target_vocab=size(shapes, (f"{root}tgt_embed.weight", 0)),
            hidden=hidden,
            d_embedding=embedding,
            encoder_hidden=size(shapes, (f"{root}encoder_lstm.weight_hh_l0", 1)),
            attention="general",
            cell="lstm",
            bidirectional=True,
            attend_after=True,
            feeds_input=size(shapes, (f"{root}decoder_lstm.weight_ih", 1)) > embedding,
            first_states="cells",
            swaps_states=choice(answers, "swaps_states", (False, True), Message("why_since_2018")),
            **ids,
        )
        sources = {
            "source_embedding.weight": Source(f"{root}src_embed.weight"),
            "target_embedding.weight": Source(f"{root}tgt_embed.weight"),
            **_net("encoder", f"{root}encoder_lstm", 1, ("", "_reverse")),
            **{f"decoder.{gate}": Source(f"{root}decoder_lstm.{gate}") for gate in _GATES},
            **linear("bridge.0", f"{root}decoder_cell_init"),
            **linear("attention.key", f"{root}att_src_linear", has_bias=False),
            **linear("deepen.0", f"{root}att_vec_linear", has_bias=False),
            **linear("projection", f"{root}readout", has_bias=False),
        }
        return Fit("recurrent", config, sources, (Message("reason_basic_nmt"),))

    def typical_names(self) -> Iterable[str]:
        """The names of the published model."""
        maps = ("src_embed", "tgt_embed", "att_src_linear", "att_vec_linear", "readout", "decoder_cell_init")
        nets = [f"encoder_lstm.{gate}_l0{way}" for gate in _GATES for way in ("", "_reverse")]
        return [*nets, *(f"decoder_lstm.{gate}" for gate in _GATES), *(f"{name}.weight" for name in maps)]


class OpenNmtRnn:
    """OpenNMT-py's RNN with Luong's attention, of any number of layers."""

    name = "rnn-opennmt"
    title: str = Message("title_opennmt_rnn")

    def fit(self, contents: Contents, answers: Answers) -> Fit | None:
        """Sizes, depth, cell and directions stand in the shapes; so does whether its input is fed."""
        shapes = contents.shapes
        root = root_of(shapes, r"decoder\.attn\.linear_out\.weight")
        if root is None:
            return None
        encoder, decoder, table = (
            f"{root}encoder.rnn",
            f"{root}decoder.rnn",
            "embeddings.make_embedding.emb_luts.0.weight",
        )
        fed = f"{decoder}.layers.0.weight_ih" in shapes  # cells one by one, as feeding needs them
        first = f"{decoder}.layers.0.weight_hh" if fed else f"{decoder}.weight_hh_l0"
        hidden = size(shapes, (first, 1))
        depth = layer_count(shapes, f"{decoder}.layers.") if fed else _depth(contents, decoder)
        read = size(shapes, (f"{encoder}.weight_hh_l0", 1))
        ways = ("", "_reverse") if f"{encoder}.weight_ih_l0_reverse" in shapes else ("",)
        of_encoder = _depth(contents, encoder)
        learned = f"{root}decoder.attn.linear_in.weight" in shapes
        ids: dict[str, Any] = dict(special_id_questions(answers, 1, 2, 3))
        config = RecurrentConfig(
            source_vocab=size(shapes, (f"{root}encoder.{table}", 0)),
            target_vocab=size(shapes, (f"{root}decoder.{table}", 0)),
            hidden=hidden,
            d_embedding=size(shapes, (f"{root}decoder.{table}", 1)),
            encoder_hidden=read,
            attention="general" if learned else "dot",
            cell="lstm" if size(shapes, (first, 0)) == 4 * hidden else "gru",
            n_layers=max(1, depth),
            n_encoder_layers=of_encoder,
            bidirectional=len(ways) == 2,
            attend_after=True,
            feeds_input=fed,
            first_states="joined",
            **ids,
        )
        sources = {
            "source_embedding.weight": Source(f"{root}encoder.{table}"),
            "target_embedding.weight": Source(f"{root}decoder.{table}"),
            **_net("encoder", encoder, of_encoder, ways),
            **_deepen(f"{root}decoder.attn.linear_out.weight", "context_first", hidden, config.source_features),
        }
        for layer in range(config.n_layers):
            for gate in _GATES:
                theirs = f"{decoder}.layers.{layer}.{gate}" if fed else f"{decoder}.{gate}_l{layer}"
                sources[f"upper.{layer - 1}.{gate}" if layer else f"decoder.{gate}"] = Source(theirs)
        if learned:  # (W state) . source is state . (W^T source)
            sources["attention.key.weight"] = Source(f"{root}decoder.attn.linear_in.weight", transposed=True)
            sources["attention.key.bias"] = Source(None)
        above = root.rstrip(".").rpartition(".")[0]
        generators = [f"{start}generator{end}" for start in {root, f"{above}." if above else ""} for end in (".0", "")]
        generator = next((name for name in generators if f"{name}.weight" in shapes), "generator.0")
        sources |= linear("projection", generator, has_bias=f"{generator}.bias" in shapes)
        return Fit("recurrent", config, sources, (Message("reason_opennmt_rnn"),))

    def typical_names(self) -> Iterable[str]:
        """The names of a model with one layer."""
        table = "embeddings.make_embedding.emb_luts.0.weight"
        nets = [f"encoder.rnn.{gate}_l0" for gate in _GATES] + [f"decoder.rnn.layers.0.{gate}" for gate in _GATES]
        maps = ["decoder.attn.linear_in.weight", "decoder.attn.linear_out.weight", "generator.0.weight"]
        return [f"encoder.{table}", f"decoder.{table}", *nets, *maps]


def _depth(contents: Contents, net: str) -> int:
    """How many layers a net has."""
    return max(1, sum(f"{net}.weight_ih_l{layer}" in contents.shapes for layer in range(64)))
