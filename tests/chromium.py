"""A headless Chromium for tests and benchmarks, spoken to through two pipes in its DevTools protocol: no dependency."""

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

__all__ = ["Chromium", "find_chromium"]

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chromium-headless-shell", "chrome")
_FLAGS = (
    *("--headless", "--no-sandbox", "--no-first-run", "--disable-extensions", "--disable-background-networking"),
    *("--hide-scrollbars", "--enable-unsafe-swiftshader", "--remote-debugging-pipe", "--window-size=1366,900"),
    # Whatever is asked for, no name is found; each attempt is still reported as a request.
    "--host-resolver-rules=MAP * ~NOTFOUND",
)

# Chromium reads from 3 and writes to 4.
_START = """
import fcntl, os, sys
pipes = [fcntl.fcntl(int(pipe), fcntl.F_DUPFD, 10) for pipe in sys.argv[1:3]]
os.dup2(pipes[0], 3)
os.dup2(pipes[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def find_chromium() -> str | None:
    """The program that the variable CHROMIUM names, else one on the PATH; on Windows none, for want of such pipes."""
    if os.name == "nt":
        return None
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)


class Chromium:
    """One browser with one page.

    Args:
        program: As found by :func:`find_chromium`.
        language: Of the browser.
        dark: Whether the user likes dark pages.
    """

    def __init__(self, program: str, language: str = "en-US", dark: bool = False) -> None:
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        own = f"--lang={language}", f"--accept-lang={language}", f"--user-data-dir={self._profile.name}"
        pipes = str(theirs_in), str(theirs_out)
        command = [sys.executable, "-IS", "-c", _START, *pipes, program, *_FLAGS, *own, "about:blank"]
        self._process = subprocess.Popen(
            command,
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "LANGUAGE": language},
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._buffer, self._number, self._session = b"", 0, ""
        self.events: list[dict[str, Any]] = []
        try:
            self._attach(dark)
        except BaseException:
            self.close()
            raise

    def _attach(self, dark: bool) -> None:
        [page] = [each for each in self.call("Target.getTargets")["targetInfos"] if each["type"] == "page"]
        self._session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol; events that come meanwhile are kept in ``events``."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        session = {"sessionId": self._session} if self._session else {}
        os.write(self._out, json.dumps({**message, **session}).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            piece = os.read(self._in, 1 << 20)
            if not piece:
                raise RuntimeError("Chromium ended")
            self._buffer += piece
        first, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(first)
        return message

    def open(self, address: str) -> None:
        """Load a page, and wait until it is drawn."""
        self.call("Page.navigate", url=address)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")
        self.settle()

    def run(self, script: str) -> Any:
        """The JSON value of an expression in the page; of a promise, what it becomes."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, condition: str, seconds: float = 30) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + seconds
        while not self.run(f"Boolean({condition})"):
            if time.monotonic() > end:
                raise TimeoutError(f"not true after {seconds} s: {condition}")
            time.sleep(0.02)

    def settle(self) -> None:
        """Wait for two frames."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")

    def click(self, x: float, y: float) -> None:
        """Move the mouse to a place of the page and click."""
        self.move(x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.settle()

    def move(self, x: float, y: float) -> None:
        """Move the mouse to a place of the page."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.settle()

    def write(self, text: str) -> None:
        """Type text into what has the focus."""
        self.call("Input.insertText", text=text)
        self.settle()

    def press(self, key: str) -> None:
        """Press a key and let it go."""
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.settle()

    def screenshot(self, path: Path) -> None:
        """Write what is to be seen as PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def params(self, method: str) -> list[dict[str, Any]]:
        """What all events of one kind said so far."""
        self.run("0")
        return [event["params"] for event in self.events if event.get("method") == method]

    def close(self) -> None:
        """End the browser."""
        self._process.terminate()
        self._process.wait()
        os.close(self._out)
        os.close(self._in)
        self._profile.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
