"""A real Chromium over its DevTools protocol: open a page, ask it, listen to what it asks for."""

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 30.0
"""Seconds a page may take to be drawn on a busy machine."""


def chromium() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """One tab. `requests` and `complaints` collect what it asked for and what went wrong."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket, self._last = socket, 0
        self.requests: list[str] = []
        self.complaints: list[str] = []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._last += 1
        self._socket.send(json.dumps({"id": self._last, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv(timeout=PATIENCE))
            if message.get("id") == self._last:
                assert "error" not in message, (method, message["error"])
                return message["result"]
            self._note(message.get("method", ""), message.get("params", {}))

    def _note(self, event: str, facts: dict[str, Any]) -> None:
        if event == "Network.requestWillBeSent":
            self.requests.append(facts["request"]["url"])
        elif event == "Runtime.exceptionThrown":
            self.complaints.append(str(facts["exceptionDetails"]))
        elif event == "Runtime.consoleAPICalled" and facts["type"] in ("error", "warning"):
            self.complaints.append(str(facts["args"]))
        elif event == "Log.entryAdded":
            self.complaints.append(facts["entry"]["text"])

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression; a promise is waited for."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def look(self, *, width: int, dark: bool, height: int = 900) -> None:
        """The page is seen at this width in this scheme; phones are narrower than 500 px."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 500)  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, file: Path) -> None:
        """The page is loaded and all figures that can be seen are drawn."""
        self.open_url(file.resolve().as_uri())

    def open_url(self, url: str) -> None:
        """The page at `url` is loaded and says that it is ready."""
        self.call("Page.navigate", url=url)
        self.wait("document.documentElement?.dataset.ready === 'yes'")

    def wait(self, expression: str) -> None:
        self.wait_for(lambda: self.ask(expression))

    def wait_for(self, holds: Callable[[], object]) -> None:
        until = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < until, "waited in vain"
            time.sleep(0.05)

    def photograph(self, target: Path) -> None:
        """The whole page as a PNG, for a person to look at."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        target.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def browser(program: str, home: Path, *, reaches: str = "") -> Iterator[Page]:
    """A tab of a Chromium that can reach no host but `reaches`, with its own profile in `home`."""
    rules = "MAP * ~NOTFOUND" + (f", EXCLUDE {reaches}" if reaches else "")
    command = [
        program, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
        f"--host-resolver-rules={rules}", "--remote-debugging-port=0",
        f"--user-data-dir={home}", "about:blank",
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with connect(_address(home), max_size=None, proxy=None) as socket:
            yield Page(socket)
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE)


def _address(home: Path) -> str:
    """Where the tab listens; Chromium writes its port when it is ready."""
    told, until = home / "DevToolsActivePort", time.monotonic() + PATIENCE
    while not (told.exists() and told.read_text().count("\n")):
        assert time.monotonic() < until, "Chromium did not start"
        time.sleep(0.05)
    port, path = told.read_text().splitlines()[:2]
    with connect(f"ws://127.0.0.1:{port}{path}", proxy=None) as socket:
        socket.send(json.dumps({"id": 1, "method": "Target.getTargets"}))
        found = json.loads(socket.recv(timeout=PATIENCE))["result"]["targetInfos"]
    tab = next(target for target in found if target["type"] == "page")
    return f"ws://127.0.0.1:{port}/devtools/page/{tab['targetId']}"
