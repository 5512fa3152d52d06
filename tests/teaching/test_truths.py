"""Every answer against a computation of its own, for two sentences: by hand, or by plain forward passes."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args
from urllib.parse import parse_qsl, urlparse

import numpy as np
import pytest
import torch

from heedmap import Checkpoint, load
from heedmap.lessons import masks
from heedmap.lessons.sentences import source_sentence, target_sentence, toy_transformer
from heedmap.messages import LANGUAGES, catalogue
from heedmap.nn.seq2seq import Seq2Seq
from heedmap.teaching.answers import TRUTHS
from heedmap.teaching.case import Case, Live, judged
from heedmap.teaching.data import Kind, Reads, questions, steps, terms
from heedmap.teaching.model_answers import PAIRS
from ui.path.strip import page_path

ROOT = Path(__file__).parents[2]
TOY_WORDS = ("", "a red cat sleeps here")
SENTENCES = ("Someone is cooking dinner in a small kitchen.", "A man in a blue shirt is riding a bicycle.")


@pytest.fixture(scope="module")
def translator() -> Checkpoint:
    return load(ROOT / "checkpoints" / "multi30k-en-de")


@pytest.fixture(scope="module", params=SENTENCES)
def live(translator: Checkpoint, request: pytest.FixtureRequest) -> Live:
    return Live(translator, str(request.param))


@pytest.fixture(scope="module")
def asked(live: Live) -> "Translator":
    return Translator(live.checkpoint, live.text)


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def nats(weights: np.ndarray) -> np.ndarray:
    return -(weights * np.log(np.where(weights > 0, weights, 1))).sum(-1)


def chosen(case: Case) -> str:
    """The option that is the answer."""
    return case.options[int(case.answer[0])]


def sinusoids(n: int, d: int) -> np.ndarray:
    """The paper's table of positions."""
    place, column = np.mgrid[0:n, 0:d]
    angle = place / 10_000 ** (column // 2 * 2 / d)
    return np.where(column % 2, np.cos(angle), np.sin(angle))


KINDS = (("encoder", "self"), ("decoder", "self"), ("decoder", "cross"))


class Toy:
    """The lesson's toy by hand: numbers drawn in the order of its parameters, the sinusoids of the paper."""

    def __init__(self, text: str, d: int, heads: int, side: str = "encoder") -> None:
        state = {name: one.numpy() for name, one in toy_transformer(d, heads, seed=1).state_dict().items()}
        n = len(text.split()) or 4
        seen = list(dict.fromkeys(text.split())) or list(range(4))
        ids = [3 + seen.index(word) for word in (text.split() or range(4))]
        table = state[f"{'source' if side == 'encoder' else 'target'}_embedding.weight"]
        self.x = table[ids] * np.sqrt(d) + sinusoids(n, d)
        names = {name.rpartition(".")[0].rpartition(".")[2]: one for name, one in state.items()
                 if f"{side}.0.self_attention" in name and name.endswith("weight")}  # fmt: skip
        self.q, self.k, self.v = (self.x @ names[name].T for name in ("query", "key", "value"))
        self.weight_q, self.output, self.heads, self.d_k = names["query"], names["output"], heads, d // heads

    def scores(self, head: int, heads: int = 0) -> np.ndarray:
        width = self.q.shape[1] // (heads or self.heads)
        part = slice(head * width, (head + 1) * width)
        return self.q[:, part] @ self.k[:, part].T

    def entropy(self, heads: int) -> float:
        scale = np.sqrt(self.q.shape[1] // heads)
        return float(np.mean([nats(softmax(self.scores(head, heads) / scale)) for head in range(heads)]))


def of_toys(text: str) -> dict[str, tuple[float, ...]]:
    toy, n = Toy(text, 4, 2), len(text.split()) or 4
    scaled = toy.scores(0) / np.sqrt(2)
    wide = Toy(text, 8, 2)
    rise = nats(softmax(wide.scores(0) / 2 / 4)) - nats(softmax(wide.scores(0) / 2))
    halves = Toy(text, 8, 4)
    entropies = (halves.entropy(4), halves.entropy(1))
    return {
        "hidden_cells": (sum(j > i for i in range(n) for j in range(n)),),
        "score_by_hand": (sum(toy.q[1, :2] * toy.k[2, :2]),),
        "keys_in_order": tuple(float(i) for i in sorted(range(n), key=lambda i: -scaled[1, i])),
        "drawn_row": tuple(softmax(scaled)[1]),
        "most_flattened_row": (int(np.argmax(rise)),),
        "plus_five": (1,),
        "blind_row": (1 / n,),
        "one_head_instead": (0 if entropies[0] > entropies[1] else 2,),
        "columns_read": (sum(bool(column.any()) for column in toy.weight_q[2:].T),),
    }


def beliefs_about_toys(text: str) -> dict[str, tuple[int, str, float]]:
    """The right option where a common belief is among the options, and the number that the explanation gives."""
    toy, first = Toy(text, 4, 2), softmax(Toy(text, 4, 2, "decoder").scores(0) / np.sqrt(2))[0, 0]
    weights = [softmax(toy.scores(head) / np.sqrt(2)) for head in range(2)]
    lengths = np.outer(np.linalg.norm(toy.q[:, :2], axis=1), np.linalg.norm(toy.k[:, :2], axis=1))
    rows = int((toy.scores(0).argmax(1) != (toy.scores(0) / lengths).argmax(1)).sum())
    own = np.hstack([one @ toy.v[:, 2 * head : 2 * head + 2] for head, one in enumerate(weights)])
    moved = (np.mean(weights, axis=0) @ toy.v - own) @ toy.output.T
    most = (np.linalg.norm(moved, axis=1) / np.linalg.norm(own @ toy.output.T, axis=1)).max()
    column = max(weights[0].sum(axis=0), key=lambda one: abs(one - 1))
    return {
        "dot_and_cosine": (int(rows > 0), "rows", rows),
        "one_input": (0, "worst", 0),
        "zero_after": (2 if first < 1 else 1, "sum", first),
        "rows_without_root": (0, "sum", 1),
        "alone": (0, "rows", 0),
        "column_sums": (int(abs(column - 1) > 1e-9), "sum", column),
        "mean_of_heads": (int(most > 1e-9), "most", most),
    }


@pytest.mark.parametrize("text", TOY_WORDS)
def test_answers_about_the_toy_are_those_of_its_numbers_by_hand(text: str) -> None:
    for name, expected in of_toys(text).items():
        assert TRUTHS[name](Live(None, text)).answer == pytest.approx(expected, abs=1e-9), name


BELIEVED = {
    "dot_and_cosine": 0, "column_sums": 0, "zero_after": 1, "padding_rows": 1, "parameters_of_heads": 0,
    "mean_of_heads": 0, "one_input": 1, "rows_without_root": 1, "alone": 1, "rows_of_cross": 0,
}  # fmt: skip
"""The option that people often believe in, of questions about it."""


def test_what_people_often_believe_is_wrong_of_the_lesson_s_own_words(translator: Checkpoint) -> None:
    live = Live(translator)
    assert [name for name, option in BELIEVED.items() if TRUTHS[name](live).answer == (option,)] == []


@pytest.mark.parametrize("text", [*TOY_WORDS, "one two", "cat"])
def test_of_other_words_the_answer_is_what_their_run_shows(text: str) -> None:
    for name, (right, field, number) in beliefs_about_toys(text).items():
        case = TRUTHS[name](Live(None, text))
        assert (name, case.answer) == (name, (right,))
        assert case.explained[field] == pytest.approx(number, abs=1e-9), name


def test_answers_that_need_no_sentence() -> None:
    drawn = np.random.default_rng(0)
    scores = np.array([drawn.normal(size=(8, 64)) @ drawn.normal(size=64) for _ in range(4_000)])
    by_hand = (softmax(scores) * (1 - softmax(scores))).max(1).mean()
    assert TRUTHS["gradient_without_root"](Live(None)).answer[0] == pytest.approx(by_hand, abs=0.02)
    assert TRUTHS["rotation_and_place"](Live(None)).answer == (1,)
    right = sinusoids(40, 64)
    spread = max(np.ptp(np.diagonal(right @ right.T, k)) for k in range(40))
    for text in TOY_WORDS:
        case = TRUTHS["table_with_a_slip"](Live(None, text))
        assert max(np.delete(case.scores, int(case.answer[0]))) == pytest.approx(spread, abs=1e-9)
        assert case.scores[int(case.answer[0])] > 1
    for text, count in (("", 3), ("one two", 3)):
        case = TRUTHS["visible_words"](Live(None, text))
        assert [case.options[int(i)] for i in case.answer] == ["<s>", "zwei", "Hunde"][:count]
    case = TRUTHS["padding_rows"](Live(None))
    assert (case.answer, case.explained) == ((0,), {"n": 3, "rows": 3})
    case = TRUTHS["parameters_of_heads"](Live(None))
    assert case.answer == (1,)
    assert case.explained["one"] == case.explained["four"]
    assert TRUTHS["windows_of_a_sequence"](Live(load(ROOT / "checkpoints" / "splice-junctions"))).answer == (20 + 12,)
    case = TRUTHS["answers_or_diagonal"](Live(None))
    assert case.answer == (0,)
    assert case.results["accuracy"] >= 0.99
    assert case.results["weight"] <= 0.9


class Translator:
    """The shipped model, asked with plain forward passes."""

    def __init__(self, checkpoint: Checkpoint, text: str) -> None:
        self.model: Any
        self.model, self.reader, self.writer = checkpoint.translator()
        self.source = self.reader.source_ids(text)

    def log_p(self, target: list[int], source: list[int] | None = None, visible: Any = None) -> np.ndarray:
        read = torch.tensor([[self.model.config.bos_id, *target[:-1]]])
        with torch.no_grad():
            found = self.model(torch.tensor([source or self.source]), read, visible)[0].double().log_softmax(-1)
        return found.numpy()

    def greedy(self, at_most: int = 60) -> list[int]:
        ids: list[int] = []
        while not ids or (ids[-1] != self.model.config.eos_id and len(ids) < at_most):
            ids.append(int(self.log_p([*ids, 0])[-1].argmax()))
        return ids

    def total(self, target: list[int]) -> float:
        return float(self.log_p(target)[np.arange(len(target)), target].sum())

    @contextmanager
    def without(self, site: str, head: int) -> Iterator[None]:
        """Inside, the columns of W_O that read a head are zero."""
        stack, layer, kind = site.split(".")
        output = getattr(getattr(self.model, stack)[int(layer)], f"{kind}_attention").output
        width = output.weight.shape[1] // self.model.config.block.attention.n_heads
        part, before = slice(head * width, (head + 1) * width), output.weight.detach().clone()
        with torch.no_grad():
            output.weight[:, part] = 0
            yield
            output.weight.copy_(before)


def test_answers_about_the_translator_are_those_of_plain_forward_passes(live: Live, asked: Translator) -> None:
    written = list(live.translation.target_ids)
    answer = {name: TRUTHS[name](live) for name, one in questions().items() if one.reads == "translator"}
    log_p = asked.log_p(written)
    assert answer["weights_of_a_map"].answer == (len(written) * len(asked.source),)
    assert answer["rows_of_cross"].answer == (1,)
    sizes = {"rows": len(written), "target": len(written), "source": len(asked.source)}
    assert answer["rows_of_cross"].explained == sizes
    assert answer["heads_of_the_model"].answer == (48,)
    assert answer["start_on_itself"].answer == pytest.approx((1.0,))
    best = float(np.exp(log_p[3].max()))
    assert answer["sure_of_next"].answer == ((best > 0.5) + (best > 0.9),)
    greedy = asked.greedy()
    gap = asked.total(written) - asked.total(greedy)
    assert answer["greedy_or_beam"].answer == (1 if abs(gap) < 1e-6 else 0 if gap > 0 else 2,)
    reference = answer["log_prob_of_a_reference"]
    target = asked.writer.target_ids(str(reference.asked["target"]))[1:]
    assert reference.answer == pytest.approx((asked.total(target),), abs=1e-3)
    sites = [f"{side}.{i}.{kind}" for side, kind in KINDS for i in range(4)]
    changes, same = {}, 0
    for site in sites:
        for head in range(4):
            with asked.without(site, head):
                changes[f"{site} · {head}"] = asked.total(written)
                same += asked.greedy(len(greedy) + 8) == greedy
    assert chosen(answer["most_hurtful_head"]) == min(changes, key=changes.__getitem__)
    assert chosen(answer["most_helpful_cut"]) == max(changes, key=changes.__getitem__)
    assert answer["heads_that_can_go"].answer == (same,)
    assert chosen(answer["label_of_training"]) == asked.writer.labels(target)[3]


def test_answers_about_states_are_those_of_hooks(live: Live, asked: Translator) -> None:
    written, kept = list(live.translation.target_ids), dict[str, Any]()
    layer, last = asked.model.decoder[2], asked.model.decoder[3]
    reads = layer.cross_residual.register_forward_pre_hook(lambda _, given: kept.update(cross=given))
    with reads, last.feed_forward.widen.register_forward_hook(lambda _, given, found: kept.update(wide=found)):
        final = asked.log_p(written)
    x, found = (one[0].double().norm(dim=-1).numpy() for one in kept["cross"][:2])
    assert TRUTHS["share_of_attention"](live).answer == pytest.approx((100 * (found / (found + x)).mean(),), abs=1e-3)
    assert TRUTHS["units_that_fire"](live).answer == (int((kept["wide"][0] > 0).any(0).sum()),)
    step = live.middle
    assert final[step].argmax() == written[step]
    table = asked.model.source_embedding.weight[asked.source].detach().double().numpy() * np.sqrt(
        asked.model.config.block.d_model
    )
    places = asked.model.config.block.d_model / 2  # each pair of sine and cosine has length 1
    share = places / ((table**2).sum(1) + places)
    assert TRUTHS["share_of_position"](live).answer == pytest.approx((100 * share.mean(),), abs=1e-3)
    assert TRUTHS["shuffled"](live).answer == (0,)


def test_the_deciding_word_is_the_one_whose_hidden_keys_cost_most(live: Live, asked: Translator) -> None:
    """Hidden by a mask given to the model itself; and the heads that look there most, counted on the record's maps."""
    case, written = TRUTHS["deciding_word"](live), list(live.translation.target_ids)
    words, pieces = live.translation.axes.source.words, live.translation.axes.written.words
    rows = [i for i, word in enumerate(pieces) if word == pieces[live.middle]]
    shown, lost = asked.log_p(written), []
    for word in dict.fromkeys(words):
        visible = torch.tensor([[one != word for one in words]])
        hidden = asked.log_p(written, visible=visible)
        lost.append(sum(shown[i, written[i]] - hidden[i, written[i]] for i in rows))
    assert case.answer == (int(np.argmax(lost)),)
    assert case.scores == pytest.approx(lost, abs=1e-4)
    there = [i for i, word in enumerate(words) if list(dict.fromkeys(words)).index(word) == int(case.answer[0])]
    maps = [live.translation.record[f"decoder.{i}.cross"].weights(head) for i in range(4) for head in range(4)]
    hits = sum(int(one[live.middle].argmax()) in there for one in maps)
    assert TRUTHS["heads_that_point_there"](live).answer == (hits,)
    last = np.exp(shown[live.middle, written[live.middle]])
    assert TRUTHS["layer_that_knows"](live).scores[-1] == pytest.approx(float(last), abs=1e-4)


@pytest.mark.parametrize("text", ["", SENTENCES[1]])
def test_broken_masks_are_asked_about_on_the_lesson_s_batch_and_one_s_own_sentence(
    translator: Checkpoint, text: str
) -> None:
    """What a broken mask does to a batch is computed by hand in tests/lessons."""
    live = Live(translator, text)
    shift, padding = (TRUTHS[name](live) for name in ("shifted_mask_loss", "without_padding_mask"))
    pairs = [PAIRS[0], (text, live.translation.text)] if text else PAIRS
    read = [source_sentence(translator, source) for source, _ in pairs]
    written = [target_sentence(translator, target) for _, target in pairs]
    batch = masks.Batch.for_model(read, written, translator.model_as(Seq2Seq))
    right, broken = (masks.damage(translator, batch, how) for how in ("right", "shift"))
    assert (shift.explained["right"], shift.explained["broken"]) == (right.loss, broken.loss)
    assert shift.answer == (0 if broken.loss > right.loss else 2,)
    assert shift.explained["same"] == sum(map(str.__eq__, right.translations, broken.translations))
    run = masks.batch_run(masks.broken(translator, "no_padding").model_as(Seq2Seq), batch)
    lengths, weights = [len(one.ids) for one in read], [run.map("encoder.0.self", batch=i).weights(0) for i in (0, 1)]
    shares = [one[:n, n:].sum(1).mean() for one, n in zip(weights, lengths, strict=True)]
    assert padding.scores == pytest.approx(shares, abs=1e-6)
    assert padding.answer == (int(np.argmin(lengths)),)


def test_every_question_has_its_function_and_its_options_in_every_language() -> None:
    assert questions().keys() == TRUTHS.keys()
    assert len(questions()) == 44
    assert {one.kind for one in questions().values()} <= set(get_args(Kind))
    assert {one.reads for one in questions().values()} <= set(get_args(Reads))
    assert {one.question for one in steps()} - {""} <= questions().keys()
    assert {one.branch for one in steps()} >= {"tour", "what_if", "attribution", "recurrent", "sequences"}
    assert sum(one.branch == "tour" for one in steps()) == 18
    options = [f"questions.{one.name}_{i}" for one in questions().values() for i in range(one.fixed)]
    for code in LANGUAGES:
        assert {*options, *(f"glossary.{name}_is" for name in terms())} <= catalogue(code).keys()
    assert len(terms()) == 60


def test_a_wrong_prediction_says_by_how_much() -> None:
    live = Live(None)
    known = questions()
    score = TRUTHS["score_by_hand"](live)
    assert judged(known["score_by_hand"], score, (score.answer[0] + 0.3,)).off == pytest.approx(0.3)
    order = TRUTHS["keys_in_order"](live)
    swapped = (order.answer[1], order.answer[0], *order.answer[2:])
    assert judged(known["keys_in_order"], order, swapped).off == 2
    row = TRUTHS["drawn_row"](live)
    flat = judged(known["drawn_row"], row, (1.0,) * len(row.answer))
    assert not flat.right
    p, q = np.array(row.answer), np.full(len(row.answer), 1 / len(row.answer))
    middle = (p + q) / 2
    bits = 0.5 * (p * np.log2(p / middle)).sum() + 0.5 * (q * np.log2(q / middle)).sum()
    assert flat.off == pytest.approx(np.sqrt(bits))
    tenths = tuple(np.round(p, 1).tolist())
    assert judged(known["drawn_row"], row, tenths).right  # the picture's steps are fine enough
    flattened = TRUTHS["most_flattened_row"](live)
    wrong = (int(flattened.answer[0]) + 1) % len(flattened.options)
    expected = abs(flattened.scores[int(flattened.answer[0])] - flattened.scores[wrong])
    assert judged(known["most_flattened_row"], flattened, (float(wrong),)).off == pytest.approx(expected)


PLAN = Path(__file__).parents[2] / "docs" / "guide" / "teaching.md"


def test_the_plan_is_the_tour() -> None:
    rows = re.findall(r"^\| (\d+)\W(\d+) \| (\d+)\. .*? \| `(.*?)` \|$", PLAN.read_text(encoding="utf-8"), re.MULTILINE)
    tour = [one for one in steps() if one.branch == "tour"]
    assert len(rows) == len(tour)
    minute = 0
    for (begins, ends, label, address), one in zip(rows, tour, strict=True):
        assert (int(begins), int(ends), label) == (minute, minute + one.minutes, one.label)
        minute += one.minutes
        query = dict(parse_qsl(urlparse(address).query))
        assert urlparse(address).path.strip("/") == page_path(one.page)
        assert query.pop("tour") == one.label
        asked = {key: value for key, value in one.address.items() if key not in {"text", "source"}}
        assert {key: value for key, value in query.items() if key != "text"} == asked
    assert minute == 45
