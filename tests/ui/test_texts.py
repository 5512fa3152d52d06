"""Texts of pages are in the language of the user; what the library says, and what others wrote, is text inside them."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from heedmap.errors import CheckpointError, InputError
from heedmap.messages import LANGUAGES, Message, catalogue, say, speaking
from ui import texts
from ui.shared.controls import sentence
from ui.store import store
from ui.texts import JOINER, as_code, as_text, in_this_language, plain, said, t

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
    assert (
        t("page.said", value=hostile, n=1_234)
        == f"**bold** {as_text(hostile)} and `{as_code(hostile)}`, 1,234 {as_text(repr(hostile))}"
    )
    assert "`" not in as_code(hostile)
    assert not PUNCTUATION.search(as_text(hostile))
    assert plain("page.said", value=hostile, n=1) == f"**bold** {hostile} and `{hostile}`, 1 {hostile!r}"


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (Message("no_sequence"), "The sequence is empty: paste letters or FASTA, or choose an example."),
        (Message("upload_not_here", name="words.txt"),
         "words.txt is not here: uploads live in one session only, so bring the file again."),
        ("model.pt is refused: odd. Remedy: save it anew.", "model.pt is refused: odd. Remedy: save it anew."),
        ("model.pt is refused: odd", "model.pt is refused: odd."),
        (Message("no_tokenizer", name="file"),
         "file has no tokenizer: bring the one that it was trained with."),
        ("heads/model.pt: nothing in it", "heads/model.pt: nothing in it."),
        ("d_model=3 leaves a sine without its cosine: choose an even number",
         r"d\_model=3 leaves a sine without its cosine: choose an even number."),
        ("encoder.0.weight is missing", "encoder.0.weight is missing."),
        ("n_heads is no number", r"n\_heads is no number."),
        ("Two files of weights: bring one!", "Two files of weights: bring one!"),
        ("Type a sentence, such as “A man is riding a bicycle.”",
         "Type a sentence, such as “A man is riding a bicycle.”"),
        ("The file ends early …", "The file ends early …"),
        ("![](http://h/x) is refused", rf"!\[\](http:{JOINER}//h/x) is refused."),
        ("Already a sentence. ", "Already a sentence."),
    ],
)  # fmt: skip
def test_an_error_becomes_one_sentence_and_names_stay_as_they_are(message: str, told: str) -> None:
    assert sentence(message) == told


def test_catalogued_texts_hold_no_addresses() -> None:
    every = [text for language in LANGUAGES for code, text in catalogue(language).items() if "." in code]
    assert not [text for text in every if re.search(r"https?://|www\.|!\[|\]\(", text)]


@pytest.fixture
def chinese() -> Iterator[None]:
    with speaking("zh"):
        yield


@pytest.mark.usefixtures("chinese")
@pytest.mark.parametrize(
    ("code", "fields"),
    [
        ("checkpoint_not_here", {"name": "nothing"}),
        ("upload_too_large", {"name": "a.pt", "found": "9.0 MB", "most": "2.0 MB"}),
    ],
)
def test_errors_are_told_in_the_language_of_the_user_with_all_their_fields(code: str, fields: dict[str, Any]) -> None:
    told = said(InputError(code, **fields).message)
    assert re.search("[\u4e00-\u9fff]", told)
    assert not re.search(r"[{}]|\b(is|has|choose|paste)\b", told)
    assert all(str(value) in told.replace(",", "") for value in fields.values())
    assert said("something else {x}: do that") == "something else {x}: do that"


@pytest.mark.usefixtures("chinese")
def test_what_a_page_shows_of_an_error_is_a_chinese_sentence() -> None:
    with pytest.raises(CheckpointError) as raised:
        store.revision("nothing")
    told = raised.value.message
    assert isinstance(told, Message)
    assert sentence(told) == f"{told.in_language('zh')}\u3002"
    assert re.search("[^\u3002]\u3002$", sentence("the target is empty: type at least one word"))
    assert sentence("model.pt is refused\u3002") == "model.pt is refused\u3002"


def test_what_a_download_makes_is_in_the_language_of_the_run_that_offered_it() -> None:
    message = InputError("checkpoint_not_here", name="x").message
    with speaking("zh"):
        made = in_this_language(lambda: say(message))
    assert isinstance(message, Message)
    assert made() == message.in_language("zh")
    assert say(message) == message


@pytest.mark.usefixtures("chinese")
@pytest.mark.parametrize("text", [t, plain])
def test_what_the_library_says_inside_a_text_is_in_the_language_of_the_text(text: Callable[..., str]) -> None:
    message = InputError("no_sequence").message
    assert isinstance(message, Message)
    told = text("atlas.own_skipped", count=1, line=2, reason=message)
    assert message.in_language("zh") in told
    assert message not in told
