"""Another name of the package `heedmap`: `transformer.x` is the module `heedmap.x` itself, no second copy of it.

A checkout has the modules in this folder, an installed package has this file as `transformer.py`. Nothing of the
project imports it, so a file or folder of this name that comes first on the path does no harm.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import InspectLoader, Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec, spec_from_loader
from pathlib import Path
from types import CodeType, ModuleType

ALIAS, NAME = "transformer", "heedmap"


class Alias(MetaPathFinder, Loader):
    """Imports `transformer.x` as `heedmap.x`; where that is not, from any folder `transformer` on the path.

    Such a folder without `__init__.py`, as repositories of models have it, comes after every package of its name.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A spec that this loads, for each module that the package has."""
        if not fullname.startswith(f"{ALIAS}."):
            return None
        found = find_spec(named(fullname))
        if found is None:
            return PathFinder.find_spec(fullname, [str(Path(one, ALIAS)) for one in sys.path])
        is_package = found.submodule_search_locations is not None
        return spec_from_loader(fullname, self, origin=found.origin, is_package=is_package)

    def exec_module(self, module: ModuleType) -> None:
        """Put the package's own module in the place of the new one."""
        sys.modules[module.__name__] = import_module(named(module.__name__))

    def get_code(self, fullname: str) -> CodeType | None:
        """The code that `python -m transformer.x` runs."""
        found = find_spec(named(fullname))
        return found.loader.get_code(named(fullname)) if found and isinstance(found.loader, InspectLoader) else None


def named(alias: str) -> str:
    """`transformer.x` under the package's own name."""
    return NAME + alias.removeprefix(ALIAS)


if __name__ == "__main__":
    sys.exit(import_module(f"{NAME}.__main__").main())
sys.meta_path.insert(0, Alias())
sys.modules[__name__] = import_module(NAME)
