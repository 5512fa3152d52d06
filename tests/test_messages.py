"""Every sentence has a code, and a text with the same fields in every language."""

import ast
import copy
import pickle
import re
import unicodedata
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from string import Formatter
from threading import Barrier

import numpy as np
import pytest

from heedmap import errors
from heedmap.errors import HeedmapError, InputError
from heedmap.messages import LANGUAGES, Message, catalogue, numbered, revealed, say, speaking, words
from tests.imports import relative, sources
from tests.waiting import PATIENCE
from ui.texts import as_html, as_text, in_language, plain

ERRORS = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, HeedmapError)}
SOURCES = sources("heedmap", "ui", "pages", "app.py")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalogue of this test's own."""
    texts = {
        "en": {"noun": "source", "count": "the {what} has {n:,} of {items}", "plain": "nothing"},
        "zh": {"noun": "源句", "count": "{what}有 {n:,} 个[{items}]", "plain": "没有"},
    }
    for language, separator in (("en", ", "), ("zh", "、")):
        texts[language]["language_separator"] = separator
    monkeypatch.setattr("heedmap.messages.catalogue", texts.__getitem__)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\u202eevil\u202c", "⟨U+202E⟩evil⟨U+202C⟩"),
        ("a\u2066b\u200f\u061c", "a⟨U+2066⟩b⟨U+200F⟩⟨U+061C⟩"),
        ("\x1b[31mred\0\x7f\x9b", "␛[31mred␀␡⟨U+009B⟩"),
        ("soft\u00adly\u200b\ufeff", "soft⟨U+00AD⟩ly⟨U+200B⟩⟨U+FEFF⟩"),
        ("a\u200db\u200d\u200d", "a⟨U+200D⟩b⟨U+200D⟩⟨U+200D⟩"),
        ("\U000e0041\ud800", "⟨U+E0041⟩⟨U+D800⟩"),
        ("Z" + "\u0301" * 300 + "a", "Z" + "\u0301" * 6 + "⟨+294⟩a"),
    ],
)
def test_what_would_be_hidden_or_turn_a_line_round_is_shown(text: str, shown: str) -> None:
    """In any place: a text by itself, a field of a message, Markdown, HTML, and a tuple of texts."""
    assert revealed(text) == revealed(shown) == say(text) == as_html(text) == shown
    assert as_text(text) == as_text(shown)
    assert shown in plain("files.sentence", text=text)
    assert shown in Message("no_such_path", path=text)
    assert shown in words("no_such_path", path=(text, "b"))


@pytest.mark.parametrize(
    "text",
    ["שָׁלוֹם", "בְּרֵאשִׁ֖ית", "صَبَّ عَلَيْكُمْ", "می\u200cرود", "क्षत्रिय", "ক্\u200dষ", "ที่นี่น้ำ", "Việt Nam Ễ", "ကြောင့်", "བསྒྲུབས",
     "👩\u200d👩\u200d👧", "🏳️\u200d🌈", "▁the", "一个男人", "tab\tline\n", "fi\u0301n"],
)  # fmt: skip
def test_no_language_is_changed(text: str) -> None:
    assert revealed(text) == text


def fields_of(text: str) -> set[str]:
    """The names that a text puts in."""
    return {name.partition(".")[0].partition("[")[0] for _, name, _, _ in Formatter().parse(text) if name is not None}


def test_every_language_says_everything_with_the_same_fields() -> None:
    first = catalogue(LANGUAGES[0])
    for language in LANGUAGES[1:]:
        other = catalogue(language)
        assert first.keys() == other.keys()
        assert not [code for code, text in first.items() if fields_of(text) != fields_of(other[code])]
        assert all(text.strip() for text in other.values())


def test_a_message_is_its_english_text_and_is_said_in_any_language(small: None) -> None:
    message = Message("count", what=Message("noun"), n=12_345, items=("a", Message("noun")))
    assert message == "the source has 12,345 of a, source"
    assert message.in_language("zh") == "源句有 12,345 个[a、源句]"
    assert say(message) == message
    with speaking("zh"):
        assert say(message) == message.in_language("zh")
        assert (say("as it is"), words("plain")) == ("as it is", "没有")
    assert words("plain") == "nothing"


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_can_still_be_translated(small: None, copied: object) -> None:
    message = copied(Message("count", what=Message("noun"), n=2, items=()))
    assert message.in_language("zh").startswith("源句")
    error = copied(InputError("count", what=Message("noun"), n=3, items=("x",)))
    assert (type(error), error.code, error.fields["n"]) == (InputError, "count", 3)
    assert error.message.in_language("zh") == "源句有 3 个[x]"


def test_threads_do_not_mix_their_languages(small: None) -> None:
    entered = Barrier(2)

    def spoken(language: str) -> str:
        with speaking(language):
            entered.wait(timeout=PATIENCE)
            return words("plain")

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(spoken, LANGUAGES)) == ["nothing", "没有"]


def calls(*names: str) -> Iterator[tuple[str, ast.Call]]:
    """Every call of a function of one of these names, with its place."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if called in names:
                    yield f"{relative(path)}:{node.lineno}", node


SAYING = {**dict.fromkeys(("Message", "words", "refused", "t", "plain", *ERRORS), 0), "in_language": 1}
"""What makes a text of a code and fields, and the place of the code among its arguments."""

FROM_SCRIPTS = (
    *("canvas_", "decided_", "all_heads_", "alignments_", "matrices_", "lines_"),
    *("cells_", "row_bars_", "map_", "head_choice_", "heatmap_", "tiles_", "tracks_"),
)
"""How the codes begin that scripts of components ask for; a test of theirs finds unused ones."""


def codes(argument: ast.expr) -> Iterator[str]:
    """Regular expressions for the codes that an argument may be; what is computed in it may be anything."""
    if isinstance(argument, ast.IfExp):
        yield from codes(argument.body)
        yield from codes(argument.orelse)
    elif isinstance(argument, ast.JoinedStr) and isinstance(argument.values[0], ast.Constant):
        parts = argument.values
        yield "".join(re.escape(str(part.value)) if isinstance(part, ast.Constant) else ".+" for part in parts)
    elif isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        yield re.escape(argument.value)


def asked() -> Iterator[tuple[str, ast.Call, str]]:
    """Every code that is asked for: where, by which call, and the code."""
    for place, call in calls(*SAYING):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        for argument in call.args[SAYING[name] :][:1]:
            yield from ((place, call, code) for code in codes(argument))
    for place, call in calls("cached", "of_checkpoint"):
        for word in call.keywords:
            yield from ((place, call, code) for code in codes(word.value) if word.arg == "spinner")


def test_every_message_has_a_code_of_the_catalogue_and_its_fields() -> None:
    known, wrong, places = catalogue(LANGUAGES[0]), [], list(asked())
    assert len(places) > 1_000
    for place, call, code in places:
        found = [one for one in known if re.fullmatch(code, one)]
        if not found:
            wrong.append(f"{place}: {code!r} is in no catalogue")
        elif re.escape(found[0]) == code and all(word.arg for word in call.keywords):
            given, needed = {str(word.arg) for word in call.keywords}, fields_of(known[found[0]])
            if given != needed and not ("." in found[0] and given >= needed):  # a page may offer more to its texts
                wrong.append(f"{place}: {code} asks for {sorted(needed)}, is given {sorted(given)}")
    assert not wrong, "\n".join(wrong)


def test_no_message_is_made_of_free_text() -> None:
    passed_on = (
        "transformer/messages/",
        "transformer/errors.py",
        "transformer/safe/limits.py",
        "transformer/checkpoint/worker/wire_format.py:",  # makes again what a worker was told
        "transformer/checkpoint/worker/remote_tokenizer.py:",  # passes on what a worker refused
    )
    made = [(place, call) for place, call in calls("Message", *ERRORS) if not place.startswith(passed_on)]
    assert not [place for place, call in made if not call.args or not list(codes(call.args[0]))]


def test_every_text_is_used() -> None:
    whole = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES)
    families = [code for _, _, code in asked() if ".+" in code]
    quoted = set(re.findall(r"""["'](?=(\w+)["'])""", whole))
    others = [code for code in catalogue("en") if not ("." in code or code in quoted or code.startswith(FROM_SCRIPTS))]
    assert not [code for code in others if not any(re.fullmatch(family, code) for family in families)]


def test_a_number_that_rounds_to_zero_has_no_minus() -> None:
    """In each format, on both sides of where it is rounded, and beside the word that says so."""
    for value, form, text in (
        (-0.004, "+.2f", "+0.00"), (-0.006, "+.2f", "-0.01"), (-0.0004, ".1%", "0.0%"), (-0.0, "", "0.0"),
        (-0.004, ">7.2f", "   0.00"), (-4e-9, "+,.4f", "+0.0000"), (-12.0, ",.0f", "-12"),
        (np.float32(-0.001), ".1f", "0.0"),
    ):  # fmt: skip
        assert format(numbered(value), form) == text
    assert " took 0.0 s " in str(Message("trial_run", seconds=-0.001, most=1.0))


def test_a_count_picks_the_word_that_fits_it() -> None:
    for count, text in ((0, "0 keys"), (1, "1 key"), (2, "2 keys"), (1001, "1,001 keys")):
        for number in (numbered(count), numbered(np.int64(count))):
            assert f"{number:,} {number:key|keys}" == text
    assert numbered(True) is True
    assert numbered("1") == "1"
    assert [Message("mean_of_heads", count=count) for count in (1, 8)] == ["mean of 1 head", "mean of 8 heads"]
    told = Message("lesson_batch_sides", sources=2, targets=1)
    assert told.startswith("the batch has 2 source sentences and 1 target sentence: ")
    assert "1" in told.in_language("zh")
    assert in_language("en", "atlas.own_lines", count=1200) == "1,200 lines"
    assert in_language("en", "translate.likely", count=1, log_prob=-0.5).startswith("1 token, ")


def test_percent_is_written_one_way() -> None:
    texts = [(language, code, text) for language in LANGUAGES for code, text in catalogue(language).items()]
    assert not [one for one in texts if re.search(r"[\d}] %", one[2])]


EMPHASISED = re.compile(r"(.?)\*\*(.+?)\*\*(.?)", re.DOTALL)


def test_no_star_of_emphasis_is_read_as_a_star() -> None:
    """Markdown: a mark beside punctuation ends or begins emphasis only at a space, or at more punctuation."""

    def flanks(inside: str, outside: str) -> bool:
        is_sign = unicodedata.category(inside)[0] in "PS"
        return not is_sign or not outside.strip() or unicodedata.category(outside)[0] in "PS"

    assert (flanks(":", ""), flanks("a", "a"), flanks(":", "a")) == (True, True, False)
    texts = [(code, text) for language in LANGUAGES for code, text in catalogue(language).items() if "." in code]
    filled = [(code, re.sub(r"\{.*?(%?)\}", lambda field: field[1] or "a", text)) for code, text in texts]
    found = [(code, *one) for code, text in filled for one in EMPHASISED.findall(text)]
    assert not [one for one in found if not (flanks(one[2][0], one[1]) and flanks(one[2][-1], one[3]))]


NOUNS = "token|word|row|record|window|term|key|sentence|head|position|letter|tensor|example"
PLURAL = re.compile(rf"\{{(\w+)(?::,)?\}} (?:[a-z-]+ )?(?:{NOUNS})s\b")
LIMITS = {"most", "longest", "sentences", "shortest", "tokens", "records", "repeats", "letters", "sequences", "name"}
"""Fields that are no counts, or never one: limits, and sizes of a corpus."""


def test_no_text_of_a_page_puts_a_plural_beside_a_count_that_may_be_one() -> None:
    pages = {code: PLURAL.findall(text) for code, text in catalogue("en").items() if "." in code}
    assert not [code for code, counts in pages.items() if not LIMITS.issuperset(counts)]
