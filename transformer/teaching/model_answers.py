"""The answers to questions about a trained model, each by a function of its question's name, from a run of it."""

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import numpy as np
import torch

from ..attention.interventions.edits import intervening
from ..attention.interventions.value import Intervention
from ..explain.attribution.result import groups
from ..explain.flow import lens
from ..lessons import masks
from ..lessons.inside import embedding_board, feed_forward_board, residual_board
from ..lessons.pairs import REFERENCES, training_batch
from ..lessons.positions import shuffle_gaps
from ..lessons.run import Run, in_float64
from ..lessons.sentences import source_sentence, target_sentence
from ..nn.kmer import KmerClassifier, windows
from ..nn.masks import Mask
from ..nn.search import BeamTree, DecodingOptions
from ..nn.seq2seq import Seq2Seq
from ..runs.concurrency import run_of
from ..runs.translate import translate
from ..runs.what_if import head_sweep
from ..sites import Site
from .case import EXACT, Between, Case, Live, Table, answer, choice, comparison
from .toy_answers import BESIDE, LONGER

PAIRS = (("two dogs run", BESIDE), ("a man rides a red bicycle", LONGER))
"""The batch in which masks are asked about, that of the lesson; a typed sentence takes the place of the longer one."""

DRAW = 1
"""The shuffle that is asked about, with which the lesson begins."""

LAYER = 2
"""The decoder layer whose cross-attention is weighed against the state (the last one, where there are fewer)."""

BINS = (0.5, 0.9)
"""Where the three answers about a probability part."""

ROOM = 8
"""Tokens that a changed model may write beyond the unchanged one, which is a change by then."""

POSITION = 3
"""The position whose next token is asked about, with which the lesson's address opens."""


def shuffled(live: Live) -> Case:
    """Outputs of the encoder that move when its tokens are shuffled, without positions and with them."""
    model, sentence = live.checkpoint.model_as(Seq2Seq), live.source
    order = np.random.default_rng(DRAW).permutation(len(sentence.ids)).tolist()
    without, with_them = (shuffle_gaps(model, sentence, order, positions) for positions in (False, True))
    shown = Table(sentence.labels, ("no positions", "positions"), np.stack([without, with_them], axis=1))
    given = Table.empty(tuple(sentence.labels[i] for i in order), ("Δ",))
    results = {"most": float(with_them.max())}
    return answer((without > EXACT).sum(), {"n": len(order)}, results=results, given=given, shown=shown)


def share_of_position(live: Live) -> Case:
    """What part of the squared length of a token's vector its position is, in percent, on average."""
    board = embedding_board(Run(in_float64(live.checkpoint.model_as(Seq2Seq)), live.source, None), "encoder")
    return _percent(live.source.labels, board["g"].values, unscaled=100 * float(board["gU"].values.mean()))


def weights_of_a_map(live: Live) -> Case:
    """Numbers in the map of one head of cross-attention: a row a written token, a column a source token."""
    rows, columns = live.cross[-1].queries.labels, live.cross[-1].keys.labels
    asked = {"rows": len(rows), "columns": len(columns)}
    return answer(len(rows) * len(columns), asked, given=Table.empty(rows, columns))


def heads_of_the_model(live: Live) -> Case:
    """Heads of all attentions of the model."""
    counts = [each.n_heads for each in live.translation.record.values()]
    return answer(sum(counts), results={"sites": len(counts), "heads": max(counts)})


def deciding_word(live: Live) -> Case:
    """The source word without which the word in the middle of the translation loses most probability."""
    found = live.translation.attribution(live.checkpoint, words=True).only_source()
    parts = groups(live.translation.axes.written, True)
    row = next(i for i, part in enumerate(parts) if live.middle in part)
    lost, names, written = found.of_source[row], found.source.labels, (found.steps.labels[row],)
    shown = Table(written, names, lost[None], 2)
    return choice(names, lost, {"written": written[0]}, shown=shown, cells=(written, names))


def heads_that_point_there(live: Live) -> Case:
    """Heads of cross-attention whose largest weight, at the middle word, lies on the word that decides it."""
    deciding = deciding_word(live)
    columns = groups(live.translation.axes.source, True)[int(deciding.answer[0])]
    largest = [int(one.weights(head)[live.middle].argmax()) for one in live.cross for head in range(one.n_heads)]
    hits = sum(one in columns for one in largest)
    asked = {**deciding.asked, "word": deciding.explained["best"], "heads": len(largest)}
    return answer(hits, asked, possible=range(len(largest) + 1))


def layer_that_knows(live: Live) -> Case:
    """The decoder layer since which the token nearest to the middle that ends as the likeliest is so (logit lens)."""
    run = live.translation
    step = min(range(len(run.steps)), key=lambda i: (run.steps[i].rank > 0, abs(i - live.middle)))
    with run_of(live.checkpoint):
        ids = torch.tensor([run.source_ids]), torch.tensor([live.read])
        found = lens(live.checkpoint.model, *ids, run.target_ids)
    chances = found.final_probabilities[:, step]
    names = tuple(str(i) for i in range(len(chances)))
    best, shown = min(int(found.leads_from[step]), len(chances) - 1), Table(("p",), names, chances[None])
    asked = {"written": _typed(run.steps[step].text), "last": len(chances) - 1}
    return choice(names, chances, asked, best, shown=shown)


def sure_of_next(live: Live) -> Case:
    """In which of three ranges the probability of the likeliest token lies at one step."""
    steps = live.translation.steps
    at = min(POSITION, len(steps) - 1)
    likeliest = steps[at].likeliest
    best, asked = likeliest[0], {"read": _typed("".join(one.text for one in steps[:at]))}
    results = {"token": _typed(best.text), "probability": best.probability}
    given = Table.empty(("p",), tuple(sorted(one.text for one in likeliest)))
    return answer(np.searchsorted(BINS, best.probability), asked, results=results, given=given)


def greedy_or_beam(live: Live) -> Case:
    """Which of two searches finds the likelier text: 0 the beam, 1 both the same, 2 greedy."""
    greedy, beam = live.again(beam=1), live.translation
    results = {"greedy": greedy.log_prob, "beam": beam.log_prob, "text": beam.text, "other": greedy.text}
    written, chances = zip(*((one.text, one.probability) for one in greedy.steps), strict=True)
    given = Table(("p",), written, np.array([chances]))
    return comparison(beam.log_prob, greedy.log_prob, results=results, given=given)


def log_prob_of_a_reference(live: Live) -> Case:
    """The log-probability of another text than the model's own: a translation by hand, or the best that it dropped."""
    own, writer = live.translation, live.checkpoint.translator()[2]
    tree = cast(BeamTree, own.tree)  # nothing was forced
    searched = (writer.decode(tree.path(one.id)) for one in (*tree.hypotheses(), *tree.left_behind()))
    target = next(one for one in (REFERENCES.get(live.text), *searched) if one and one != own.text)
    forced = translate(live.checkpoint, live.text, forced=target)
    texts, chances = zip(*((one.text, one.probability) for one in forced.steps), strict=True)
    asked, least = {"target": target, "own": own.log_prob, "text": own.text}, int(np.argmin(chances))
    results = {"token": _typed(texts[least]), "cost": -float(np.log(chances[least]))}
    shown = Table(texts, ("p",), np.array(chances)[:, None])
    return answer(forced.log_prob, asked, results=results, shown=shown, possible=Between(high=0.0))


def heads_that_can_go(live: Live) -> Case:
    """Heads that can be set to zero, one at a time, without changing a letter of the greedy translation."""
    clean, record = live.again(beam=1), live.translation.record
    options = DecodingOptions(beam=1, max_length=len(clean.target_ids) + ROOM)
    without = []
    for site, head in ((one, head) for one in record.sites for head in range(record[one].n_heads)):
        with intervening([Intervention(site, "zero", heads=(head,))]):
            without.append(translate(live.checkpoint, live.text, options).text)
    asked = {"n": len(without), "text": clean.text}
    return answer(without.count(clean.text), asked, possible=range(len(without) + 1))


def most_hurtful_head(live: Live) -> Case:
    """The head whose loss costs the translation most log-probability."""
    return _swept(live, np.argmin)


def most_helpful_cut(live: Live) -> Case:
    """The head whose loss makes the translation likelier than any other head's."""
    return _swept(live, np.argmax)


def share_of_attention(live: Live) -> Case:
    """What part of the lengths cross-attention adds to the state, in percent: the mean, and the range."""
    layer = min(LAYER, live.run.n_layers("decoder") - 1)
    shares = residual_board(live.run, "decoder", layer, "cross")["c"].values
    low, high = (100 * float(one) for one in (shares.min(), shares.max()))
    return replace(_percent(live.run.labels("decoder"), shares, low=low, high=high), asked={"layer": layer})


def units_that_fire(live: Live) -> Case:
    """Hidden units of the last decoder layer's feed-forward network that are above zero at some position."""
    layer = live.run.n_layers("decoder") - 1
    above = feed_forward_board(live.run, "decoder", layer)["B"].values > 0
    asked, results = {"units": above.shape[1], "layer": layer}, {"at_once": 100 * float(above.mean())}
    given = Table.empty(live.run.labels("decoder"), ("> 0",))
    return answer(above.any(axis=0).sum(), asked, results=results, given=given, possible=range(above.shape[1] + 1))


def start_on_itself(live: Live) -> Case:
    """The weight that the first token of the decoder puts on itself in masked self-attention."""
    found = live.translation.record[Site("decoder.0.self")]
    shown = Table(found.queries.labels[:1], found.keys.labels, found.weights(0)[:1].astype(float))
    return answer(shown.values[0, 0], {"token": shown.columns[0]}, shown=shown, possible=Between(0.0, 1.0))


def shifted_mask_loss(live: Live) -> Case:
    """The loss with a causal mask that is shifted by one, beside that with the right one."""
    batch, _ = _batch(live)
    right, wrong = (masks.damage(live.checkpoint, batch, how) for how in ("right", "shift"))
    same = sum(one == other for one, other in zip(right.translations, wrong.translations, strict=True))
    results = {"broken": wrong.loss, "same": same, "n": len(right.translations)}
    n = int(batch.real[1][0].sum())
    tokens = batch.target_labels[0][:n]
    mask = masks.table(masks.broken_mask(Mask(causal=True), "shift", n, n), n, n, 0)
    given = Table(tokens, tokens, mask.astype(float), 0)
    return comparison(wrong.loss, right.loss, {"right": right.loss}, results=results, given=given)


def without_padding_mask(live: Live) -> Case:
    """The sentence of a batch that puts most weight on padding when the padding mask is left out."""
    batch, texts = _batch(live)
    exact = masks.batch_run(masks.broken(live.checkpoint, "no_padding").model_as(Seq2Seq), batch)
    site = next(one for one in exact.sites if one.group == "encoder.self")
    found = [
        masks.attended(exact, batch, site, 0, row).weights[:length, length:].sum(axis=1).mean()
        for row, length in enumerate(batch.real[0].sum(axis=1))
    ]
    return choice(texts, found)


def label_of_training(live: Live) -> Case:
    """The token that the decoder is to write near the fourth position of a training pair, where it reads another."""
    target = REFERENCES.get(live.text) or live.translation.text
    batch = training_batch(live.checkpoint, [(live.text, target)])
    read, labels = batch.read[0], batch.labels[0]
    at = min(range(len(labels)), key=lambda i: (labels[i] == read[i], abs(i - POSITION)))
    options = tuple(dict.fromkeys((read[at - 1], read[at], labels[at], labels[min(at + 1, len(labels) - 1)])))
    asked, results = {"column": at + 1, "read": " ".join(read)}, {"read": read[at], "label": labels[at]}
    given = Table.empty(("→",), tuple(f"{i}: {one}" for i, one in enumerate(read, 1)))
    return choice(options, (), asked, options.index(labels[at]), results=results, given=given)


def windows_of_a_sequence(live: Live) -> Case:
    """Positions of a k-mer classifier's encoder: windows of all widths over a short sequence."""
    widths = tuple(live.checkpoint.model_as(KmerClassifier).config.widths)
    letters = 2 * max(widths)
    return answer(len(windows(letters, widths)), {"n": letters, "widths": ", ".join(map(str, widths))})


def rows_of_cross(live: Live) -> Case:
    """Whether a map of cross-attention has a row for each target token."""
    run, rows = live.translation, len(live.cross[0].weights(0))
    results = {"rows": rows, "target": len(run.target_ids), "source": len(run.source_ids)}
    return answer(rows == len(run.target_ids), results=results)


def _typed(piece: str) -> str:
    """Pieces of words as a person types them."""
    return piece.replace("▁", " ").strip()


def _percent(labels: tuple[str, ...], shares: np.ndarray, **results: float) -> Case:
    """The mean of one share a position, in percent."""
    shown = Table(labels, ("%",), 100 * shares, 1)
    given, possible = Table.empty(labels, shown.columns), Between(0.0, 100.0)
    return answer(shown.values.mean(), results=results, given=given, shown=shown, possible=possible)


def _swept(live: Live, pick: Callable[[np.ndarray], np.intp]) -> Case:
    """Which head `pick` chooses of the changes of log-probability that heads cause, set to zero one at a time."""
    found = list(head_sweep(live.checkpoint, live.translation, "zero"))
    names, changes = tuple(f"{site} · {head}" for site, head, _ in found), np.array([one[2] for one in found])
    sites, heads = (tuple(dict.fromkeys(str(one[i]) for one in found)) for i in range(2))
    cells = (sites, heads) if len(sites) * len(heads) == len(names) else None
    return choice(names, changes, {"n": len(names), "text": live.translation.text}, int(pick(changes)), cells=cells)


def _batch(live: Live) -> tuple[masks.Batch, tuple[str, ...]]:
    """The sentence and one of another length, in one padded batch; and the sources as texts."""
    own = (live.text, REFERENCES.get(live.text) or live.translation.text)
    others = (one for one in PAIRS if len(source_sentence(live.checkpoint, one[0]).ids) != len(live.source.ids))
    pairs = (next(others), own) if live.typed else PAIRS
    sources = [source_sentence(live.checkpoint, source) for source, _ in pairs]
    targets = [target_sentence(live.checkpoint, target) for _, target in pairs]
    batch = masks.Batch.for_model(sources, targets, live.checkpoint.model_as(Seq2Seq))
    return batch, tuple(source for source, _ in pairs)
