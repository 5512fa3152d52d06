"""What keeps the server from starting."""

import pytest

from transformer.errors import CheckpointError
from ui import serving
from ui.store import log


@pytest.mark.parametrize(
    ("value", "said"), [("777", "takes 200 MB: set STREAMLIT_SERVER_MAX_UPLOAD_SIZE=777"), ("7 MB", "no number")]
)
def test_a_bound_that_is_none_or_that_the_web_server_undercuts(
    value: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEEDMAP_UPLOAD_MB", value)
    monkeypatch.setattr(log, "begin", lambda: None)
    with pytest.raises(CheckpointError, match=said):
        serving.life(None).__aenter__().send(None)  # type: ignore[attr-defined]  # a coroutine
