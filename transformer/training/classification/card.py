"""The card of a sequence classifier: what it is for, what it was made from, how good it is, and how sure that is."""

import platform
import statistics
from collections.abc import Callable, Sequence

import torch

from transformer.sequences.task import SequenceTask
from transformer.training.classification.outcome import Outcome, Trained
from transformer.training.classification.plan import KINDS, STUDENT


def card(outcome: Outcome, shipped: Trained, task: SequenceTask, command: str) -> str:
    """The card as Markdown; `shipped` is the best seed with the answers of the files as written."""
    plan, classes = outcome.plan, task.classes
    n_train, n_held, n_valid = outcome.sizes
    scores = outcome.scores(shipped)
    before, after = outcome.calibration(shipped)
    confusion = _table(
        ["true \\ predicted", *classes, "recall"],
        [
            [name, *map(str, row), f"{recall:.3f}"]
            for name, row, recall in zip(classes, scores.confusion.tolist(), scores.recalls, strict=True)
        ],
    )
    seeds = "; ".join(
        f"{kind}: {', '.join(str(one.seed) for one in outcome.of(kind))}" for kind in KINDS if outcome.of(kind)
    )
    chosen_of = "students" if outcome.of(STUDENT) else "seeds"
    device = f"a shared {platform.machine()} CPU" if outcome.device == "cpu" else "a GPU"
    minutes = sum(one.seconds for one in outcome.trained) / 60
    meanings = "\n".join(f"- **{name}**: {meaning}" for name, meaning in task.meanings.items())
    examples = (
        "`examples.json` and `examples.fa` hold validation rows as they are, under the licence of the data."
        if plan.may_pass_on
        else "`examples.json` and `examples.fa` hold no data: they are made up, letter by letter, to be like it."
    )
    return f"""# {plan.title}

A k-mer classifier: windows of {_and(plan.config.widths)} letters attend to each other, then decide together.
{shipped.n_parameters:,} parameters. It reads {task.alphabet.name} of {task.length} letters; codes other than
{", ".join(task.alphabet.letters)} are read as unknown letters, which it met in training.

{meanings}

## Scores on the validation rows

The shipped files ({shipped.kind}, seed {shipped.seed}: of the {chosen_of}, the one with the lowest loss on the rows
that it held out of training):
accuracy {scores.accuracy:.4f}, Matthews correlation {scores.mcc:.4f}.

{confusion}

All seeds ({seeds}), mean ± standard deviation, beside baselines that the same command trained on the same rows:

{_comparison(outcome)}
{_aim(outcome, shipped)}
## Are its probabilities to be believed?

Logits are divided by a temperature of {task.temperature:.3f}, fitted on the validation rows. The expected calibration
error of the shipped seed (15 bins) is {before:.4f} before and {after:.4f} after; for the second number each half of the
rows was judged by the temperature of the other half.

## Data

{plan.provenance}

{n_train:,} rows were trained on, {n_held:,} were held out of the training part to stop early and to choose the seed
(rows that share {plan.family_width} letters in a row stayed together), {n_valid:,} validation rows measured.
{examples}

## How it was made

```
{command}
```

{_and(plan.hyperparameters.described())}. {_taught(outcome)}{minutes:.0f} minutes in all on \
{torch.get_num_threads()} thread(s) of {device}, PyTorch {torch.__version__.partition("+")[0]}.
{_tried(outcome)}
## Limits

{plan.limits}
"""


def _taught(outcome: Outcome) -> str:
    """Who taught whom, in a sentence; or nothing, where nobody did."""
    if not outcome.of(STUDENT):
        return ""
    plan, kinds = outcome.plan.of_student, [one.kind for one in outcome.teachers]
    teachers = [f"{kinds.count(kind)} of “{kind}”" for kind in dict.fromkeys(kinds)]
    return (
        f"Then the student was taught what {_and(teachers)} answer on average for its rows, as they were "
        f"varied; each seed held another part of the rows out, so that all rows taught. The student: "
        f"{_and(plan.hyperparameters.described())}. "
    )


def _tried(outcome: Outcome) -> str:
    """What else was tried, as a part of the card; or nothing."""
    return f"\n## What else was tried\n\n{outcome.plan.tried}\n" if outcome.plan.tried else ""


def _aim(outcome: Outcome, shipped: Trained) -> str:
    """Whether the aim was reached, by the shipped files and by the seeds on average; a line, or an empty one."""
    aim = outcome.plan.aim
    if aim is None:
        return ""
    name = {"accuracy": "accuracy", "mcc": "Matthews correlation"}[aim.measure]
    reached = getattr(outcome.scores(shipped), aim.measure) >= aim.value
    mean = statistics.mean(getattr(outcome.scores(one), aim.measure) for one in outcome.of(outcome.shipped_kind))
    return (
        f"\nThe aim was a validation {name} of at least {aim.value:g} ({aim.because}). The shipped files "
        f"{'reach' if reached else '**do not reach**'} it; the mean of all {outcome.shipped_kind}s is {mean:.4f}.\n"
    )


def _comparison(outcome: Outcome) -> str:
    classes = outcome.plan.task.classes
    measures: list[tuple[str, Callable[[Trained], float]]] = [
        ("accuracy", lambda one: outcome.scores(one).accuracy),
        ("Matthews correlation", lambda one: outcome.scores(one).mcc),
        *((f"recall of {name}", _recall(outcome, i)) for i, name in enumerate(classes)),
        ("calibration error", lambda one: outcome.calibration(one)[0]),
        ("… with temperature", lambda one: outcome.calibration(one)[1]),
        ("seconds a seed", lambda one: one.seconds),
    ]
    compared = {kind: outcome.of(kind) for kind in KINDS}
    if outcome.average is not None:
        compared[outcome.average.kind] = (outcome.average,)
    compared = {kind: ones for kind, ones in compared.items() if ones}
    rows = [
        [name, *(_spread([measure(one) for one in ones]) for ones in compared.values())] for name, measure in measures
    ]
    sizes = ["parameters", *(f"{ones[0].n_parameters:,}" for ones in compared.values())]
    return _table(["", *compared], [*rows, sizes])


def _recall(outcome: Outcome, label: int) -> Callable[[Trained], float]:
    return lambda one: outcome.scores(one).recalls[label]


def _spread(values: Sequence[float]) -> str:
    mean = statistics.mean(values)
    digits = 0 if mean > 10 else 4
    deviation = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean:.{digits}f}{deviation}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _and(parts: Sequence[object]) -> str:
    texts = [str(part) for part in parts]
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)
