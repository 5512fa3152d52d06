"""The answers to the questions, each by a function of its question's name, computed from a run.

Every public function here answers one (`TRUTHS`).
"""

from collections.abc import Callable
from dataclasses import replace
from inspect import isfunction

import numpy as np
import torch

from transformer.attention.interventions.edits import intervening
from transformer.attention.interventions.value import Intervention
from transformer.attention.measures import entropy
from transformer.explain.attribution.result import groups
from transformer.explain.flow import lens
from transformer.lessons import masks
from transformer.lessons.attention import Recipe, growth, temperature_curve
from transformer.lessons.inside import embedding_board, feed_forward_board, residual_board
from transformer.lessons.masks import toy_batch
from transformer.lessons.pairs import REFERENCES, training_batch
from transformer.lessons.positions import Variant, likeness, position_table, rotation_errors, shuffle_gaps
from transformer.lessons.run import Run, in_float64
from transformer.lessons.sentences import source_sentence, target_sentence, toy_layers, toy_transformer
from transformer.nn.kmer import KmerClassifier, windows
from transformer.nn.masks import Mask
from transformer.nn.search import DecodingOptions
from transformer.nn.seq2seq import Seq2Seq
from transformer.runs.concurrency import run_of
from transformer.runs.translate import translate
from transformer.runs.what_if import head_sweep
from transformer.sites import Site
from transformer.teaching.case import Case, Live, Table, answer, choice, comparison
from transformer.training.snapshots import Learning
from transformer.training.tasks import Settings

BESIDE, LONGER = "zwei Hunde rennen", "ein Mann fährt ein rotes Fahrrad"
PAIRS = (("two dogs run", BESIDE), ("a man rides a red bicycle", LONGER))
"""The batch in which masks are asked about, that of the lesson; a typed sentence takes the place of the longer one."""

WIDE, HOT = 64, 4.0
"""The size of a head at which the gradient is asked for, and the temperature that is asked about."""

LENGTH, WIDTH = 40, 64
"""Rows and columns of the tables of positions that are compared."""

TABLES: tuple[Variant, ...] = ("paper", "doubled", "halves")
PLACES = ((0, 5), (10, 15), (20, 25))
"""Pairs of positions at the same distance, whose dot products are shown before the prediction."""

DRAW = 1
"""The shuffle that is asked about, with which the lesson begins."""

EXACT = 1e-9
"""A change below this is rounding."""

EVERY, LAST = 25, 1_000
"""Updates between two looks at a training, and the last of them."""

RIGHT, SHARP = 0.99, 0.9
"""Share of unseen sequences that counts as learnt, and the mean weight of a head that counts as sharp."""

LAYER = 2
"""The decoder layer whose cross-attention is weighed against the state (the last one, where there are fewer)."""

BINS = (0.5, 0.9)
"""Where the three answers about a probability part."""

ROOM = 8
"""Tokens that a changed model may write beyond the unchanged one, which is a change by then."""

POSITION = 3
"""The position whose next token is asked about, with which the lesson's address opens."""


def hidden_cells(live: Live) -> Case:
    """Cells of the causal mask that are hidden, of a decoder that reads as many tokens as the toy."""
    labels = live.toy[1].labels
    hidden = ~masks.table(Mask(causal=True), len(labels), len(labels), 0)
    return answer(hidden.sum(), {"n": len(labels)}, shown=Table(labels, labels, hidden.astype(float), 0))


def score_by_hand(live: Live) -> Case:
    """One dot product of a query and a key."""
    board = live.board()
    q, k, scores = board["Q0"], board["K0"], board["S0"].values
    row, column = min(1, len(scores) - 1), min(2, len(scores) - 1)
    query, key = q.rows[row], k.rows[column]
    given = Table((f"q({query})", f"k({key})"), q.columns, np.stack([q.values[row], k.values[column]]))
    return answer(scores[row, column], {"query": query, "key": key}, given=given)


def keys_in_order(live: Live) -> Case:
    """The keys of one row, by the weight that they get, most first."""
    found, row = drawn_row(live), Table.of(live.board()["A0"], 1)
    order = np.argsort(-np.array(found.answer), kind="stable").astype(float)
    return replace(found, answer=tuple(order.tolist()), cells=(row.rows, row.columns))


def drawn_row(live: Live) -> Case:
    """The weights of one row, from its scores."""
    board = live.board()
    given, shown = Table.of(board["D0"], 1), Table.of(board["A0"], 1)
    return Case(tuple(shown.values[0].tolist()), given.columns, {"query": given.rows[0]}, given=given, shown=shown)


def most_flattened_row(live: Live) -> Case:
    """The row whose entropy rises most when scores are divided by a temperature."""
    board = live.board(8)
    cold, hot = temperature_curve(board, 0, Recipe(), (1.0, HOT))
    rows = board["A0"].rows
    shown = Table(rows, ("T = 1", f"T = {HOT:g}"), np.stack([cold, hot], axis=1))
    return choice(rows, hot - cold, {"hot": HOT}, given=Table.of(board["A0"]), shown=shown, cells=(rows, ("",)))


def plus_five(live: Live) -> Case:
    """What adding one number to all scores of a row does to its weights."""
    given = Table.of(live.board()["D0"], 1)
    row = given.values[0]
    was, now = _softmax(row), _softmax(row + 5)
    drawn = [Table(rows, given.columns, np.stack(of)) for rows, of in ((("s",), [row]), (("s", "s + 5"), [was, now]))]
    results = {"largest": float(np.abs(now - was).max())}
    return comparison(now.max(), was.max(), results=results, given=drawn[0], shown=drawn[1])


def blind_row(live: Live) -> Case:
    """A weight in a row in which every key is hidden by a large negative number."""
    shown = Table.of(live.board(side="decoder", recipe=Recipe(blind=0, hiding="large"))["A0"], 0)
    return answer(shown.values[0, 0], {"n": len(shown.columns), "query": shown.rows[0]}, shown=shown)


def one_head_instead(live: Live) -> Case:
    """Mean entropy of one head as wide as four together, beside that of the four."""
    boards = {heads: live.board(8, 4, Recipe(n_heads=heads)) for heads in (4, 1)}
    four, one = (np.mean([entropy(of[f"A{i}"].values) for i in range(heads)]) for heads, of in boards.items())
    return comparison(four, one, results={"four": four, "one": one}, given=Table.of(boards[4]["A0"]))


def columns_read(live: Live) -> Case:
    """Columns of X that the second head's queries depend on: those whose row of its matrix W is not all zeros."""
    board = live.board()
    shown = Table.of(board["W_Q1"], digits=1)
    d_model, d_k = shown.values.shape
    read = shown.values.any(axis=1).sum()
    return answer(read, {"d_model": d_model, "d_k": d_k}, given=Table.of(board["X"]), shown=shown)


def gradient_without_root(live: Live) -> Case:  # noqa: ARG001  (drawn vectors, no sentence)
    """Gradient of the softmax at d_k = 64 without the root: mean of the largest entry of its Jacobian."""
    found = growth()
    without, with_root = found.gradient[:, found.sizes.index(WIDE)].tolist()
    given = Table(("√d_k",), tuple(f"d_k = {size}" for size in found.sizes), found.gradient[1:])
    return answer(without, {"with_root": with_root, "d_k": WIDE}, given=given)


def visible_words(live: Live) -> Case:
    """The tokens that one token of the shorter target sees, in the decoder of a padded batch."""
    texts = [BESIDE, live.typed or LONGER]
    view = masks.mask_view(toy_batch(texts, texts)[0], "both", 0)
    query = min(2, len(view.queries) - 1)
    seen = tuple(np.flatnonzero(view.visible[query]).astype(float).tolist())
    shown = Table((view.queries[query],), view.keys, view.visible[[query]].astype(float), 0)
    asked, results = {"query": view.queries[query], "n": len(view.keys)}, {"count": len(seen)}
    return Case(seen, view.keys, asked, results, shown=shown, cells=(shown.rows, view.keys))


def shuffled(live: Live) -> Case:
    """Outputs of the encoder that move when its tokens are shuffled, without positions and with them."""
    model, sentence = live.checkpoint.model_as(Seq2Seq), live.source
    order = np.random.default_rng(DRAW).permutation(len(sentence.ids)).tolist()
    without, with_them = (shuffle_gaps(model, sentence, order, positions) for positions in (False, True))
    shown = Table(sentence.labels, ("no positions", "positions"), np.stack([without, with_them], axis=1))
    given = Table.empty(tuple(sentence.labels[i] for i in order), ("Δ",))
    results = {"most": float(with_them.max())}
    return answer((without > EXACT).sum(), {"n": len(order)}, results=results, given=given, shown=shown)


def table_with_a_slip(live: Live) -> Case:
    """Which of three tables was made with the exponent doubled; in what order they stand depends on the sentence."""
    turn = sum(map(ord, live.typed)) % len(TABLES)
    tables = [position_table(one, LENGTH, WIDTH) for one in (*TABLES[turn:], *TABLES[:turn])]
    products = [one @ one.T for one in tables]
    letters, values = tuple("ABC"), np.array([[one[pair] for pair in PLACES] for one in products])
    given, distance = Table(letters, tuple(f"p{i}·p{j}" for i, j in PLACES), values, 2), PLACES[0][1]
    spreads = [likeness(one).spread for one in products]
    return choice(letters, spreads, {"distance": distance}, given=given, cells=(letters, ("",)))


def rotation_and_place(live: Live) -> Case:  # noqa: ARG001  (a formula, no sentence)
    """Whether the matrix that leads from position p to p + 3 is the same for all p: how far it misses the table."""
    worst = float(rotation_errors(position_table("paper", LENGTH, WIDTH), 3).max())
    return answer(worst < EXACT, results={"worst": worst, "rows": LENGTH - 3})


def share_of_position(live: Live) -> Case:
    """What part of the squared length of a token's vector its position is, in percent, on average."""
    board = embedding_board(Run(in_float64(live.checkpoint.model_as(Seq2Seq)), live.source, None), "encoder")
    return _percent(live.source.labels, board["g"].values, unscaled=100 * float(board["gU"].values.mean()))


def answers_or_diagonal(live: Live) -> Case:  # noqa: ARG001  (letters, no sentence)
    """Whether right answers come before a sharp head (0) or after it (1), where a run learns to reverse letters."""
    run = Learning(Settings())
    accuracy = weight = 0.0
    while accuracy < RIGHT and weight <= SHARP and run.update < LAST:
        run.advance(run.update + EVERY)
        found = run.snapshot(keeps=False).measures
        accuracy, weight = found.accuracy, found.sharpest[2] if found.sharpest else 0.0
    asked = {"length": run.settings.held_out().shape[1]}
    results = {"update": run.update, "accuracy": accuracy, "weight": weight}
    given = Table.empty((f"{RIGHT:.0%}", f"{SHARP:g}"), tuple(map(str, range(EVERY, 10 * EVERY, EVERY))))
    return answer(accuracy < RIGHT, asked, results=results, given=given)


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
    return answer(hits, {**deciding.asked, "word": deciding.explained["best"], "heads": len(largest)})


def layer_that_knows(live: Live) -> Case:
    """The first decoder layer from which on the middle token is the likeliest to the end, by the logit lens."""
    run, step = live.translation, live.middle
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
    likeliest = steps[min(POSITION, len(steps) - 1)].likeliest
    best, asked = likeliest[0], {"read": _typed("".join(one.text for one in steps[:POSITION]))}
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
    """The log-probability of a translation by hand, or of the model's own greedy text where there is none."""
    own = live.translation
    target = REFERENCES.get(live.text) or live.again(beam=1).text
    forced = translate(live.checkpoint, live.text, forced=target)
    texts, chances = zip(*((one.text, [one.probability]) for one in forced.steps), strict=True)
    asked = {"target": target, "own": own.log_prob, "text": own.text}
    return answer(forced.log_prob, asked, shown=Table(texts, ("p",), np.array(chances)))


def heads_that_can_go(live: Live) -> Case:
    """Heads that can be set to zero, one at a time, without changing a letter of the greedy translation."""
    clean, record = live.again(beam=1), live.translation.record
    options = DecodingOptions(beam=1, max_length=len(clean.target_ids) + ROOM)
    without = []
    for site, head in ((one, head) for one in record.sites for head in range(record[one].n_heads)):
        with intervening([Intervention(site, "zero", heads=(head,))]):
            without.append(translate(live.checkpoint, live.text, options).text)
    return answer(without.count(clean.text), {"n": len(without), "text": clean.text})


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
    return answer(above.any(axis=0).sum(), asked, results=results, given=given)


def start_on_itself(live: Live) -> Case:
    """The weight that the first token of the decoder puts on itself in masked self-attention."""
    found = live.translation.record[Site("decoder.0.self")]
    shown = Table(found.queries.labels[:1], found.keys.labels, found.weights(0)[:1].astype(float))
    return answer(shown.values[0, 0], {"token": shown.columns[0]}, shown=shown)


def shifted_mask_loss(live: Live) -> Case:
    """The loss with a causal mask that is shifted by one, beside that with the right one."""
    batch, _ = _batch(live)
    right, wrong = (masks.damage(live.checkpoint, batch, how) for how in ("right", "shift"))
    results = {"broken": wrong.loss, "same": float(right.translations == wrong.translations)}
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
    """The token that the decoder is to write at the fourth position of a training pair."""
    target = REFERENCES.get(live.text) or live.translation.text
    batch = training_batch(live.checkpoint, [(live.text, target)])
    read, labels = batch.read[0], batch.labels[0]
    at = min(POSITION, len(labels) - 1)
    options = tuple(dict.fromkeys((read[at - 1], read[at], labels[at], labels[min(at + 1, len(labels) - 1)])))
    asked, results = {"column": at + 1, "read": " ".join(read)}, {"read": read[at], "label": labels[at]}
    given = Table.empty(("→",), tuple(f"{i}: {one}" for i, one in enumerate(read, 1)))
    return choice(options, (), asked, options.index(labels[at]), results=results, given=given)


def windows_of_a_sequence(live: Live) -> Case:
    """Positions of a k-mer classifier's encoder: windows of all widths over a short sequence."""
    widths = tuple(live.checkpoint.model_as(KmerClassifier).config.widths)
    letters = 2 * max(widths)
    return answer(len(windows(letters, widths)), {"n": letters, "widths": " · ".join(map(str, widths))})


def dot_and_cosine(live: Live) -> Case:
    """Whether some query has another best key by dot product than by cosine."""
    board = live.board()
    q, k, scores = board["Q0"].values, board["K0"].values, board["S0"].values
    lengths = np.outer(np.linalg.norm(q, axis=1), np.linalg.norm(k, axis=1))
    by_angle = np.divide(scores, lengths, where=lengths > 0, out=np.full(lengths.shape, -2.0))
    rows = int((scores.argmax(1) != by_angle.argmax(1)).sum())
    return answer(rows > 0, results={"rows": rows, "n": len(scores)})


def one_input(live: Live) -> Case:
    """Whether Q, K and V are more than one X times their matrices: the largest difference is rounding, or not."""
    board = live.board()
    x = board["X"].values
    worst = max(np.abs(board[f"{one}0"].values - x @ board[f"W_{one}0"].values).max() for one in "QKV")
    return answer(worst > EXACT, results={"worst": float(worst)})


def zero_after(live: Live) -> Case:
    """The sum of the first row of a decoder's weights, if hidden ones were set to zero after the softmax, beside 1."""
    board = live.board(side="decoder")
    seen = ~np.isneginf(board["M0"].values[0])
    total = float(_softmax(board["D0"].values)[0][seen].sum())
    return comparison(total, 1.0, {"query": board["M0"].rows[0]}, results={"sum": total})


def padding_rows(live: Live) -> Case:  # noqa: ARG001  (the lesson's own batch)
    """Whether no row of padding, in a padded batch, sees a key."""
    view = masks.mask_view(toy_batch([BESIDE, LONGER], [BESIDE, LONGER])[0], "both", 0)
    padding = view.visible[~view.keys_real]
    rows = int(padding.any(axis=1).sum())
    return answer(rows == 0, {"n": len(padding)}, results={"rows": rows})


def rows_without_root(live: Live) -> Case:
    """Whether some row does not sum to 1 without the root; the sum of the one that is furthest from 1."""
    sums = live.board(recipe=Recipe(scaled=False))["A0"].values.sum(axis=1)
    furthest = float(sums[np.abs(sums - 1).argmax()])
    return answer(abs(furthest - 1) > EXACT, results={"sum": furthest})


def alone(live: Live) -> Case:
    """Whether outputs of a feed-forward network at other positions change when the first position changes."""
    net, reads = Run(in_float64(toy_layers(4, seed=1)), *live.toy).feed_forward("encoder", 0)
    other = reads.clone()
    other[0] += 1
    with torch.no_grad():
        moved = (net(other[None])[0] - net(reads[None])[0]).abs().amax(dim=1)
    rows = int((moved[1:] > EXACT).sum())
    return answer(rows > 0, {"n": len(reads)}, results={"rows": rows})


def parameters_of_heads(live: Live) -> Case:  # noqa: ARG001  (counted, no sentence)
    """Parameters of a toy of width 8 with four heads, beside those with one."""
    one, four = (sum(p.numel() for p in toy_transformer(8, heads, seed=1).parameters()) for heads in (1, 4))
    return comparison(float(four), float(one), {"one": one}, results={"four": four})


def rows_of_cross(live: Live) -> Case:
    """Whether a map of cross-attention has a row for each target token."""
    run, rows = live.translation, len(live.cross[0].weights(0))
    results = {"rows": rows, "target": len(run.target_ids), "source": len(run.source_ids)}
    return answer(rows == len(run.target_ids), results=results)


def column_sums(live: Live) -> Case:
    """Whether some column does not sum to 1; the sum of the one that is furthest from 1."""
    weights = live.board()["A0"]
    sums = weights.values.sum(axis=0)
    far = int(np.abs(sums - 1).argmax())
    results = {"key": weights.columns[far], "sum": float(sums[far])}
    return answer(abs(sums[far] - 1) > EXACT, results=results, shown=Table.of(weights))


def mean_of_heads(live: Live) -> Case:
    """Whether outputs move, and by what part of their length, when every head uses the mean of all heads' weights."""
    board = live.board()
    heads = [name for name in board if name.startswith("A")]
    mean = np.mean([board[name].values for name in heads], axis=0)
    mixed = np.concatenate([mean @ board[f"V{head}"].values for head in range(len(heads))], axis=1)
    own = board["O"].values
    moved = mixed @ board["W_O"].values - own
    most = float((np.linalg.norm(moved, axis=1) / np.linalg.norm(own, axis=1)).max())
    return answer(most > EXACT, results={"most": most})


def _softmax(scores: np.ndarray) -> np.ndarray:
    return torch.from_numpy(scores).softmax(-1).numpy()


def _typed(piece: str) -> str:
    """Pieces of words as a person types them."""
    return piece.replace("▁", " ").strip()


def _percent(labels: tuple[str, ...], shares: np.ndarray, **results: float) -> Case:
    """The mean of one share a position, in percent."""
    shown = Table(labels, ("%",), 100 * shares, 1)
    return answer(shown.values.mean(), results=results, given=Table.empty(labels, shown.columns), shown=shown)


def _swept(live: Live, pick: Callable[[np.ndarray], np.intp]) -> Case:
    """Which head `pick` chooses of the changes of log-probability that heads cause, set to zero one at a time."""
    found = list(head_sweep(live.checkpoint, live.translation, "zero"))
    names, changes = tuple(f"{site} · {head}" for site, head, _ in found), np.array([one[2] for one in found])
    sites, heads = (tuple(dict.fromkeys(str(one[i]) for one in found)) for i in range(2))
    cells = (sites, heads) if len(sites) * len(heads) == len(names) else None
    return choice(names, changes, {"n": len(names), "text": live.translation.text}, int(pick(changes)), cells=cells)


def _batch(live: Live) -> tuple[masks.Batch, tuple[str, ...]]:
    """The sentence and a shorter one, in one padded batch; and the sources as texts."""
    own = (live.text, REFERENCES.get(live.text) or live.translation.text)
    pairs = (PAIRS[0], own) if live.typed else PAIRS
    sources = [source_sentence(live.checkpoint, source) for source, _ in pairs]
    targets = [target_sentence(live.checkpoint, target) for _, target in pairs]
    batch = masks.Batch.for_model(sources, targets, live.checkpoint.model_as(Seq2Seq))
    return batch, tuple(source for source, _ in pairs)


TRUTHS: dict[str, Callable[[Live], Case]] = {
    name: one
    for name, one in list(globals().items())
    if isfunction(one) and one.__module__ == __name__ and not name.startswith("_")
}
"""The functions that know the answers, by name."""
