"""The page "Sequences" while its slow work is stopped: the rest stays, and the work is done once it is asked for."""

import json
from pathlib import Path

import pytest
import streamlit as st

from tests.classifiers import sequence_checkpoint
from tests.pages.opening import figure
from tests.pages.test_sequences import EXAMPLE, fine, page
from transformer.checkpoint.ours.folder import save_folder
from ui.sequences import runs
from ui.store import progress


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small checkpoint stands in for the shipped ones."""
    one = sequence_checkpoint()
    save_folder(tmp_path / "small", "kmer", one.model, task=one.task, examples=(EXAMPLE,))
    monkeypatch.setattr("ui.store.shipped.CHECKPOINTS", tmp_path)


@pytest.mark.parametrize(
    ("work", "kind", "address", "what"),
    [
        ("mutations", "effects", {}, "Mutations"),
    ],
)
def test_what_is_stopped_leaves_the_rest_of_the_page_and_can_be_asked_for(
    monkeypatch: pytest.MonkeyPatch, work: str, kind: str, address: dict[str, str], what: str
) -> None:
    """Someone presses Stop while the bar of the work stands still."""

    def stopped(*_: object, **__: object) -> None:
        st.session_state[progress.STOPPED].add(kind)
        st.rerun()

    monkeypatch.setattr(progress, "name_of", lambda kind, key: kind)
    with monkeypatch.context() as impatient:
        impatient.setattr(runs, work, stopped)
        at = fine(page(**address))
    told = [said.value for said in at.info]
    assert [one for one in told if "trusted" not in one] == [f"{what}: stopped by you."]
    drawn = [len(one["data"]) for one in map(json.loads, (each.proto.spec for each in at.get("plotly_chart")))]
    fine(at.button(key=f"go-on-{kind}").click().run())
    assert not any("stopped by you" in said.value for said in at.info)
    assert len(figure(at)["data"]) > (drawn[0] if drawn else 0)
