"""Decoding: the beam finds what brute force finds, cached and uncached alike, and keeps its whole tree."""

import itertools
from dataclasses import replace
from typing import Any, Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from transformer.errors import CheckpointError, InputError
from transformer.nn.common import log_probs
from transformer.nn.recurrent import Recurrent, RecurrentConfig
from transformer.nn.search import MAX_BEAM, DecodingOptions, decode, likeliest, teacher_forced
from transformer.nn.seq2seq import Seq2Seq, Seq2SeqConfig
from transformer.text.beams import BeamTree

PAD, BOS, EOS = 0, 1, 2


def tiny_model(seed: int = 0, vocab: int = 11, sharpness: float = 3.0, **options: Any) -> Seq2Seq:
    """A random model; a sharp one prefers some tokens clearly, as a trained one does."""
    torch.manual_seed(seed)
    sizes = dict(d_model=12, n_heads=2, d_ff=17, n_encoder_layers=1, n_decoder_layers=2)
    config = Seq2SeqConfig(source_vocab=13, target_vocab=vocab, projection_scale=sharpness, **(sizes | options))
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
        self.config = Seq2SeqConfig(source_vocab=5, target_vocab=5, d_model=8)
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
        assert [node.token for node in a.tree.nodes] == [node.token for node in b.tree.nodes]
        assert [node.status for node in a.tree.nodes] == [node.status for node in b.tree.nodes]
        assert a.ids == b.ids
        assert a.log_probs == pytest.approx(b.log_probs, abs=1e-12)


@pytest.mark.parametrize("attention", ["additive", "location"])
@pytest.mark.parametrize("pad_id", [PAD, -1])
def test_a_recurrent_model_decodes_by_the_same_code(attention: Literal["additive", "location"], pad_id: int) -> None:
    """With pad_id -1 no id is padding, as in the tutorials: the last id of the vocabulary may still be written."""
    config = RecurrentConfig(
        source_vocab=13, target_vocab=5, hidden=7, attention=attention, max_length=9, pad_id=pad_id
    )
    model = Recurrent(config).double().eval()
    source = torch.randint(3, 13, (3, 6))
    chosen = DecodingOptions(beam=3, max_length=9)
    cached, uncached = decode(model, source, chosen), decode(model, source, chosen, cached=False)
    assert [decoded.ids for decoded in cached] == [decoded.ids for decoded in uncached]
    assert 4 in {node.token for decoded in cached for node in decoded.tree.nodes}
    for row, decoded in zip(source, cached, strict=True):
        forced = teacher_forced(model, row[None], torch.tensor([[BOS, *decoded.ids]]))
        assert forced[0].tolist() == pytest.approx(decoded.log_probs, abs=1e-12)


@few
@given(searches)
def test_companions_in_the_batch_change_nothing(search: dict[str, Any]) -> None:
    model, source, chosen, together = run(search)
    for row, decoded in zip(source, together, strict=True):
        alone = decode(model, row[row != PAD][None], chosen)[0]
        assert decoded.ids == alone.ids
        assert decoded.score == pytest.approx(alone.score, abs=1e-12)


@few
@given(searches)
def test_the_tree_is_consistent(search: dict[str, Any]) -> None:
    *_, chosen, found = run(search)
    for decoded in found:
        nodes = decoded.tree.nodes
        for i, node in enumerate(nodes):
            assert node.id == i
            if node.parent is None:
                assert (i, node.token, node.step, node.total) == (0, BOS, 0, 0.0)
                continue
            parent = nodes[node.parent]
            assert node.total == parent.total + node.log_prob
            assert node.step == parent.step + 1
            assert node.score == node.total / node.step**chosen.length_penalty
            assert parent.status == "kept"
            assert (node.status == "finished") <= (node.token == EOS)
            assert (node.status == "cut") <= (node.step == chosen.max_length)
            assert node.token not in (PAD, BOS)
        by_step = {step: list(group) for step, group in itertools.groupby(nodes[1:], key=lambda node: node.step)}
        assert max(by_step) <= chosen.max_length
        for group in by_step.values():
            assert [node.rank for node in group] == list(range(len(group)))
            assert [node.total for node in group] == sorted((node.total for node in group), reverse=True)
            assert len(group) <= 2 * chosen.beam
            assert sum(node.status in ("kept", "cut") for node in group) <= chosen.beam


@few
@given(searches)
def test_the_answer_is_the_best_finished_hypothesis(search: dict[str, Any]) -> None:
    *_, found = run(search)
    for decoded in found:
        tree = decoded.tree
        finished = [node for node in tree.nodes if node.status == "finished"]
        rivals = finished or [node for node in tree.nodes if node.status == "cut"]
        assert tree.best.score == max(node.score for node in rivals)
        assert decoded.finished == bool(finished)
        assert decoded.finished == (decoded.ids[-1] == EOS)
        assert all(node.status == "kept" for node in tree.lineage(tree.best.id)[:-1])
        assert decoded.ids == tuple(tree.path(tree.best.id))
        assert decoded.log_prob == pytest.approx(sum(decoded.log_probs), abs=1e-12)
        scores = [node.score for node in tree.hypotheses() if node.status == "finished"]
        assert scores == sorted(scores, reverse=True)
        assert decoded.score == tree.best.score


@few
@given(searches)
def test_log_probabilities_are_those_of_a_forced_pass(search: dict[str, Any]) -> None:
    model, source, _, found = run(search)
    for row, decoded in zip(source, found, strict=True):
        forced = teacher_forced(model, row[row != PAD][None], torch.tensor([[BOS, *decoded.ids]]))
        assert forced[0].tolist() == pytest.approx(decoded.log_probs, abs=1e-12)


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
    assert found.score == pytest.approx(best, abs=1e-12)


def test_a_wider_beam_finds_what_greedy_misses() -> None:
    """Token 3 looks better at first (0.6), but only token 4 (0.4) goes on well."""
    start = torch.tensor([0.0, 0.0, 0.0, 0.6, 0.4]).log().tolist()
    after_three = torch.tensor([0.0, 0.0, 0.1, 0.45, 0.45]).log().tolist()
    after_four = torch.tensor([0.0, 0.0, 1.0, 0.0, 0.0]).log().tolist()
    model = Scripted({BOS: start, 3: after_three, 4: after_four})
    source = torch.tensor([[3]])
    greedy = decode(model, source, DecodingOptions(beam=1, length_penalty=0.0, max_length=2))[0]
    wide = decode(model, source, DecodingOptions(beam=2, length_penalty=0.0, max_length=2))[0]
    assert greedy.ids == (3, 3)
    assert not greedy.finished
    assert wide.ids == (4, EOS)
    assert wide.log_prob == pytest.approx(torch.tensor(0.4).log().item())


def test_ties_go_to_the_better_parent_then_to_the_lower_token() -> None:
    even = [0.0, 0.0, -9.0, 0.0, 0.0]
    model = Scripted({BOS: even, 3: even, 4: even})
    tree = decode(model, torch.tensor([[3]]), DecodingOptions(beam=2, max_length=2))[0].tree
    assert [(node.token, node.parent) for node in tree.nodes if node.step == 1][:2] == [(3, 0), (4, 0)]
    assert [(node.token, node.parent) for node in tree.nodes if node.step == 2] == [(3, 1), (4, 1), (3, 2), (4, 2)]
    assert [node.status for node in tree.nodes if node.step == 2] == ["cut", "cut", "pruned", "pruned"]


def test_a_sentence_ends_when_enough_hypotheses_are_finished() -> None:
    """What still lived then is pruned: no later step could be compared with it fairly."""
    ending = [0.0, 0.0, 2.0, 1.0, -1.0]
    found = decode(Scripted({BOS: ending, 3: ending, 4: ending}), torch.tensor([[3]]), DecodingOptions(beam=2))[0]
    assert [node.status for node in found.tree.nodes] == [
        "kept",
        "finished",
        "kept",
        "kept",
        "finished",
        *["pruned"] * 3,
    ]
    assert found.ids == (EOS,)


def test_at_the_last_step_what_is_left_is_cut_unless_enough_others_are_finished() -> None:
    ending = [0.0, 0.0, 2.0, 1.0, -1.0]
    even = [0.0, 0.0, -9.0, 0.5, 0.0]
    for table, statuses in ((ending, ["finished", "pruned"]), (even, ["cut", "pruned"])):
        found = decode(Scripted({BOS: table}), torch.tensor([[3]]), DecodingOptions(beam=1, max_length=1))[0]
        assert [node.status for node in found.tree.nodes[1:]] == statuses
        assert found.finished == (table is ending)
    both = decode(Scripted({BOS: ending}), torch.tensor([[3]]), DecodingOptions(beam=2, max_length=1))[0]
    assert [node.status for node in both.tree.nodes[1:]] == ["finished", "cut", "cut"]
    assert [node.token for node in both.tree.hypotheses()] == [EOS, 3, 4]


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


def test_the_default_is_a_beam_of_five_and_nothing_decodes_to_nothing() -> None:
    model, source = tiny_model(), sources(0, 2)
    assert decode(model, source) == decode(model, source, DecodingOptions(5, 1.0, 100))
    assert decode(model, source[:0]) == []


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


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_model_that_predicts_no_distribution_is_refused(bad: float) -> None:
    with pytest.raises(CheckpointError, match="weights are damaged"):
        decode(Scripted({BOS: [0.0, 0.0, bad, 0.0, 0.0]}), torch.tensor([[3]]))


def test_a_model_that_gives_no_token_a_chance_is_refused() -> None:
    with pytest.raises(CheckpointError, match="nothing that could be written"):
        decode(Scripted({BOS: [0.0, *[-torch.inf] * 4]}), torch.tensor([[3]]))


def test_a_path_through_the_tree_holds_the_tokens_without_the_start_mark() -> None:
    tree: BeamTree = decode(tiny_model(), sources(1, 1))[0].tree
    assert tree.path(0) == []
    leaf = tree.nodes[-1]
    line = tree.lineage(leaf.id)
    assert [node.step for node in line] == list(range(1, leaf.step + 1))
    assert tree.path(leaf.id) == [node.token for node in line]
    for node in (-1, len(tree.nodes)):
        with pytest.raises(InputError, match=f"node={node} is not in this tree"):
            tree.path(node)
