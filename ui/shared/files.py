"""What files of a page are called and say of themselves: of what sentence and checkpoint, and in which form."""

from dataclasses import dataclass

import pandas as pd

from transformer.attention.interventions.text import to_text
from transformer.attention.interventions.value import Intervention
from transformer.messages import say
from transformer.plots.canvas.about import About
from transformer.plots.export import table_csv
from transformer.plots.file_names import file_name
from transformer.plots.picture import Picture
from ui.store import store
from ui.texts import plain, said


@dataclass(frozen=True)
class Origin:
    """Where a page's maps come from: the checkpoint, what it read, and what was changed while it ran."""

    checkpoint: str = ""
    text: str = ""
    changes: tuple[Intervention, ...] = ()

    def stem(self, *parts: str) -> str:
        """A file's name without its ending: the text's first words, the checkpoint, `parts`, and what was changed."""
        return file_name(self.checkpoint, *parts, *self._changed(), text=self.text)

    def facts(self, *more: str) -> list[str]:
        """The lines that every file of this run says, and `more` of them."""
        known = {"files.sentence": self.text, "files.checkpoint": self.checkpoint}
        found = [plain(code, text=text) for code, text in known.items() if text]
        found += [plain("files.changed", text=said(one.message)) for one in self.changes]
        unsure = map(said, store.guesses(self.checkpoint))
        return [*found, *dict.fromkeys(fact for fact in (*unsure, *more) if fact)]

    def about(self, title: str, picture: Picture, *more: str) -> About:
        """What a saved picture says that shows maps in the form of `picture`."""
        return About(title, self.facts(*map(said, picture.notes), *more))

    def _changed(self) -> list[str]:
        """The first intervention, in its short form, and how many more there are."""
        more = len(self.changes) - 1
        return [f"changed-{to_text(self.changes[:1])}", *([f"and-{more}-more"] if more else [])] if self.changes else []


def frame_csv(table: pd.DataFrame) -> str:
    """A table of a page, whose texts may be anybody's (`table_csv`); without its index."""
    return table_csv([str(name) for name in table.columns], table.itertuples(index=False, name=None))


def head_stem(picture: Picture) -> tuple[str, str]:
    """A map's part of a file's name, in no language: its site and head."""
    return str(picture.site), str(picture.head)


def head_title(picture: Picture) -> str:
    """Site and head, in the user's language."""
    return say(picture.title)
