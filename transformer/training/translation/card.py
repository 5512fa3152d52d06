"""The card of a translation checkpoint: its data, how to make it again, how good it is, what it cannot do."""

from dataclasses import dataclass
from typing import Any

from transformer.decoding.search import DecodingOptions
from transformer.runs.corpus import Bleu
from transformer.training.translation.corpora import Corpus


@dataclass(frozen=True)
class Scored:
    """One way to decode, and its score on the validation text."""

    options: DecodingOptions
    bleu: Bleu

    @property
    def how(self) -> str:
        """The way in words."""
        if self.options.beam == 1:
            return "greedy"
        return f"beam {self.options.beam}, length penalty {self.options.length_penalty:g}"


@dataclass(frozen=True)
class Facts:
    """Everything that a card says, as measured; the first score is that of the default decoding.

    `tokenizer` names the checkpoint whose tokenizer it took over, `limits` adds to those of the corpus. `before` is
    what the card of the checkpoint that the run went on from said of its training, as Markdown sections.
    """

    name: str
    command: str
    machine: str
    corpus: Corpus
    languages: tuple[str, str]
    pairs: tuple[int, int]
    size: str
    averaged: list[int]
    snapshots: list[int]
    curve: list[dict[str, Any]]
    scores: list[Scored]
    tokenizer: str | None = None
    limits: str = ""
    before: str = ""


def card(facts: Facts) -> str:
    """The card as Markdown."""
    best = facts.scores[0]
    source, target = facts.languages
    n_train, n_valid = facts.pairs
    seconds = facts.curve[-1]["seconds"]
    return f"""# {facts.name}

{facts.corpus.title}. {facts.size}

**{best.bleu.score:.1f} BLEU** on the validation split ({best.how}).

## Data and licence

{facts.corpus.origin}

{n_train:,} training pairs and {n_valid:,} validation pairs ({source} to {target}).
The tokenizer is {_origin(facts.tokenizer)}; the validation pairs only measure.

## How it was made

```
{facts.command}
```

{seconds:,.0f} seconds ({seconds / 3600:.1f} hours) of training, validation included, on {facts.machine}.
The shipped weights are the mean of those after updates {_listed(facts.averaged)}, in half precision.
The command can be stopped at any time and resumed by the same command; on the same machine the weights come out the
same, bit for bit.

## Scores

On the {n_valid:,} validation pairs, with the files as they are here:

| decoding | BLEU |
| --- | --- |
{_rows([(scored.how, f"{scored.bleu.score:.2f}") for scored in facts.scores])}

Signature: `{best.bleu.signature}` (cased, detokenised).

## Curve

Loss in nats per token: in training with dropout and label smoothing, in validation with neither. BLEU is greedy, with
the weights of that update, not yet averaged.{_snapshots(facts.snapshots)}

| update | epoch | seconds | training loss | validation loss | BLEU |
| --- | --- | --- | --- | --- | --- |
{_rows([_curve_row(entry) for entry in facts.curve])}
{_before(facts.before)}
## Limits

{facts.corpus.limits}{facts.limits}
"""


def _rows(cells: list[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def _curve_row(entry: dict[str, Any]) -> tuple[str, ...]:
    whole = [f"{entry[name]:,.0f}" for name in ("update", "epoch", "seconds")]
    return *whole, *(f"{entry[name]:.3f}" for name in ("train_loss", "valid_loss")), f"{entry['valid_bleu_greedy']:.1f}"


def _origin(tokenizer: str | None) -> str:
    return f"that of `{tokenizer}`" if tokenizer else "trained on the training pairs alone"


def _snapshots(updates: list[int]) -> str:
    return f" `history/` holds the weights of updates {_listed(updates)}." if updates else ""


def _before(told: str) -> str:
    """The training that this one went on from, if any."""
    return f"\n## The training that this one went on from\n\n{told}\n" if told else ""


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))
