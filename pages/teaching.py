"""Tour and questions: the way through all pages, predictions, the glossary, and handouts."""

from ui import shell
from ui.path.views import VIEWS
from ui.shared import address
from ui.texts import plain, t

shell.heading(t("tour.title"), t("tour.intro"))
VIEWS[
    address.choice(t("translate.view"), list(VIEWS), key="view", bare=True, text=lambda one: plain(f"tour.view_{one}"))
]()
