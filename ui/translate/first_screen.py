"""What the page Translate shows first: the sentence over its translation, joined by one head's lines."""

from transformer import Checkpoint, Translation
from transformer.attention.measures import sites_of
from transformer.pictures.axes import Axis
from ui.components.bitext.component import Words, bitext
from ui.shared import heads, selected_pair
from ui.shared.controls import MEAN, Selection
from ui.texts import plain

KIND = "decoder.cross"


def bitext_panel(shown: Translation, checkpoint: Checkpoint, choice: Selection) -> None:
    """Source over translation, with the chosen head's lines, or those of the truest where another kind is looked at."""
    site, layer, head = choice.site, choice.layer, choice.head
    if choice.kind != KIND:
        layer, head = heads.first_head(checkpoint.name, shown)
        site = sites_of(shown.record, KIND)[layer]
    attention = shown.record[site]
    picture = attention.picture(head, words=True)
    bitext(
        picture.values,
        picture.visible,
        _words(attention.keys, checkpoint.languages[0]),
        _words(attention.queries, checkpoint.languages[1]),
        head=plain("translate.head_in_sentence", layer=layer, head=head)
        if head != MEAN
        else plain("translate.mean_in_sentence", layer=layer),
        key="bitext",
        file_name=f"bitext-{site}-{head}",
        on_pick=lambda query: selected_pair.select_pair(query, int(picture.values[query].argmax())),
    )


def _words(axis: Axis, language: str) -> Words:
    merged = axis.merged()
    return Words(merged.texts, axis.attached, merged.special, language)
