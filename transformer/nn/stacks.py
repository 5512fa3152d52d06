"""What the configs of all models with Transformer layers have in common."""

from dataclasses import dataclass

from transformer.errors import ConfigError
from transformer.nn.blocks import ACTIVATIONS, BlockConfig
from transformer.nn.common import at_least, one_of, probability
from transformer.nn.positions import POSITION_KINDS


@dataclass(frozen=True, kw_only=True)
class StackConfig(BlockConfig):
    """A block's options, and those of what stands around the blocks.

    `positions`: the paper's `sinusoidal` table or another formula, a `learned` table, or one `stored` in the checkpoint
    and not trained. `scale_embedding` multiplies embeddings by sqrt(d_model). `pad_id` of -1 says that no id is
    padding.

    Raises:
        ConfigError: sizes that do not fit together, or an option that is not known.
    """

    positions: str = "sinusoidal"
    max_length: int = 512
    scale_embedding: bool = False
    norm_after_stack: bool = False
    pad_id: int = -1

    def __post_init__(self) -> None:
        at_least(self, 1, "d_model", "n_heads", "d_ff", "max_length")
        one_of(self, "norm", ("torch", "annotated"))
        one_of(self, "activation", tuple(ACTIVATIONS))
        one_of(self, "positions", POSITION_KINDS)
        probability(self, "dropout", "attention_dropout")
        if self.d_k < 0 or self.d_v < 0:
            raise ConfigError("negative_head_sizes", d_k=self.d_k, d_v=self.d_v)
        if not (self.d_k and self.d_v) and self.d_model % self.n_heads:
            raise ConfigError("heads_need_sizes", d_model=self.d_model, n_heads=self.n_heads)
