"""Where in a model an attention stands: `encoder.0.self`, `decoder.2.cross`, `pooling`."""


class Site(str):
    """The name of one attention of a model, which is the key of its map in a record.

    A name is `stack.layer.kind`; a name without dots is an attention that stands alone (`pooling`), which is its own
    stack and kind.
    """

    @classmethod
    def of(cls, stack: str, layer: int, kind: str) -> "Site":
        """The site of a layer, counted from 0."""
        return cls(f"{stack}.{layer}.{kind}")

    @property
    def stack(self) -> str:
        """`encoder` or `decoder`; its own name where it stands alone."""
        return self.split(".")[0]

    @property
    def layer(self) -> int | None:
        """Which layer of the stack, counted from 0; None where it stands alone."""
        parts = self.split(".")
        return int(parts[1]) if len(parts) == 3 else None

    @property
    def kind(self) -> str:
        """`self` or `cross`; its own name where it stands alone."""
        return self.split(".")[-1]

    @property
    def group(self) -> str:
        """Stack and kind, which all layers of one sort share: `decoder.cross`; its own name where it stands alone."""
        return f"{self.stack}.{self.kind}" if self.layer is not None else str(self)
