"""The page Your model: its picture stands in its address; each kind of checkpoint starts with something to see."""

from pathlib import Path

import pytest

from tests.checkpoint.references import reference_file
from tests.classifiers import sequence_checkpoint
from tests.pages.opening import address_of, brought, head_shown, problems, ran, with_heads
from tests.pages.test_checkpoints import fine, opened
from tests.pages.tiny import save_tiny
from transformer.checkpoint.ours.folder import save_folder

APP = str(Path(__file__).parents[2] / "app.py")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("ui.store.shipped.CHECKPOINTS", tmp_path)
    save_tiny(tmp_path)
    (tmp_path / "tiny").rename(tmp_path / "other")
    save_tiny(tmp_path)
    small = sequence_checkpoint()
    save_folder(tmp_path / "letters", "kmer", small.model, task=small.task, examples=("ACGTTGCAAGTGTCAGTTGACGTACC",))
    return tmp_path


def test_text_target_and_open_view_stand_in_the_address_and_come_from_it() -> None:
    page = ran(opened(model="tiny"), input="two dogs", forced="zwei Hunde")
    assert {"input": "two dogs", "forced": "zwei Hunde"}.items() <= address_of(page).items()
    link = opened(model="tiny", input="two dogs", forced="zwei Hunde", map="downloads")
    assert link.text_input(key="input").value == "two dogs"
    assert link.text_input(key="forced").value == "zwei Hunde"
    assert "CSV" in " ".join(button.proto.label for button in link.get("download_button"))
    assert address_of(link)["map"] == "downloads"
    assert not {"input", "forced"} & set(
        address_of(ran(link, input=opened(model="tiny").text_input(key="input").value, forced=""))
    )


def test_another_checkpoint_starts_with_its_own_text() -> None:
    page = ran(opened(model="tiny"), input="two dogs", forced="zwei")
    page.selectbox(key="model").set_value("other")
    fine(page.run())
    assert page.text_input(key="input").value != "two dogs"
    assert page.text_input(key="forced").value == ""
    assert not {"input", "forced"} & set(address_of(page))


@pytest.mark.parametrize(("lang", "said"), [("en", "needs no tokenizer"), ("zh", "不需要分词器")])
def test_a_shipped_classifier_says_what_it_is_and_leads_to_its_page(
    lang: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = opened(model="letters", lang=lang)
    assert not page.warning
    assert said in page.info[0].value
    left = list[str]()
    monkeypatch.setattr("streamlit.switch_page", left.append)
    page.button(key="to-sequences").click()
    fine(page.run())
    assert left == ["pages/sequences.py"]


def test_a_bare_classifier_of_windows_runs_once_its_heads_are_known() -> None:
    page = fine(with_heads(brought(opened(), **{"model.pt": reference_file("kmer").read_bytes()}), 4))
    assert not problems(page)
    assert head_shown(page)[1].size
