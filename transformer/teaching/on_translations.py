"""Answers to questions about a trained translator on one sentence: its heads, its layers, its words."""

from functools import partial

import numpy as np
import torch

from transformer.attention.interventions.value import Intervention
from transformer.explain.attribution.result import groups
from transformer.explain.flow.lens import lens
from transformer.lessons.architectures.pairs import REFERENCES, training_batch
from transformer.lessons.breaking import Break, Damage, broken, broken_mask, damage
from transformer.lessons.inside.boards import feed_forward_board, residual_board
from transformer.lessons.masks import Batch, attended, batch_run, table
from transformer.lessons.sentences import source_sentence, target_sentence
from transformer.nn.kmer import KmerClassifier
from transformer.nn.kmers import windows
from transformer.nn.masks import Mask
from transformer.nn.search import DecodingOptions
from transformer.nn.seq2seq import Seq2Seq
from transformer.runs.changed import run_of
from transformer.runs.translate import translate
from transformer.runs.what_if import decoded_again, head_sweep
from transformer.sites import Site
from transformer.teaching.case import Case, Live, Table, choice, truth, verdict

PAIRS = (("two dogs run", "zwei Hunde rennen"), ("a man rides a red bicycle", "ein Mann fährt ein rotes Fahrrad"))
"""The batch in which masks are broken, that of the lesson; a typed sentence takes the place of the second pair."""

LAYER = 2
"""The decoder layer whose cross-attention is weighed against the state (the last one, where there are fewer)."""

BINS = (0.5, 0.9)
"""Where the three answers about a probability part."""

ROOM = 8
"""Tokens that a changed model may write beyond the unchanged one, which is a change by then."""

POSITION = 3
"""The position whose next token is asked about, with which the lesson's address opens."""


@truth
def weights_of_a_map(live: Live) -> Case:
    """Numbers in the map of one head of cross-attention: a row a written token, a column a source token."""
    found = live.translation.record
    last = found[[site for site in found.sites if site.kind == "cross"][-1]]
    rows, columns = len(last.queries), len(last.keys)
    fields = {"rows": rows, "columns": columns}
    given = Table.empty(last.queries.labels, last.keys.labels)
    return Case((float(rows * columns),), asked=fields, told=fields, given=given)


@truth
def heads_of_the_model(live: Live) -> Case:
    """Heads of all attentions of the model."""
    counts = [each.n_heads for each in live.translation.record.values()]
    return Case((float(sum(counts)),), asked={}, told={"sites": len(counts), "heads": max(counts)})


@truth
def deciding_word(live: Live) -> Case:
    """The source word without which the word in the middle of the translation loses most probability."""
    found = live.translation.attribution(live.checkpoint, "deletion", words=True).only_source()
    row = _middle_word(live)
    lost = found.of_source[row]
    best = int(lost.argmax())
    names = found.source.labels
    fields = {"written": found.steps.labels[row], "word": names[best], "lost": float(lost[best])}
    case = choice(names, lost, best, **fields)
    shown = Table((found.steps.labels[row],), names, lost[None], 2)
    asked, cells = {"written": fields["written"]}, (shown.rows, names)
    return Case(case.answer, names, asked, fields, case.scores, shown=shown, cells=cells)


@truth
def heads_that_point_there(live: Live) -> Case:
    """Heads of cross-attention whose largest weight, at the middle word, lies on the word that decides it."""
    deciding = deciding_word(live)
    record, source = live.translation.record, live.translation.axes.source
    columns = groups(source, True)[int(deciding.answer[0])]
    step = live.middle
    sites = [site for site in record.sites if site.kind == "cross"]
    largest = [int(record[site].weights(head)[step].argmax()) for site in sites for head in range(record[site].n_heads)]
    hits = sum(one in columns for one in largest)
    asked = {"written": deciding.told["written"], "word": deciding.told["word"], "heads": len(largest)}
    return Case((float(hits),), asked=asked, told=asked)


@truth
def layer_that_knows(live: Live) -> Case:
    """The first decoder layer from which on the middle token is the likeliest to the end, by the logit lens."""
    run, step = live.translation, live.middle
    bos = live.checkpoint.translator()[0].config.bos_id
    read = torch.tensor([[bos, *run.target_ids[:-1]]])
    with run_of(live.checkpoint):
        found = lens(live.checkpoint.model, torch.tensor([run.source_ids]), read, run.target_ids)
    chances = found.final_probabilities[:, step]
    best = min(int(found.leads_from[step]), len(chances) - 1)
    names = tuple(str(i) for i in range(len(chances)))
    fields = {"written": _typed(run.steps[step].text), "layer": best, "last": len(chances) - 1}
    case = choice(names, chances, best, **fields)
    asked = {"written": fields["written"], "last": fields["last"]}
    return Case(case.answer, names, asked, fields, case.scores, shown=Table(("p",), names, chances[None]))


@truth
def sure_of_next(live: Live) -> Case:
    """In which of three ranges the probability of the likeliest token lies at one step."""
    step = live.translation.steps[min(POSITION, len(live.translation.steps) - 1)]
    best = step.likeliest[0]
    read = _typed("".join(one.text for one in live.translation.steps[:POSITION]))
    told = {"token": _typed(best.text), "probability": best.probability}
    given = Table.empty(("p",), tuple(sorted(one.text for one in step.likeliest)))
    return Case((float(np.searchsorted(BINS, best.probability)),), asked={"read": read}, told=told, given=given)


@truth
def greedy_or_beam(live: Live) -> Case:
    """Which of two searches finds the likelier text: 0 the beam, 1 both the same, 2 greedy."""
    greedy, beam = live.again(beam=1), live.translation
    told = {"greedy": greedy.log_prob, "beam": beam.log_prob, "text": beam.text, "other": greedy.text}
    given = Table(
        ("p",), tuple(one.text for one in greedy.steps), np.array([[one.probability for one in greedy.steps]])
    )
    return Case(verdict(beam.log_prob, greedy.log_prob), told=told, given=given)


@truth
def log_prob_of_a_reference(live: Live) -> Case:
    """The log-probability of a translation by hand, or of the model's own greedy text where there is none."""
    own = live.translation
    target = REFERENCES.get(live.text) or live.again(beam=1).text
    forced = translate(live.checkpoint, live.text, forced=target)
    fields = {"target": target, "own": own.log_prob, "text": own.text}
    shown = Table(
        tuple(one.text for one in forced.steps), ("p",), np.array([[one.probability] for one in forced.steps])
    )
    return Case((forced.log_prob,), asked=fields, told=fields, shown=shown)


@truth
def heads_that_can_go(live: Live) -> Case:
    """Heads that can be set to zero, one at a time, without changing a letter of the greedy translation."""
    heads, clean = _heads(live), live.again(beam=1)
    longest = len(clean.target_ids) + ROOM
    options = DecodingOptions(beam=1, max_length=longest)
    again = partial(decoded_again, live.checkpoint, live.text, options)
    kept = sum(again([Intervention(site, "zero", heads=(head,))]).text == clean.text for site, head in heads)
    fields = {"n": len(heads), "text": clean.text}
    return Case((float(kept),), asked=fields, told=fields)


@truth
def most_hurtful_head(live: Live) -> Case:
    """The head whose loss costs the translation most log-probability."""
    return _swept(live, smallest=True)


@truth
def most_helpful_cut(live: Live) -> Case:
    """The head whose loss makes the translation likelier than any other head's."""
    return _swept(live, smallest=False)


@truth
def share_of_attention(live: Live) -> Case:
    """What part of the lengths cross-attention adds to the state, in percent: the mean, and the range."""
    layer = min(LAYER, live.run.n_layers("decoder") - 1)
    shares = 100 * residual_board(live.run, "decoder", layer, "cross")["c"].values[:, 0]
    told = {"low": float(shares.min()), "high": float(shares.max()), "layer": layer}
    shown = Table(live.run.labels("decoder"), ("%",), shares[:, None], 1)
    given = Table.empty(shown.rows, shown.columns)
    return Case((float(shares.mean()),), asked={"layer": layer}, told=told, given=given, shown=shown)


@truth
def units_that_fire(live: Live) -> Case:
    """Hidden units of the last decoder layer's feed-forward network that are above zero at some position."""
    layer = live.run.n_layers("decoder") - 1
    above = feed_forward_board(live.run, "decoder", layer)["B"].values > 0
    fields = {"units": above.shape[1], "layer": layer}
    told, given = {**fields, "at_once": 100 * float(above.mean())}, Table.empty(live.run.labels("decoder"), ("> 0",))
    return Case((float(above.any(axis=0).sum()),), asked=fields, told=told, given=given)


@truth
def start_on_itself(live: Live) -> Case:
    """The weight that the first token of the decoder puts on itself in masked self-attention."""
    found = live.translation.record[Site("decoder.0.self")]
    shown = Table(found.queries.labels[:1], found.keys.labels, found.weights(0)[:1].astype(float))
    return Case((float(found.weights(0)[0, 0]),), asked={"token": found.keys.labels[0]}, told={}, shown=shown)


@truth
def shifted_mask_loss(live: Live) -> Case:
    """The loss with a causal mask that is shifted by one, beside that with the right one."""
    right, wrong = _damages(live, "shift")
    told = {"right": right.loss, "broken": wrong.loss, "same": float(right.writes_like(wrong))}
    batch, _ = _batch(live)
    tokens = batch.target_labels[0][: batch.lengths[0][1]]
    mask = table(broken_mask(Mask(causal=True), "shift", len(tokens), len(tokens)), len(tokens), len(tokens), 0)
    given = Table(tokens, tokens, mask.astype(float), 0)
    return Case(verdict(wrong.loss, right.loss), asked={"right": right.loss}, told=told, given=given)


@truth
def transposed_mask_text(live: Live) -> Case:
    """Whether the translations stay the same, letter by letter, under a transposed causal mask: 0 they do, 1 not."""
    right, broken = _damages(live, "transpose")
    told = {"right": right.translations[0], "broken": broken.translations[0][:80]}
    return Case((float(not broken.writes_like(right)),), asked={"right": right.translations[0]}, told=told)


@truth
def without_padding_mask(live: Live) -> Case:
    """The sentence of a batch that puts most weight on padding when the padding mask is left out."""
    batch, texts = _batch(live)
    exact = batch_run(broken(live.checkpoint, "no_padding").model_as(Seq2Seq), batch)
    site = next(one for one in exact.sites if one.group == "encoder.self")
    found = []
    for row, (length, _) in enumerate(batch.lengths):
        weights = attended(exact, batch, site, 0, row).weights
        found.append(float(weights[:length, length:].sum(axis=1).mean()))
    worst = int(np.argmax(found))
    return choice(texts, found, worst, text=texts[worst], share=found[worst])


@truth
def label_of_training(live: Live) -> Case:
    """The token that the decoder is to write at the fourth position of a training pair."""
    target = REFERENCES.get(live.text) or live.translation.text
    batch = training_batch(live.checkpoint, [(live.text, target)])
    read, labels = batch.read[0], batch.labels[0]
    at = min(POSITION, len(labels) - 1)
    fields = {"column": at + 1, "read": read[at], "label": labels[at]}
    options = tuple(dict.fromkeys((read[at - 1], read[at], labels[at], labels[min(at + 1, len(labels) - 1)])))
    case = choice(options, (), options.index(labels[at]), **fields)
    asked = {"column": at + 1, "read": " ".join(read)}
    given = Table.empty(("→",), tuple(f"{i}: {one}" for i, one in enumerate(read, 1)))
    return Case(case.answer, options, asked, fields, given=given)


@truth
def windows_of_a_sequence(live: Live) -> Case:
    """Positions of a k-mer classifier's encoder: windows of all widths over a short sequence."""
    widths = tuple(live.checkpoint.model_as(KmerClassifier).config.widths)
    letters = 2 * max(widths)
    fields = {"n": letters, "widths": " · ".join(map(str, widths))}
    return Case((float(len(windows(letters, widths))),), asked=fields, told=fields)


def _typed(piece: str) -> str:
    """Pieces of words as a person types them."""
    return piece.replace("▁", " ").strip()


def _middle_word(live: Live) -> int:
    parts = groups(live.translation.axes.written, True)
    return next(i for i, part in enumerate(parts) if live.middle in part)


def _heads(live: Live) -> list[tuple[Site, int]]:
    record = live.translation.record
    return [(site, head) for site in record.sites for head in range(record[site].n_heads)]


def _swept(live: Live, smallest: bool) -> Case:
    found = list(head_sweep(live.checkpoint, live.translation, "zero"))
    changes = np.array([change for _, _, change in found])
    best = int(changes.argmin() if smallest else changes.argmax())
    names = tuple(f"{site} · {head}" for site, head, _ in found)
    case = choice(names, changes, best, head=names[best], change=float(changes[best]))
    asked = {"n": len(names), "text": live.translation.text}
    sites, heads = (tuple(dict.fromkeys(str(one[i]) for one in found)) for i in range(2))
    cells = (sites, heads) if len(sites) * len(heads) == len(names) else None
    return Case(case.answer, names, asked, case.told, case.scores, cells=cells)


def _batch(live: Live) -> tuple[Batch, tuple[str, ...]]:
    """The sentence and a shorter one, in one padded batch; and the sources as texts."""
    own = (live.text, REFERENCES.get(live.text) or live.translation.text)
    pairs = (PAIRS[0], own) if live.typed else PAIRS
    sources = [source_sentence(live.checkpoint, source) for source, _ in pairs]
    targets = [target_sentence(live.checkpoint, target) for _, target in pairs]
    return Batch.for_model(sources, targets, live.checkpoint.model_as(Seq2Seq)), tuple(source for source, _ in pairs)


def _damages(live: Live, how: Break) -> tuple[Damage, Damage]:
    batch, _ = _batch(live)
    return damage(live.checkpoint, batch, "right"), damage(live.checkpoint, batch, how)
