"""What a server's process holds beyond what it counts, after results have come and gone, as JSON.

`HEEDMAP_CACHE_MB=8 python -m tests.ui.store.held_while_used`. As on a server, each action has a thread of its own, and
two work at a time.
"""

import gc
import json
import random
import sys
from threading import Thread

from tests.ui.store.holding import letters, resident, words
from transformer import DecodingOptions
from transformer.runs import memory
from ui.map.runs import shown
from ui.sequences.runs import classification
from ui.store import cache, runs
from ui.store.budget import RESULTS

OPTIONS = DecodingOptions(beam=5, max_length=30)
FIRST, ACTIONS = 16, 48
"""Actions after which all is loaded and prepared that is so once, and those that fill 8 MB three times over."""

chance = random.Random(3)


def act(number: int) -> None:
    """One of four actions, on a text that is new."""
    if number % 4 == 0:
        classification("splice-junctions", letters(chance))
    elif number % 4 == 1:
        runs.translation("multi30k-en-de", words(chance), OPTIONS, None)
    else:
        shown("multi30k-en-de", words(chance))


def two_by_two(actions: int) -> None:
    """So many actions."""
    for number in range(0, actions, 2):
        pair = [Thread(target=act, args=(one,)) for one in (number, number + 1)]
        for thread in pair:
            thread.start()
        for thread in pair:
            thread.join()


def main() -> None:
    """Fill the cache several times over."""
    memory.share_heaps()
    two_by_two(FIRST)
    cache.clear()
    gc.collect()
    memory.trim()
    before, counted = resident(), RESULTS.held
    two_by_two(ACTIONS)
    found = {"held": resident() - before, "counted": RESULTS.held - counted}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
