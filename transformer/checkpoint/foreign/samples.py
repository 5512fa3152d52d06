"""Ids to run where there is no text: the same for everyone, and no special tokens among them."""

from typing import Any

from transformer.checkpoint.foreign.bundle import SPECIAL_IDS


def sample_ids(config: Any, count: int, size: int = 0) -> list[int]:
    """`count` ids of the source's vocabulary, spread over all of it, with some that come twice; no special tokens.

    `size` is the number of ids, where the config does not say it.

    Attention to a token that stands twice shows what a head makes of place and of content.
    """
    size = size or getattr(config, "source_vocab", None) or config.vocab
    special_ids = {getattr(config, name, -1) for name in SPECIAL_IDS}
    free = [i for i in range(min(size, 50_000)) if i not in special_ids] or [0]
    different = max(1, count * 2 // 3)
    spread = [free[(i * len(free)) // different % len(free)] for i in range(different)]
    return [spread[i % different] for i in range(count)]
