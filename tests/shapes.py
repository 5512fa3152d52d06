"""Types and shapes in signatures of the library are executed while tests run."""

import inspect
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import partial, wraps
from typing import Any, Literal, get_args, get_origin

import jaxtyping
from beartype import BeartypeConf, beartype
from jaxtyping import AbstractArray, TypeCheckError, install_import_hook, jaxtyped

CHECKED, AFTERWARDS = 100, 10
"""A function's first calls in each test that are checked, and of how many later ones one is: some tests make 10,000."""

_test = 0
AS_JAXTYPING = BeartypeConf(violation_type=TypeCheckError)
"""What refuses a value raises what jaxtyping raises, which is a TypeError."""


def execute_signatures() -> None:
    """What the library is called with, and what it returns, has the types and the shapes that it says.

    To be called before the first import of the library. jaxtyping's own decorator binds the arguments of each call by
    name and checks them twice: a fifth of the time of many tests.
    """
    install_import_hook("heedmap", "beartype.beartype")
    jaxtyping.jaxtyped = _decorator  # type: ignore[assignment]


def begin_test() -> None:
    """Count calls anew."""
    global _test  # noqa: PLW0603
    _test += 1


def _decorator(*, typechecker: Callable[..., Any]) -> Callable[[Any], Any]:
    return partial(_checked, typechecker)


def _checked(typechecker: Callable[..., Any], thing: Any) -> Any:
    """A function, or a dataclass, whose calls are checked from the first one on."""
    if inspect.isclass(thing):
        if is_dataclass(thing) and inspect.isfunction(vars(thing).get("__init__")):
            thing.__init__ = _checked(typechecker, thing.__init__)  # type: ignore[method-assign]
        return thing
    if not inspect.isfunction(thing) or inspect.isgeneratorfunction(thing):
        return jaxtyped(thing, typechecker=typechecker)
    check: Callable[..., Any] | None = None

    @wraps(thing)
    def called(*args: Any, **kwargs: Any) -> Any:
        nonlocal check
        if check is None:  # to prepare all of them takes three seconds of each process
            check = _check(typechecker, thing)
        return check(*args, **kwargs)

    return called


def _check(typechecker: Callable[..., Any], thing: Any) -> Any:
    """A function whose calls are checked; axes of one name have one size in a call."""
    parts = [part for hint in thing.__annotations__.values() for part in _parts(hint)]
    if any(isinstance(part, str) for part in parts):  # a name that is to be looked up
        return jaxtyped(thing, typechecker=typechecker)
    checked = beartype(conf=AS_JAXTYPING)(thing)
    if not any(inspect.isclass(part) and issubclass(part, AbstractArray) for part in parts):
        return checked

    test = calls = 0

    @wraps(thing)
    def in_context(*args: Any, **kwargs: Any) -> Any:
        nonlocal test, calls
        test, calls = _test, (calls + 1 if test == _test else 1)
        if calls > CHECKED and calls % AFTERWARDS:
            return thing(*args, **kwargs)
        with jaxtyped("context"):
            return checked(*args, **kwargs)

    return in_context


def _parts(hint: Any) -> list[Any]:
    """A hint, and all that it is made of."""
    if get_origin(hint) is Literal:
        return []
    inner = hint if isinstance(hint, list | tuple) else get_args(hint)  # a list: what a Callable takes
    return [hint, *(part for one in inner for part in _parts(one))]
