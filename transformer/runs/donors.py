"""A donor sentence: its attention put into another sentence, what of it fits, and how far the answer moves.

Base is the sentence that runs, donor the one that attention comes from. The answer is measured at the step where their
two targets part, which both reach with the same tokens read: the log-odds of the donor's token against the base's.
Source: Heimersheim and Nanda 2024.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from transformer.attention.capture import recording
from transformer.attention.interventions.active import intervening
from transformer.attention.interventions.value import Donor, Intervention
from transformer.attention.record import Record
from transformer.checkpoint.checkpoint import Checkpoint
from transformer.errors import InputError
from transformer.runs.changed import run_of
from transformer.runs.translate import Translation
from transformer.runs.what_if import target_logits
from transformer.sites import Site

LEAST_APART = 0.1
"""Logits between base and donor below which a share of the way from one to the other says nothing."""


@dataclass(frozen=True)
class LogOdds:
    """The donor's token against the base's (logits) where the two targets part: in the base, the donor, and changed."""

    step: int
    tokens: tuple[str, str]
    base: float
    donor: float
    changed: float

    @property
    def share(self) -> float:
        """How much of the way from base (0) to donor (1) the change went; NaN where they hardly differ."""
        way = self.donor - self.base
        return (self.changed - self.base) / way if abs(way) >= LEAST_APART else math.nan


def donor_of(checkpoint: Checkpoint, run: Translation, name: str) -> Donor:
    """What a run weighed and its heads gave on, as the model is: its own target read once more."""
    model, _, _ = checkpoint.translator()
    read = torch.tensor([[model.config.bos_id, *run.target_ids[:-1]]])
    with intervening(()), run_of(checkpoint), recording(outputs=True) as seen:
        model(torch.tensor([run.source_ids]), read)
    return seen.donor(name)


def parting(base: Translation, donor: Translation) -> int | None:
    """The first step at which two targets have different tokens; None where one begins with the whole other."""
    pairs = zip(base.target_ids, donor.target_ids, strict=False)
    return next((step for step, (first, second) in enumerate(pairs) if first != second), None)


def refuse_other_places(base: Record, donor: Record, name: str, site: str, rows: int | None = None) -> None:
    """Refuse a donor whose positions do not stand for those of the base one to one.

    `rows` patches the first so many rows alone: their number need not be the same then, nor that of the keys of a
    decoder's self-attention, whose rows see none past themselves.

    Raises:
        InputError: names the site and the two lengths.
    """
    here, there = base[site].shape, donor[site].shape
    if rows is None and here[0] != there[0]:
        raise InputError("donor_has_other_rows", site=site, donor=name, found=there[0], needed=here[0])
    if here[1] != there[1] and not (rows is not None and Site(site).group == "decoder.self"):
        raise InputError("donor_has_other_keys", site=site, donor=name, found=there[1], needed=here[1])


def log_odds(
    checkpoint: Checkpoint, base: Translation, donor: Translation, interventions: Sequence[Intervention]
) -> LogOdds | None:
    """The donor's token against the base's at the step where they part; None where they do not.

    Raises:
        InputError: an intervention does not fit this checkpoint or sentence.
    """
    step = parting(base, donor)
    if step is None:
        return None
    own, other = base.target_ids[step], donor.target_ids[step]
    odds = []
    for run, changes in ((base, ()), (donor, ()), (base, interventions)):
        logits, _ = target_logits(checkpoint, run, changes)
        odds.append(float(logits[step, other].double() - logits[step, own].double()))
    return LogOdds(step, (base.steps[step].text, donor.steps[step].text), *odds)
