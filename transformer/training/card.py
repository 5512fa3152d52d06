"""Cards of trained checkpoints: what they have in common, as Markdown."""

from collections.abc import Sequence
from typing import Any

from transformer.training.run import Run, told_by_start

NOT_RECORDED = "Origin and licence are not recorded: state them before sharing."


def data_notes(run: Run[Any]) -> str:
    """What `DATA.md` in the folder of the data says of their origin and licence."""
    path = run.options.data / "DATA.md"
    if not path.is_file():
        return f"The data in `{run.options.data.name}`. {NOT_RECORDED}"
    return path.read_text(encoding="utf-8").strip()


def how_it_was_made(run: Run[Any], command: str, averaged: Sequence[int]) -> str:
    """The command, the time, the machine, and the training that this one went on from, if any."""
    seconds = run.store.curve()[-1]["seconds"]
    before = told_by_start(run.options)
    return f"""## How it was made

```
{command}
```

{seconds:,.0f} seconds ({seconds / 3600:.1f} hours) of training, validation included, on {run.machine}.
The shipped weights are the mean of those after updates {", ".join(map(str, averaged))}, in half precision.
The command can be stopped at any time and resumed by the same command; on the same machine the weights come out the
same, bit for bit.
""" + (f"\n## The training that this one went on from\n\n{before}\n" if before else "")


def curve_table(run: Run[Any], **measures: tuple[str, int]) -> str:
    """A row a validation: where the run stood, its loss, and each measure by its title and digits."""
    head = ("update", "epoch", "seconds", "training loss", *(title for title, _ in measures.values()))
    return table(head, [_curve_row(entry, measures) for entry in run.store.curve()])


def _curve_row(entry: dict[str, Any], measures: dict[str, tuple[str, int]]) -> list[str]:
    whole = [f"{entry[name]:,.0f}" for name in ("update", "epoch", "seconds")]
    found = [f"{entry[name]:.{digits}f}" for name, (_, digits) in measures.items()]
    return [*whole, f"{entry['train_loss']:.3f}", *found]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows))
