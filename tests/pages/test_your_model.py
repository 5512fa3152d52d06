"""The page Your model: record files and all views of them; what is wrong is one sentence."""

import gc
import os
import re
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest
from torch import Tensor, nn

from heedmap import Intervention, Record, intervening, recording
from heedmap.attention.record_files import is_record
from tests.pages.opening import (
    brought,
    chosen,
    fine,
    gone,
    head_shown,
    matrix_sent,
    opened,
    pressed,
    problems,
    put,
    record_sent,
    said,
)
from tests.pages.test_chinese import english
from ui.store import user_folder
from ui.store.upload_guard import LEDGER

WORDS = ("the", "<b>red</b>", "$x$", "dog", "runs")
D, HEADS = 14, 2

pytestmark = pytest.mark.usefixtures("shipped")


class Looking(nn.Module):
    """A layer of attention by hand, as anybody writes it: 2 heads of 7 numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(D, 3 * D)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).view(len(x), -1, 3, HEADS, D // HEADS).permute(2, 0, 3, 1, 4)
        return (self.weights(q, k) @ v).transpose(1, 2).flatten(2)

    def weights(self, q: Tensor, k: Tensor) -> Tensor:
        return ((q @ k.transpose(-2, -1)) * 0.9).softmax(-1)


class Net(nn.Module):
    """Three layers that look, and one at the end that is no part of their list."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Looking() for _ in range(3))
        self.last = Looking()

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = x + block(x)
        return self.last(x)


@pytest.fixture(scope="module")
def net() -> Net:
    torch.manual_seed(11)
    return Net().eval()


def inputs(count: int = len(WORDS)) -> Tensor:
    return torch.randn(1, count, D, generator=torch.Generator().manual_seed(3))


def recorded(net: Net, *changes: Intervention, words: Sequence[str] = WORDS, **named: str) -> Record:
    with torch.no_grad(), intervening(changes), recording(net) as seen:
        net(inputs(len(words)))
    return Record(dict(seen.record(list(words), list(words))), **named)


def weights_by_hand(net: Net, layer: int) -> np.ndarray:
    """What each head of a layer of the list looks at, in double precision."""
    x = inputs().double()
    twin = Net().double()
    twin.load_state_dict(net.state_dict())
    with torch.no_grad():
        for block in twin.blocks[:layer]:
            x = x + block(x)
        q, k, _ = twin.blocks[layer].qkv(x).view(1, -1, 3, HEADS, D // HEADS).permute(2, 0, 3, 1, 4)
        return (q @ k.transpose(-2, -1) * 0.9).softmax(-1)[0].numpy()


def dropped(page: AppTest, **files: bytes) -> AppTest:
    """The page once these record files were dropped in, all at once."""
    return brought(page, **{f"{name}.heedmap": data for name, data in files.items()})


def test_words_that_the_vocabulary_lacks_are_counted_above_the_maps():
    page = fine(opened("your_model", input="A 猫 runs."))
    assert any("1 of 4 words are unknown to its vocabulary" in part.value for part in page.info)


def test_first_paint_shows_the_three_ways_in_their_order_and_something_to_see():
    page = fine(opened("your_model"))
    assert page.title[0].value == "Your model"
    first, second, third, complete = (code.value for code in page.code)
    assert 'seen.record().save("run.heedmap")' in first
    assert "make run MODEL=my_model.py:make" in second
    assert "torch.save(" in third
    assert "def make():" in complete
    assert all(len(lines.splitlines()) == 3 for lines in (first, second, third))
    assert head_shown(page)[1].ndim == 2
    identity = next(part.value for part in page.markdown if "parameters" in part.value)
    assert identity.startswith("**encoder-decoder Transformer** · 2 + 1 layers \N{MULTIPLICATION SIGN} 2 heads")
    assert identity.endswith("translates English to German")


def test_a_record_is_shown_head_by_head_under_the_paths_of_its_modules(net: Net):
    page = dropped(opened("your_model"), run=recorded(net, model="my net", text="the red dog").to_bytes())
    fine(page)
    assert page.selectbox(key="model").value == "record/run"
    assert {"my net · 4 sites · 8 heads", "the red dog"} <= {part.value for part in (*page.caption, *page.text)}
    sent = record_sent(page)
    assert {kind: told["sites"] for kind, (told, _) in sent.items()} == {
        "blocks": ["blocks.0", "blocks.1", "blocks.2"],
        "last": ["last"],
    }
    for layer in range(3):
        np.testing.assert_allclose(sent["blocks"][1][layer], weights_by_hand(net, layer), atol=1e-6)
    assert sent["blocks"][0]["keys"]["texts"] == list(WORDS)
    _, layer, head = chosen(page)
    surest = max((weights_by_hand(net, i)[h].max(-1).mean(), i, h) for i in range(3) for h in range(HEADS))
    assert (layer, head) == surest[1:]
    assert "the head whose rows put the largest weight on one token" in said(page)


def test_numbers_and_files_of_a_record_are_its_own(net: Net):
    page = dropped(opened("your_model"), run=recorded(net, model="my net", text="the red dog").to_bytes())
    table = gone(page, map="measures").dataframe[0].value
    assert list(table["site"]) == [site for site in ("blocks.0", "blocks.1", "blocks.2", "last") for _ in range(2)]
    by_hand = weights_by_hand(net, 1)
    entropy = -(by_hand * np.log(by_hand)).sum(-1).mean(-1)
    np.testing.assert_allclose(table["entropy"][2:4], entropy, atol=1e-5)
    np.testing.assert_allclose(table["same"][2:4], by_hand.diagonal(axis1=1, axis2=2).mean(-1), atol=1e-5)
    buttons = gone(page, map="downloads").get("download_button")
    assert "Record (.heedmap)" in [button.proto.label for button in buttons]


def test_a_hostile_record_is_refused_in_one_sentence_and_nothing_is_lost(net: Net):
    assert is_record("a.HEEDMAP")
    assert not is_record("a.heedmap.pt")
    gc.collect()  # what sessions of earlier tests held
    held = LEDGER.n_bytes
    good = recorded(net).to_bytes()
    page = dropped(opened("your_model"), good=good)
    for bad, reason in (
        (good[:200], "damaged|cut|short|header"),
        (b"\x80\x04\x95 no", "no file that record.save wrote"),
    ):
        page = dropped(page, bad=bad)
        assert LEDGER.n_bytes - held == len(good)
        (told,) = (one.replace("\\", "") for one in problems(page))
        assert "bad.heedmap" in told
        assert re.search(reason, told), told
        assert page.selectbox(key="model").value == "record/good"
        assert record_sent(page)["blocks"][1].shape == (3, HEADS, len(WORDS), len(WORDS))
    assert pressed(page, "remove").selectbox(key="model").value == "tiny"
    assert LEDGER.n_bytes == held


def test_one_record_alone_asks_for_another_and_a_changed_one_says_so(net: Net):
    page = dropped(opened("your_model"), first=recorded(net).to_bytes())
    page = gone(page, show="beside")
    assert "Drop more record files" in said(page)
    page = dropped(page, after=recorded(net, Intervention("blocks.0", "uniform", heads=(1,))).to_bytes())
    assert page.selectbox(key="model").value == "record/after"
    assert "Changed while it ran: blocks.0 (head 1) made uniform" in said(page).replace("\\", "")
    assert "record/after minus record/first" in said(page)
    assert (page.button_group(key="layer").value, page.button_group(key="head").value) == ("0", "1")  # most different
    mean = matrix_sent(page.button_group(key="head").set_value("mean").run(), "beside-difference-record/first")[1]
    np.testing.assert_allclose(mean, (0.2 - weights_by_hand(net, 0)[1]) / 2, atol=1e-6)


def test_four_records_stand_side_by_side_on_one_scale_and_any_of_them_are_chosen_by_name(net: Net):
    changes = {name: [Intervention("blocks.0", name, heads=(1,))] for name in ("uniform", "zero")}
    files = {"plain": recorded(net).to_bytes(), "short": recorded(net, words=("a", "b", "c")).to_bytes()}
    files |= {name: recorded(net, *change).to_bytes() for name, change in changes.items()}
    page = dropped(opened("your_model"), **files)
    page = gone(page, model="record/plain", show="beside")
    others = ["record/short", "record/uniform", "record/zero"]
    assert page.multiselect(key="other").value == page.multiselect(key="other").options == others
    sent = {name: matrix_sent(page, f"beside-{name}") for name in ("record/plain", *others)}
    assert {(told["centred"], told["end"]) for told, _ in sent.values()} == {(False, None)}  # 0 to 1
    by_hand = weights_by_hand(net, 0)[1]
    np.testing.assert_allclose(sent["record/plain"][1], by_hand, atol=1e-6)
    np.testing.assert_allclose(sent["record/uniform"][1], np.full((5, 5), 0.2), atol=1e-6)
    _, apart = matrix_sent(page, "beside-difference-record/uniform")
    np.testing.assert_allclose(apart, 0.2 - by_hand, atol=1e-6)
    both = [matrix_sent(page, f"beside-difference-record/{name}") for name in changes]
    assert {told["end"] for told, _ in both} == {max(np.abs(values).max() for _, values in both)}
    assert "record/short and record/plain: no difference is drawn" in said(page)
    put(page, other=["record/zero"])
    assert page.query_params["other"] == "record/zero"
    matrix_sent(page, "beside-record/zero")
    with pytest.raises(StopIteration):
        matrix_sent(page, "beside-record/uniform")


def test_a_long_record_is_seen_through_a_window(net: Net):
    words = [f"w{i}" for i in range(523)]
    page = dropped(opened("your_model"), long=recorded(net, words=words).to_bytes())
    put(page, kind="last")
    tiles = [part for part in page.get("bidi_component") if part.key == "tokens-tiles"]
    assert len(tiles) == 1
    assert not page.get("plotly_chart")


def test_a_link_to_a_record_of_another_session_says_so(net: Net):
    dropped(opened("your_model"), run=recorded(net).to_bytes())
    page = opened("your_model", model="record/run")
    assert "uploads live in one session only" in problems(page)[0]
    assert page.selectbox(key="model").options == ["tiny"]
    opened("what_if", model="record/run")


def test_records_in_chinese_hold_no_english_sentence(net: Net):
    change = Intervention("blocks.0", "uniform", heads=(1,))
    page = dropped(opened("your_model", lang="zh"), a=recorded(net).to_bytes(), b=recorded(net, change).to_bytes())
    page.query_params["show"] = "beside"
    assert page.run().title[0].value == "您的模型"
    assert english(page) == []


def test_a_record_of_the_users_folder_is_shown_to_every_reader_until_it_changes(net: Net, tmp_path, monkeypatch):
    file = tmp_path / "run.heedmap"
    recorded(net).save(file)
    monkeypatch.setattr(user_folder, "own_folder", lambda: file)
    page = fine(opened("your_model", model="mine/run.heedmap"))
    before = record_sent(page)["blocks"][1]
    assert not [one for one in page.button if one.key == "remove"]
    recorded(net, Intervention("blocks.0", "uniform", heads=(0, 1))).save(file)
    os.utime(file, (1, 1))
    after = record_sent(opened("your_model", model="mine/run.heedmap"))["blocks"][1]
    assert not np.array_equal(before, after)
