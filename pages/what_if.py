"""What if: change the attention of the running model, and see what becomes of what it says."""

from ui import shell
from ui.shared import controls
from ui.store import store
from ui.texts import t
from ui.what_if.kinds import Classifying, Reading, Translating
from ui.what_if.screen import Screen, show

KINDS: dict[str | None, type[Screen]] = {
    **dict.fromkeys(store.TRANSLATORS, Translating),
    store.CLASSIFIERS: Classifying,
}

shell.heading(t("what_if.title"), t("what_if.intro"))
name = controls.checkpoint_choice(*store.ARCHITECTURES)
with shell.explained(model=name):
    show(name, KINDS.get(store.architecture(name), Reading))
