"""Memory that nothing uses any more, given back at once rather than some day."""

import gc

from transformer.runs import memory


def give_back() -> None:
    """Collect garbage, and return what the allocator holds of it to the system where it can be told to (glibc).

    Models are cycles, and no run collects (`runner.postScriptGC`). Takes about 0.2 s, in which every session waits: it
    is for the few moments when much is let go.
    """
    gc.collect()
    memory.trim()
