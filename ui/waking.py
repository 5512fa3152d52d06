"""The server's event loop is woken once for many messages, and sends each at once.

Streamlit hands each element of a page to the loop with `call_soon_threadsafe`, which wakes it by a byte through a
socket: a system call that lets go of the interpreter, forty times an action, although the loop wakes up once. Without
these an action takes a tenth less.

asyncio tells its connections to send what they are given at once, but not those of a socket that was made without
naming its protocol, as Streamlit makes its own. There the network holds a second short message back until the browser
has confirmed the first one, which browsers leave for 40 ms: every file took so long, and the end of every action.
"""

import asyncio
import socket
from asyncio import base_events
from typing import Any


def wake_once(loop: asyncio.AbstractEventLoop) -> None:
    """Send a sleeping loop one byte, and no other until it has read that one.

    Nothing is lost: what is handed over before the loop notes that it is awake stands in its queue, which it looks
    through before it sleeps again. It has to read first: a byte that is read after the note would be missed. Only
    asyncio's own loop over sockets is told; another one wakes in its own way.
    """
    if not isinstance(loop, asyncio.SelectorEventLoop):
        return
    own: Any = loop  # what it is woken by has no public name
    send, read, sent = own._write_to_self, own._read_from_self, list[None]()

    def send_once() -> None:
        if not sent:
            sent.append(None)
            send()

    def awake() -> None:
        read()
        sent.clear()

    own._write_to_self = send_once
    own._add_reader(own._ssock.fileno(), awake)


def send_at_once() -> None:
    """Let every connection of asyncio's own loops over TCP send short messages without waiting for others."""
    whole: Any = base_events  # what it tells its connections by has no public name
    whole._set_nodelay = _no_delay


def _no_delay(connection: socket.socket) -> None:
    if connection.family in {socket.AF_INET, socket.AF_INET6} and connection.type == socket.SOCK_STREAM:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
