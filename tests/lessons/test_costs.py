"""What an encoder costs: counted multiply-adds are those that PyTorch counts, and times are of the encoder alone."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from transformer.errors import CheckpointError
from transformer.lessons.architectures.costs import EncoderCosts, costs_of, crossing, encoder_costs
from transformer.nn.encoder import Encoder
from transformer.nn.recurrent import Recurrent, RecurrentConfig
from transformer.nn.seq2seq import Seq2Seq, Seq2SeqConfig

TOKENS = 13


def transformer_config(**changes: object) -> Seq2SeqConfig:
    sizes: dict[str, object] = dict(
        source_vocab=31, target_vocab=29, d_model=14, n_heads=2, d_k=5, d_v=3, d_ff=11, n_encoder_layers=3,
        n_decoder_layers=1,
    )  # fmt: skip
    return Seq2SeqConfig(**(sizes | changes))  # type: ignore[arg-type]


def recurrent_config(**changes: object) -> RecurrentConfig:
    sizes: dict[str, object] = dict(source_vocab=31, target_vocab=29, hidden=7, d_embedding=5)
    return RecurrentConfig(**(sizes | changes))  # type: ignore[arg-type]


def counted(run: object, source: torch.Tensor) -> int:
    """Multiply-adds that PyTorch counts: half of its floating-point operations."""
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter, torch.no_grad():
        run(source)  # type: ignore[operator]
    return counter.get_total_flops() // 2


def test_a_transformers_multiply_adds_are_those_that_pytorch_counts() -> None:
    model = Seq2Seq(transformer_config()).eval()
    costs = encoder_costs(model.config)
    assert counted(model.encode, torch.randint(3, 29, (1, TOKENS))) == costs.layers * costs.multiply_adds(TOKENS)
    assert costs.layers == 3


LSTM = dict(cell="lstm", n_encoder_layers=2, bidirectional=True, copy_states=True, n_layers=3)


@pytest.mark.parametrize("changes", [{}, {"bidirectional": True}, {"bidirectional": True, "n_encoder_layers": 2}])
def test_a_recurrent_nets_multiply_adds_are_those_that_pytorch_counts(changes: dict[str, object]) -> None:
    model = Recurrent(recurrent_config(**changes)).eval()
    costs = encoder_costs(model.config)
    found = counted(lambda ids: model.encoder(model.source_embedding(ids)), torch.randint(3, 29, (1, TOKENS)))
    assert found == costs.multiply_adds(TOKENS)


def test_the_formula_on_the_page_gives_the_same_number() -> None:
    for config in (
        transformer_config(),
        recurrent_config(),
        recurrent_config(bidirectional=True),
        recurrent_config(**LSTM),
    ):
        costs = encoder_costs(config)
        written = (
            costs.formula.replace("·", "*")
            .replace("²", "**2")
            .replace("3n", "3*n")
            .replace("4n", "4*n")
            .replace(" n", "*n")
        )
        written = written.replace("+*n", "+ n*").replace("n (", "n*(").replace("n* (", "n*(")
        assert eval(written, {"n": TOKENS}) == costs.multiply_adds(TOKENS), written


def test_attention_joins_the_ends_at_once_and_recurrence_step_by_step() -> None:
    attention, recurrence = encoder_costs(transformer_config()), encoder_costs(recurrent_config())
    assert [attention.path_length(n) for n in (1, 2, TOKENS)] == [0, 1, 1]
    assert [recurrence.path_length(n) for n in (1, 2, TOKENS)] == [0, 1, 12]
    assert [attention.sequential_steps(n) for n in (1, TOKENS)] == [3, 3]
    assert [recurrence.sequential_steps(n) for n in (1, TOKENS)] == [1, 13]


@pytest.mark.parametrize(("square", "linear"), [(2, 3), (5, 7), (2, 400), (1, 100)])
def test_the_crossing_is_where_the_order_changes(square: int, linear: int) -> None:
    growing, steady = EncoderCosts(False, 1, square, linear, ""), EncoderCosts(True, 1, 0, 500, "")
    where = crossing(growing, steady)
    assert where == crossing(steady, growing)
    assert where is not None
    assert growing.multiply_adds(where) > steady.multiply_adds(where)
    assert growing.multiply_adds(where - 1) <= steady.multiply_adds(where - 1)


@pytest.mark.parametrize(("square", "linear"), [(0, 3), (2, 500), (2, 499), (7, 1000)])
def test_there_may_be_no_crossing(square: int, linear: int) -> None:
    first, second = EncoderCosts(False, 1, square, linear, ""), EncoderCosts(True, 1, 0, 500, "")
    assert crossing(first, second) is None


def test_other_models_are_refused() -> None:
    with pytest.raises(CheckpointError, match="no encoder-decoder"):
        costs_of(object(), "thing")
    assert not issubclass(Encoder, Seq2Seq)
