"""What a k-mer classifier has to beat: logistic regressions on letters and on k-mers, and a small convolutional net."""

import torch
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


class PlacedKmers(nn.Module):
    """Logistic regression on k-mers of up to `longest` letters: each, at each place, votes for each class.

    A vote is that of the place alone, and what places within about `near` letters have learned of the same k-mer.
    Related: the weighted degree kernel with shifts (Rätsch, Sonnenburg and Schölkopf 2005, "RASE: recognition of
    alternatively spliced exons"), here without a kernel.
    """

    def __init__(self, n_letters: int, length: int, n_classes: int, longest: int = 3, near: float = 3.0) -> None:
        super().__init__()
        self.n_letters = n_letters
        shapes = [(length - k + 1, n_letters**k, n_classes) for k in range(1, min(longest, length) + 1)]
        self.here = nn.ParameterList(nn.Parameter(torch.zeros(shape)) for shape in shapes)
        self.around = nn.ParameterList(nn.Parameter(torch.zeros(shape)) for shape in shapes)
        self.bias = nn.Parameter(torch.zeros(n_classes))
        apart = torch.arange(length)[:, None] - torch.arange(length)
        weight = torch.exp(-((apart / near) ** 2))
        self.register_buffer("weight", weight / weight.square().sum(0).max().sqrt(), persistent=False)

    def forward(self, letters: Int[Tensor, "batch letter"]) -> Float[Tensor, "batch classes"]:
        """Logits of the classes."""
        logits, weight = self.bias, self.get_buffer("weight")
        for k, (here, around) in enumerate(zip(self.here, self.around, strict=True), start=1):
            n_places = len(here)
            powers = self.n_letters ** torch.arange(k, device=letters.device)
            kmers = (letters.unfold(1, k, 1) * powers).sum(-1)
            votes = here + torch.einsum("pq,qkc->pkc", weight[:n_places, :n_places], around)
            logits = logits + votes[torch.arange(n_places, device=letters.device), kmers].sum(1)
        return logits


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
