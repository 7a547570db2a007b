"""An application on a real port, in a thread."""

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from slotwise.web.web_server import HOST, listening, make_server


@dataclass(frozen=True)
class Served:
    port: int

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}/"

    def request(
        self, path: str, method: str = "GET", body: bytes | None = None, **headers: str
    ) -> tuple[int, bytes]:
        """Status and content of an answer."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=60)
        try:
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def json(self, path: str, **parameters: Any) -> Any:
        status, content = self.request(f"{path}?{urlencode(parameters)}")
        assert status == 200, content
        return json.loads(content)


@contextmanager
def served(app: Any) -> Iterator[Served]:
    with listening(HOST, None) as listener:
        started = threading.Event()
        server = make_server(app, started.set)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        assert started.wait(60)
        try:
            yield Served(listener.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join()
