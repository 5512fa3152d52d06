"""What if: change the attention of the running model, and see what becomes of what it says."""

from ui import shell
from ui.shared import address, controls
from ui.store import store
from ui.texts import t
from ui.what_if import sequence, translation

shell.heading(t("what_if.title"), t("what_if.intro"))
name = controls.checkpoint_choice(*store.TRANSLATORS, store.CLASSIFIERS)
if name is None:
    address.stop()
(sequence if store.architecture(name) == store.CLASSIFIERS else translation).show(name)
