"""What others wrote is shown as text, wherever Streamlit reads Markdown."""

import re

import pytest

from transformer.messages import LANGUAGES, Message, catalogue
from ui import texts
from ui.markdown import JOINER, as_code, as_text
from ui.shared.controls import sentence
from ui.texts import plain, t

PUNCTUATION = re.compile(r"(?<!\\)(?:\\\\)*[`*_\[\]<>#|~$&]")


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("two words, 10 of 12 (all).", "two words, 10 of 12 (all)."),
        ("![](http://h/x)", rf"!\[\](http:{JOINER}//h/x)"),
        (r"a\*b", r"a\\\*b"),
        ("www.h.example", f"www{JOINER}.h.example"),
        ("me@h.example", f"me@{JOINER}h.example"),
        (":red[x] :smile: :material/home:", rf"\:red\[x\] :{JOINER}smile: :{JOINER}material/home:"),
        ("<b> &lt; $x$ ~~y~~ `z`", r"\<b\> \&lt; \$x\$ \~\~y\~\~ \`z\`"),
        ("one\n\n# two\r\n\tthree", r"one \# two three"),
        ("- item", r"\- item"),
        ("+ item", r"\+ item"),
        ("12. item", r"12\. item"),
        ("3) item", r"3\) item"),
        ("1.5 items", r"1\.5 items"),
        ("a -> b", rf"a -{JOINER}\> b"),
        (7, "7"),
    ],
)
def test_nothing_of_a_text_is_markdown(text: object, markdown: str) -> None:
    assert as_text(text) == markdown


@pytest.mark.parametrize("hostile", ["![](x)", "`", "[a](b)", "*_~$<>&#|", "\\", "\\`", "`` ` ``"])
def test_values_of_a_text_are_escaped_by_their_place(hostile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    page = {"page.said": "**bold** {value} and `{value}`, {n:,} {value!r}"}
    monkeypatch.setattr(texts, "catalogue", lambda language: page)
    said = t("page.said", value=hostile, n=1_234)
    assert said == f"**bold** {as_text(hostile)} and `{as_code(hostile)}`, 1,234 {as_text(repr(hostile))}"
    assert "`" not in as_code(hostile)
    assert not PUNCTUATION.search(as_text(hostile))
    assert plain("page.said", value=hostile, n=1) == f"**bold** {hostile} and `{hostile}`, 1 {hostile!r}"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("the source is empty: type at least one word", "The source is empty: type at least one word."),
        ("model.pt is refused: odd. Remedy: save it anew.", "model.pt is refused: odd. Remedy: save it anew."),
        ("model.pt is refused: odd", "model.pt is refused: odd."),
        (Message("no_tokenizer", name="file"),
         "file has no tokenizer: bring the one that it was trained with."),
        ("heads/model.pt: nothing in it", "heads/model.pt: nothing in it."),
        ("d_model=3 leaves a sine without its cosine: choose an even number",
         r"d\_model=3 leaves a sine without its cosine: choose an even number."),
        ("encoder.0.weight is missing", "encoder.0.weight is missing."),
        ("n_heads is no number", r"n\_heads is no number."),
        ("two files of weights: bring one!", "Two files of weights: bring one!"),
        ("the target is empty: type a sentence, such as “A man is riding a bicycle.”",
         "The target is empty: type a sentence, such as “A man is riding a bicycle.”"),
        ("the file ends early …", "The file ends early …"),
        ("![](http://h/x) is refused", rf"!\[\](http:{JOINER}//h/x) is refused."),
        ("Already a sentence. ", "Already a sentence."),
    ],
)  # fmt: skip
def test_an_error_becomes_one_sentence_and_names_stay_as_they_are(message: str, said: str) -> None:
    assert sentence(message) == said


def test_a_sentence_of_the_reader_s_language_ends_in_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "language", lambda: "zh")
    said = sentence("the target is empty: type at least one word")
    assert said.endswith("\u3002")
    assert not said.endswith("\u3002\u3002")
    assert sentence("model.pt is refused\u3002") == "model.pt is refused\u3002"


def test_catalogued_texts_hold_no_addresses() -> None:
    every = [text for language in LANGUAGES for code, text in catalogue(language).items() if "." in code]
    assert not [text for text in every if re.search(r"https?://|www\.|!\[|\]\(", text)]
