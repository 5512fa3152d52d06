"""Decoding: the beam finds what brute force finds, cached and uncached alike, and keeps its whole tree."""

import itertools
from dataclasses import replace
from typing import Any, Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from heedmap.errors import CheckpointError, InputError
from heedmap.nn.common import log_probs
from heedmap.nn.recurrent import Recurrent, RecurrentConfig
from heedmap.nn.search import MAX_BEAM, DecodingOptions, decode, likeliest, teacher_forced
from heedmap.nn.seq2seq import Seq2Seq, Seq2SeqConfig
from heedmap.text.beams import BeamTree

PAD, BOS, EOS = 0, 1, 2


def tiny_model(seed: int = 0, vocab: int = 11, sharpness: float = 3.0, **options: Any) -> Seq2Seq:
    """A random model; a sharp one prefers some tokens clearly, as a trained one does."""
    torch.manual_seed(seed)
    sizes = dict(d_model=12, n_heads=2, d_ff=17, n_encoder_layers=1, n_decoder_layers=2)
    config = Seq2SeqConfig.of(source_vocab=13, target_vocab=vocab, projection_scale=sharpness, **(sizes | options))
    return Seq2Seq(config).double().eval()


def sources(seed: int, batch: int, longest: int = 7) -> Tensor:
    """Random sources of different lengths, padded."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, 13, (batch, longest), generator=generator)
    lengths = torch.randint(1, longest + 1, (batch, 1), generator=generator)
    lengths[0] = longest
    return torch.where(torch.arange(longest) < lengths, ids, PAD)


def greedy_by_hand(model: Seq2Seq, source: Tensor, max_length: int) -> list[int]:
    """The definition of greedy: always the likeliest token that may be written."""
    written = [BOS]
    while len(written) == 1 or (len(written) <= max_length and written[-1] != EOS):
        logits = model(source[None], torch.tensor([written]))[0, -1]
        logits[[PAD, BOS]] = -torch.inf
        written.append(int(logits.argmax()))
    return written[1:]


class NoMemory:
    """The cache of a model for which the previous token is all there is to know."""

    def reorder(self, rows: Tensor) -> None:
        """Nothing is kept, so nothing moves."""


class Scripted:
    """A decodable model whose next-token distribution is a table: previous token -> logits."""

    def __init__(self, table: dict[int, list[float]]) -> None:
        self.config = Seq2SeqConfig.of(source_vocab=5, target_vocab=5, d_model=8)
        self.table = table

    def start(self, source: Tensor) -> NoMemory:
        return NoMemory()

    def step(self, new: Tensor, cache: NoMemory) -> Tensor:
        return torch.tensor([self.table[int(token)] for token in new[:, -1]])

    def __call__(self, source: Tensor, target: Tensor) -> Tensor:
        return torch.tensor([[self.table[int(token)] for token in row] for row in target])


few = settings(max_examples=20)
searches = st.fixed_dictionaries(
    dict(
        seed=st.integers(0, 1000),
        beam=st.integers(1, 6),
        length_penalty=st.sampled_from([0.0, 0.6, 1.0, 2.0]),
        max_length=st.integers(1, 9),
        batch=st.integers(1, 5),
    )
)


def run(search: dict[str, Any], **options: Any) -> tuple[Seq2Seq, Tensor, DecodingOptions, list[Any]]:
    model, source = tiny_model(search["seed"]), sources(search["seed"], search["batch"])
    chosen = DecodingOptions(search["beam"], search["length_penalty"], search["max_length"])
    return model, source, chosen, decode(model, source, chosen, **options)


@few
@given(searches)
def test_greedy_is_a_beam_of_one(search: dict[str, Any]) -> None:
    model, source, chosen, found = run(search | {"beam": 1})
    for row, decoded in zip(source, found, strict=True):
        assert list(decoded.ids) == greedy_by_hand(model, row[row != PAD], chosen.max_length)


@few
@given(searches)
def test_cached_and_uncached_decoding_agree(search: dict[str, Any]) -> None:
    *_, cached = run(search)
    *_, uncached = run(search, cached=False)
    for a, b in zip(cached, uncached, strict=True):
        assert [node.token for node in a.nodes] == [node.token for node in b.nodes]
        assert [node.status for node in a.nodes] == [node.status for node in b.nodes]
        assert a.ids == b.ids
        assert a.log_probs == pytest.approx(b.log_probs, abs=1e-12)


@pytest.mark.parametrize("attention", ["additive", "location"])
@pytest.mark.parametrize("pad_id", [PAD, -1])
def test_a_recurrent_model_decodes_by_the_same_code(attention: Literal["additive", "location"], pad_id: int) -> None:
    """With pad_id -1 no id is padding, as in the tutorials: the last id of the vocabulary may still be written."""
    config = RecurrentConfig.of(
        source_vocab=13, target_vocab=5, hidden=7, attention=attention, max_length=9, pad_id=pad_id
    )
    model = Recurrent(config).double().eval()
    source = torch.randint(3, 13, (3, 6))
    chosen = DecodingOptions(beam=3, max_length=9)
    cached, uncached = decode(model, source, chosen), decode(model, source, chosen, cached=False)
    assert [decoded.ids for decoded in cached] == [decoded.ids for decoded in uncached]
    assert 4 in {node.token for decoded in cached for node in decoded.nodes}
    for row, decoded in zip(source, cached, strict=True):
        forced = teacher_forced(model, row[None], torch.tensor([[BOS, *decoded.ids]]))
        assert forced[0].tolist() == pytest.approx(decoded.log_probs, abs=1e-12)


@few
@given(searches)
def test_the_tree_is_consistent_and_the_answer_is_its_best_finished_hypothesis(search: dict[str, Any]) -> None:
    model, source, chosen, found = run(search)
    for row, decoded in zip(source, found, strict=True):
        tree, nodes = decoded, decoded.nodes
        assert (nodes[0].id, nodes[0].token, nodes[0].step, nodes[0].total) == (0, BOS, 0, 0.0)
        for i, node in enumerate(nodes[1:], 1):
            parent = nodes[node.parent]
            assert node.id == i
            assert node.total == parent.total + node.log_prob
            assert node.step == parent.step + 1
            assert node.score == node.total / node.step**chosen.length_penalty
            assert parent.status == "kept"
            assert (node.status == "finished") <= (node.token == EOS)
            assert (node.status == "cut") <= (node.step == chosen.max_length)
            assert node.token not in (PAD, BOS)
        for step, group in itertools.groupby(nodes[1:], key=lambda node: node.step):
            each = list(group)
            assert step <= chosen.max_length
            assert [node.rank for node in each] == list(range(len(each)))
            assert [node.total for node in each] == sorted((node.total for node in each), reverse=True)
            assert len(each) <= 2 * chosen.beam
            assert sum(node.status in ("kept", "cut") for node in each) <= chosen.beam
        finished = [node for node in nodes if node.status == "finished"]
        rivals = finished or [node for node in nodes if node.status == "cut"]
        assert tree.best.score == max(node.score for node in rivals)
        assert decoded.finished == bool(finished) == (decoded.ids[-1] == EOS)
        assert decoded.ids == tuple(tree.path(tree.best.id))
        assert decoded.best.total == pytest.approx(sum(decoded.log_probs), abs=1e-12)
        scores = [node.score for node in tree.hypotheses() if node.status == "finished"]
        assert scores == sorted(scores, reverse=True)
        real = row[row != PAD][None]
        forced = teacher_forced(model, real, torch.tensor([[BOS, *decoded.ids]]))
        assert forced[0].tolist() == pytest.approx(decoded.log_probs, abs=1e-12)
        alone = decode(model, real, chosen)[0]
        assert alone.ids == decoded.ids, "companions in the batch change nothing"
        assert alone.best.score == pytest.approx(decoded.best.score, abs=1e-12)


@few
@given(st.integers(0, 1000), st.integers(1, 3), st.sampled_from([0.0, 0.7, 1.0, 1.5]))
def test_a_beam_as_wide_as_the_choice_finds_the_best_of_all(seed: int, max_length: int, penalty: float) -> None:
    """Five tokens, two of them marks that are never written: at most 2^2 hypotheses live before the third step."""
    model, source = tiny_model(seed, vocab=5), sources(seed, 1)
    best = -torch.inf
    for length in range(1, max_length + 1):
        for body in itertools.product((3, 4), repeat=length - 1):
            total = teacher_forced(model, source, torch.tensor([[BOS, *body, EOS]])).sum()
            best = max(best, total.item() / length**penalty)
    found = decode(model, source, DecodingOptions(MAX_BEAM, penalty, max_length))[0]
    assert found.finished
    assert found.best.score == pytest.approx(best, abs=1e-12)


EVEN, ENDING = [0.0, 0.0, -9.0, 0.0, 0.0], [0.0, 0.0, 2.0, 1.0, -1.0]


@pytest.mark.parametrize(
    ("tables", "beam", "most", "expected"),
    [
        # ties go to the better parent, then to the lower token; what is left at the last step is cut
        ([EVEN] * 3, 2, 2, ["3 of 0 kept", "4 of 0 kept", "2 of 0 pruned",
                            "3 of 1 cut", "4 of 1 cut", "3 of 2 pruned", "4 of 2 pruned"]),
        # enough hypotheses are finished: what still lived is pruned, since no later step could be compared with it
        ([ENDING] * 3, 2, 100, ["2 of 0 finished", "3 of 0 kept", "4 of 0 kept",
                                "2 of 2 finished", "3 of 2 pruned", "2 of 3 pruned", "4 of 2 pruned"]),
        ([ENDING], 1, 1, ["2 of 0 finished", "3 of 0 pruned"]),
        ([ENDING], 2, 1, ["2 of 0 finished", "3 of 0 cut", "4 of 0 cut"]),
    ],
)  # fmt: skip
def test_what_becomes_of_each_hypothesis(tables: list[list[float]], beam: int, most: int, expected: list[str]) -> None:
    model = Scripted(dict(zip((BOS, 3, 4), tables, strict=False)))
    tree = decode(model, torch.tensor([[3]]), DecodingOptions(beam=beam, max_length=most))[0]
    assert [f"{node.token} of {node.parent} {node.status}" for node in tree.nodes[1:]] == expected


def test_a_wider_beam_finds_what_greedy_misses() -> None:
    """Token 3 looks better at first (0.6), but only token 4 (0.4) goes on well."""
    shares = {BOS: [0.0, 0.0, 0.0, 0.6, 0.4], 3: [0.0, 0.0, 0.1, 0.45, 0.45], 4: [0.0, 0.0, 1.0, 0.0, 0.0]}
    model = Scripted({token: torch.tensor(row).log().tolist() for token, row in shares.items()})
    greedy, wide = (decode(model, torch.tensor([[3]]), DecodingOptions(beam, 0.0, max_length=2))[0] for beam in (1, 2))
    assert (greedy.ids, greedy.finished, wide.ids) == ((3, 3), False, (4, EOS))
    assert wide.best.total == pytest.approx(torch.tensor(0.4).log().item())


def test_one_sentence_whose_distribution_is_broken_stops_them_all() -> None:
    """A row of NaN beside good rows is no reason to go on: its weights are those of the others."""
    good, broken = [0.0, 0.0, 0.0, 1.0, 0.0], [0.0, 0.0, float("nan"), 1.0, 0.0]

    class Rows(Scripted):
        def step(self, new: Tensor, cache: NoMemory) -> Tensor:
            return torch.tensor([good, broken, good])

    with pytest.raises(CheckpointError, match="the model predicts NaN"):
        decode(Rows({}), torch.tensor([[3], [3], [3]]), DecodingOptions(beam=1, max_length=1))


def test_finished_sentences_leave_the_batch() -> None:
    """One sentence is long: the others must not be carried along to its end."""
    rows: list[int] = []

    class Counting(Scripted):
        def step(self, new: Tensor, cache: NoMemory) -> Tensor:
            rows.append(len(new))
            return super().step(new, cache) if len(rows) > 1 else torch.tensor([[0.0, 0, 9, 0, 0], [0.0, 0, 0, 9, 0]])

    on = [0.0, 0.0, 0.0, 9.0, 0.0]
    found = decode(Counting({3: on}), torch.tensor([[3], [3]]), DecodingOptions(beam=1, max_length=4))
    assert rows == [2, 1, 1, 1]
    assert [decoded.ids for decoded in found] == [(EOS,), (3, 3, 3, 3)]


def test_each_row_has_the_keys_of_the_source_that_it_continues() -> None:
    source = sources(5, 3)
    cache = tiny_model().start(source)
    keys, real = [block.source.k for block in cache.blocks], cache.source_mask.keys
    assert real is not None
    for rows, continued in [([2, 0, 0], [2, 0, 0]), ([2, 1, 0], [0, 0, 2]), ([1, 0], [0, 0]), ([1, 0, 0], [0, 0, 0])]:
        cache.reorder(torch.tensor(rows))
        for block, before in zip(cache.blocks, keys, strict=True):
            assert block.source.k.equal(before[continued])
        assert cache.source_mask.keys is not None
        assert cache.source_mask.keys.equal(real[continued])


def test_likeliest_breaks_ties_by_the_lower_id() -> None:
    values = torch.tensor([[0.0] * 1000, [*range(999), 997]])
    found, ids = likeliest(values, 3)
    assert ids.tolist() == [[0, 1, 2], [998, 997, 999]]
    assert found.tolist() == [[0.0, 0.0, 0.0], [998.0, 997.0, 997.0]]
    assert likeliest(values[:, :2], 3)[1].tolist() == [[0, 1], [1, 0]]


def test_teacher_forcing_gives_each_written_token_its_log_probability() -> None:
    model, source = tiny_model(), sources(3, 2)
    target = torch.tensor([[BOS, 5, 7, EOS], [BOS, 4, EOS, PAD]])
    found = teacher_forced(model, source, target)
    expected = log_probs(model(source, target[:, :-1]))
    assert found.shape == (2, 3)
    assert found[0, 1] == expected[0, 1, 7]
    assert found[1, 1] == expected[1, 1, EOS]
    assert found[1, 2] == 0.0


def test_one_id_may_both_start_and_end_a_target() -> None:
    model = Scripted({EOS: [0.0, 0.0, 1.0, 2.0, 0.0], 3: [0.0, 0.0, 1.0, 0.0, 0.0]})
    model.config = replace(model.config, bos_id=EOS)
    assert decode(model, torch.tensor([[3]]), DecodingOptions(beam=1))[0].ids == (3, EOS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(beam=0), r"beam=0 is out of range: choose 1 \(greedy\) to 16"),
        (dict(beam=17), "beam=17"),
        (dict(length_penalty=-0.1), r"length_penalty=-0.1 is out of range: choose 0 \(none\) to 4"),
        (dict(length_penalty=float("nan")), "length_penalty=nan"),
        (dict(max_length=0), "max_length=0 is out of range: choose 1 to 1000 tokens"),
        (dict(max_length=1001), "max_length=1001"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        DecodingOptions(**options)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ([0.0, 0.0, float("nan"), 0.0, 0.0], "weights are damaged"),
        ([0.0, 0.0, float("inf"), 0.0, 0.0], "weights are damaged"),
        ([0.0, *[-torch.inf] * 4], "nothing that could be written"),
    ],
)
def test_a_model_that_predicts_no_distribution_is_refused(row: list[float], words: str) -> None:
    with pytest.raises(CheckpointError, match=words):
        decode(Scripted({BOS: row}), torch.tensor([[3]]))


def test_a_path_through_the_tree_holds_the_tokens_without_the_start_mark() -> None:
    tree: BeamTree = decode(tiny_model(), sources(1, 1))[0]
    assert tree.path(0) == []
    leaf = tree.nodes[-1]
    line = tree.lineage(leaf.id)
    assert [node.step for node in line] == list(range(1, leaf.step + 1))
    assert tree.path(leaf.id) == [node.token for node in line]
    for node in (-1, len(tree.nodes)):
        with pytest.raises(InputError, match=f"node={node} is not in this tree"):
            tree.path(node)
