"""A reader without a browser: a session that speaks the protocol of Streamlit's page over its websocket.

It keeps what a page keeps: the widgets' values, the address, and large messages, which the server names by their hashes
instead of sending them again. So a hundred of them cost one process a fraction of a core.
"""

import asyncio
import json
import time
import urllib.request
import uuid
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlencode

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.Element_pb2 import Element
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState
from streamlit.runtime.state.session_state import STREAMLIT_INTERNAL_KEY_PREFIX
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
class Response:
    """What one run sent: how long it took (s), how many bytes, its elements in order, and what it could not do."""

    seconds: float = 0.0
    bytes: int = 0
    elements: list[Element] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)
    """Kinds of messages and elements among them."""

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
        self._address = address
        self._socket: Counting
        self._page = self._page_hash = self._query = self._fragment = self._session = self._uploader = ""
        self._states, self._ids = dict[str, WidgetState](), dict[str, tuple[str, str]]()
        self._kept, self._runs = dict[str, tuple[ForwardMsg, int]](), 0

    async def open(self, page: str, **query: str) -> Response:
        """Visit a page by its address."""
        url, protocols = f"{self._address.replace('http', 'ws', 1)}/_stcore/stream", [Subprotocol("streamlit")]
        made = await connect(url, subprotocols=protocols, max_size=None, create_connection=Counting)
        self._socket, self._page, self._query = cast("Counting", made), page, urlencode(query)
        return await self._run()

    async def trigger(self, key: str, event: str, value: object) -> Response:
        """Let the component of a key tell of an event."""
        component, self._fragment = self._ids[key]
        name = f"{STREAMLIT_INTERNAL_KEY_PREFIX}_{component}__events"
        events = json.dumps([{"event": event, "value": value}])
        self._states[name] = WidgetState(id=name, json_trigger_value=events)
        try:
            return await self._run()
        finally:
            self._states.pop(name)

    async def write(self, key: str, text: str) -> Response:
        """Write a text into the field of a key; what runs is its part of the page."""
        field, self._fragment = self._ids[key]
        self._states.setdefault(field, WidgetState(id=field)).string_value = text
        return await self._run()

    async def upload(self, name: str, data: bytes) -> Response:
        """Give the page's uploader a file in the place of any other."""
        asked = BackMsg()
        asked.file_urls_request.request_id = str(uuid.uuid4())
        asked.file_urls_request.file_names.append(name)
        asked.file_urls_request.session_id = self._session
        await self._socket.send(asked.SerializeToString())
        while (message := await self._message()).WhichOneof("type") != "file_urls_response":
            pass
        urls = message.file_urls_response.file_urls[0]
        await asyncio.to_thread(_put, self._address, urls.upload_url, name, data)
        state = self._states[self._uploader] = WidgetState(id=self._uploader)
        file = state.file_uploader_state_value.uploaded_file_info.add(name=name, size=len(data), file_id=urls.file_id)
        file.file_urls.CopyFrom(urls)
        self._fragment = ""
        return await self._run()

    async def close(self) -> None:
        """Leave."""
        await self._socket.close()

    async def _message(self) -> ForwardMsg:
        return ForwardMsg.FromString(bytes(await self._socket.recv()))  # type: ignore[arg-type]

    async def _run(self) -> Response:
        asked = BackMsg()
        rerun = asked.rerun_script
        rerun.query_string, rerun.fragment_id = self._query, self._fragment
        rerun.page_name, rerun.page_script_hash = "" if self._page_hash else self._page, self._page_hash
        rerun.cached_message_hashes.extend(self._kept)
        rerun.widget_states.widgets.extend(self._states.values())
        answer, begun, started, before = Response(), False, time.monotonic(), self._socket.arrived
        await self._socket.send(asked.SerializeToString())
        while True:
            message = await self._message()
            kind = str(message.WhichOneof("type"))
            begun |= kind == "new_session"
            self._take(message, kind, answer)
            again = message.script_finished == ForwardMsg.FINISHED_EARLY_FOR_RERUN
            if kind == "script_finished" and begun and not again:
                answer.seconds, answer.bytes = time.monotonic() - started, self._socket.arrived - before
                self._runs += 1
                self._kept = {name: kept for name, kept in self._kept.items() if self._runs - kept[1] <= OLDEST}
                return answer

    def _take(self, message: ForwardMsg, kind: str, answer: Response) -> None:
        """Keep what a message says; one that names a kept message stands for it."""
        if kind == "ref_hash":
            message, named = self._kept[message.ref_hash][0], message.ref_hash
            self._kept[named] = message, self._runs
            kind = "delta"
        elif message.metadata.cacheable:
            self._kept[message.hash] = message, self._runs
        if kind == "new_session":
            self._session = message.new_session.initialize.session_id
        elif kind == "navigation":
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
            if kind in {"text_area", "text_input", "bidi_component"}:
                self._ids[content.id.split("-", 2)[2]] = content.id, message.delta.fragment_id
            elif kind == "file_uploader" and content.id != self._uploader:
                self._states.pop(self._uploader, None)
                self._uploader = content.id
        answer.kinds.add(kind)


def _put(address: str, path: str, name: str, data: bytes) -> None:
    """Send a file as a form does, with the token that the server gives to its own pages."""
    with urllib.request.urlopen(f"{address}/_stcore/health") as answer:
        cookie = str(answer.headers["Set-Cookie"]).partition(";")[0]
    edge = uuid.uuid4().hex
    head = f'--{edge}\r\nContent-Disposition: form-data; name="{name}"; filename="{name}"\r\n\r\n'
    body = head.encode() + data + f"\r\n--{edge}--\r\n".encode()
    headers = {
        "Content-Type": f"multipart/form-data; boundary={edge}",
        "Cookie": cookie,
        "X-Xsrftoken": cookie.partition("=")[2].strip('"'),
    }
    asked = urllib.request.Request(address + path, data=body, headers=headers, method="PUT")
    with urllib.request.urlopen(asked):
        pass
