"""Where other libraries' models put their layer norms, by the library's name of the family.

Told by hand from the definitions in the `transformers` library, since a module's declaration does not say it: Llama
declares its norms after its attention and its net, and runs them before. A test runs a model of each family and
compares the order.
"""

NORMS_BEFORE = frozenset(
    (
        *("gpt2", "gpt_bigcode", "opt", "biogpt", "llama", "mistral", "mixtral", "qwen2", "qwen3", "gemma"),
        *("starcoder2", "stablelm", "t5", "mt5", "umt5", "pegasus", "mbart", "m2m_100", "blenderbot"),
    )
)
"""Families whose sub-layers read a normed state."""

NORMS_AFTER = frozenset(
    (
        *("bert", "roberta", "xlm-roberta", "camembert", "electra", "ernie", "distilbert"),
        *("marian", "bart", "blenderbot-small"),
    )
)
"""Families that norm each residual sum."""
