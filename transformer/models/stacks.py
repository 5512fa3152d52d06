"""What the configs of all models with Transformer layers have in common: the part that one layer needs."""

from transformer.layers.blocks import BlockConfig


class StackConfig:
    """Base of such configs, which are dataclasses and declare these options themselves, with defaults of their own.

    So each config.json keeps its own options in its own order. An option that a config does not declare has the value
    that stands here: `d_k` and `d_v` of 0 stand for d_model / n_heads, `attention_scale` of 0 for d_k^-0.5.
    """

    d_model: int
    n_heads: int
    d_k: int = 0
    d_v: int = 0
    d_ff: int
    dropout: float
    attention_dropout: float
    norm_first: bool
    norm: str = "torch"
    norm_eps: float
    attention_bias: bool = True
    attention_scale: float = 0.0
    activation: str

    @property
    def block(self) -> BlockConfig:
        """The part that one encoder or decoder block needs."""
        return BlockConfig(
            d_model=self.d_model,
            n_heads=self.n_heads,
            d_k=self.d_k or self.d_model // self.n_heads,
            d_v=self.d_v or self.d_model // self.n_heads,
            d_ff=self.d_ff,
            dropout=self.dropout,
            attention_dropout=self.attention_dropout,
            norm_first=self.norm_first,
            norm=self.norm,
            norm_eps=self.norm_eps,
            attention_bias=self.attention_bias,
            activation=self.activation,
            attention_scale=self.attention_scale,
        )
