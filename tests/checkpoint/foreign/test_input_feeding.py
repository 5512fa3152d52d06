"""Recurrent decoders that read what their last step ended with: written out from the papers' equations."""

import random
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.checkpoint.originals.common import Maps, Original, scramble
from transformer import DecodingOptions, attention_maps, load, translate
from transformer.checkpoint import report
from transformer.decoding.search import decode
from transformer.diagrams.of_model import architecture


class Cs224n(Original):
    """The assignment's NMT model; `context_first` says how U_t joins context and state."""

    def __init__(self, vocabs: tuple[int, int], e: int, h: int, context_first: bool):
        super().__init__()
        self.model_embeddings = Original()
        self.model_embeddings.source, self.model_embeddings.target = (nn.Embedding(vocab, e) for vocab in vocabs)
        self.encoder, self.decoder = nn.LSTM(e, h, bidirectional=True), nn.LSTMCell(e + h, h)
        for name in ("h_projection", "c_projection", "att_projection"):
            setattr(self, name, nn.Linear(2 * h, h, bias=False))
        self.combined_output_projection = nn.Linear(3 * h, h, bias=False)
        self.target_vocab_projection = nn.Linear(h, vocabs[1], bias=False)
        self.context_first = context_first

    def forward(self, source: Tensor, target: Tensor) -> Maps:
        states, (h, c) = self.encoder(self.model_embeddings.source(source.T))
        states = states.transpose(0, 1)
        state = self.h_projection(torch.cat([h[0], h[1]], 1)), self.c_projection(torch.cat([c[0], c[1]], 1))
        fed, steps = torch.zeros_like(state[0]), []
        for token in target.T:
            state = self.decoder(torch.cat([self.model_embeddings.target(token), fed], 1), state)
            scores = torch.einsum("bsh,bh->bs", self.att_projection(states), state[0])
            weights = scores.masked_fill(source == 0, -torch.inf).softmax(1)
            context = torch.einsum("bs,bsf->bf", weights, states)
            joined = torch.cat([context, state[0]] if self.context_first else [state[0], context], 1)
            fed = torch.tanh(self.combined_output_projection(joined))
            steps.append((self.target_vocab_projection(fed), weights))
        return _together(steps)


class BasicNmt(Original):
    """pytorch_basic_nmt's model; `slipped` is how each step handed its state on before November 2018."""

    def __init__(self, vocabs: tuple[int, int], e: int, h: int, feeds: bool, slipped: bool):
        super().__init__()
        self.src_embed, self.tgt_embed = (nn.Embedding(vocab, e) for vocab in vocabs)
        self.encoder_lstm, self.decoder_lstm = nn.LSTM(e, h, bidirectional=True), nn.LSTMCell(e + h * feeds, h)
        self.att_src_linear = nn.Linear(2 * h, h, bias=False)
        self.att_vec_linear, self.readout = nn.Linear(3 * h, h, bias=False), nn.Linear(h, vocabs[1], bias=False)
        self.decoder_cell_init, self.feeds, self.slipped = nn.Linear(2 * h, h), feeds, slipped

    def forward(self, source: Tensor, target: Tensor) -> Maps:
        states, (_, c) = self.encoder_lstm(self.src_embed(source.T))
        states, cell = states.transpose(0, 1), self.decoder_cell_init(torch.cat([c[0], c[1]], 1))
        state, fed, steps = (torch.tanh(cell), cell), torch.zeros_like(cell), []
        for token in target.T:
            x = self.tgt_embed(token)
            h, c = self.decoder_lstm(torch.cat([x, fed], 1) if self.feeds else x, state)
            weights = torch.einsum("bsh,bh->bs", self.att_src_linear(states), h).softmax(1)
            context = torch.einsum("bs,bsf->bf", weights, states)
            fed = torch.tanh(self.att_vec_linear(torch.cat([h, context], 1)))
            state = (c, h) if self.slipped else (h, c)
            steps.append((self.readout(fed), weights))
        return _together(steps)


class OpenNmt(Original):
    """OpenNMT-py's RNN; without `feeds` its decoder is one net, and nothing is fed."""

    def __init__(
        self, vocabs: tuple[int, int], e: int, h: int, layers: int, net: Any, both: bool, feeds: bool, general: bool
    ):
        super().__init__()
        self.encoder, self.decoder, self.feeds, self.pairs = Original(), Original(), feeds, net is nn.LSTM
        for half, vocab in ((self.encoder, vocabs[0]), (self.decoder, vocabs[1])):
            half.embeddings = Original()
            half.embeddings.make_embedding = Original()
            half.embeddings.make_embedding.emb_luts = nn.ModuleList([nn.Embedding(vocab, e)])
        self.encoder.rnn = net(e, h // 2 if both else h, layers, bidirectional=both)
        cell = nn.LSTMCell if self.pairs else nn.GRUCell
        self.decoder.rnn = Original() if feeds else net(e, h, layers)
        if feeds:
            self.decoder.rnn.layers = nn.ModuleList(cell(e + h if i == 0 else h, h) for i in range(layers))
        self.decoder.attn = Original()
        if general:
            self.decoder.attn.linear_in = nn.Linear(h, h, bias=False)
        self.decoder.attn.linear_out = nn.Linear(2 * h, h, bias=False)
        self.generator, self.general, self.both = nn.Sequential(nn.Linear(h, vocabs[1])), general, both

    def forward(self, source: Tensor, target: Tensor) -> Maps:
        states, last = self.encoder.rnn(self.encoder.embeddings.make_embedding.emb_luts[0](source.T))
        states = states.transpose(0, 1)
        last = last if self.pairs else (last,)
        if self.both:
            last = tuple(torch.cat([one[0::2], one[1::2]], 2) for one in last)
        attn, fed, steps = self.decoder.attn, torch.zeros_like(states[:, 0]), []
        for token in target.T:
            embedded = self.decoder.embeddings.make_embedding.emb_luts[0](token)
            last, state = self._moved(embedded, fed, last)
            query = attn.linear_in(state) if self.general else state
            weights = torch.einsum("bsh,bh->bs", states, query).softmax(1)
            context = torch.einsum("bs,bsh->bh", weights, states)
            fed = torch.tanh(attn.linear_out(torch.cat([context, state], 1)))
            steps.append((self.generator(fed), weights))
        return _together(steps)

    def _moved(self, embedded: Tensor, fed: Tensor, last: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], Tensor]:
        if not self.feeds:
            output, moved = self.decoder.rnn(embedded[None], last if self.pairs else last[0])
            return moved if self.pairs else (moved,), output[0]
        x, found = torch.cat([embedded, fed], 1), []
        for i, cell in enumerate(self.decoder.rnn.layers):
            before = tuple(one[i] for one in last)
            now = cell(x, before if self.pairs else before[0])
            found.append(now if self.pairs else (now,))
            x = found[-1][0]
        return tuple(torch.stack(one) for one in zip(*found, strict=True)), x


def _together(steps: list[tuple[Tensor, Tensor]]) -> Maps:
    logits, weights = (torch.stack(parts, 1) for parts in zip(*steps, strict=True))
    return {"log_probs": logits.log_softmax(-1), "decoder.cross": weights[:, None]}


def _agree(path, original, **answers) -> None:
    source, target = torch.randint(4, 31, (2, 7)), torch.randint(4, 37, (2, 5))
    found = attention_maps(load(path, **answers), source, target)
    with torch.no_grad():
        expected = original.double()(source, target)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert abs(torch.from_numpy(found[name]) - values).max() < 1e-9, name


@pytest.mark.parametrize("context_first", [True, False])
def test_the_assignments_decoder_is_fed(context_first, tmp_path):
    torch.manual_seed(3)
    original = scramble(Cs224n((31, 37), 11, 13, context_first))
    path = tmp_path / "model.bin"
    torch.save({"args": {"embed_size": 11}, "state_dict": original.state_dict()}, path)
    assert report(path).layout == "rnn-cs224n"
    answers = {} if context_first else {"output_order": "state_first"}
    _agree(path, original, **answers)
    checkpoint = load(path, **answers)
    source = torch.tensor([[5, 9, 30, 7]])
    alike = [
        decode(checkpoint.model, source, DecodingOptions(beam=3, max_length=9), cached=one) for one in (True, False)
    ]
    assert [one.ids for one in alike[0]] == [one.ids for one in alike[1]]
    assert len(translate(checkpoint, "5 9 30").record["decoder.cross"].keys) == 4
    drawn = architecture(checkpoint.model)
    assert sum(node.parameters for node in drawn.nodes) == checkpoint.n_parameters


@pytest.mark.parametrize("slipped", [True, False])
@pytest.mark.parametrize("feeds", [True, False])
def test_the_code_that_the_assignment_grew_from(feeds, slipped, tmp_path):
    torch.manual_seed(4)
    original = scramble(BasicNmt((31, 37), 11, 13, feeds, slipped))
    path = tmp_path / "model.bin"
    torch.save({"args": {"embed_size": 11, "input_feed": feeds}, "state_dict": original.state_dict()}, path)
    assert (report(path).layout, report(path).fits) == ("rnn-basic-nmt", True)
    assert any("swaps_states=False is assumed" in text for text in report(path).assumptions)
    answers = {"swaps_states": True} if slipped else {}
    _agree(path, original, pad_id=-1, **answers)
    checkpoint = load(path, **answers)
    source = torch.tensor([[5, 9, 30, 7]])
    alike = [
        decode(checkpoint.model, source, DecodingOptions(beam=3, max_length=9), cached=one) for one in (True, False)
    ]
    assert [one.ids for one in alike[0]] == [one.ids for one in alike[1]]
    assert sum(node.parameters for node in architecture(checkpoint.model).nodes) == checkpoint.n_parameters


CASES = [(layers, net, both, feeds, general) for layers, net, both, feeds, general in (
    (1, nn.LSTM, False, True, True), (2, nn.LSTM, True, True, True), (3, nn.GRU, True, True, False),
    (2, nn.LSTM, False, False, True), (2, nn.GRU, True, False, False),
)]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_opennmts_decoder_is_fed_if_it_is_made_of_cells(case, tmp_path):
    draw = random.Random(len(str(case)))
    torch.manual_seed(5)
    e, h = draw.sample([10, 12, 14, 16], 2)
    original = scramble(OpenNmt((31, 37), e, h, *case))
    state = original.state_dict()
    generator = {name: state.pop(name) for name in list(state) if name.startswith("generator.")}
    saved = {"model": state, "generator": {name.removeprefix("generator."): one for name, one in generator.items()}}
    torch.save(saved, tmp_path / "model.pt")
    assert report(tmp_path / "model.pt").layout == "rnn-opennmt"
    _agree(tmp_path / "model.pt", original, pad_id=-1)
