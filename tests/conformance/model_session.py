"""Sessions of SavedModels through a library with TensorFlow's C API: Weft's, or TensorFlow's own as the oracle.

The libraries have the same names, so that each is loaded into a process of its own, which answers one pickled request after
another: `ModelSessions` is the client, `serve` the server.
"""

import ctypes as c
import glob
import os
import sys

import numpy as np

from weft_graph import Buffer, Failure, LibraryProcess, Output, serve

DTYPES = {
    1: np.float32, 2: np.float64, 3: np.int32, 4: np.uint8, 5: np.int16, 6: np.int8, 7: object, 8: np.complex64, 9: np.int64,
    10: np.bool_, 17: np.uint16, 18: np.complex128, 19: np.float16, 22: np.uint32, 23: np.uint64,
}  # fmt: skip
NUMBERS = {np.dtype(numpy): number for number, numpy in DTYPES.items()}
STRING = 7
STRING_BYTES = 24  # of a TF_TString


def tensorflow_library():
    """The path of TensorFlow's own library, in the wheel."""
    import tensorflow as tf

    return glob.glob(os.path.join(os.path.dirname(tf.__file__), "libtensorflow_cc.so.*"))[0]


class Sessions:
    """The library, in this process."""

    def __init__(self, path):
        self.lib = lib = c.CDLL(path)
        for name in ("NewStatus", "NewGraph", "NewBuffer", "NewBufferFromString", "NewSessionOptions", "GraphOperationByName",
                     "LoadSessionFromSavedModel", "AllocateTensor", "TensorData", "StringGetDataPointer"):  # fmt: skip
            getattr(lib, "TF_" + name).restype = c.c_void_p
        lib.TF_Message.restype = c.c_char_p
        lib.TF_Dim.restype = c.c_int64
        lib.TF_TensorByteSize.restype = c.c_size_t
        lib.TF_TensorElementCount.restype = c.c_int64
        lib.TF_StringGetSize.restype = c.c_size_t
        self.status = c.c_void_p(lib.TF_NewStatus())
        self.open = {}
        self.next = 0

    def check(self):
        code = self.lib.TF_GetCode(self.status)
        if code:
            raise Failure(code, self.lib.TF_Message(self.status).decode(errors="replace"))

    def load(self, directory, tags, run_options=None, preloaded=None, target=None):
        """A handle and the meta graph's bytes. `preloaded`: a GraphDef that the graph holds before."""
        lib = self.lib
        graph = c.c_void_p(lib.TF_NewGraph())
        options = c.c_void_p(lib.TF_NewSessionOptions())
        meta = c.c_void_p(lib.TF_NewBuffer())
        names = (c.c_char_p * max(len(tags), 1))(*[t.encode() for t in tags])
        run = None if run_options is None else c.c_void_p(lib.TF_NewBufferFromString(run_options, c.c_size_t(len(run_options))))
        if target is not None:
            lib.TF_SetTarget(options, target.encode())
        if preloaded is not None:
            lib.TF_NewImportGraphDefOptions.restype = c.c_void_p
            buffer = c.c_void_p(lib.TF_NewBufferFromString(preloaded, c.c_size_t(len(preloaded))))
            lib.TF_GraphImportGraphDef(graph, buffer, c.c_void_p(lib.TF_NewImportGraphDefOptions()), self.status)
            self.check()
        session = lib.TF_LoadSessionFromSavedModel(options, run, directory.encode(), names, len(tags), graph, meta, self.status)
        content = c.cast(meta, c.POINTER(Buffer)).contents
        text = c.string_at(content.data, content.length) if content.data else b""
        lib.TF_DeleteBuffer(meta)
        lib.TF_DeleteSessionOptions(options)
        try:
            self.check()
        except Failure:
            assert not session
            lib.TF_DeleteGraph(graph)
            raise
        self.next += 1
        self.open[self.next] = c.c_void_p(session), graph
        return self.next, text

    def tensor(self, value):
        lib = self.lib
        array = np.asarray(value)
        if array.dtype.kind in "SU":
            array = array.astype(object)
        number = NUMBERS[array.dtype]
        dims = (c.c_int64 * max(array.ndim, 1))(*array.shape)
        size = array.size * (STRING_BYTES if number == STRING else array.dtype.itemsize)
        tensor = c.c_void_p(lib.TF_AllocateTensor(number, dims, array.ndim, c.c_size_t(size)))
        data = lib.TF_TensorData(tensor)
        if number != STRING:
            c.memmove(data, np.ascontiguousarray(array).ctypes.data, size)
            return tensor
        for i, text in enumerate(array.reshape(-1)):
            text = text.encode() if isinstance(text, str) else text
            at = c.c_void_p(data + i * STRING_BYTES)
            lib.TF_StringInit(at)
            lib.TF_StringCopy(at, text, c.c_size_t(len(text)))
        return tensor

    def array(self, tensor):
        lib = self.lib
        shape = [lib.TF_Dim(tensor, i) for i in range(lib.TF_NumDims(tensor))]
        number, data = lib.TF_TensorType(tensor), lib.TF_TensorData(tensor)
        if number == STRING:
            texts = []
            for i in range(lib.TF_TensorElementCount(tensor)):
                at = c.c_void_p(data + i * STRING_BYTES)
                texts.append(c.string_at(lib.TF_StringGetDataPointer(at), lib.TF_StringGetSize(at)))
            array = np.empty(len(texts), dtype=object)
            array[:] = texts
            return array.reshape(shape)
        bytes_ = c.string_at(data, lib.TF_TensorByteSize(tensor))
        return np.frombuffer(bytes_, DTYPES[number]).reshape(shape).copy()

    def output(self, graph, name):
        node, _, index = name.partition(":")
        oper = self.lib.TF_GraphOperationByName(graph, node.encode())
        if not oper:
            raise KeyError(f"{name} is not in the graph")
        return Output(oper, int(index or 0))

    def run(self, handle, feeds, fetches, targets=()):
        """The values of `fetches` ("node:0"), with `feeds` by such names."""
        lib = self.lib
        session, graph = self.open[handle]
        inputs = (Output * max(len(feeds), 1))(*[self.output(graph, name) for name in feeds])
        values = (c.c_void_p * max(len(feeds), 1))(*[self.tensor(value) for value in feeds.values()])
        outputs = (Output * max(len(fetches), 1))(*[self.output(graph, name) for name in fetches])
        results = (c.c_void_p * max(len(fetches), 1))()
        nodes = (c.c_void_p * max(len(targets), 1))(*[lib.TF_GraphOperationByName(graph, t.encode()) for t in targets])
        lib.TF_SessionRun(session, None, inputs, values, len(feeds), outputs, results, len(fetches), nodes, len(targets), None, self.status)
        for value in values[: len(feeds)]:
            lib.TF_DeleteTensor(c.c_void_p(value))
        self.check()
        found = []
        for result in results[: len(fetches)]:
            found.append(self.array(c.c_void_p(result)))
            lib.TF_DeleteTensor(c.c_void_p(result))
        return found

    def close(self, handle):
        session, graph = self.open.pop(handle)
        self.lib.TF_DeleteSession(session, self.status)
        self.lib.TF_DeleteGraph(graph)
        self.check()


class ModelSessions(LibraryProcess):
    """The same, answered by a process of its own."""

    def __init__(self, path):
        super().__init__(path, __file__)

    def load(self, *arguments, **more):
        return self.call("load", *arguments, **more)

    def run(self, *arguments):
        return self.call("run", *arguments)

    def close(self, *arguments):
        return self.call("close", *arguments)


if __name__ == "__main__":
    serve(Sessions(sys.argv[1]))
