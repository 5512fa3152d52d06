"""A reader without a browser: a session that speaks the protocol of Streamlit's page over its websocket.

It keeps what a page keeps: the widgets' values, the address, and large messages, which the server names by their hashes
instead of sending them again. So a hundred of them cost one process a fraction of a core.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlencode

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.Element_pb2 import Element
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

OLDEST = 20
"""Runs for which a page keeps a message that none of them names (`global.maxCachedMessageAge`)."""


class Counting(ClientConnection):
    """A connection that counts the bytes that arrive, packed as they travel."""

    arrived = 0

    def data_received(self, data: bytes) -> None:
        """More bytes."""
        self.arrived += len(data)
        super().data_received(data)


@dataclass
class Answer:
    """What one run sent: how long it took (s), how many bytes, its elements in order, and what it could not do."""

    seconds: float = 0.0
    bytes: int = 0
    elements: list[Element] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    by_element: dict[str, int] = field(default_factory=dict)
    """Bytes by kind of message or element, before they are packed."""

    def keyed(self, key: str) -> Element | None:
        """The element that the page gave this key; None where this run sent none."""
        for element in self.elements:
            content = getattr(element, str(element.WhichOneof("type")))
            if getattr(content, "id", "").endswith(f"-{key}"):
                return element
        return None


class Session:
    """One session of a server at `address` (http://host:port), from `open` to `close`."""

    def __init__(self, address: str) -> None:
        self._url = f"{address.replace('http', 'ws', 1)}/_stcore/stream"
        self._socket: Counting | None = None
        self._query = ""
        self._page = ""
        self._page_hash = ""
        self._fragment = ""
        self._states: dict[str, list[str]] = {}
        self._ids: dict[str, tuple[str, str]] = {}
        self._kept: dict[str, tuple[ForwardMsg, int]] = {}
        self._runs = 0

    async def open(self, page: str, **query: str) -> Answer:
        """Visit a page by its address."""
        protocol = Subprotocol("streamlit")
        made = await connect(self._url, subprotocols=[protocol], max_size=None, create_connection=Counting)
        self._socket = cast("Counting", made)
        self._page, self._query = page, urlencode(query)
        return await self._run()

    async def choose(self, moves: Mapping[str, str]) -> Answer:
        """Choose among segments: by key, the label of the one that is pressed.

        Raises:
            KeyError: the page has shown no such control.
        """
        for key, label in moves.items():
            widget, self._fragment = self._ids[key]
            self._states[widget] = [label]
        return await self._run()

    async def close(self) -> None:
        """Leave."""
        if self._socket is not None:
            await self._socket.close()

    async def _run(self) -> Answer:
        if self._socket is None:
            raise RuntimeError("this session is not open: call open first")
        asked = BackMsg()
        rerun = asked.rerun_script
        rerun.query_string, rerun.fragment_id = self._query, self._fragment
        rerun.page_name, rerun.page_script_hash = "" if self._page_hash else self._page, self._page_hash
        rerun.cached_message_hashes.extend(self._kept)
        for widget, labels in self._states.items():
            state = rerun.widget_states.widgets.add(id=widget)
            state.string_array_value.data.extend(labels)
        answer, begun, started, before = Answer(), False, time.monotonic(), self._socket.arrived
        await self._socket.send(asked.SerializeToString())
        while True:
            payload = await self._socket.recv()
            message = ForwardMsg.FromString(bytes(payload))  # type: ignore[arg-type]
            kind = str(message.WhichOneof("type"))
            begun |= kind == "new_session"
            self._take(message, kind, len(payload), answer)
            again = message.script_finished == ForwardMsg.FINISHED_EARLY_FOR_RERUN
            if kind == "script_finished" and begun and not again:
                answer.seconds, answer.bytes = time.monotonic() - started, self._socket.arrived - before
                self._runs += 1
                self._kept = {name: kept for name, kept in self._kept.items() if self._runs - kept[1] <= OLDEST}
                return answer

    def _take(self, message: ForwardMsg, kind: str, size: int, answer: Answer) -> None:
        """Keep what a message says; one that names a kept message stands for it."""
        if kind == "ref_hash":
            message, named = self._kept[message.ref_hash][0], message.ref_hash
            self._kept[named] = message, self._runs
            kind = "delta"
        elif message.metadata.cacheable:
            self._kept[message.hash] = message, self._runs
        if kind == "navigation":
            self._page_hash = message.navigation.page_script_hash
        elif kind == "page_info_changed":
            self._query = message.page_info_changed.query_string
        elif kind == "session_event" and message.session_event.WhichOneof("type") == "script_compilation_exception":
            answer.errors.append("the script does not compile")
        elif kind == "delta" and message.delta.WhichOneof("type") == "new_element":
            element = message.delta.new_element
            kind = str(element.WhichOneof("type"))
            answer.elements.append(element)
            if kind == "exception":
                answer.errors.append(element.exception.message or element.exception.type)
            content = getattr(element, kind)
            if kind == "button_group":
                self._ids[content.id.rpartition("-")[2]] = content.id, message.delta.fragment_id
        answer.by_element[kind] = answer.by_element.get(kind, 0) + size
