"""What is known about the texts that shipped translation checkpoints are trained on."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Corpus:
    """Origin and licence of a corpus, what a model that saw nothing else cannot do, and sentences to try it with."""

    title: str
    origin: str
    limits: str
    examples: tuple[str, ...] = ()


MULTI30K = Corpus(
    title="English to German image captions",
    origin=(
        "Multi30k, task 1, raw text (Elliott, Frank, Sima'an and Specia 2016, \"Multi30K: Multilingual English-German "
        'Image Descriptions"). It is derived from Flickr30k, whose terms allow non-commercial research and education; '
        "this checkpoint is shared under the same terms. The texts themselves are not part of it."
    ),
    limits=(
        "The model has read nothing but captions of everyday photographs: one sentence, present tense, people, dogs, "
        "sport, streets. Names, numbers, questions, speech, and words that no caption holds come out wrong or are "
        "replaced by likelier ones, and it says so with no less confidence. It repeats what its captions assume about "
        "people, their gender and their origin. It is made to be looked into, not to be relied on for translations."
    ),
    examples=(
        "Someone is cooking dinner in a small kitchen.",
        "A man in a blue shirt is riding a bicycle down the street.",
        "Two dogs are playing in the snow.",
        "A little girl with a red hat is eating an apple.",
        "Three women are sitting on a bench in the park and talking.",
        "The old man who is reading a newspaper is wearing glasses.",
        "A group of people are standing in front of a large building.",
        "A boy jumps into the water while his sister watches him from the beach.",
    ),
)

LANGUAGES = {"cs": "Czech", "de": "German", "en": "English", "fr": "French"}
"""Languages by the ending of their files; those of Multi30k."""

CORPORA = {"multi30k": MULTI30K}
"""Corpora by the name of their folder."""


def corpus_of(folder_name: str) -> Corpus:
    """The corpus in a folder of this name; of another one nothing is known, and the card says so."""
    return CORPORA.get(
        folder_name,
        Corpus(
            title=f"Translation, trained on {folder_name}",
            origin=f"The texts in `{folder_name}`. Origin and licence are not recorded: state them before sharing.",
            limits="The model knows only texts like those that it was trained on, and was measured on nothing else.",
        ),
    )


def language_names(endings: tuple[str, str]) -> tuple[str, str]:
    """What people call the languages of source and target files; an unknown ending stands for itself."""
    source, target = (LANGUAGES.get(ending, ending) for ending in endings)
    return source, target
