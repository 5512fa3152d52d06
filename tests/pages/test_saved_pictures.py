"""What a saved picture of a lesson says of itself: the screen, what was chosen for it, and its formula."""

import pytest

from tests.lessons.notation import MEANINGS
from tests.pages.opening import fine, matrices, opened
from transformer.plots.canvas import blob

STATES = {
    "attention_steps?stage=project": ("Q, K, V, Head 0", "Q_0 = X W^Q_0"),
    "attention_steps?stage=softmax": ("the cat sat on", "Σ_k e^(S''_0[i,k])"),
    "attention_steps?screen=why&topic=cosine": ("Why?", "S_0[i,j] = q_i · k_j = |q_i| |k_j| G[i,j]"),
    "attention_steps?screen=why&topic=mean": ("Why?", "1 / 2 Σ_h A_h"),
    "masks?mask=padding": ("Masks: Build", "M_(ij) = e_j"),
    "masks?mask=both": ("Masks: Build", "M_(ij) = T_(ij) ∧ e_j"),
    "masks?screen=scores": ("Scores and weights", "A = softmax(QKᵀ / √d_k + log M)"),
    "masks?screen=break&how=shift": ("Break it", "shifted by one"),
    "masks?screen=break&how=axes": ("Break it", "axes mixed up"),
    "masks?screen=module": ("nn.MultiheadAttention", "batch_first=True"),
    "positions?screen=rotation&steps=3": ("Rotation", "R t_p = t_(p+k)"),
    "positions?screen=later&how=alibi": ("On attention", "- m |i - j|"),
    "positions?screen=later&how=rotary": ("On attention", "q_iᵀ R_(j-i) k_j / √d"),
    "inside_layer?stage=norm": ("Inside a layer: Norm", "N[i,j] = C[i,j] / δ[i]"),
    "inside_layer?made=letters": ("Letters", ""),
}


@pytest.mark.parametrize("address", STATES)
def test_a_saved_picture_names_its_screen_its_choice_and_its_formula(address: str) -> None:
    page, _, query = address.partition("?")
    at = fine(opened(page, **dict(one.split("=") for one in query.split("&"))))
    sent = next(part.proto.bytes for part in at.get("bidi_component") if b'"matrices"' in part.proto.bytes)
    about = blob.unpack(sent)[0]["about"]
    said = "\n".join([about["title"], *about["lines"], *about["formulas"]])
    for part in STATES[address]:
        assert part in said, said
    assert not set(said) & set("\\{}")


def test_the_lesson_on_masks_writes_the_notation_of_all_lessons() -> None:
    names = {"before": "scaled scores", "after": "masked scores", "weights": "attention weights"}
    shown = matrices(fine(opened("masks", screen="scores")))[0] | matrices(fine(opened("masks", mask="both")))[0]
    assert {name: MEANINGS[shown[name]["symbol"]] for name in names} == names
    assert all(one["symbol"] in MEANINGS for one in shown.values())
    assert [name for name, one in shown.items() if one["mask"]] == ["real", "triangle", "result"]
