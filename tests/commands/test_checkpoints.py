"""`inspect` and `convert` on the command line."""

import errno

import pytest
import torch

from tests.checkpoint.references import REFERENCE, model, reference_file
from transformer import __main__ as command_line


def _run(*arguments: object) -> int:
    return command_line.main([str(argument) for argument in arguments])


def test_inspect_says_what_a_file_is_what_is_asked_and_what_it_holds(capsys):
    assert _run("inspect", reference_file("annotated"), "--answer", "n_heads=3") == 0
    out = capsys.readouterr().out
    assert "is The Annotated Transformer (100% of the names and shapes match)" in out
    assert "n_heads: How many attention heads does each layer have? One of 1, 2, 3, 4, 6, 8, 12, 24." in out
    assert "n_heads=8 is assumed" not in out
    assert "linears" in out


def test_inspect_of_a_file_that_fits_nothing_ends_with_1(tmp_path, capsys):
    torch.save({"conv.weight": torch.ones(2, 3)}, tmp_path / "net.pt")
    assert _run("inspect", tmp_path / "net.pt") == 1
    assert "no known layout" in capsys.readouterr().out


def test_inspect_of_a_refused_file_is_one_sentence(tmp_path, capsys):
    torch.save(torch.nn.Linear(2, 3), tmp_path / "net.pt")
    assert _run("inspect", tmp_path / "net.pt") == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: net.pt is refused: it asks to import 'torch.nn.modules.linear.Linear'")
    assert captured.err.count("\n") == 1


def test_convert_writes_a_folder_that_needs_no_answers(tmp_path, capsys):
    options = (
        "--answer",
        "n_heads=4",
        "--answer",
        "activation=gelu",
        "--answer",
        "norm_first=true",
        "--answer",
        "scale_embedding=true",
    )
    assert _run("convert", reference_file("torch-prenorm"), tmp_path / "out", *options) == 0
    captured = capsys.readouterr()
    assert "note: positions='sinusoidal' is assumed" in captured.err
    config = model(tmp_path / "out").config
    assert (config.n_heads, config.activation, config.norm_first) == (4, "gelu", True)
    assert _run("inspect", tmp_path / "out") == 0
    assert "model.safetensors" in capsys.readouterr().out
    assert _run("convert", REFERENCE / "rnn-tutorial-1", tmp_path / "out") == 2


@pytest.mark.parametrize("answer", ["n_heads", "=3", "n_heads="])
def test_an_answer_needs_a_name_and_a_value(answer, capsys):
    with pytest.raises(SystemExit):
        _run("inspect", reference_file("annotated"), "--answer", answer)
    assert "is no NAME=VALUE" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "eps"), [("1e-6", 1e-6), (".5E-3", 0.0005)])
def test_an_answer_may_be_a_real_number(text, eps, tmp_path):
    options = ("--answer", "n_heads=3", "--answer", f"norm_eps={text}")
    assert _run("convert", reference_file("annotated"), tmp_path / "out", *options) == 0
    assert model(tmp_path / "out").config.norm_eps == eps


@pytest.mark.parametrize("text", ["1e", "nan", "1_0.5", "\u0663.\u0665", "1e9999"])
def test_what_only_looks_like_a_number_stays_a_word(text, capsys):
    assert _run("inspect", reference_file("annotated"), "--answer", f"norm_eps={text}") == 2
    assert f"norm_eps={text!r} does not fit" in capsys.readouterr().err


@pytest.mark.parametrize("was_there", [False, True])
def test_a_folder_that_cannot_be_written_whole_is_not_left_half(was_there, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    if was_there:
        out.mkdir()

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device", str(out))

    with monkeypatch.context() as patched:
        patched.setattr("transformer.checkpoint.ours.folder.save_file", full)
        assert _run("convert", reference_file("kmer"), out, "--answer", "n_heads=4") == 2
    assert "No space left" in capsys.readouterr().err
    assert out.exists() == was_there
    assert not was_there or not list(out.iterdir())
    assert _run("convert", reference_file("kmer"), out, "--answer", "n_heads=4") == 0
