"""The page Your model: record files in, all views of them out; hostile ones are refused; two stand side by side."""

import gc
import json
import os
import re
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest
from torch import Tensor, nn

from tests.pages.opening import brought, chosen, fine, head_shown, matrix_sent, opened, problems, record_sent
from tests.pages.test_chinese import english
from transformer import AttentionMap, Intervention, Record, intervening, recording
from transformer.attention.record_files.contents import is_record
from transformer.checkpoint.worker import isolated
from ui.store import user_folder
from ui.store.upload_quota import LEDGER, UploadLimits

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


def texts(page: AppTest) -> str:
    parts = (*page.caption, *page.markdown, *page.text, *page.info, *page.warning)
    return " ".join(part.value for part in parts)


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
    assert "the head whose rows put the largest weight on one token" in texts(page)


def test_numbers_and_files_of_a_record_are_its_own(net: Net):
    record = recorded(net, model="my net", text="the red dog")
    page = dropped(opened("your_model"), run=record.to_bytes())
    page.query_params["map"] = "measures"
    table = fine(page.run()).dataframe[0].value
    assert list(table["site"]) == [
        "blocks.0",
        "blocks.0",
        "blocks.1",
        "blocks.1",
        "blocks.2",
        "blocks.2",
        "last",
        "last",
    ]
    by_hand = weights_by_hand(net, 1)
    entropy = -(by_hand * np.log(by_hand)).sum(-1).mean(-1)
    np.testing.assert_allclose(table["entropy"][2:4], entropy, atol=1e-5)
    np.testing.assert_allclose(table["same"][2:4], by_hand.diagonal(axis1=1, axis2=2).mean(-1), atol=1e-5)
    page.query_params["map"] = "downloads"
    labels = [button.proto.label for button in fine(page.run()).get("download_button")]
    assert "Record (.heedmap)" in labels


def table_of(data: bytes) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    return header, json.loads(header["__metadata__"]["heedmap"]), data[8 + length :]


def with_table(data: bytes, table: dict[str, Any]) -> bytes:
    header, _, rest = table_of(data)
    header["__metadata__"]["heedmap"] = json.dumps(table)
    written = json.dumps(header).encode()
    written += b" " * (-len(written) % 8)
    return struct.pack("<Q", len(written)) + written + rest


def newer(data: bytes) -> bytes:
    return with_table(data, table_of(data)[1] | {"version": 2})


def many_heads(data: bytes) -> bytes:
    """Shapes in the header that no bytes stand for: 10^9 heads."""
    header, _, rest = table_of(data)
    for name, told in header.items():
        if name != "__metadata__":
            told["shape"] = [1, 10**9, *told["shape"][2:]]
    written = json.dumps(header).encode()
    written += b" " * (-len(written) % 8)
    return struct.pack("<Q", len(written)) + written + rest


def test_a_hostile_record_is_refused_in_one_sentence_and_nothing_is_lost(net: Net):
    gc.collect()  # what sessions of earlier tests held
    held = LEDGER.held
    good = recorded(net).to_bytes()
    page = dropped(opened("your_model"), good=good)
    for bad, reason in (
        (good[:200], "damaged|cut|short|header"),
        (b"\x80\x04\x95 no record", "no file that record.save wrote"),
        (newer(good), "written by a newer Heedmap"),
        (many_heads(good), "claims 25,000,000,000 numbers"),
    ):
        page = dropped(page, bad=bad)
        assert LEDGER.held - held == len(good)
        assert len(problems(page)) == 1
        assert "bad.heedmap" in problems(page)[0].replace("\\", "")
        assert re.search(reason, problems(page)[0].replace("\\", "")), problems(page)[0]
        assert page.selectbox(key="model").value == "record/good"
        assert record_sent(page)["blocks"][1].shape == (3, HEADS, len(WORDS), len(WORDS))
    page.button(key="remove").click()
    fine(page.run())
    assert page.selectbox(key="model").value == "tiny"
    assert LEDGER.held == held


def test_two_records_stand_side_by_side_and_the_difference_is_that_of_their_numbers(net: Net):
    change = Intervention("blocks.0", "uniform", heads=(1,))
    page = dropped(opened("your_model"), before=recorded(net).to_bytes(), after=recorded(net, change).to_bytes())
    assert page.selectbox(key="model").value == "record/after"
    assert "Changed while it ran: blocks.0 (head 1) made uniform" in texts(page).replace("\\", "")
    page.query_params["show"] = "beside"
    page.run()
    assert not page.exception
    names = ("record/after", "record/before", "difference-record/before")
    after, before, apart = (matrix_sent(page, f"beside-{name}")[1] for name in names)
    assert (page.button_group(key="layer").value, page.button_group(key="head").value) == ("0", "1")
    np.testing.assert_allclose(before, weights_by_hand(net, 0)[1], atol=1e-6)
    np.testing.assert_allclose(after, np.full((5, 5), 0.2), atol=1e-6)
    np.testing.assert_allclose(apart, 0.2 - weights_by_hand(net, 0)[1], atol=1e-6)
    assert "record/after minus record/before" in texts(page)
    page.button_group(key="head").set_value("mean")
    page.run()
    assert not page.exception
    mean = matrix_sent(page, "beside-difference-record/before")[1]
    np.testing.assert_allclose(mean, (0.2 - weights_by_hand(net, 0)[1]) / 2, atol=1e-6)


def test_records_of_other_tokens_have_no_difference_and_one_alone_asks_for_another(net: Net):
    page = dropped(opened("your_model"), first=recorded(net).to_bytes())
    page.query_params["show"] = "beside"
    page.run()
    assert "Drop more record files" in texts(page)
    page = dropped(page, second=recorded(net, words=("a", "b", "c")).to_bytes())
    for name in ("record/first", "record/second"):
        matrix_sent(page, f"beside-{name}")
    with pytest.raises(StopIteration):
        matrix_sent(page, "beside-difference-record/first")
    assert "the two read other tokens there" in texts(page)


def test_four_records_stand_side_by_side_on_one_scale_and_any_of_them_are_chosen_by_name(net: Net):
    changes = {name: [Intervention("blocks.0", name, heads=(1,))] for name in ("uniform", "zero")}
    files = {"plain": recorded(net).to_bytes(), "short": recorded(net, words=("a", "b", "c")).to_bytes()}
    files |= {name: recorded(net, *change).to_bytes() for name, change in changes.items()}
    page = dropped(opened("your_model"), **files)
    page.query_params["model"], page.query_params["show"] = "record/plain", "beside"
    fine(page.run())
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
    assert "record/short and record/plain: no difference is drawn" in texts(page)
    page.multiselect(key="other").set_value(["record/zero"])
    fine(page.run())
    assert page.query_params["other"] == "record/zero"
    matrix_sent(page, "beside-record/zero")
    with pytest.raises(StopIteration):
        matrix_sent(page, "beside-record/uniform")


def test_a_long_record_is_seen_through_a_window(net: Net):
    words = [f"w{i}" for i in range(523)]
    page = dropped(opened("your_model"), long=recorded(net, words=words).to_bytes())
    page.selectbox(key="kind").set_value("last")
    page.run()
    fine(page)
    tiles = [part for part in page.get("bidi_component") if part.key == "tokens-tiles"]
    assert len(tiles) == 1
    assert not page.get("plotly_chart")


class ManyHeads(nn.Module):
    """4,096 heads of one number each: a small file, and 69 million weights."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.scaled_dot_product_attention(x, x, x)


def test_a_small_file_of_very_many_weights_is_never_computed_whole(monkeypatch: pytest.MonkeyPatch):
    module = ManyHeads()
    with torch.no_grad(), recording(module) as seen:
        module(torch.randn(1, 4096, 130, 1))
    data = seen.record().to_bytes()

    def refuse(self: AttentionMap) -> None:
        raise AssertionError("every weight of a site is computed at once")

    monkeypatch.setattr(AttentionMap, "all_weights", refuse)
    page = dropped(opened("your_model"), many=data)
    fine(page)
    assert "An overview of all heads would take too long (4,096 heads" in texts(page)
    assert [part for part in page.get("bidi_component") if part.key == "tokens-tiles"]
    page.selectbox(key="head").set_value("4000")
    fine(page.run())


def test_a_link_to_a_record_of_another_session_says_so(net: Net):
    dropped(opened("your_model"), run=recorded(net).to_bytes())
    page = opened("your_model", model="record/run")
    assert not page.exception
    assert "uploads live in one session only" in problems(page)[0]
    assert page.selectbox(key="model").options == ["tiny"]
    other = opened("what_if", model="record/run")
    assert not other.exception


def test_records_count_among_what_a_session_may_hold(net: Net, monkeypatch: pytest.MonkeyPatch):
    data = recorded(net).to_bytes()
    monkeypatch.setenv("HEEDMAP_SESSION_MB", "1")
    monkeypatch.setattr(UploadLimits, "of", classmethod(lambda cls, _: cls(session_bytes=int(1.5 * len(data)))))
    page = dropped(opened("your_model"), one=data)
    with monkeypatch.context() as patch:
        patch.setattr(isolated, "open_record", lambda *_: pytest.fail("what has no room is not read"))
        page = dropped(page, two=data)
    assert "remove a checkpoint first" in problems(page)[0]
    assert page.selectbox(key="model").options[0] == "record/one"
    assert "record/two" not in page.selectbox(key="model").options


@pytest.mark.parametrize("show", ["attention", "beside"])
def test_records_in_chinese_hold_no_english_sentence(net: Net, show: str):
    change = Intervention("blocks.0", "uniform", heads=(1,))
    page = dropped(opened("your_model", lang="zh"), a=recorded(net).to_bytes(), b=recorded(net, change).to_bytes())
    page.query_params["show"] = show
    page.run()
    assert not page.exception
    assert page.title[0].value == "您的模型"
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


def test_only_the_ending_makes_a_record_and_names_are_made_plain():
    assert is_record("a.HEEDMAP")
    assert not is_record("a.heedmap.pt")
