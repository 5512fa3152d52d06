"""The answers to the questions by name: every public function of the two files of answers gives one."""

from collections.abc import Callable
from inspect import isfunction

from . import model_answers, toy_answers
from .case import Case, Live

TRUTHS: dict[str, Callable[[Live], Case]] = {
    name: one
    for module in (toy_answers, model_answers)
    for name, one in vars(module).items()
    if isfunction(one) and one.__module__ == module.__name__ and not name.startswith("_")
}
"""The functions that know the answers."""
