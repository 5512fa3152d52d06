"""Other tools that keep what a module computes, each on a GPT-2 of random weights: nothing is downloaded.

`python -m benchmarks.peers FOLDER` puts TransformerLens and TorchLens into an environment of their own in FOLDER, which
uses PyTorch and transformers of this one. The variable PEERS names the folder to `python -m benchmarks any_module`.
"""

import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from torch import Tensor, nn

PACKAGES = ("transformer-lens==4.3.0", "torchlens==2.36.1")


def install(folder: Path) -> None:
    """Make the environment."""
    venv.create(folder, with_pip=True)
    ours = sysconfig.get_paths()["purelib"]
    (_packages(folder) / "project.pth").write_text(ours + "\n", encoding="utf-8")
    subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", *PACKAGES], check=True)


def make_importable(folder: Path) -> None:
    """Add the environment behind what is installed here, so that only what is missing comes from it."""
    sys.path.append(str(_packages(folder)))


def gpt2(d_model: int, n_heads: int, n_layers: int, vocab: int, attention: str) -> nn.Module:
    """GPT-2 of the transformers library, its attention `sdpa` or `eager`."""
    library: Any = import_module("transformers")
    sizes = {"n_embd": d_model, "n_head": n_heads, "n_layer": n_layers, "vocab_size": vocab, "n_positions": 2_048}
    config = library.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0, use_cache=False, attn_implementation=attention)
    model: nn.Module = library.GPT2LMHeadModel(config).eval()
    return model


def output_attentions(model: nn.Module, ids: Tensor) -> Callable[[], list[Tensor]]:
    """Transformers: all weights, of its eager attention."""
    return lambda: list(model(ids, output_attentions=True).attentions)


def run_with_cache(
    d_model: int, n_heads: int, n_layers: int, vocab: int, ids: Tensor
) -> tuple[Callable[[], Any], Callable[[], list[Tensor]]]:
    """TransformerLens: its own model, and what its cache holds."""
    library: Any = import_module("transformer_lens.model_bridge")
    sizes = {"d_model": d_model, "n_heads": n_heads, "n_layers": n_layers, "d_vocab": vocab, "n_ctx": 2_048}
    model = library.TransformerBridge.boot_native({**sizes, "d_head": d_model // n_heads, "act_fn": "gelu"})
    return lambda: model(ids), lambda: [one for one in model.run_with_cache(ids)[1].values() if _is(one)]


def trace(model: nn.Module, ids: Tensor) -> Callable[[], list[Tensor]]:
    """TorchLens: what its log of every operation holds."""
    library: Any = import_module("torchlens")
    return lambda: [one.out for one in library.trace(model, ids).layer_list if _is(one.out)]


def _is(one: object) -> bool:
    return isinstance(one, Tensor)


def _packages(folder: Path) -> Path:
    return next((folder / "lib").glob("python*/site-packages"))


if __name__ == "__main__":
    install(Path(sys.argv[1]))
