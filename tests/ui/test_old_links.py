"""Addresses of earlier releases lead to the page and the parameters of today, and no other address is touched."""

import pytest
from starlette.responses import Response

from tests.loops import answered
from ui.map import choices
from ui.old_links import OF_TRANSLATE, WORDS, OldLinks
from ui.shared.controls import KINDS
from ui.shared.subject import MODEL, TEXT, WORD
from ui.shared.writing import TEMPERATURE


def led(address: str, method: str = "GET") -> tuple[int, str]:
    """The status and where it leads; 200 from the app behind."""
    answer = answered(OldLinks(Response()), address, method)
    return answer.status, answer.headers.get("location", "")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/?text=Two%20dogs&view=Head+view", "translate?text=Two+dogs&view=head_view"),
        ("/?text=a&kind=Encoder+self&layer=1", "translate?text=a&kind=encoder.self&layer=1"),
        ("/?step=2-3", "translate?written=3"),
        ("/translate?view=Step+by+step&step=0", "translate?view=steps&written=1"),
        ("/?force=%E4%BD%A0&beam=2", "translate?force=%E4%BD%A0&beam=2"),
        ("/?head=", "translate?head="),
        ("/?sentence=a&checkpoint=b", "/?text=a&model=b"),
        ("/checkpoints", "your_model"),
        ("/atlas?screen=head&site=encoder.2.self&head=1", "atlas?screen=head&head=1&kind=encoder.self&layer=2"),
        ("/atlas?screen=map&kind=pooling", "atlas?screen=cards&kind=pooling"),
        ("/checkpoints?lang=zh", "your_model?lang=zh"),
        ("/align?screen=training&moment=6", "learning?screen=training&moment=6"),
        ("/align?text=a&screen=lesson", "learning?text=a&screen=lesson"),
        ("/align?first=b&mark=1:Hunde", "align?model=b&mark=1&word=Hunde"),
        ("/what_if?checkpoint=b&do=x", "what_if?model=b&do=x"),
        ("/what_if?checkpoint=c&model=b", "what_if?model=b"),
        ("/sequences?view=heads&relative-windows=true", "sequences?view=windows&relative=true"),
    ],
)
def test_an_old_address_leads_to_the_one_of_today_which_leads_nowhere_else(old: str, new: str) -> None:
    assert led(old) == (307, new)
    assert led(f"/{new.removeprefix('/')}") == (200, "")


def test_everything_else_stays_where_it_is_and_what_is_not_read() -> None:
    for address in (
        "/", "/?text=a&word=b", "/?lang=zh", "/?text=a&model=b", "/align?beam=2", "/align/?first=b", "/align?mark=1",
        "/align?screen=agreement&text=lesson", "/translate?beam=2", "/_stcore/health?beam=2",
        "/https:elsewhere?checkpoint=a", "//elsewhere?checkpoint=a",
    ):  # fmt: skip
        assert led(address) == (200, ""), address
    assert led("/?beam=2", "POST") == (200, "")


def test_below_a_path_of_its_own_the_server_leads_within_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.old_links.st.get_option", lambda name: "/heed/" if name == "server.baseUrlPath" else None)
    assert led("/heed/?beam=2") == (307, "translate?beam=2")
    assert led("/heed/checkpoints") == (307, "your_model")
    assert led("/?beam=2") == (200, "")


def test_the_words_of_today_are_those_of_the_pages() -> None:
    assert OF_TRANSLATE.isdisjoint(
        {MODEL, TEXT, WORD, choices.PIECE, choices.STEP, choices.PART, choices.HEAD, choices.LAYERS, TEMPERATURE}
    )
    assert set(WORDS["translate", "kind"].values()) == set(KINDS)
