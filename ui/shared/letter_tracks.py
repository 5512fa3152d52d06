"""What windows attended to, folded back onto letters, above what each letter did for the answer."""

from collections.abc import Sequence

import numpy as np

from transformer.plots.canvas.about import About
from transformer.runs.sequences.attribution import Mutations
from transformer.sequences.folding import LetterTrack
from ui.components.tracks.component import Axis, Series, Stretch, Track, tracks
from ui.texts import plain


def letter_tracks(
    text: str,
    track: LetterTrack,
    *,
    key: str,
    file_name: str,
    about: About,
    places: Sequence[int] = (),
    effects: Mutations | None = None,
    label: str = "",
    spans: Sequence[Stretch] = (),
    reach: float = 0.0,
) -> None:
    """Attention received in multiples of the even share, in bars of each window width that together are the whole.

    Below, where `effects` are known, the change of the log-odds of class `label` by every mutation, on a scale about 0
    that reaches as far as the largest change. `places` are the letters of a longer sequence that these are. The bars'
    scale ends at their highest value, or at `reach` where that is more: so tracks share a scale.
    """
    here = np.array(places or range(1, len(text) + 1))
    share = track.share / track.even.sum(axis=0)
    names = [plain("sequences.tracks_windows", width=width) for width in track.widths]
    bars = [Series(name, here, values, name, i) for i, (name, values) in enumerate(zip(names, share, strict=True))]
    highest = max(reach, float(share.sum(axis=0).max()))
    shown = [Track("bars", plain("sequences.tracks_attention"), bars, (0, highest), [1])]
    if effects is not None:
        given = np.array([[letter == new for letter in text] for new in effects.letters])
        change = np.where(given, np.nan, effects.change)
        limit = float(np.abs(effects.change).max()) or 1.0
        cells = [Series(new, here, row, new) for new, row in zip(effects.letters, change, strict=True)]
        shown.append(Track("cells", plain("sequences.tracks_mutations", label=label), cells, (-limit, limit)))
    axis = Axis(int(here[0]), int(here[-1]), plain("sequences.tracks_letter"), text)
    tracks(shown, axis, key=key, spans=spans, file_name=file_name, about=about)
