"""The checkpoints that long runs use: on a GPU where there is one, and in half precision where that is set.

Short runs, attributions and everything else stay on the CPU in the precision of the files, so that all numbers of a
page are of one model; only a long run, whose seconds count, goes elsewhere, with a copy of the model.
"""

import copy
import os
from dataclasses import replace

import torch

from transformer import Checkpoint
from transformer.checkpoint.checkpoint import OtherModel, device_here
from ui.store import settings, store
from ui.store.budget import MODELS
from ui.store.cache import cached
from ui.store.refs import Revision


def for_long_runs(revision: Revision) -> Checkpoint:
    """The checkpoint of a revision where long runs are computed; a model of another library stays as it is.

    Raises:
        CheckpointError: it cannot be loaded, or what is set is not here.
    """
    device, dtype = settings.placement(os.environ)
    place = device_here(device)
    found = store.load(revision)
    if isinstance(found.model, OtherModel) or (place.type == "cpu" and dtype == settings.DTYPES[0]):
        return found
    return _placed(revision, str(place), dtype)


@cached(spinner="store.loading", budget=MODELS)
def _placed(revision: Revision, device: str, dtype: str) -> Checkpoint:
    found = store.load(revision)
    precision = None if dtype == settings.DTYPES[0] else getattr(torch, dtype)
    return replace(found, model=copy.deepcopy(found.model)).placed(device, precision)
