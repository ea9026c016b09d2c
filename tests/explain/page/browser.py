"""A headless Chromium, driven through its debugging pipe: no further library, and no network."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
from itertools import count
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FOUND = next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page. `messages` are what the browser reports: errors, texts of the console and requests."""

    def __init__(self, width: int = 1500, height: int = 950, *, dark: bool = False) -> None:
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        (to_read, self.out), (self.into, to_write) = os.pipe(), os.pipe()
        command = [
            FOUND, "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
            "--disable-dev-shm-usage", "--no-first-run", f"--user-data-dir={self.folder.name}",
            "--host-resolver-rules=MAP * ~NOTFOUND", f"--window-size={width},{height}", "about:blank",
        ]  # fmt: skip

        def connect() -> None:  # the browser reads from descriptor 3 and writes to descriptor 4
            first, second = os.dup(to_read), os.dup(to_write)
            os.dup2(first, 3)
            os.dup2(second, 4)

        self.process = subprocess.Popen(
            command, preexec_fn=connect, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(to_read)
        os.close(to_write)
        self.numbers, self.rest, self.messages = count(1), b"", []
        target = next(t for t in self.ask("Target.getTargets")["targetInfos"] if t["type"] == "page")
        given = {"targetId": target["targetId"], "flatten": True}
        self.session = self.ask("Target.attachToTarget", **given)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.resize(width, height)

    session: str | None = None

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.out)
        os.close(self.into)
        self.folder.cleanup()

    def ask(self, method: str, **given):
        """The answer to a command of the debugging protocol."""
        number = next(self.numbers)
        command = {"id": number, "method": method, "params": given}
        if self.session is not None:
            command["sessionId"] = self.session
        os.write(self.out, json.dumps(command).encode() + b"\0")
        while (answer := self.message()).get("id") != number:
            self.messages.append(answer)
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def message(self):
        while b"\0" not in self.rest:
            part = os.read(self.into, 1 << 16)
            assert part, "the browser has ended"
            self.rest += part
        text, _, self.rest = self.rest.partition(b"\0")
        return json.loads(text)

    def open(self, path: Path) -> None:
        """Load a file, and wait until it is there."""
        self.ask("Page.navigate", url=path.as_uri())
        while not any(m.get("method") == "Page.loadEventFired" for m in self.messages):
            self.messages.append(self.message())

    def resize(self, width: int, height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.ask("Emulation.setDeviceMetricsOverride", **metrics)

    def run(self, script: str):
        """The value of an expression in the page."""
        found = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def click(self, script: str, across: float = 0.5) -> None:
        """Click in an element, at a part of its width."""
        box = self.run(
            f"(() => {{ const e = {script}; e.scrollIntoView({{block: 'nearest'}});"
            f"const b = e.getBoundingClientRect();"
            f"return [b.x + b.width * {across}, b.y + b.height / 2]; }})()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, *box, button="left", clickCount=1)

    def mouse(self, kind: str, x: float, y: float, **more) -> None:
        self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        found = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def errors(self) -> list[str]:
        """Exceptions, messages of the console, violations of the page's policy, and requests to elsewhere."""
        found = []
        for m in self.messages:
            given = m.get("params", {})
            if m.get("method") in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
                found.append(json.dumps(given))
            if m.get("method") == "Network.requestWillBeSent":
                url = given["request"]["url"]
                found += [] if url.startswith(("file:", "about:", "data:")) else [f"request of {url}"]
        return found
