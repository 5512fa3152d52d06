"""The shipped translator in NumPy: the paper's formulas on the numbers of its state dict, with any masks."""

from collections.abc import Callable

import numpy as np

from transformer import Checkpoint

HEADS = 4
Visible = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""(query index column, key index row) -> whether it is seen."""


def past(i: np.ndarray, j: np.ndarray) -> np.ndarray:
    return j <= i


def past_and_next(i: np.ndarray, j: np.ndarray) -> np.ndarray:
    return j <= i + 1


def future(i: np.ndarray, j: np.ndarray) -> np.ndarray:
    return j >= i


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


class ByHand:
    """A pre-norm encoder-decoder with ReLU, sinusoids, and scores that are read from one shared table."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.state = {name: one.double().numpy() for name, one in checkpoint.model.state_dict().items()}
        self.first = np.zeros((0, 0))
        """Weights of the encoder's first head, of the last sentence."""

    def linear(self, name: str, x: np.ndarray) -> np.ndarray:
        return np.asarray(x @ self.state[f"{name}.weight"].T + self.state.get(f"{name}.bias", 0.0))

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        less = x - x.mean(-1, keepdims=True)
        divided = less / np.sqrt((less**2).mean(-1, keepdims=True) + 1e-5)
        return np.asarray(self.state[f"{name}.weight"] * divided + self.state[f"{name}.bias"])

    def embedded(self, table: str, ids: list[int]) -> np.ndarray:
        d = self.state[f"{table}.weight"].shape[1]
        place, column = np.mgrid[0 : len(ids), 0:d]
        angle = place / 10_000 ** (column // 2 * 2 / d)
        waves = np.where(column % 2, np.cos(angle), np.sin(angle))
        return np.asarray(self.state[f"{table}.weight"][ids] * np.sqrt(d) + waves)

    def attention(self, name: str, asks: np.ndarray, answers: np.ndarray, visible: np.ndarray) -> np.ndarray:
        q, k, v = (
            self.linear(f"{name}.{one}", x) for one, x in (("query", asks), ("key", answers), ("value", answers))
        )
        width, mixed = q.shape[1] // HEADS, []
        for head in range(HEADS):
            part = slice(head * width, (head + 1) * width)
            scores = np.where(visible, q[:, part] @ k[:, part].T / np.sqrt(width), -np.inf)
            weights = softmax(scores)
            if head == 0 and name == "encoder.0.self_attention":
                self.first = weights
            mixed.append(weights @ v[:, part])
        return self.linear(f"{name}.output", np.hstack(mixed))

    def block(self, name: str, x: np.ndarray, visible: np.ndarray, source: np.ndarray | None) -> np.ndarray:
        read = self.norm(f"{name}.self_residual.norm", x)
        x = x + self.attention(f"{name}.self_attention", read, read, visible)
        if source is not None:
            read = self.norm(f"{name}.cross_residual.norm", x)
            x = x + self.attention(f"{name}.cross_attention", read, source, np.ones((len(x), len(source)), bool))
        read = self.norm(f"{name}.feed_forward_residual.norm", x)
        wide = np.maximum(self.linear(f"{name}.feed_forward.widen", read), 0)
        return np.asarray(x + self.linear(f"{name}.feed_forward.narrow", wide))

    def encoded(self, ids: list[int]) -> np.ndarray:
        x = self.embedded("source_embedding", ids)
        for layer in range(4):
            x = self.block(f"encoder.{layer}", x, np.ones((len(x), len(x)), bool), None)
        return self.norm("encoder_norm", x)

    def log_p(self, source: np.ndarray, read: list[int], sees: Visible) -> np.ndarray:
        """Log-probabilities after each token that the decoder reads."""
        x = self.embedded("target_embedding", read)
        i, j = np.mgrid[0 : len(read), 0 : len(read)]
        for layer in range(4):
            x = self.block(f"decoder.{layer}", x, sees(i, j), source)
        logits = self.linear("projection", self.norm("decoder_norm", x))
        logits = logits - logits.max(-1, keepdims=True)
        return np.asarray(logits - np.log(np.exp(logits).sum(-1, keepdims=True)))

    def loss(self, source: list[int], target: list[int], sees: Visible) -> list[float]:
        """What each label costs, in nats; a target begins with its start token."""
        found = self.log_p(self.encoded(source), target[:-1], sees)
        return (-found[np.arange(len(found)), target[1:]]).tolist()

    def greedy(self, source: list[int], start: int, end: int, most: int, sees: Visible) -> list[int]:
        states, read = self.encoded(source), [start]
        while len(read) <= most and read[-1] != end:
            read.append(int(self.log_p(states, read, sees)[-1].argmax()))
        return [one for one in read[1:] if one != end]
