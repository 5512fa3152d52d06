"""Where in a model an attention stands: `encoder.0.self`, `decoder.2.cross`, `pooling`."""


class Site(str):
    """The name of one attention of a model: the key of its map in a record.

    A name is `stack.layer.kind`; a name without dots is an attention that stands alone (`pooling`), which is its own
    stack and kind.
    """

    @classmethod
    def of(cls, stack: str, layer: int, kind: str) -> "Site":
        """The site of a layer, counted from 0."""
        return cls(f"{stack}.{layer}.{kind}")

    @property
    def stack(self) -> str:
        """What stands before the layer's number: `encoder`, `transformer.h`; its first part where there is none."""
        return self._parted[0]

    @property
    def layer(self) -> int | None:
        """Which layer of the stack, counted from 0: the last number of the path; None where there is none."""
        return self._parted[1]

    @property
    def kind(self) -> str:
        """What stands behind the layer's number: `self`, `cross`, `attn`; its last part where there is none.

        A path that ends in the number (`layers.0`, `layers.0#2`) has nothing there but its `#2`.
        """
        return self._parted[2]

    @property
    def group(self) -> str:
        """Stack and kind, which all layers of one sort share: `decoder.cross`; its own name where it stands alone."""
        return self.named_group("")

    def named_group(self, layers: str) -> str:
        """The group with some layers named in it: `decoder.0-3.cross`."""
        stack, layer, kind = self._parted
        if layer is None:
            return str(self)
        return f"{stack}{'.' * bool(layers)}{layers}{'.' * (kind[:1] not in ('', '#'))}{kind}"

    @property
    def _parted(self) -> tuple[str, int | None, str]:
        parts = self.split(".")
        numbers = [i for i, part in enumerate(parts) if i and part.partition("#")[0].isdigit()]
        if not numbers:
            return parts[0], None, parts[-1]
        at = numbers[-1]
        number, mark, time = parts[at].partition("#")
        return ".".join(parts[:at]), int(number), ".".join(parts[at + 1 :]) + mark + time
