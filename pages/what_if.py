"""What if: change the attention of the running model, and see what becomes of what it says."""

from ui import shell
from ui.shared import address, controls
from ui.store import store
from ui.texts import t
from ui.what_if import reading, sequence, translation

shell.heading(t("what_if.title"), t("what_if.intro"))
name = controls.checkpoint_choice(*store.ARCHITECTURES)
if name is None:
    address.stop()
kind = store.architecture(name)
panel = translation if kind in store.TRANSLATORS else sequence if kind == store.CLASSIFIERS else reading
panel.show(name)
