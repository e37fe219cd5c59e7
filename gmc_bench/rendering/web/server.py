"""The server of a live page: for browsers of this machine, and for no page but its own.

It listens on 127.0.0.1 only. A page from elsewhere that a browser of this machine shows could still
send requests there, also under a name that it lets point to 127.0.0.1; so requests for another host
or from another origin are refused.
"""

import json
import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Empty, Full, Queue
from typing import Any

from gmc_bench.core.errors import ConfigError, GmcBenchError
from gmc_bench.rendering.web.live import LiveSimulation
from gmc_bench.rendering.web.page import make_page

ADDRESS = "127.0.0.1"
PORT = 8765
MAX_VIEWERS = 5
"""Browser tabs at a time. Browsers open six connections to a server: one is left for controls."""
_MAX_WISH = 1000  # bytes
_LENGTH = re.compile("[0-9]{1,9}")  # Python makes no number of thousands of digits
_FRAMES_PER_S = 30
_BEHIND = 0.25  # s; farther behind, the clock is set anew
_SILENCE = 2.0  # s after which a viewer who sees nothing new is asked whether it is there


class LiveServer:
    """Serves a page on which a simulation is seen and changed; time passes while somebody looks.

    Args:
        simulation: what is shown.
        port: 0 for any that is free.

    Raises:
        ConfigError: the port is taken.
    """

    def __init__(self, simulation: LiveSimulation, port: int = PORT) -> None:
        self._simulation = simulation
        self._queue: Queue[Mapping[str, Any]] = Queue(100)
        self._news = threading.Condition()
        self._scene, self._frame, self._count = "", "", 0
        self._number = 0
        self._viewers = 0
        self._over = threading.Event()
        self.page = make_page("gmc-bench, live", {"live": True}, live=True).encode()
        try:
            self._http = _Http((ADDRESS, port), _Handler)
        except OSError as error:
            raise ConfigError(
                f"port {port} of this machine cannot be used ({error.strerror}); give another one, "
                f"or 0 for any that is free"
            ) from error
        self._http.live = self
        self.port: int = self._http.server_address[1]
        self.hosts = (f"{ADDRESS}:{self.port}", f"localhost:{self.port}")
        """What requests may be for."""
        self._publish()

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{ADDRESS}:{self.port}/"

    def serve(self) -> None:
        """Simulate and serve until `close`, or until the process is interrupted."""
        thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            self._simulate()
        except KeyboardInterrupt:
            pass
        finally:
            self.close()
            self._http.shutdown()
            thread.join()
            self._http.server_close()

    def close(self) -> None:
        """Let `serve` return."""
        self._over.set()

    def control(self, controls: Mapping[str, Any]) -> None:
        """Ask for a change, which comes with the next step; beyond a hundred they are dropped."""
        with suppress(Full):
            self._queue.put_nowait(controls)

    @contextmanager
    def viewing(self) -> Iterator[bool]:
        """Count a viewer in; gives whether there is room for it."""
        with self._news:
            room = self._viewers < MAX_VIEWERS
            self._viewers += room
            self._news.notify_all()
        try:
            yield room
        finally:
            with self._news:
                self._viewers -= room

    def events(self) -> Iterator[bytes]:
        """Yield what a viewer is sent, as server-sent events, until the server closes."""
        number = count = -1
        while not self._over.is_set():
            with self._news:
                if self._count == count:
                    self._news.wait(_SILENCE)
                news = [f"event: scene\ndata: {self._scene}\n\n"] if self._number != number else []
                if self._count != count:
                    news.append(f"event: frame\ndata: {self._frame}\n\n")
                number, count = self._number, self._count
            yield ("".join(news) or ": nothing new\n\n").encode()

    def _simulate(self) -> None:
        simulation = self._simulation
        clock = sent = time.monotonic()
        while not self._over.is_set():
            changed = self._change()
            if self._viewers and simulation.playing:
                simulation.step()
                clock += simulation.control_dt / simulation.speed
                now = time.monotonic()
                if changed or now - sent >= 1 / _FRAMES_PER_S:
                    self._publish()
                    sent = now
                if now - clock > _BEHIND:
                    clock = now
                self._over.wait(max(0.0, clock - now))
            else:
                if changed:
                    self._publish()
                self._over.wait(0.02)
                clock = time.monotonic()

    def _change(self) -> bool:
        """Apply the queued changes of the controls; return whether there were any."""
        changed = False
        while True:
            try:
                controls = self._queue.get_nowait()
            except Empty:
                return changed
            with suppress(GmcBenchError):
                self._simulation.change(controls)
                changed = True

    def _publish(self) -> None:
        simulation = self._simulation
        frame = json.dumps(simulation.frame(), separators=(",", ":"))
        with self._news:
            if simulation.number != self._number:
                self._scene = json.dumps(simulation.scene, separators=(",", ":"))
                self._number = simulation.number
            self._frame, self._count = frame, self._count + 1
            self._news.notify_all()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    live: LiveServer

    def handle_error(self, *request: Any) -> None:
        """Say nothing of a viewer who has gone."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(*request)


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: _Http
    timeout = 30

    def do_GET(self) -> None:
        """Send the page, or what happens."""
        if not self._is_allowed():
            return
        if self.path == "/":
            self._send(HTTPStatus.OK, self.server.live.page, "text/html; charset=utf-8")
        elif self.path == "/events":
            self._stream()
        else:
            self._send(HTTPStatus.NOT_FOUND)

    def do_POST(self) -> None:
        """Take changes of the controls."""
        if not self._is_allowed():
            return
        kind = self.headers.get("Content-Type", "").partition(";")[0].strip()
        length = self.headers.get("Content-Length", "")
        if self.path != "/control" or kind != "application/json":
            self._send(HTTPStatus.NOT_FOUND)
            return
        if not _LENGTH.fullmatch(length) or int(length) > _MAX_WISH:
            self._send(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return
        try:
            controls = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            controls = None
        if not isinstance(controls, dict):
            self._send(HTTPStatus.BAD_REQUEST)
            return
        self.server.live.control(controls)
        self._send(HTTPStatus.NO_CONTENT)

    def _is_allowed(self) -> bool:
        """Refuse what another page asks for, or what is meant for another host."""
        hosts = self.server.live.hosts
        origins = [f"http://{host}" for host in hosts]
        allowed = (
            [self.headers.get("Host")] == self.headers.get_all("Host")
            and self.headers["Host"] in hosts
            and all(origin in origins for origin in self.headers.get_all("Origin") or ())
            and self.headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin")
        )
        if not allowed:
            self._send(HTTPStatus.FORBIDDEN)
        return allowed

    def _stream(self) -> None:
        live = self.server.live
        with live.viewing() as room:
            if not room:
                self._send(HTTPStatus.SERVICE_UNAVAILABLE)
                return
            self.send_response(HTTPStatus.OK)
            self._headers("text/event-stream")
            for event in live.events():
                try:
                    self.wfile.write(event)
                except OSError:  # the viewer has gone
                    return

    def _send(self, status: HTTPStatus, content: bytes = b"", kind: str = "text/plain") -> None:
        self.close_connection = True
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self._headers(kind)
        self.wfile.write(content)

    def _headers(self, kind: str) -> None:
        for name, value in (
            ("Content-Type", kind),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "DENY"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
        ):
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *said: object) -> None:
        """Say nothing."""
