"""A session of a C library with TensorFlow's C API, by ctypes: a graph, its feeds, and steps that are timed.

Started as a program it serves one: a line of JSON for each command on standard input, an answer on standard output.
  {"graph": PATH, "feeds": PATH of an .npz, "targets": [...]}   ->  {"ok": true} or {"error": "..."}
  {"seconds": S}                                                ->  {"steps": n, "wall_s": .., "cpu_s": ..}
"""

import ctypes
import json
import resource
import sys
import time

import numpy as np

P, S, I, N, C = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int64, ctypes.c_char_p
DTYPES = {"float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int16": 5, "int8": 6, "complex64": 8, "int64": 9, "bool": 10, "float16": 19}


class Output(ctypes.Structure):
    _fields_ = [("oper", P), ("index", I)]


class Buffer(ctypes.Structure):
    _fields_ = [("data", P), ("length", S), ("deallocator", P)]


def declared(library):
    """The functions that are needed, with their types."""
    c = ctypes.CDLL(library)
    for name, result, *args in (
        ("TF_NewStatus", P),
        ("TF_GetCode", I, P),
        ("TF_Message", C, P),
        ("TF_NewGraph", P),
        ("TF_NewImportGraphDefOptions", P),
        ("TF_GraphImportGraphDef", None, P, P, P, P),
        ("TF_NewSessionOptions", P),
        ("TF_SetConfig", None, P, C, S, P),
        ("TF_NewSession", P, P, P, P),
        ("TF_GraphOperationByName", P, P, C),
        ("TF_AllocateTensor", P, I, ctypes.POINTER(N), I, S),
        ("TF_TensorData", P, P),
        ("TF_CloseSession", None, P, P),
        ("TF_DeleteSession", None, P, P),
        ("TF_DeleteTensor", None, P),
        ("TF_DeleteGraph", None, P),
        ("TF_NewBufferFromString", ctypes.POINTER(Buffer), C, S),
        ("TF_SessionRun", None, P, P, ctypes.POINTER(Output), ctypes.POINTER(P), I, ctypes.POINTER(Output), ctypes.POINTER(P), I, ctypes.POINTER(P), I, P, P),
    ):
        f = getattr(c, name)
        f.restype, f.argtypes = result, args
    return c


class Session:
    def __init__(self, library, config):
        self.c, self.config = declared(library), config
        self.status = self.c.TF_NewStatus()
        self.session = None

    def check(self):
        if self.c.TF_GetCode(self.status) != 0:
            raise RuntimeError(self.c.TF_Message(self.status).decode(errors="replace"))

    def close(self):
        if self.session is None:
            return
        self.c.TF_CloseSession(self.session, self.status)
        self.c.TF_DeleteSession(self.session, self.status)
        self.c.TF_DeleteGraph(self.graph)
        for t in self.tensors:
            self.c.TF_DeleteTensor(t)
        self.session = None

    def tensor(self, value):
        value = np.ascontiguousarray(value)
        dims = (N * max(value.ndim, 1))(*value.shape)
        t = self.c.TF_AllocateTensor(DTYPES[value.dtype.name], dims, value.ndim, value.nbytes)
        ctypes.memmove(self.c.TF_TensorData(t), value.ctypes.data, value.nbytes)
        return t

    def load(self, graph, feeds, targets, initial):
        self.close()
        c = self.c
        self.graph, options = c.TF_NewGraph(), c.TF_NewSessionOptions()
        c.TF_SetConfig(options, self.config, len(self.config), self.status)
        self.check()
        data = open(graph, "rb").read()
        c.TF_GraphImportGraphDef(self.graph, c.TF_NewBufferFromString(data, len(data)), c.TF_NewImportGraphDefOptions(), self.status)
        self.check()
        self.tensors = []
        self.session = c.TF_NewSession(self.graph, options, self.status)
        self.check()
        values = np.load(feeds)
        self.tensors = [self.tensor(values[name]) for name in values.files]
        self.num_feeds = len(values.files)
        self.feeds = (Output * max(1, self.num_feeds))(*[Output(c.TF_GraphOperationByName(self.graph, n.encode()), 0) for n in values.files])
        self.values = (P * max(1, self.num_feeds))(*self.tensors)
        if initial:
            self.step(self.operations(initial))
        self.targets = self.operations(targets)
        self.step(self.targets)

    def operations(self, names):
        return (P * len(names))(*[self.c.TF_GraphOperationByName(self.graph, n.encode()) for n in names])

    def step(self, targets):
        self.c.TF_SessionRun(self.session, None, self.feeds, self.values, self.num_feeds, None, None, 0, targets, len(targets), None, self.status)
        self.check()

    def run(self, seconds):
        began, cpu, n = time.perf_counter(), cpu_s(), 0
        while n == 0 or time.perf_counter() - began < seconds:
            self.step(self.targets)
            n += 1
        return {"steps": n, "wall_s": time.perf_counter() - began, "cpu_s": cpu_s() - cpu}


def cpu_s():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main():
    session = Session(sys.argv[1], bytes.fromhex(sys.argv[2]))
    for line in sys.stdin:
        command = json.loads(line)
        try:
            if "graph" in command:
                session.load(command["graph"], command["feeds"], command["targets"], command.get("initial", []))
                answer = {"ok": True}
            else:
                answer = session.run(command["seconds"])
        except RuntimeError as e:
            answer = {"error": str(e)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
