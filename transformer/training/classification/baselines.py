"""What a k-mer classifier has to beat: a logistic regression on positions, and a two-layer convolutional net."""

from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F


class PositionLogistic(nn.Module):
    """Multinomial logistic regression on one-hot letters: each letter at each position votes for each class."""

    def __init__(self, n_letters: int, length: int, n_classes: int) -> None:
        super().__init__()
        self.n_letters = n_letters
        self.votes = nn.Linear(n_letters * length, n_classes)

    def forward(self, letters: Int[Tensor, "batch letter"]) -> Float[Tensor, "batch classes"]:
        """Logits of the classes."""
        return self.votes(F.one_hot(letters, self.n_letters).flatten(1).to(self.votes.weight.dtype))


class SmallCnn(nn.Module):
    """Two convolutions (widths 11 and 5), each with pooling by two, then two linear layers."""

    def __init__(self, n_letters: int, length: int, n_classes: int, channels: int = 64, dropout: float = 0.3) -> None:
        super().__init__()
        self.n_letters = n_letters
        self.features = nn.Sequential(
            nn.Conv1d(n_letters, channels, 11, padding=5),
            nn.ReLU(),
            nn.MaxPool1d(2),
            nn.Dropout(dropout),
            nn.Conv1d(channels, channels, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool1d(2),
            nn.Dropout(dropout),
        )
        self.hidden = nn.Linear(channels * (length // 4), channels)
        self.classifier = nn.Linear(channels, n_classes)

    def forward(self, letters: Int[Tensor, "batch letter"]) -> Float[Tensor, "batch classes"]:
        """Logits of the classes."""
        one_hot = F.one_hot(letters, self.n_letters).to(self.hidden.weight.dtype).transpose(1, 2)
        return self.classifier(self.hidden(self.features(one_hot).flatten(1)).relu())
