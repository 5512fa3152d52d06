"""In a server's path of modules, this notes every address that the process asks for, and lets no question out.

The file that the environment variable SOCKETS names gets a line for each: what was done, and with which host.
"""

import os
import sys
from pathlib import Path

WATCHED = {"socket.connect", "socket.sendto", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname"}
HERE = {"localhost", "127.0.0.1", "::1", "::", "0.0.0.0", "", "None"}


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if event not in WATCHED:
        return
    address = arguments[0] if event in ("socket.getaddrinfo", "socket.gethostbyname") else arguments[1]
    host = str(address[0] if isinstance(address, tuple) else address)
    with Path(os.environ["SOCKETS"]).open("a", encoding="utf-8") as notes:
        notes.write(f"{event} {host}\n")
    if host not in HERE and not host.startswith("/"):
        raise OSError(f"{event} {host}: nothing outside may be asked")


sys.addaudithook(_note)
