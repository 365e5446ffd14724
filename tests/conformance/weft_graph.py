"""Weft's graph functions through its C API: shapes that it infers, gradients that it adds.

The library has the names of TensorFlow's own, so it is loaded into a process of its own, which answers one pickled
request after another: `WeftGraphs` is the client, `serve` the server.
"""

import ctypes as c
import os
import pickle
import struct
import subprocess
import sys

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Output(c.Structure):
    _fields_ = [("oper", c.c_void_p), ("index", c.c_int)]


class Buffer(c.Structure):
    _fields_ = [("data", c.c_void_p), ("length", c.c_size_t), ("free", c.c_void_p)]


class Failure(Exception):
    """A status of the library: its code and message."""


class Graphs:
    """The library, in this process."""

    def __init__(self, path):
        self.lib = lib = c.CDLL(path)
        for name in ("NewStatus", "NewGraph", "NewBuffer", "NewImportGraphDefOptions", "GraphOperationByName"):
            getattr(lib, "TF_" + name).restype = c.c_void_p
        lib.TF_NewBufferFromString.restype = c.c_void_p
        lib.TF_Message.restype = c.c_char_p
        self.status = c.c_void_p(lib.TF_NewStatus())

    def check(self):
        code = self.lib.TF_GetCode(self.status)
        if code:
            raise Failure(code, self.lib.TF_Message(self.status).decode(errors="replace"))

    def imported(self, graph_def):
        lib = self.lib
        graph = c.c_void_p(lib.TF_NewGraph())
        buffer = c.c_void_p(lib.TF_NewBufferFromString(graph_def, c.c_size_t(len(graph_def))))
        options = c.c_void_p(lib.TF_NewImportGraphDefOptions())
        lib.TF_GraphImportGraphDef(graph, buffer, options, self.status)
        lib.TF_DeleteImportGraphDefOptions(options)
        lib.TF_DeleteBuffer(buffer)
        try:
            self.check()
        except Failure:
            lib.TF_DeleteGraph(graph)
            raise
        return graph

    def output(self, graph, name, index):
        return Output(self.lib.TF_GraphOperationByName(graph, name.encode()), index)

    def shapes(self, graph_def, outputs):
        """The shape of each (node, index): a list with None for what is not known, or None."""
        lib = self.lib
        graph = self.imported(graph_def)
        found = []
        for name, index in outputs:
            port = self.output(graph, name, index)
            rank = lib.TF_GraphGetTensorNumDims(graph, port, self.status)
            self.check()
            if rank < 0:
                found.append(None)
                continue
            dims = (c.c_int64 * max(rank, 1))()
            lib.TF_GraphGetTensorShape(graph, port, dims, c.c_int(rank), self.status)
            self.check()
            found.append([None if d < 0 else d for d in dims[:rank]])
        lib.TF_DeleteGraph(graph)
        return found

    def gradients(self, graph_def, ys, xs, dys):
        """The graph with the gradients of ys by xs, given those of ys; and where they are: (node, index) or None."""
        lib = self.lib
        graph = self.imported(graph_def)
        try:
            ports = [(Output * len(part))(*[self.output(graph, *p) for p in part]) for part in (ys, xs, dys)]
            found = (Output * len(xs))()
            lib.TF_AddGradients(graph, ports[0], len(ys), ports[1], len(xs), ports[2], self.status, found)
            self.check()
            lib.TF_OperationName.restype = c.c_char_p
            names = [(lib.TF_OperationName(c.c_void_p(o.oper)).decode(), o.index) if o.oper else None for o in found]
            buffer = c.c_void_p(lib.TF_NewBuffer())
            lib.TF_GraphToGraphDef(graph, buffer, self.status)
            self.check()
            content = c.cast(buffer, c.POINTER(Buffer)).contents
            text = c.string_at(content.data, content.length)
            lib.TF_DeleteBuffer(buffer)
            return text, names
        finally:
            lib.TF_DeleteGraph(graph)


class LibraryProcess:
    """A process with the library at `path`, which runs `script`: one request after another. A call raises Failure with the
    library's code and message; one under which the process dies raises RuntimeError, and the next call starts another."""

    def __init__(self, path, script):
        self.path, self.script = path, script
        self.process = None
        if not os.path.exists(self.path):
            raise FileNotFoundError(f"{self.path}: `bazel build //client:libtensorflow.so` makes it")

    def call(self, *request, **more):
        if self.process is None:
            command = [sys.executable, self.script, self.path]
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        data = pickle.dumps((request, more))
        try:
            self.process.stdin.write(struct.pack("<Q", len(data)) + data)
            self.process.stdin.flush()
            size = struct.unpack("<Q", self.process.stdout.read(8))[0]
            is_good, answer = pickle.loads(self.process.stdout.read(size))
        except (struct.error, BrokenPipeError, EOFError) as e:
            code = self.process.wait()
            self.process = None
            raise RuntimeError(f"the process with the library {self.path} ended with {code}") from e
        if not is_good:
            raise Failure(*answer)
        return answer

    def stop(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()


def weft_library(weft):
    """Where the library lies that was built beside the command `weft`."""
    return os.path.join(os.path.dirname(os.path.dirname(weft)), "client", "libtensorflow.so")


def serve(library):
    """Answers requests with the methods of `library` until the client goes."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the library prints is no answer
    while len(head := sys.stdin.buffer.read(8)) == 8:
        (name, *arguments), more = pickle.loads(sys.stdin.buffer.read(struct.unpack("<Q", head)[0]))
        try:
            answer = True, getattr(library, name)(*arguments, **more)
        except Failure as e:
            answer = False, e.args
        data = pickle.dumps(answer)
        answers.write(struct.pack("<Q", len(data)) + data)
        answers.flush()


class WeftGraphs(LibraryProcess):
    """`Graphs`, answered by a process of its own."""

    def __init__(self, weft):
        super().__init__(weft_library(weft), __file__)

    def shapes(self, *arguments):
        return self.call("shapes", *arguments)

    def gradients(self, *arguments):
        return self.call("gradients", *arguments)


if __name__ == "__main__":
    serve(Graphs(sys.argv[1]))
