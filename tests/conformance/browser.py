"""A headless Chromium, driven by its DevTools protocol over a pipe.

Pages of TensorBoard are made of elements with shadow trees, which `--dump-dom` leaves out: texts and elements are looked for in those, too.
"""

import base64
import json
import os
import shutil
import subprocess
import time

import numpy as np
import tensorflow as tf

BINARY = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
DEADLINE_S = 60

# Elements that match, and texts, of a page with all its shadow trees.
HELPERS = """
window.every = selector => {
  const found = [];
  const walk = node => {
    if (node.matches && node.matches(selector)) found.push(node);
    if (node.shadowRoot) walk(node.shadowRoot);
    for (const child of node.children || []) walk(child);
  };
  walk(document);
  return found;
};
window.texts = () => {
  const found = [];
  const walk = node => {
    if (node.nodeType == Node.TEXT_NODE && node.textContent.trim()) found.push(node.textContent.trim());
    if (['STYLE', 'SCRIPT', 'NOSCRIPT'].includes(node.tagName)) return;
    if (node.shadowRoot) walk(node.shadowRoot);
    for (const child of node.childNodes) walk(child);
  };
  walk(document.body);
  return found;
};
"""


class Browser:
    """One page. Close it."""

    def __init__(self, profile, size=(1500, 1100)):
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()

        def place():  # Chromium reads commands from 3 and writes to 4
            high_in, high_out = os.dup2(theirs_in, 60), os.dup2(theirs_out, 61)
            os.dup2(high_in, 3)
            os.dup2(high_out, 4)

        self.process = subprocess.Popen(
            [
                BINARY,
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--remote-debugging-pipe",
                f"--window-size={size[0]},{size[1]}",
                f"--user-data-dir={profile}",
                "about:blank",
            ],
            preexec_fn=place,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self.commands, self.answers = os.fdopen(ours_out, "wb", 0), os.fdopen(ours_in, "rb", 0)
        self.calls, self.unread, self.session = 0, b"", None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")
        self.call("Page.addScriptToEvaluateOnNewDocument", source=HELPERS)

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=30)
        self.commands.close()
        self.answers.close()

    def call(self, method, **params):
        self.calls += 1
        message = {"id": self.calls, "method": method, "params": params, **({"sessionId": self.session} if self.session else {})}
        self.commands.write(json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.unread:
                more = self.answers.read(1 << 16)
                assert more, "Chromium has ended"
                self.unread += more
            one, _, self.unread = self.unread.partition(b"\0")
            answer = json.loads(one)
            if answer.get("id") == self.calls:
                assert "error" not in answer, answer["error"]
                return answer["result"]

    def open(self, url):
        self.call("Page.navigate", url="about:blank")  # a page that differs behind '#' alone would not be loaded
        self.call("Page.navigate", url=url)

    def js(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, expression):
        """Looks again until the page is so far."""
        deadline = time.monotonic() + DEADLINE_S
        while not self.js(f"typeof every != 'undefined' && document.body && !!({expression})"):
            if time.monotonic() > deadline:
                raise AssertionError(f"never true: {expression}; the page says: {self.js('texts()')}")
            time.sleep(0.05)

    def wait_for_texts(self, *wanted):
        self.wait_for(f"{json.dumps(wanted)}.every(w => texts().some(t => t.includes(w)))")

    def screenshot(self):
        """[height, width, 3], as it is shown."""
        return tf.io.decode_png(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]), channels=3).numpy()

    def colourful(self, selector):
        """How many pixels of the first element that matches are neither white, nor grey, nor black."""
        box = self.js(f"(r => [r.left, r.top, r.right, r.bottom])(every({json.dumps(selector)})[0].getBoundingClientRect())")
        left, top, right, bottom = (max(0, int(v)) for v in box)
        part = self.screenshot()[top:bottom, left:right].astype(int)
        return int(np.sum(np.ptp(part, axis=-1) > 20)) if part.size else 0

    def wait_for_colours(self, selector, pixels):
        deadline = time.monotonic() + DEADLINE_S
        while (n := self.colourful(selector)) < pixels:
            assert time.monotonic() < deadline, f"{selector} has {n} pixels of colour"
            time.sleep(0.05)
