"""Tour and questions: the way through all pages, predictions, misconceptions, the glossary, and handouts."""

from ui import shell
from ui.path.views import VIEWS
from ui.shared import address
from ui.texts import t

shell.heading(t("tour.title"), t("tour.intro"))
view, place = address.tabs(list(VIEWS), key="view", text=lambda one: t(f"tour.view_{one}"))
with place:
    VIEWS[view]()
