"""The card of a checkpoint: how it was made, on what data, and how well it does."""

import platform
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from tools.train.run import TrainingRun

NOT_RECORDED = "Origin and licence are not recorded: state them before sharing."


def card(run: TrainingRun[Any], parts: Mapping[str, str], command: str, averaged: Sequence[int]) -> str:
    """The card of what a finished run left: what its task says in `parts`, the data, the command, and the curve.

    What `DATA.md` in the folder of the data says of their origin and licence is repeated.
    """
    notes, origin = run.options.data / "DATA.md", f"The data in `{run.options.data.name}`. {NOT_RECORDED}"
    if notes.is_file():
        origin = notes.read_text(encoding="utf-8").strip()
    place = f"CPU {platform.machine()} (threads: {run.options.threads})"
    if run.device.type == "cuda":
        place = torch.cuda.get_device_name(run.device)
    curve, seconds = run.progress.curve, run.progress.curve[-1]["seconds"]
    names = [name for name in curve[0] if name != "rate"]
    numbers = [[f"{entry[name]:,.3f}".removesuffix(".000") for name in names] for entry in curve]
    return f"""# {parts["title"]}

{parts["about"]}

## Data and licence

{origin}

{parts["counts"]}

## How it was made

```
{command}
```

{seconds:,.0f} seconds ({seconds / 3600:.1f} hours) of training, validation included, on {place}, PyTorch \
{torch.__version__.partition("+")[0]}.
The shipped weights are the mean of those after updates {", ".join(map(str, averaged))}, in half precision.
The command can be stopped at any time and resumed by the same command; on the same machine the weights come out the
same, bit for bit.

## Scores

{parts["scores"]}

## Curve

{parts["curve"]}

{markdown_table([name.replace("_", " ") for name in names], numbers)}

## Limits

{parts["limits"]}
"""


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows))
