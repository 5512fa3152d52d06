"""A run of an upload ends once its reader has left: nobody waits for it, and it holds a core and a forward slot.

Streamlit ends a script where it speaks to the browser, which a model does not while it computes. So the modules of an
upload, which belong to one session, ask between two layers whether that session is still there.
"""

import math
import time
from collections.abc import Callable
from typing import Any

from streamlit import runtime
from streamlit.runtime.scriptrunner import StopException
from torch import nn

from ui.store.holdings import Holdings

LOOKING = 0.5
"""Seconds from one look at whether the reader is there to the next."""

PATIENCE = 3.0
"""Seconds that a reader may be away: a browser whose connection was cut comes back within one or two."""


def ends_without(held: Holdings, model: nn.Module) -> None:
    """From now on, a run of `model` ends a few seconds after the reader of `held` has left, before its next layer.

    Less than 1 us a layer. Of what nobody serves (a test, a program) nobody leaves.
    """
    check = _checking(held.session_id)
    listed = [child for one in model.modules() if isinstance(one, nn.ModuleList) for child in one]
    watched: Any = model
    for module in dict.fromkeys([*listed, *watched.attention_sites().values(), model]):
        module.register_forward_pre_hook(lambda _module, _inputs: check())


def _checking(session_id: str) -> Callable[[], None]:
    """What raises once the session has been away for `PATIENCE`; it refers to nothing that the session holds."""
    looked, away = time.monotonic(), math.inf

    def check() -> None:
        nonlocal looked, away
        now = time.monotonic()
        if now - looked < LOOKING:
            return
        looked, away = now, math.inf if _is_here(session_id) else min(away, now)
        if now - away > PATIENCE:
            raise StopException

    return check


def _is_here(session_id: str) -> bool:
    return not runtime.exists() or runtime.get_instance().is_active_session(session_id)
