"""A session of a C library with TensorFlow's C API, by ctypes: a graph, its feeds, and steps that are timed, by a loop in C (steps.c).

Started as a program, with the library and its ConfigProto in hexadecimal, it serves one (serve.py). What is loaded:
  {"graph": PATH, "feeds": PATH of an .npz, "targets": [...]}, and maybe
  "initial": [...] is run once before, fed with "initial_feeds" (an .npz); "fetch": the op whose output each step gives
"""


import ctypes
import os
import sys

import numpy as np
from serve import serve

P, S, I, N, C = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int64, ctypes.c_char_p
DTYPES = {"float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int16": 5, "int8": 6, "complex64": 8, "int64": 9, "bool": 10, "float16": 19}


class Output(ctypes.Structure):
    _fields_ = [("oper", P), ("index", I)]


class Buffer(ctypes.Structure):
    _fields_ = [("data", P), ("length", S), ("deallocator", P)]


class StepCall(ctypes.Structure):
    """step_call_t of steps.c"""

    _fields_ = [(name, P) for name in ("run", "delete_tensor", "code", "session", "feeds", "values", "fetch", "targets", "status")] + [("num_feeds", I), ("num_targets", I)]


STEPS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bazel-bin", "benchmarks", "libsteps.so")


def loop_in_c():
    if not os.path.exists(STEPS):
        raise RuntimeError(f"no {os.path.normpath(STEPS)}: build //benchmarks:libsteps.so")
    run_steps = ctypes.CDLL(STEPS).run_steps
    run_steps.restype, run_steps.argtypes = N, (ctypes.POINTER(StepCall), ctypes.c_double, ctypes.POINTER(ctypes.c_double))
    return run_steps


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
        ("TF_TensorType", I, P),
        ("TF_TensorByteSize", S, P),
        ("TF_NumDims", I, P),
        ("TF_Dim", N, P, I),
        ("TF_CloseSession", None, P, P),
        ("TF_DeleteSession", None, P, P),
        ("TF_DeleteTensor", None, P),
        ("TF_DeleteGraph", None, P),
        ("TF_SessionRun", None, P, P, ctypes.POINTER(Output), ctypes.POINTER(P), I, ctypes.POINTER(Output), ctypes.POINTER(P), I, ctypes.POINTER(P), I, P, P),
    ):
        f = getattr(c, name)
        f.restype, f.argtypes = result, args
    return c


class Session:
    def __init__(self, library, config):
        self.c, self.config = declared(library), config
        self.status = self.c.TF_NewStatus()
        self.session, self.run_steps = None, loop_in_c()

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

    def load(self, command):
        self.close()
        c = self.c
        self.graph, options = c.TF_NewGraph(), c.TF_NewSessionOptions()
        c.TF_SetConfig(options, self.config, len(self.config), self.status)
        self.check()
        data = np.fromfile(command["graph"], np.uint8)
        c.TF_GraphImportGraphDef(self.graph, ctypes.byref(Buffer(data.ctypes.data, data.size, None)), c.TF_NewImportGraphDefOptions(), self.status)
        del data
        self.check()
        self.tensors = []
        self.session = c.TF_NewSession(self.graph, options, self.status)
        self.check()
        if "initial" in command and command["initial"]:
            self.feed(command["initial_feeds"])
            self.run(self.operations(command["initial"]), None)
        self.feed(command["feeds"])
        self.targets = self.operations(command["targets"])
        self.fetch = None
        if "fetch" in command:
            self.fetch = (Output * 1)(Output(c.TF_GraphOperationByName(self.graph, command["fetch"].encode()), 0))
        self.step()

    def feed(self, path):
        """What is fed from now on."""
        for t in self.tensors:
            self.c.TF_DeleteTensor(t)
        with np.load(path) as values:
            names = values.files
            self.tensors = [self.tensor(values[name]) for name in names]
        self.feeds = (Output * max(1, len(names)))(*[Output(self.c.TF_GraphOperationByName(self.graph, n.encode()), 0) for n in names])
        self.values = (P * max(1, len(names)))(*self.tensors)

    def operations(self, names):
        return (P * len(names))(*[self.c.TF_GraphOperationByName(self.graph, n.encode()) for n in names])

    def run(self, targets, fetch):
        """The tensor that is fetched, which the caller deletes, or None."""
        out = (P * 1)()
        self.c.TF_SessionRun(self.session, None, self.feeds, self.values, len(self.tensors), fetch, out, 1 if fetch else 0, targets, len(targets), None, self.status)
        self.check()
        return out[0]

    def step(self):
        fetched = self.run(self.targets, self.fetch)
        if fetched:
            self.c.TF_DeleteTensor(fetched)

    def steps(self, seconds):
        """Steps for so long: how many, and what they took."""
        c, wall_s = self.c, ctypes.c_double()
        pointers = [ctypes.cast(x, P).value if x is not None else None for x in (c.TF_SessionRun, c.TF_DeleteTensor, c.TF_GetCode, self.session, self.feeds, self.values, self.fetch, self.targets, self.status)]
        n = self.run_steps(ctypes.byref(StepCall(*pointers, len(self.tensors), len(self.targets))), seconds, ctypes.byref(wall_s))
        self.check()
        return n, wall_s.value

    def answer(self):
        c, fetched = self.c, self.run(self.targets, self.fetch)
        name = next(n for n, dtype in DTYPES.items() if dtype == c.TF_TensorType(fetched))
        value = np.empty([c.TF_Dim(fetched, i) for i in range(c.TF_NumDims(fetched))], name)
        ctypes.memmove(value.ctypes.data, c.TF_TensorData(fetched), c.TF_TensorByteSize(fetched))
        c.TF_DeleteTensor(fetched)
        return value


if __name__ == "__main__":
    serve(Session(sys.argv[1], bytes.fromhex(sys.argv[2])))
