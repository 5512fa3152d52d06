"""The page Your model says in amber on what maps rest that a file does not say, and in green only what is known."""

import io
from typing import Any

import pytest
import torch

from tests.checkpoint.foreign.test_forks import Fork
from tests.pages.opening import brought, with_heads
from tests.pages.test_checkpoints import asked, fine, opened

pytestmark = pytest.mark.usefixtures("shipped")
"""A tiny checkpoint stands in for the shipped ones."""


def _saved(**beside: Any) -> bytes:
    torch.manual_seed(1)
    fork = Fork(2)
    more = {f"transformer.h.{i}.{place}.weight": torch.ones(6) for i in range(2) for place in ("attn.q_norm", "late")}
    target = io.BytesIO()
    torch.save({"model": fork.state(**(more if beside.pop("more", False) else {})), **beside}, target)
    return target.getvalue()


def test_a_file_whose_options_say_all_is_green_and_asks_nothing():
    told = {"n_head": 2, "norm_first": True, "scores_divided_by": "d_head", "positions": "learned"}
    page = brought(opened(), **{"ckpt.pt": _saved(model_args=told | {"activation": "relu", "pad_id": -1})})
    assert "100%" in page.success[0].value
    assert not page.warning
    assert "The file says all that is asked" in [one.label for one in page.expander]
    fine(page.button(key="open-check").click().run())  # a fork may differ: prove it
    assert page.button_group(key="show").value == "check"


def test_options_that_differ_are_named_in_the_banner_and_asked():
    page = brought(opened(), **{"ckpt.pt": _saved(model_args={"n_head": 2}, config={"n_head": 4})})
    assert "no maps before this is answered" in page.warning[0].value
    assert "model\\_args says 2, config says 4" in page.warning[0].value
    assert page.button_group(key="show").options == ["Tensors", "Check"]
    page = fine(with_heads(page, 2))
    assert not page.success
    assert "scores\\_divided\\_by='d\\_head'" in page.warning[0].value
    page = fine(asked(page, "button_group", "norm_first").set_value(False).run())
    assert "norm\\_first" not in page.warning[0].value
    page = fine(page.button(key="confirm-answers").click().run())
    assert page.success
    assert not page.warning


def test_what_is_left_out_is_counted_in_amber_and_no_part_of_an_attention_may_be():
    page = brought(opened(), **{"ckpt.pt": _saved(more=True)})
    assert "88%" in page.error[0].value
    page = fine(with_heads(page, 2))
    page = fine(asked(page, "text_input", "ignore").set_value("*.weight").run())
    assert any("is a part of an attention" in one.value.replace("\\", "") for one in page.warning)
    assert not page.success
    assert page.error


@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_green_while_tensors_are_left_out(language: str):
    torch.manual_seed(1)
    fork = Fork(2)
    target = io.BytesIO()
    torch.save(fork.state(**{f"transformer.h.{i}.late.weight": torch.ones(6) for i in range(2)}), target)
    page = brought(opened(lang=language), **{"ckpt.pt": target.getvalue()})
    page = fine(with_heads(page, 2))
    page = fine(asked(page, "text_input", "ignore").set_value("*.late.*").run())
    page = fine(page.button(key="confirm-answers").click().run())
    assert not page.success
    assert ("2 tensors left out by you" if language == "en" else "您忽略了 2 个张量") in page.warning[0].value
    assert "94%" in page.warning[0].value
