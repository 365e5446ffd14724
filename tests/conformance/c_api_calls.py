"""Calls of TensorFlow's C API with odd arguments, and what a library with that API does.

As a program: `c_api_calls.py LIBRARY [WORD]` prints, as JSON, what each case whose name has WORD gives: codes, messages,
results. Each case runs in a process forked for it; "signal N" is said of one that dies. `test_c_api.py` compares two libraries.
"""

import ctypes as c
import json
import os
import re
import signal
import struct
import sys

P, I, N, S, T = c.c_void_p, c.c_int, c.c_int64, c.c_size_t, c.c_char_p
FLOAT, DOUBLE, INT32, UINT8, STRING, INT64, BOOL, RESOURCE, VARIANT = 1, 2, 3, 4, 7, 9, 10, 20, 21
LIMIT_S = 30


class Output(c.Structure):
    _fields_ = [("oper", P), ("index", I)]


class Buffer(c.Structure):
    _fields_ = [("data", P), ("length", S), ("free", P)]


class While(c.Structure):
    _fields_ = [("ninputs", I), ("cond_graph", P), ("cond_inputs", c.POINTER(Output)), ("cond_output", Output),
                ("body_graph", P), ("body_inputs", c.POINTER(Output)), ("body_outputs", c.POINTER(Output)), ("name", T)]  # fmt: skip


# ---- messages ----


def field(number, value):
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    return varint(number << 3) + varint(value)


def varint(n):
    n &= (1 << 64) - 1
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def typ(t):
    return field(6, t)


def shape(*dims):
    return b"".join(field(2, field(1, d)) for d in dims)


def tensor(dtype, dims=(), content=b""):
    return field(1, dtype) + field(2, shape(*dims)) + field(4, content)


def node(name, op, inputs=(), device="", **attrs):
    text = field(1, name) + field(2, op) + b"".join(field(3, i) for i in inputs) + (field(4, device) if device else b"")
    return text + b"".join(field(5, field(1, k) + field(2, v)) for k, v in attrs.items())


def graph_def(*nodes, functions=(), gradients=(), producer=1000):
    library = b"".join(field(1, f) for f in functions) + b"".join(field(2, field(1, f) + field(2, g)) for f, g in gradients)
    return b"".join(field(1, n) for n in nodes) + (field(2, library) if library else b"") + field(4, field(1, producer))


def placeholder(name, dtype=FLOAT):
    return node(name, "Placeholder", dtype=typ(dtype))


def constant(name, value=1.0):
    return node(name, "Const", dtype=typ(FLOAT), value=field(8, tensor(FLOAT, (), struct.pack("<f", value))))


def add(name, x, y):
    return node(name, "AddV2", (x, y), T=typ(FLOAT))


def identity(name, x, dtype=FLOAT):
    return node(name, "Identity", (x,), T=typ(dtype))


def arg(name, dtype=FLOAT):
    return field(1, name) + (field(3, dtype) if dtype else b"")


def function(name, inputs=(), outputs=(), nodes=(), ret=(), control=(), signature=b""):
    text = field(1, name) if name else b""
    text += b"".join(field(2, i) for i in inputs) + b"".join(field(3, o) for o in outputs) + signature
    text = field(1, text) + b"".join(field(3, n) for n in nodes)
    text += b"".join(field(4, field(1, k) + field(2, v)) for k, v in ret)
    return text + b"".join(field(6, field(1, k) + field(2, v)) for k, v in control)


# ---- the library ----

FUNCTIONS = """
P NewStatus; v SetStatus P I T; I GetCode P; T Message P; v SetStatusFromIOError P I T; v SetPayload P T T
P NewBuffer; P NewBufferFromString P S; v DeleteBuffer P
P NewTensor I P I P S P P; P AllocateTensor I P I S; v DeleteTensor P; P TensorData P; S TensorByteSize P; I TensorType P; I NumDims P; N Dim P I
N TensorElementCount P; B TensorIsAligned P; P TensorMaybeMove P; v SetShape P P I; v TensorBitcastFrom P I P P I P; v TensorFromProto P P P
S DataTypeSize I; S TensorDefaultAlignment
P NewGraph; v DeleteGraph P; P GraphOperationByName P T; P GraphNextOperation P P; v GraphToGraphDef P P P; v GraphVersions P P P; v GraphGetOpDef P T P P
v GraphSetTensorShape P O P I P; I GraphGetTensorNumDims P O P; v GraphGetTensorShape P O P I P; B TryEvaluateConstant P O P P
P NewOperation P T T; P FinishOperation P P; v AddInput P O; v AddInputList P P I; v AddControlInput P P; v ColocateWith P P; v SetDevice P T
v SetAttrString P T P S; v SetAttrStringList P T P P I; v SetAttrInt P T N; v SetAttrIntList P T P I; v SetAttrFloat P T f; v SetAttrFloatList P T P I
v SetAttrBool P T B; v SetAttrBoolList P T P I; v SetAttrType P T I; v SetAttrTypeList P T P I; v SetAttrPlaceholder P T T; v SetAttrFuncName P T P S
v SetAttrShape P T P I; v SetAttrShapeList P T P P I; v SetAttrTensorShapeProto P T P S P; v SetAttrTensorShapeProtoList P T P P I P
v SetAttrTensor P T P P; v SetAttrTensorList P T P I P; v SetAttrValueProto P T P S P
T OperationName P; T OperationOpType P; T OperationDevice P; I OperationNumOutputs P; I OperationNumInputs P; I OperationOutputType O; I OperationInputType O
I OperationOutputListLength P T P; I OperationInputListLength P T P; I OperationOutputNumConsumers O; I OperationOutputConsumers O P I
I OperationNumControlInputs P; I OperationNumControlOutputs P; I OperationGetControlInputs P P I; I OperationGetControlOutputs P P I; O OperationInput O
M OperationGetAttrMetadata P T P; v OperationGetAttrString P T P S P; v OperationGetAttrStringList P T P P I P S P
v OperationGetAttrInt P T P P; v OperationGetAttrIntList P T P I P; v OperationGetAttrFloat P T P P; v OperationGetAttrFloatList P T P I P
v OperationGetAttrBool P T P P; v OperationGetAttrBoolList P T P I P; v OperationGetAttrType P T P P; v OperationGetAttrTypeList P T P I P
v OperationGetAttrShape P T P I P; v OperationGetAttrShapeList P T P P I P I P; v OperationGetAttrTensorShapeProto P T P P
v OperationGetAttrTensorShapeProtoList P T P I P; v OperationGetAttrTensor P T P P; v OperationGetAttrTensorList P T P I P; v OperationGetAttrValueProto P T P P
I OperationGetNumAttrs P; I OperationGetAttrNameLength P I; v OperationGetAttrName P I P P; v OperationToNodeDef P P P
P NewImportGraphDefOptions; v ImportGraphDefOptionsSetPrefix P T; v ImportGraphDefOptionsSetDefaultDevice P T; v ImportGraphDefOptionsSetUniquifyNames P B
v ImportGraphDefOptionsSetUniquifyPrefix P B; v ImportGraphDefOptionsAddInputMapping P T I O; v ImportGraphDefOptionsRemapControlDependency P T P
v ImportGraphDefOptionsAddControlDependency P P; v ImportGraphDefOptionsAddReturnOutput P T I; v ImportGraphDefOptionsAddReturnOperation P T
v ImportGraphDefOptionsSetValidateColocationConstraints P B
v GraphImportGraphDef P P P P; P GraphImportGraphDefWithResults P P P P; v GraphImportGraphDefWithReturnOutputs P P P P I P
v ImportGraphDefResultsReturnOutputs P P P; v ImportGraphDefResultsReturnOperations P P P; v ImportGraphDefResultsMissingUnusedInputMappings P P P P
P FunctionImportFunctionDef P S P; T FunctionName P; v FunctionToFunctionDef P P P; v FunctionSetAttrValueProto P T P S P; v FunctionGetAttrValueProto P T P P
v GraphCopyFunction P P P P; I GraphNumFunctions P; I GraphGetFunctions P P I P; v GraphRemoveFunction P T P
P GraphToFunction P T B I P I P I P P P T P; P GraphToFunctionWithControlOutputs P T B I P I P I P P I P P P T P
v AddGradients P P I P I P P P; v AddGradientsWithPrefix P T P I P I P P P; v UpdateEdge P O O P; W NewWhile P P I P; v FinishWhile P P P; v AbortWhile P
P NewSessionOptions; v SetTarget P T; v SetConfig P P S P; P NewSession P P P; v CloseSession P P; v DeleteSession P P; v ExtendSession P P
v SessionRun P P P P I P P I P I P P; v SessionPRunSetup P P I P I P I P P; v SessionPRun P T P P I P P I P I P; P SessionListDevices P P
I DeviceListCount P; T DeviceListName P I P; T DeviceListType P I P; N DeviceListMemoryBytes P I P; P LoadSessionFromSavedModel P P T P I P P P
P NewDeprecatedSession P P; v ExtendGraph P P S P; v Run P P P P I P P I P I P P; v PRunSetup P P I P I P I P P; v PRun P T P P I P P I P I P; v Reset P P I P
v CloseDeprecatedSession P P; P NewServer P S P; v ServerStart P P; P GetAllOpList; P NewApiDefMap P P; v ApiDefMapPut P P S P; P ApiDefMapGet P T S P
P GetAllRegisteredKernels P; P GetRegisteredKernelsForOp T P; P NewCheckpointReader T P; I OpIsStateful T P; T GetNumberAttrForOpListInput T I P
v DequeueNamedTensor P I P; v EnqueueNamedTensor P I P P; v SetRequestedDevice P P T; v ClearAttr P P T P; v SetAttr P P T P P; v AddOperationControlInput P P P
v RemoveAllControlInputs P P; v FinishOperationLocked P P
v CreateDir T P; v DeleteDir T P; v DeleteRecursively T P N N P; v FileStat T P P; v NewWritableFile T P P; v DeleteFile T P; P GetChildren T P; B StringStreamNext P P
P LoadSharedLibrary T P; P GetSymbolFromLibrary P T P
v StringInit P; v StringCopy P T S; v StringAssignView P T S; T StringGetDataPointer P; S StringGetSize P; S StringGetCapacity P; I StringGetType P
"""


class Metadata(c.Structure):
    _fields_ = [("is_list", c.c_ubyte), ("list_size", N), ("type", I), ("total_size", N)]


KINDS = {"P": P, "I": I, "N": N, "S": S, "T": T, "O": Output, "B": c.c_ubyte, "f": c.c_float, "v": None, "M": Metadata, "W": While}


class Library:
    """The library's functions by their names without TF_, and shorter ways to what most cases need."""

    def __init__(self, path):
        lib = c.CDLL(path)
        for text in FUNCTIONS.replace("\n", ";").split(";"):
            if text.strip():
                result, name, *arguments = text.split()
                f = getattr(lib, "TF_" + name)
                f.restype, f.argtypes = KINDS[result], [KINDS[a] for a in arguments]
                setattr(self, name, f)
        self.said = []

    def begin(self):
        self.status = self.NewStatus()
        self.graph = self.NewGraph()

    def told(self):
        """The status's code and message."""
        return self.GetCode(self.status), (self.Message(self.status) or b"").decode(errors="replace")

    def buffer(self, data):
        return self.NewBufferFromString(data, len(data))

    def text(self, buffer):
        b = c.cast(buffer, c.POINTER(Buffer)).contents
        return c.string_at(b.data, b.length) if b.data else b""

    def load(self, *nodes, **more):
        self.GraphImportGraphDef(self.graph, self.buffer(graph_def(*nodes, **more)), self.NewImportGraphDefOptions(), self.status)
        code, message = self.told()
        assert code == 0, message

    def op(self, name):
        return self.GraphOperationByName(self.graph, name.encode())

    def out(self, name, index=0):
        return Output(self.op(name) if name is not None else None, index)

    def outs(self, *names):
        return (Output * max(len(names), 1))(*[n if isinstance(n, Output) else self.out(*n) if isinstance(n, tuple) else self.out(n) for n in names])

    def ops(self, *names):
        return (P * max(len(names), 1))(*[None if n is None else self.op(n) for n in names])

    def value(self, values=(1.0,), dims=(), dtype=FLOAT, form="f"):
        data = struct.pack(f"<{len(values)}{form}", *values)
        t = self.AllocateTensor(dtype, (N * max(len(dims), 1))(*dims), len(dims), len(data))
        c.memmove(self.TensorData(t), data, len(data))
        return t

    def shown(self, t):
        if not t:
            return None
        dims = [self.Dim(t, i) for i in range(self.NumDims(t))]
        size = self.TensorByteSize(t)
        data = c.string_at(self.TensorData(t), size) if size and self.TensorType(t) not in (STRING, RESOURCE, VARIANT) else b""
        return [self.TensorType(t), dims, size, data.hex()]

    def names(self):
        """All nodes: name, op, device, inputs."""
        at, found = S(0), []
        while o := self.GraphNextOperation(self.graph, c.byref(at)):
            found.append(self.described(o))
        return found

    def described(self, o):
        inputs = []
        for i in range(self.OperationNumInputs(o)):
            from_ = self.OperationInput(Output(o, i))
            inputs.append(f"{self.OperationName(from_.oper).decode()}:{from_.index}")
        controls = (P * 64)()
        for i in range(self.OperationGetControlInputs(o, controls, 64)):
            inputs.append("^" + self.OperationName(controls[i]).decode())
        return [self.OperationName(o).decode(errors="replace"), self.OperationOpType(o).decode(), self.OperationDevice(o).decode(), inputs]

    def session(self, target=b"", config=b""):
        options = self.NewSessionOptions()
        self.SetTarget(options, target)
        if config:
            self.SetConfig(options, config, len(config), self.status)
        return self.NewSession(self.graph, options, self.status)

    def run(self, session, feeds=(), fetches=(), targets=(), options=None, metadata=None):
        """Codes and values of a step. feeds: (output or name, tensor)."""
        inputs = self.outs(*[f[0] for f in feeds])
        values = (P * max(len(feeds), 1))(*[f[1] for f in feeds])
        outputs, results = self.outs(*fetches), (P * max(len(fetches), 1))()
        self.SessionRun(session, options, inputs, values, len(feeds), outputs, results, len(fetches), self.ops(*targets), len(targets), metadata, self.status)
        return self.told(), [self.shown(results[i]) for i in range(len(fetches))]


CASES = {}


def case(name, run, *arguments):
    assert name not in CASES, name
    CASES[name] = (run, arguments)


def cases(family, table):
    """A case of each (name, arguments) for the function decorated: it gets the library and the arguments."""

    def declare(run):
        for name, arguments in (table.items() if isinstance(table, dict) else [(str(t), t) for t in table]):
            case(f"{family}: {name}", run, *(arguments if isinstance(arguments, tuple) else (arguments,)))
        return run

    return declare


# ---- names ----

NAMES = ["a", "", "_a", "a b", "bad name", "a/b", "a//b", "a/", "/a", "a/_b", ".a", "-a", ">a", "a>b", "a>", "a.b", "a-b", "a:0", "^a", "a\n", "é", "A" * 300,
         "0", "a\\b", "a|b", "a/-b", "a/.b", "_SOURCE", "_SINK", "a;b", "a@b", "loc:@a", "a/b/", "a+b"]  # fmt: skip


@cases("new operation named", NAMES)
def _(l, name):
    d = l.NewOperation(l.graph, b"NoOp", name.encode())
    o = l.FinishOperation(d, l.status)
    return l.told(), o and l.described(o), l.names()


@cases("new operation named, then run", NAMES)
def _(l, name):
    d = l.NewOperation(l.graph, b"NoOp", name.encode())
    l.FinishOperation(d, l.status)
    s = l.session()
    return l.told(), s and l.run(s, targets=[name])


@cases("new constant named, then fetched", NAMES)
def _(l, name):
    d = l.NewOperation(l.graph, b"Const", name.encode())
    l.SetAttrType(d, b"dtype", FLOAT)
    l.SetAttrTensor(d, b"value", l.value(), l.status)
    l.FinishOperation(d, l.status)
    s = l.session()
    return l.told(), s and l.run(s, fetches=[name])


@cases("new operation of type", ["", "NoSuch", "noop", "NoOp ", "_Arg", "_Retval", "Placeholder", "Switch", "Const"])
def _(l, op):
    o = l.FinishOperation(l.NewOperation(l.graph, op.encode(), b"n"), l.status)
    return l.told(), o and l.described(o), l.names()


@cases("new operation twice named", ["a", "b/c"])
def _(l, name):
    first = l.FinishOperation(l.NewOperation(l.graph, b"NoOp", name.encode()), l.status)
    second = l.FinishOperation(l.NewOperation(l.graph, b"NoOp", name.encode()), l.status)
    return bool(first), bool(second), l.told(), l.names()


@cases("imported node named", NAMES)
def _(l, name):
    l.GraphImportGraphDef(l.graph, l.buffer(graph_def(node(name, "NoOp"))), l.NewImportGraphDefOptions(), l.status)
    return l.told(), l.names()


@cases("imported under the prefix", [*NAMES, "a/b/c", "a//"])
def _(l, prefix):
    o = l.NewImportGraphDefOptions()
    l.ImportGraphDefOptionsSetPrefix(o, prefix.encode())
    l.GraphImportGraphDef(l.graph, l.buffer(graph_def(constant("x"), identity("y", "x"))), o, l.status)
    return l.told(), l.names()


@cases("device", ["/cpu:0", "/job:a", "/device:CPU:0", "/device:CPU:1", "/device:GPU:0", "x", "/job:", "/", " ", "/job:a/replica:x", "/CPU:0/GPU:1", "/task:-1", "cpu:0", "/device:XPU:*"])
def _(l, device):
    d = l.NewOperation(l.graph, b"NoOp", b"n")
    l.SetDevice(d, device.encode())
    o = l.FinishOperation(d, l.status)
    made = l.told(), o and l.described(o)
    s = l.session()
    return made, l.told(), s and l.run(s, targets=["n"])


# ---- importing ----

XY = (placeholder("x"), identity("y", "x"))
PREFIXES = {
    f"{first!r}, {second!r}, uniquify names {names} prefix {prefix}": (first, second, names, prefix)
    for first, second in (("a", "a"), ("a/", "a"), ("a", "a/"), ("", ""), ("a", "a/b"), ("a/b", "a"), ("x", ""), ("", "x"), ("a_1", "a"), ("a", "a_1"), ("y/z", ""), ("", "x/y"), ("A", "a"))
    for names in (0, 1)
    for prefix in (0, 1)
}


def output_of_another_graph(l, node):
    """The first output of `node`, which has the name "p"."""
    mine = l.graph
    l.graph = l.NewGraph()
    l.load(node)
    other = l.out("p")
    l.graph = mine
    return other


def imported(l, o, *nodes, **more):
    r = l.GraphImportGraphDefWithResults(l.graph, l.buffer(graph_def(*nodes, **more)), o, l.status)
    return l.told(), bool(r), r


@cases("imported twice", PREFIXES)
def _(l, first, second, names, prefix):
    said = []
    for p in (first, second, second):
        o = l.NewImportGraphDefOptions()
        l.ImportGraphDefOptionsSetPrefix(o, p.encode())
        l.ImportGraphDefOptionsSetUniquifyNames(o, names)
        l.ImportGraphDefOptionsSetUniquifyPrefix(o, prefix)
        said.append(imported(l, o, *XY)[:2])
    return said, l.names()


@cases("imported twice, then run", {k: v for k, v in PREFIXES.items() if v[0].startswith("a") and v[1].startswith("a")})
def _(l, first, second, names, prefix):
    for p in (first, second):
        o = l.NewImportGraphDefOptions()
        l.ImportGraphDefOptionsSetPrefix(o, p.encode())
        l.ImportGraphDefOptionsSetUniquifyNames(o, names)
        l.ImportGraphDefOptionsSetUniquifyPrefix(o, prefix)
        imported(l, o, constant("x", 2.0), identity("y", "x"))
    s = l.session()
    return l.told(), s and l.run(s, fetches=["a/y"]) if l.op("a/y") else None


@cases("names made unique", {
    "a node, then its prefix": (["a"], ["a/b"]), "a prefix, then its node": (["a/b"], ["a"]), "numbers taken": (["a", "a_1", "a_2"], ["a"]),
    "a name that the GraphDef has": (["a"], ["a", "a_1"]), "that it has before": (["a"], ["a_1", "a"]), "nested": (["a/b/c"], ["a/b", "a", "a/b/c"]),
    "taken by source": ([], ["_SOURCE"]), "twice in it": ([], ["a", "a"]), "twice in it, beside others": (["a"], ["b", "b"]),
})  # fmt: skip
def _(l, before, names):
    l.load(*[node(n, "NoOp") for n in before])
    o = l.NewImportGraphDefOptions()
    l.ImportGraphDefOptionsSetUniquifyNames(o, 1)
    return imported(l, o, *[node(n, "NoOp") for n in names])[:2], l.names()


@cases("input mapped", {
    "x:0 to an output": ("x", 0, "p", 0), "x:1 to an output": ("x", 1, "p", 0), "unknown": ("zz", 0, "p", 0), "to output 1": ("x", 0, "p", 1),
    "to output -1": ("x", 0, "p", -1), "control to output": ("x", -1, "p", 0), "control to control": ("x", -1, "p", -1), "to nothing": ("x", 0, None, 0),
    "to another type": ("x", 0, "i", 0), "to index -2": ("x", 0, "p", -2), "from index -2": ("x", -2, "p", 0), "y, which nothing reads": ("y", 0, "p", 0), "empty name": ("", 0, "p", 0),
})  # fmt: skip
def _(l, source, index, name, to):
    l.load(placeholder("p"), placeholder("i", INT32))
    o = l.NewImportGraphDefOptions()
    l.ImportGraphDefOptionsSetPrefix(o, b"g")
    l.ImportGraphDefOptionsAddInputMapping(o, source.encode(), index, l.out(name, to))
    told, made, r = imported(l, o, *XY)
    if not made:
        return told, l.names()
    count, names, indexes = I(), P(), P()
    l.ImportGraphDefResultsMissingUnusedInputMappings(r, c.byref(count), c.byref(names), c.byref(indexes))
    missing = [[c.cast(names, c.POINTER(T))[i].decode(), c.cast(indexes, c.POINTER(I))[i]] for i in range(count.value)]
    return told, l.names(), missing


@cases("control input mapped", {
    "to an operation": ("x", "p"), "unknown": ("zz", "p"), "to nothing": ("x", None),
})  # fmt: skip
def _(l, source, name):
    l.load(placeholder("p"))
    o = l.NewImportGraphDefOptions()
    l.ImportGraphDefOptionsSetPrefix(o, b"g")
    l.ImportGraphDefOptionsRemapControlDependency(o, source.encode(), None if name is None else l.op(name))
    return imported(l, o, placeholder("x"), node("n", "NoOp", ["^x"]), identity("z", "x"))[:2], l.names()


@cases("input mapped to another graph's", ["output", "control", "control dependency"])
def _(l, what):
    other = output_of_another_graph(l, placeholder("p"))
    l.load(placeholder("p"))
    o = l.NewImportGraphDefOptions()
    l.ImportGraphDefOptionsSetPrefix(o, b"g")
    if what == "output":
        l.ImportGraphDefOptionsAddInputMapping(o, b"x", 0, other)
    elif what == "control":
        l.ImportGraphDefOptionsRemapControlDependency(o, b"x", other.oper)
    else:
        l.ImportGraphDefOptionsAddControlDependency(o, other.oper)
    return imported(l, o, placeholder("x"), node("n", "NoOp", ["^x"]), identity("z", "x"))[:2], l.names()


@cases("returned", {
    "output": ("o", "x", 0), "output 1": ("o", "x", 1), "output -1": ("o", "x", -1), "output of nothing": ("o", "zz", 0), "output of ''": ("o", "", 0),
    "output of x:0": ("o", "x:0", 0), "operation": ("n", "y", 0), "operation of nothing": ("n", "zz", 0), "operation ''": ("n", "", 0), "mapped output": ("m", "x", 0),
    "mapped operation": ("mn", "x", 0),
})  # fmt: skip
def _(l, what, name, index):
    l.load(placeholder("p"))
    o = l.NewImportGraphDefOptions()
    l.ImportGraphDefOptionsSetPrefix(o, b"g")
    if "m" in what:
        l.ImportGraphDefOptionsAddInputMapping(o, b"x", 0, l.out("p"))
    if "n" in what:
        l.ImportGraphDefOptionsAddReturnOperation(o, name.encode())
    else:
        l.ImportGraphDefOptionsAddReturnOutput(o, name.encode(), index)
    told, made, r = imported(l, o, *XY)
    if not made:
        return told, l.names()
    count, found = I(), P()
    if "n" in what:
        l.ImportGraphDefResultsReturnOperations(r, c.byref(count), c.byref(found))
        return told, [l.described(c.cast(found, c.POINTER(P))[i]) for i in range(count.value)]
    l.ImportGraphDefResultsReturnOutputs(r, c.byref(count), c.byref(found))
    return told, [[*l.described(o.oper), o.index] for o in c.cast(found, c.POINTER(Output))[: count.value]]


@cases("return outputs into an array of", {"-1": -1, "0": 0, "1": 1, "2": 2})
def _(l, n):
    o = l.NewImportGraphDefOptions()
    l.ImportGraphDefOptionsAddReturnOutput(o, b"x", 0)
    l.GraphImportGraphDefWithReturnOutputs(l.graph, l.buffer(graph_def(*XY)), o, None, n, l.status)
    return l.told(), l.names()


@cases("imported with a default device", ["/device:CPU:0", "x", "/job:a"])
def _(l, device):
    o = l.NewImportGraphDefOptions()
    l.ImportGraphDefOptionsSetDefaultDevice(o, device.encode())
    return imported(l, o, placeholder("x"), node("y", "Identity", ["x"], "/device:CPU:1", T=typ(FLOAT)))[:2], l.names()


@cases("imported behind a control dependency", {"plain": ["x", "y"], "nothing": []})
def _(l, *names):
    l.load(node("before", "NoOp"))
    o = l.NewImportGraphDefOptions()
    l.ImportGraphDefOptionsAddControlDependency(o, l.op("before"))
    l.ImportGraphDefOptionsAddControlDependency(o, l.op("before"))
    return imported(l, o, *XY, node("z", "NoOp", ["^x"]), node("w", "NoOp"))[:2], l.names()


GRAPH_DEFS = {
    "nothing": b"", "rubbish": b"\xff\xff", "truncated": graph_def(*XY)[:-3], "text": b"node{name:'a'}", "a node of nothing": field(1, b""),
    "a node without op": graph_def(field(1, "a")), "two of a name": graph_def(node("a", "NoOp"), node("a", "NoOp")), "unknown input": graph_def(identity("a", "zz")),
    "input 1 of one": graph_def(placeholder("x"), identity("a", "x:1")), "input ''": graph_def(identity("a", "")), "input ':'": graph_def(identity("a", ":")),
    "input 'x:'": graph_def(placeholder("x"), identity("a", "x:")), "input 'x:0:0'": graph_def(placeholder("x"), identity("a", "x:0:0")),
    "input 'x:-1'": graph_def(placeholder("x"), identity("a", "x:-1")), "input 'x:00'": graph_def(placeholder("x"), identity("a", "x:00")),
    "input '^'": graph_def(node("a", "NoOp", ["^"])), "control 'x:0'": graph_def(placeholder("x"), node("a", "NoOp", ["^x:0"])),
    "control before data": graph_def(placeholder("x"), identity("a", "^x")), "control, then data": graph_def(placeholder("x"), node("a", "Identity", ["^x", "x"], T=typ(FLOAT))),
    "no inputs": graph_def(node("a", "Identity", T=typ(FLOAT))), "two inputs": graph_def(placeholder("x"), node("a", "Identity", ["x", "x"], T=typ(FLOAT))),
    "twice the control": graph_def(placeholder("x"), node("a", "NoOp", ["^x", "^x"])), "control on itself": graph_def(node("a", "NoOp", ["^a"])),
    "itself": graph_def(identity("a", "a")), "a ring": graph_def(identity("a", "b"), identity("b", "a")), "backwards": graph_def(identity("y", "x"), placeholder("x")),
    "no attr": graph_def(placeholder("x"), node("a", "Identity", ["x"])), "wrong attr": graph_def(placeholder("x"), node("a", "Identity", ["x"], T=typ(INT32))),
    "attr of another kind": graph_def(placeholder("x"), node("a", "Identity", ["x"], T=field(3, 1))), "unknown attr": graph_def(node("a", "NoOp", zz=field(3, 1))),
    "unknown op": graph_def(node("a", "NoSuch")), "old": graph_def(node("a", "NoOp"), producer=1), "no version": graph_def(node("a", "NoOp"), producer=0),
    "future version": graph_def(node("a", "NoOp"), producer=1 << 30), "negative version": graph_def(node("a", "NoOp"), producer=-1),
    "min consumer": field(1, node("a", "NoOp")) + field(4, field(1, 1000) + field(2, 1 << 30)), "bad consumer": field(1, node("a", "NoOp")) + field(4, field(1, 1000) + field(3, 2129)),
    "consumer above producer": field(1, node("a", "NoOp")) + field(4, field(1, 10) + field(2, 20)),
    "int32 added to float": graph_def(placeholder("x"), placeholder("i", INT32), add("a", "x", "i")),
    "shapes that disagree": graph_def(node("x", "Placeholder", dtype=typ(FLOAT), shape=field(7, shape(2))), node("y", "Placeholder", dtype=typ(FLOAT), shape=field(7, shape(3))), add("a", "x", "y")),
    "_output_shapes": graph_def(node("x", "Placeholder", dtype=typ(FLOAT), _output_shapes=field(1, field(7, shape(2))))),
    "_output_shapes of two": graph_def(node("x", "Placeholder", dtype=typ(FLOAT), _output_shapes=field(1, field(7, shape(2)) + field(7, shape(2))))),
    "_output_shapes of none": graph_def(node("x", "Placeholder", dtype=typ(FLOAT), _output_shapes=field(1, b""))),
    "_output_shapes otherwise": graph_def(node("x", "Placeholder", dtype=typ(FLOAT), shape=field(7, shape(3)), _output_shapes=field(1, field(7, shape(2))))),
    "_output_shapes no list": graph_def(node("x", "Placeholder", dtype=typ(FLOAT), _output_shapes=field(3, 2))),
    "colocated with nothing": graph_def(node("a", "NoOp", _class=field(1, field(2, "loc:@zz")))), "colocated with itself": graph_def(node("a", "NoOp", _class=field(1, field(2, "loc:@a")))),
    "class no list": graph_def(node("a", "NoOp", _class=field(2, "loc:@zz"))),
    "empty function": graph_def(node("a", "NoOp"), functions=[b""]), "nameless function": graph_def(functions=[function("")]), "function": graph_def(functions=[function("f")]),
    "function twice": graph_def(functions=[function("f"), function("f")]), "functions that differ": graph_def(functions=[function("f"), function("f", [arg("x")])]),
    "function named as an op": graph_def(functions=[function("NoOp")]), "function of a bad argument": graph_def(functions=[function("f", [arg("x", 0)])]),
    "function without its result": graph_def(functions=[function("f", (), [arg("y")])]), "gradient of nothing": graph_def(gradients=[("f", "g")]),
    "function of an unknown op": graph_def(functions=[function("f", nodes=[node("n", "NoSuch")])]), "call of it": graph_def(node("a", "f"), functions=[function("f")]),
    "call with too few": graph_def(node("a", "f"), functions=[function("f", [arg("x")])]), "two calls": graph_def(node("a", "f"), node("b", "f"), functions=[function("f")]),
    "function with a bad name": graph_def(functions=[function("a b")]), "function whose argument is twice": graph_def(functions=[function("f", [arg("x"), arg("x")])]),
}  # fmt: skip


@cases("GraphDef", GRAPH_DEFS)
def _(l, data):
    l.GraphImportGraphDef(l.graph, l.buffer(data), l.NewImportGraphDefOptions(), l.status)
    b = l.NewBuffer()
    told, names = l.told(), l.names()
    l.GraphVersions(l.graph, b, l.status)
    return told, names, l.GraphNumFunctions(l.graph), l.text(b).hex()


@cases("GraphDef under a prefix", GRAPH_DEFS)
def _(l, data):
    l.load(node("before", "NoOp"))
    o = l.NewImportGraphDefOptions()
    l.ImportGraphDefOptionsSetPrefix(o, b"g")
    l.GraphImportGraphDef(l.graph, l.buffer(data), o, l.status)
    return l.told(), l.names(), l.GraphNumFunctions(l.graph)


@cases("GraphDef to a deprecated session", GRAPH_DEFS)
def _(l, data):
    s = l.NewDeprecatedSession(l.NewSessionOptions(), l.status)
    l.ExtendGraph(s, data, len(data), l.status)
    return l.told()


# ---- inputs ----


@cases("inputs", {
    "none of two": ("AddV2", []), "one of two": ("AddV2", [("x", 0)]), "two": ("AddV2", [("x", 0), ("x", 0)]), "three of two": ("AddV2", [("x", 0)] * 3),
    "another type": ("AddV2", [("x", 0), ("i", 0)]), "output 1": ("AddV2", [("x", 1), ("x", 0)]), "output -1": ("AddV2", [("x", -1), ("x", 0)]),
    "no operation": ("AddV2", [(None, 0), ("x", 0)]), "a list for one": ("AddV2", [[("x", 0)], ("x", 0)]), "one for a list": ("AddN", [("x", 0)]), "a list": ("AddN", [[("x", 0), ("x", 0)]]),
    "an empty list": ("AddN", [[]]), "a list of two types": ("AddN", [[("x", 0), ("i", 0)]]), "a list with output 5": ("AddN", [[("x", 0), ("x", 5)]]),
    "any types": ("IdentityN", [[("x", 0), ("i", 0)]]), "no types": ("IdentityN", [[]]), "of a fixed type": ("Shape", [("x", 0)]), "string for float": ("StringLower", [("x", 0)]),
    "value for a reference": ("Assign", [("x", 0), ("x", 0)]), "reference for a value": ("Neg", [("v", 0)]), "two lists": ("ConcatV2", [[("x", 0), ("x", 0)], [("i", 0)]]),
    "list and one": ("ConcatV2", [[("x", 0), ("x", 0)], ("i", 0)]), "list of one": ("ConcatV2", [[("x", 0)], ("i", 0)]), "float for an index": ("ConcatV2", [[("x", 0), ("x", 0)], ("x", 0)]),
    "inputs for none": ("NoOp", [("x", 0)]), "no condition": ("Switch", [("x", 0), ("x", 0)]), "matmul of scalars": ("MatMul", [("s", 0), ("s", 0)]),
    "a node without outputs": ("Neg", [("n", 0)]), "bitcast without type": ("Bitcast", [("x", 0)]), "not allowed type": ("Neg", [("t", 0)]),
})  # fmt: skip
def _(l, op, inputs):
    l.load(placeholder("x"), placeholder("i", INT32), placeholder("t", STRING), node("v", "VariableV2", dtype=typ(FLOAT), shape=field(7, b"")), constant("s"), node("n", "NoOp"))
    d = l.NewOperation(l.graph, op.encode(), b"made")
    for i in inputs:
        if isinstance(i, list):
            l.AddInputList(d, l.outs(*i), len(i))
        else:
            l.AddInput(d, l.out(*i))
    o = l.FinishOperation(d, l.status)
    return l.told(), o and l.described(o)


@cases("control input", {"one": ["x"], "twice": ["x", "x"], "nothing": [None]})
def _(l, *names):
    l.load(*XY)
    d = l.NewOperation(l.graph, b"NoOp", b"made")
    for n in names:
        l.AddControlInput(d, None if n is None else l.op(n))
    o = l.FinishOperation(d, l.status)
    return l.told(), o and l.described(o), l.OperationNumControlInputs(o) if o else None, l.OperationNumControlOutputs(l.op("x"))


@cases("control edges, room for", [0, 1, 2, 8])
def _(l, n):
    l.load(*XY, node("a", "NoOp", ["^x", "^y"]), node("b", "NoOp", ["^x"]))
    found = (P * 8)()
    ins = l.OperationGetControlInputs(l.op("a"), found, n)
    first = [bool(f) for f in found]
    return ins, first, l.OperationGetControlOutputs(l.op("x"), found, n), [bool(f) for f in found]


@cases("colocated", {"one": ["x"], "twice": ["x", "x"], "two": ["y", "x"], "with nothing": [None]})
def _(l, *names):
    l.load(*XY)
    d = l.NewOperation(l.graph, b"NoOp", b"made")
    for n in names:
        l.ColocateWith(d, None if n is None else l.op(n))
    o = l.FinishOperation(d, l.status)
    b = l.NewBuffer()
    told = l.told()
    if o:
        l.OperationToNodeDef(o, b, l.status)
    return told, l.text(b).hex()


@cases("another graph's", ["input", "control", "colocation"])
def _(l, what):
    other = output_of_another_graph(l, placeholder("p"))
    l.load(placeholder("q"), placeholder("r"))
    d = l.NewOperation(l.graph, b"Identity" if what == "input" else b"NoOp", b"made")
    if what == "input":
        l.AddInput(d, other)
    elif what == "control":
        l.AddControlInput(d, other.oper)
    else:
        l.ColocateWith(d, other.oper)
    o = l.FinishOperation(d, l.status)
    return l.told(), bool(o)


# ---- attributes ----

INTS, TYPES, STRINGS = (N * 3)(1, 2, 3), (I * 3)(1, 3, 7), (P * 3)(*[c.cast(c.c_char_p(t), P).value for t in (b"ab", b"c", b"")])
LENGTHS = (S * 3)(2, 1, 0)
SETTERS = {
    "String": lambda l, d, a: l.SetAttrString(d, a, b"ab", 2),
    "String of nothing": lambda l, d, a: l.SetAttrString(d, a, None, 0),
    "StringList": lambda l, d, a: l.SetAttrStringList(d, a, STRINGS, LENGTHS, 3),
    "StringList of none": lambda l, d, a: l.SetAttrStringList(d, a, None, None, 0),
    "Int": lambda l, d, a: l.SetAttrInt(d, a, 2),
    "Int below 0": lambda l, d, a: l.SetAttrInt(d, a, -2),
    "IntList": lambda l, d, a: l.SetAttrIntList(d, a, INTS, 3),
    "IntList of none": lambda l, d, a: l.SetAttrIntList(d, a, None, 0),
    "Float": lambda l, d, a: l.SetAttrFloat(d, a, 1.5),
    "FloatList": lambda l, d, a: l.SetAttrFloatList(d, a, (c.c_float * 2)(1, 2), 2),
    "Bool": lambda l, d, a: l.SetAttrBool(d, a, 1),
    "Bool of 7": lambda l, d, a: l.SetAttrBool(d, a, 7),
    "BoolList": lambda l, d, a: l.SetAttrBoolList(d, a, (c.c_ubyte * 2)(1, 0), 2),
    "Type": lambda l, d, a: l.SetAttrType(d, a, INT32),
    "Type 0": lambda l, d, a: l.SetAttrType(d, a, 0),
    "Type 99": lambda l, d, a: l.SetAttrType(d, a, 99),
    "Type float_ref": lambda l, d, a: l.SetAttrType(d, a, 101),
    "TypeList": lambda l, d, a: l.SetAttrTypeList(d, a, TYPES, 3),
    "TypeList of none": lambda l, d, a: l.SetAttrTypeList(d, a, None, 0),
    "Placeholder": lambda l, d, a: l.SetAttrPlaceholder(d, a, b"T"),
    "FuncName": lambda l, d, a: l.SetAttrFuncName(d, a, b"f", 1),
    "Shape": lambda l, d, a: l.SetAttrShape(d, a, (N * 2)(2, 3), 2),
    "Shape with -1": lambda l, d, a: l.SetAttrShape(d, a, (N * 2)(2, -1), 2),
    "Shape with -2": lambda l, d, a: l.SetAttrShape(d, a, (N * 2)(2, -2), 2),
    "Shape of rank -1": lambda l, d, a: l.SetAttrShape(d, a, None, -1),
    "Shape of rank 0": lambda l, d, a: l.SetAttrShape(d, a, None, 0),
    "Shape too large": lambda l, d, a: l.SetAttrShape(d, a, (N * 2)(1 << 62, 1 << 62), 2),
    "ShapeList": lambda l, d, a: l.SetAttrShapeList(d, a, (P * 2)(c.cast((N * 1)(4), P).value, None), (I * 2)(1, -1), 2),
    "ShapeProto": lambda l, d, a: l.SetAttrTensorShapeProto(d, a, shape(2), len(shape(2)), l.status),
    "ShapeProto rubbish": lambda l, d, a: l.SetAttrTensorShapeProto(d, a, b"\xff", 1, l.status),
    "ShapeProto of nothing": lambda l, d, a: l.SetAttrTensorShapeProto(d, a, None, 0, l.status),
    "ShapeProto with -2": lambda l, d, a: l.SetAttrTensorShapeProto(d, a, shape(-2), len(shape(-2)), l.status),
    "ShapeProtoList": lambda l, d, a: l.SetAttrTensorShapeProtoList(d, a, (T * 1)(shape(2)), (S * 1)(len(shape(2))), 1, l.status),
    "ShapeProtoList rubbish": lambda l, d, a: l.SetAttrTensorShapeProtoList(d, a, (T * 1)(b"\xff"), (S * 1)(1), 1, l.status),
    "Tensor": lambda l, d, a: l.SetAttrTensor(d, a, l.value(), l.status),
    "TensorList": lambda l, d, a: l.SetAttrTensorList(d, a, (P * 2)(l.value(), l.value((2, 3), (2,), INT32, "i")), 2, l.status),
    "TensorList of none": lambda l, d, a: l.SetAttrTensorList(d, a, None, 0, l.status),
    "ValueProto": lambda l, d, a: l.SetAttrValueProto(d, a, field(3, 7), 2, l.status),
    "ValueProto rubbish": lambda l, d, a: l.SetAttrValueProto(d, a, b"\xff", 1, l.status),
    "ValueProto of nothing": lambda l, d, a: l.SetAttrValueProto(d, a, None, 0, l.status),
    "ValueProto func": lambda l, d, a: l.SetAttrValueProto(d, a, field(10, field(1, "f")), len(field(10, field(1, "f"))), l.status),
    "ValueProto list": lambda l, d, a: l.SetAttrValueProto(d, a, field(1, b""), 2, l.status),
}  # fmt: skip


def attr_of(l, o, name):
    b = l.NewBuffer()
    l.OperationGetAttrValueProto(o, name, b, l.status)
    m = l.OperationGetAttrMetadata(o, name, l.status)
    return l.told(), l.text(b).hex(), [m.is_list, m.list_size, m.type, m.total_size] if l.told()[0] == 0 else None


@cases("own attribute", SETTERS)
def _(l, set_attr):
    d = l.NewOperation(l.graph, b"NoOp", b"n")
    set_attr(l, d, b"_x")
    told = l.told()
    o = l.FinishOperation(d, l.status)
    return told, l.told(), o and attr_of(l, o, b"_x")


@cases("attribute set twice", SETTERS)
def _(l, set_attr):
    d = l.NewOperation(l.graph, b"NoOp", b"n")
    set_attr(l, d, b"_x")
    set_attr(l, d, b"_x")
    l.SetAttrInt(d, b"_x", 77)
    o = l.FinishOperation(d, l.status)
    return l.told(), o and attr_of(l, o, b"_x")


OPS_WITH = {"string": (b"Placeholder", b"shape"), "type": (b"Placeholder", b"dtype"), "shape": (b"Placeholder", b"shape"), "tensor": (b"Const", b"value"), "int": (b"Stack", b"elem_type"),
            "bool": (b"RandomShuffleQueueV2", b"capacity"), "list(type)": (b"FIFOQueueV2", b"component_types"), "list(shape)": (b"FIFOQueueV2", b"shapes"), "func": (b"RemoteCall", b"f"),
            "float": (b"Abort", b"exit_without_error"), "str": (b"Abort", b"error_msg"), "list(string)": (b"DebugIdentity", b"debug_urls"), "unknown": (b"NoOp", b"zz")}  # fmt: skip


@cases("attribute of an op", {f"{kind}, {name}": (op, attr, f) for kind, (op, attr) in OPS_WITH.items() for name, f in SETTERS.items()})
def _(l, op, attr, set_attr):
    d = l.NewOperation(l.graph, op, b"n")
    if attr != b"dtype" and op in (b"Placeholder", b"Const"):
        l.SetAttrType(d, b"dtype", FLOAT)
    if op == b"FIFOQueueV2" and attr != b"component_types":
        l.SetAttrTypeList(d, b"component_types", TYPES, 1)
    set_attr(l, d, attr)
    told = l.told()
    o = l.FinishOperation(d, l.status)
    return told, l.told(), o and attr_of(l, o, attr)


GETTERS = {
    "Metadata": lambda l, o, a, n: l.OperationGetAttrMetadata(o, a, l.status).type if not l.told()[0] else None,
    "String": lambda l, o, a, n: (b := c.create_string_buffer(64), l.OperationGetAttrString(o, a, b, n, l.status))[0].raw,
    "StringList": lambda l, o, a, n: (v := (P * 8)(), k := (S * 8)(), b := c.create_string_buffer(64), l.OperationGetAttrStringList(o, a, v, k, n, b, n, l.status)) and [list(k), b.raw.hex()],
    "Int": lambda l, o, a, n: (v := (N * 8)(), l.OperationGetAttrInt(o, a, v, l.status)) and list(v),
    "IntList": lambda l, o, a, n: (v := (N * 8)(), l.OperationGetAttrIntList(o, a, v, n, l.status)) and list(v),
    "Float": lambda l, o, a, n: (v := (c.c_float * 8)(), l.OperationGetAttrFloat(o, a, v, l.status)) and list(v),
    "FloatList": lambda l, o, a, n: (v := (c.c_float * 8)(), l.OperationGetAttrFloatList(o, a, v, n, l.status)) and list(v),
    "Bool": lambda l, o, a, n: (v := (c.c_ubyte * 8)(), l.OperationGetAttrBool(o, a, v, l.status)) and list(v),
    "BoolList": lambda l, o, a, n: (v := (c.c_ubyte * 8)(), l.OperationGetAttrBoolList(o, a, v, n, l.status)) and list(v),
    "Type": lambda l, o, a, n: (v := (I * 8)(), l.OperationGetAttrType(o, a, v, l.status)) and list(v),
    "TypeList": lambda l, o, a, n: (v := (I * 8)(), l.OperationGetAttrTypeList(o, a, v, n, l.status)) and list(v),
    "Shape": lambda l, o, a, n: (v := (N * 8)(), l.OperationGetAttrShape(o, a, v, n, l.status)) and list(v),
    "ShapeList": lambda l, o, a, n: (v := (P * 8)(), k := (I * 8)(), b := (N * 8)(), l.OperationGetAttrShapeList(o, a, v, k, n, b, n, l.status)) and [list(k), list(b)],
    "TensorShapeProto": lambda l, o, a, n: (b := l.NewBuffer(), l.OperationGetAttrTensorShapeProto(o, a, b, l.status)) and l.text(b).hex(),
    "TensorShapeProtoList": lambda l, o, a, n: (v := (P * 8)(), l.OperationGetAttrTensorShapeProtoList(o, a, v, n, l.status)) and [l.text(b).hex() for b in v if b],
    "Tensor": lambda l, o, a, n: (v := (P * 1)(), l.OperationGetAttrTensor(o, a, v, l.status)) and l.shown(v[0]),
    "TensorList": lambda l, o, a, n: (v := (P * 8)(), l.OperationGetAttrTensorList(o, a, v, n, l.status)) and [l.shown(t) for t in v if t],
    "ValueProto": lambda l, o, a, n: (b := l.NewBuffer(), l.OperationGetAttrValueProto(o, a, b, l.status)) and l.text(b).hex(),
}  # fmt: skip

HELD = {"no attribute": None, **{k: SETTERS[k] for k in ("String", "StringList", "StringList of none", "Int", "IntList", "Float", "FloatList", "Bool", "BoolList", "Type", "TypeList", "FuncName", "Shape",
        "Shape of rank -1", "ShapeList", "Tensor", "TensorList", "Placeholder")}}  # fmt: skip


@cases("getter", {f"{get} of {held}, room for {n}": (f, g, n) for get, f in GETTERS.items() for held, g in HELD.items() for n in (0, 1, 8)})
def _(l, get, held, n):
    d = l.NewOperation(l.graph, b"NoOp", b"n")
    if held:
        held(l, d, b"_x")
    o = l.FinishOperation(d, l.status)
    assert o, l.told()
    value = get(l, o, b"_x", n)
    return l.told(), value.hex() if isinstance(value, bytes) else value


# ---- looking at operations ----


@cases("list length", {f"{name} of {op}": (op, name) for op in ("x", "sum", "many", "none") for name in ("", "x", "inputs", "input", "output", "outputs", "sum", "zz")})
def _(l, op, name):
    l.load(placeholder("x"), node("sum", "AddN", ["x", "x"], T=typ(FLOAT), N=field(3, 2)), node("many", "IdentityN", ["x"], T=field(1, field(6, FLOAT))), node("none", "NoOp"))
    first = l.OperationInputListLength(l.op(op), name.encode(), l.status), l.told()
    return first, l.OperationOutputListLength(l.op(op), name.encode(), l.status), l.told()


@cases("types and consumers of", {f"{name}:{i}": (name, i) for name in ("x", "y", "n") for i in (-1, 0, 1, 99)})
def _(l, name, i):
    l.load(*XY, node("n", "NoOp"), identity("z", "x"), node("w", "NoOp", ["^x"]))
    o = l.out(name, i)
    found = (Output * 8)()
    return l.OperationOutputNumConsumers(o), [l.OperationOutputConsumers(o, found, k) for k in (0, 1, 8)], [f.index for f in found]


@cases("type of output", {f"{name}:{i}": (name, i) for name in ("x", "y", "n") for i in (0, 1, 99)})
def _(l, name, i):
    l.load(*XY, node("n", "NoOp"))
    return l.OperationOutputType(l.out(name, i))


@cases("type of input", {f"{name}:{i}": (name, i) for name in ("x", "y", "n") for i in (0, 1, 99)})
def _(l, name, i):
    l.load(*XY, node("n", "NoOp"))
    return l.OperationInputType(l.out(name, i))


@cases("input of", {f"{name}:{i}": (name, i) for name in ("x", "y", "n") for i in (0, 1, 99)})
def _(l, name, i):
    l.load(*XY, node("n", "NoOp"))
    o = l.OperationInput(l.out(name, i))
    return bool(o.oper), o.index


@cases("attribute number", [-1, 0, 1, 2, 99])
def _(l, i):
    l.load(*XY)
    o = l.op("x")
    b = c.create_string_buffer(64)
    count, length = l.OperationGetNumAttrs(o), l.OperationGetAttrNameLength(o, i)
    l.OperationGetAttrName(o, i, b, l.status)
    return count, length, l.told(), b.value.decode()


@cases("operation by name", ["x", "zz", "", "x:0", "^x", "_SOURCE", "_SINK"])
def _(l, name):
    l.load(*XY)
    o = l.op(name)
    return o and l.described(o)


SHAPES = {"scalar": [], "2x3": [2, 3], "unknown": None, "2x?": [2, -1], "-2": [-2], "another size": [5, 3], "huge": [1 << 62, 1 << 62], "zero": [0, 3]}


@cases("set shape", {f"{name} of {known}": (dims, base) for name, dims in SHAPES.items() for known, base in SHAPES.items() if known not in ("-2", "huge")})
def _(l, dims, base):
    shaped = field(7, field(3, 1) if base is None else shape(*base))
    l.load(node("x", "Placeholder", dtype=typ(FLOAT), shape=shaped), identity("y", "x"))
    l.GraphSetTensorShape(l.graph, l.out("x"), None if dims is None else (N * max(len(dims), 1))(*dims), -1 if dims is None else len(dims), l.status)
    told = l.told()
    l.SetStatus(l.status, 0, b"")
    got = (N * 8)(*[77] * 8)
    rank = l.GraphGetTensorNumDims(l.graph, l.out("x"), l.status)
    l.GraphGetTensorShape(l.graph, l.out("x"), got, rank, l.status)
    return told, rank, l.told(), list(got), l.GraphGetTensorNumDims(l.graph, l.out("y"), l.status)


@cases("shape of", {f"{name}:{i}, room for {n}": (name, i, n) for name in ("x", "n", None) for i in (-1, 0, 1) for n in (-1, 0, 2, 3)})
def _(l, name, i, n):
    l.load(node("x", "Placeholder", dtype=typ(FLOAT), shape=field(7, shape(2, 3))), node("n", "NoOp"))
    got = (N * 8)(*[77] * 8)
    rank = l.GraphGetTensorNumDims(l.graph, l.out(name, i), l.status), l.told()
    l.GraphGetTensorShape(l.graph, l.out(name, i), got, n, l.status)
    said = l.told(), list(got)
    l.GraphSetTensorShape(l.graph, l.out(name, i), None, 0, l.status)
    return rank, said, l.told()


@cases("shape in another graph", ["x"])
def _(l, name):
    l.load(*XY)
    o = l.out("x")
    other = l.NewGraph()
    return l.GraphGetTensorNumDims(other, o, l.status), l.told(), l.TryEvaluateConstant(other, o, (P * 1)(), l.status), l.told()


@cases("constant value of", {f"{n}:{i}": (n, i) for n in ("c", "x", "sum", "n", "both", "random", "shape") for i in (-1, 0, 1)})
def _(l, name, i):
    l.load(constant("c"), node("x", "Placeholder", dtype=typ(FLOAT), shape=field(7, shape(2, 3))), add("sum", "c", "c"), add("both", "c", "x"), node("n", "NoOp"),
           node("random", "RandomUniform", ["shape"], dtype=typ(FLOAT), T=typ(INT32)), node("shape", "Shape", ["x"], T=typ(FLOAT)))  # fmt: skip
    v = (P * 1)()
    return l.TryEvaluateConstant(l.graph, l.out(name, i), v, l.status), l.told(), l.shown(v[0])


@cases("op definition of", ["NoOp", "", "zz", "f"])
def _(l, name):
    l.load(functions=[function("f", [arg("x")])])
    b = l.NewBuffer()
    l.GraphGetOpDef(l.graph, name.encode(), b, l.status)
    return l.told(), l.text(b).hex()


@cases("stateful", ["NoOp", "", "zz", "VariableV2", "RandomUniform"])
def _(l, name):
    return l.OpIsStateful(name.encode(), l.status), l.told()


@cases("number attribute", {f"{op} {i}": (op, i) for op in ("AddN", "NoOp", "zz", "IdentityN", "ConcatV2") for i in (-1, 0, 1, 5)})
def _(l, op, i):
    return (l.GetNumberAttrForOpListInput(op.encode(), i, l.status) or b"").decode(), l.told()


@cases("kernels of", ["zz", ""])
def _(l, op):
    return bool(l.GetRegisteredKernelsForOp(op.encode(), l.status)), l.told()


@cases("buffer used twice", ["GraphDef", "NodeDef", "OpDef", "FunctionDef", "Versions", "AttrValue"])
def _(l, what):
    l.load(*XY, functions=[function("f")])
    b = l.buffer(b"abc")
    f = (P * 1)()
    l.GraphGetFunctions(l.graph, f, 1, l.status)
    {"GraphDef": lambda: l.GraphToGraphDef(l.graph, b, l.status), "NodeDef": lambda: l.OperationToNodeDef(l.op("x"), b, l.status), "OpDef": lambda: l.GraphGetOpDef(l.graph, b"NoOp", b, l.status),
     "FunctionDef": lambda: l.FunctionToFunctionDef(f[0], b, l.status), "Versions": lambda: l.GraphVersions(l.graph, b, l.status),
     "AttrValue": lambda: l.OperationGetAttrValueProto(l.op("x"), b"dtype", b, l.status)}[what]()  # fmt: skip
    return l.told(), l.text(b)[:3].hex()


# ---- functions ----

FUNCTION_DEFS = {
    "nothing": b"", "rubbish": b"\xff", "no signature": field(3, node("n", "NoOp")), "no name": function(""), "plain": function("f"), "named as an op": function("NoOp"),
    "bad name": function("a b"), "no type": function("f", [arg("x", 0)]), "no result": function("f", (), [arg("y")]), "unknown result": function("f", (), [arg("y")], ret=[("y", "zz:o:0")]),
    "result too many": function("f", (), (), ret=[("y", "zz:o:0")]), "identity": function("f", [arg("x")], [arg("y")], ret=[("y", "x")]), "unknown op": function("f", nodes=[node("n", "NoSuch")]),
    "node of no name": function("f", nodes=[node("", "NoOp")]), "two nodes of a name": function("f", nodes=[node("n", "NoOp"), node("n", "NoOp")]), "unknown control": function("f", control=[("a", "zz")]),
    "unknown input": function("f", nodes=[identity("n", "zz:o:0")]), "the argument twice": function("f", [arg("x"), arg("x")]), "calls itself": function("f", nodes=[node("n", "f")]),
    "result of another type": function("f", [arg("x")], [arg("y", INT32)], ret=[("y", "x")]),
}  # fmt: skip


@cases("FunctionDef", FUNCTION_DEFS)
def _(l, data):
    f = l.FunctionImportFunctionDef(data, len(data), l.status)
    told = l.told()
    if not f:
        return told
    name = l.FunctionName(f).decode()
    l.GraphCopyFunction(l.graph, f, None, l.status)
    copied = l.told()
    count = l.GraphNumFunctions(l.graph)
    l.GraphCopyFunction(l.graph, f, None, l.status)
    return told, name, copied, count, l.told(), l.GraphNumFunctions(l.graph)


@cases("call of the function", {k: v for k, v in FUNCTION_DEFS.items()})
def _(l, data):
    f = l.FunctionImportFunctionDef(data, len(data), l.status)
    if not f:
        return l.told()
    l.GraphCopyFunction(l.graph, f, None, l.status)
    l.load(constant("x"))
    d = l.NewOperation(l.graph, l.FunctionName(f), b"call")
    if b"\x0a\x01x" in data:
        l.AddInput(d, l.out("x"))
    l.FinishOperation(d, l.status)
    told = l.told()
    s = l.session()
    return told, s and l.run(s, targets=["call"]) if l.op("call") else None


@cases("attribute of a function", SETTERS.keys())
def _(l, name):
    f = l.FunctionImportFunctionDef(function("f"), len(function("f")), l.status)
    d = l.NewOperation(l.graph, b"NoOp", b"n")
    SETTERS[name](l, d, b"_x")
    o = l.FinishOperation(d, l.status)
    if not o:
        return None
    b = l.NewBuffer()
    l.OperationGetAttrValueProto(o, b"_x", b, l.status)
    t = l.text(b)
    l.FunctionSetAttrValueProto(f, b"_x", t, len(t), l.status)
    l.FunctionSetAttrValueProto(f, b"_x", t, len(t), l.status)
    said = l.told()
    b, whole = l.NewBuffer(), l.NewBuffer()
    l.FunctionGetAttrValueProto(f, b"_x", b, l.status)
    l.FunctionToFunctionDef(f, whole, l.status)
    return said, l.told(), l.text(b).hex(), l.text(whole).hex()


@cases("attribute of a function, odd", {"rubbish": b"\xff", "nothing": b""})
def _(l, data):
    f = l.FunctionImportFunctionDef(function("f"), len(function("f")), l.status)
    l.FunctionSetAttrValueProto(f, b"x", data, len(data), l.status)
    said = l.told()
    b = l.NewBuffer()
    l.FunctionGetAttrValueProto(f, b"x", b, l.status)
    said2 = l.told()
    l.FunctionGetAttrValueProto(f, b"zz", b, l.status)
    return said, said2, l.told()


@cases("functions copied", {
    "two that differ": ([("f", 0), ("f", 1)], None), "gradient": ([("f", 0)], ("g", 0)), "gradient twice": ([("f", 0), ("f", 0)], ("g", 0)), "its own gradient": ([("f", 0)], ("f", 0)),
    "gradient of its name that differs": ([("f", 0)], ("f", 1)),
})  # fmt: skip
def _(l, functions, gradient):
    def made(name, n):
        data = function(name, [arg("x")] * n)
        return l.FunctionImportFunctionDef(data, len(data), l.status)

    said = []
    for f in functions:
        l.GraphCopyFunction(l.graph, made(*f), gradient and made(*gradient), l.status)
        said.append(l.told())
    found = (P * 8)()
    n = l.GraphGetFunctions(l.graph, found, 8, l.status)
    return said, sorted(l.FunctionName(found[i]).decode() for i in range(n)), l.told()


@cases("no function copied", ["null"])
def _(l, _n):
    l.GraphCopyFunction(l.graph, None, None, l.status)
    return l.told(), l.GraphGetFunctions(l.graph, (P * 1)(), 0, l.status), l.told()


@cases("function removed", ["f", "g", "", "NoOp"])
def _(l, name):
    l.load(functions=[function("f"), function("h", [arg("x")])])
    l.GraphRemoveFunction(l.graph, name.encode(), l.status)
    return l.told(), l.GraphNumFunctions(l.graph)


TO_FUNCTION = {
    "all": (-1, [], ["x"], ["z"], None), "no inputs": (-1, [], [], ["z"], None), "no outputs": (-1, [], ["x"], [], None), "nothing": (-1, [], [], [], None), "output is input": (-1, [], ["x"], ["x"], None),
    "output twice": (-1, [], ["x"], ["z", "z"], None), "input twice": (-1, [], ["x", "x"], ["z"], None), "names": (-1, [], ["x"], ["z"], ["out"]), "names twice": (-1, [], ["x"], ["z", "y"], ["a", "a"]),
    "odd name": (-1, [], ["x"], ["z"], ["A b"]), "empty name": (-1, [], ["x"], ["z"], [""]), "name of an input": (-1, [], ["x"], ["z"], ["x"]), "body": (2, ["y", "z"], ["x"], ["z"], None),
    "body lacks": (1, ["z"], ["x"], ["z"], None), "body is input": (2, ["x", "z"], ["x"], ["z"], None), "empty body": (0, [], ["x"], ["x"], None), "body twice": (2, ["z", "z"], ["y"], ["z"], None),
    "input output 1": (-1, [], [("x", 1)], ["z"], None), "input output -1": (-1, [], [("x", -1)], ["z"], None), "output output 1": (-1, [], ["x"], [("z", 1)], None), "no such operation": (-1, [], [(None, 0)], ["z"], None),
    "input in the middle": (-1, [], ["y"], ["z"], None), "output of two": (-1, [], ["x"], [("s", 1)], None), "capital": (-1, [], ["Big/Name"], ["z"], None), "variable": (1, ["v"], [], ["v"], None),
    "control edge out": (1, ["w"], ["x"], [], None), "n of -2": (-2, [], ["x"], ["z"], None),
}  # fmt: skip


@cases("function of a graph", {f"{k}, hash {h}, called {fn!r}": (*v, h, fn) for k, v in TO_FUNCTION.items() for h, fn in ((0, "f"), (1, "f"), (0, ""), (0, "a b"), (0, "NoOp"))})
def _(l, n, body, inputs, outputs, names, append_hash, fn_name):
    l.load(placeholder("x"), placeholder("Big/Name"), add("y", "x", "Big/Name"), identity("z", "y"), node("s", "Split", ["a", "z"], T=typ(FLOAT), num_split=field(3, 2)),
           node("a", "Const", dtype=typ(INT32), value=field(8, tensor(INT32, (), struct.pack("<i", 0)))), node("v", "VariableV2", dtype=typ(FLOAT), shape=field(7, b"")), node("w", "NoOp", ["^z"]))  # fmt: skip
    named = None if names is None else (T * len(names))(*[t.encode() for t in names])
    f = l.GraphToFunction(l.graph, fn_name.encode(), append_hash, n, l.ops(*body), len(inputs), l.outs(*inputs), len(outputs), l.outs(*outputs), named, None, b"described", l.status)
    told = l.told()
    if not f:
        return told
    b = l.NewBuffer()
    l.FunctionToFunctionDef(f, b, l.status)
    return told, l.FunctionName(f).decode() if not append_hash else None, canonical(l.text(b)) if not append_hash else None


def canonical(text):
    """A FunctionDef without its nodes, as its top fields in one order."""
    parts, at = [], 0
    while at < len(text):
        key = text[at] >> 3
        at += 1
        size = shift = 0
        while True:
            byte = text[at]
            size |= (byte & 127) << shift
            shift += 7
            at += 1
            if byte < 128:
                break
        body, at = text[at : at + size], at + size
        if key == 7 and body.startswith(b"\x08\0"):
            body = body[2:]  # a key 0 may be written or not
        parts.append((key, "" if key == 3 else body.hex()))
    return sorted(parts)


@cases("function with control outputs", {
    "one": (["w"], None), "named": (["w"], ["c"]), "twice": (["w", "w"], None), "named twice": (["w", "z"], ["c", "c"]), "outside": (["x"], None), "empty name": (["w"], [""]), "none": ([], None),
})  # fmt: skip
def _(l, controls, names):
    l.load(placeholder("x"), identity("z", "x"), node("w", "NoOp", ["^z"]))
    named = None if names is None else (T * len(names))(*[t.encode() for t in names])
    f = l.GraphToFunctionWithControlOutputs(l.graph, b"f", 0, -1, None, 1, l.outs("x"), 1, l.outs("z"), None, len(controls), l.ops(*controls), named, None, None, l.status)
    told = l.told()
    if not f:
        return told
    b = l.NewBuffer()
    l.FunctionToFunctionDef(f, b, l.status)
    return told, canonical(l.text(b))


# ---- gradients, edges, loops ----


@cases("gradients", {
    "of y by x": (["y"], ["x"], None), "by what it does not need": (["y"], ["q"], None), "of nothing": ([], ["x"], None), "by nothing": (["y"], [], None), "output 1": ([("y", 1)], ["x"], None),
    "by output 1": (["y"], [("x", 1)], None), "with dx": (["y"], ["x"], ["x"]), "with dx of another type": (["y"], ["x"], ["i"]), "no gradient": (["f"], ["x"], None), "of an integer": (["i"], ["i"], None),
    "no operation": ([(None, 0)], ["x"], None), "of itself": (["x"], ["x"], None), "twice": (["y"], ["x", "x"], None), "sum": (["y", "y"], ["x"], None), "strings": (["t"], ["x"], None),
    "through a node without outputs": ([("n", 0)], ["x"], None), "of an op without gradient": (["e"], ["x"], None), "with dx missing": (["y"], ["x"], [(None, 0)]),
})  # fmt: skip
def _(l, ys, xs, dx):
    l.load(placeholder("x"), placeholder("q"), placeholder("i", INT32), add("y", "x", "x"), node("f", "Floor", ["x"], T=typ(FLOAT)), node("t", "AsString", ["x"], T=typ(FLOAT)), node("n", "NoOp", ["^x"]),
           node("e", "NextAfter", ["x", "x"], T=typ(FLOAT)))  # fmt: skip
    found = (Output * 8)()
    l.AddGradients(l.graph, l.outs(*ys), len(ys), l.outs(*xs), len(xs), None if dx is None else l.outs(*dx), l.status, found)
    return l.told(), [bool(f.oper) for f in found[: len(xs)]]


@cases("gradients with the prefix", [None, "", "g", "a/b", "a b", "x", "_a", "gradients"])
def _(l, prefix):
    l.load(placeholder("x"), add("y", "x", "x"))
    found = (Output * 1)()
    said = []
    for _i in range(2):
        l.AddGradientsWithPrefix(l.graph, None if prefix is None else prefix.encode(), l.outs("y"), 1, l.outs("x"), 1, None, l.status, found)
        said.append((l.told(), l.OperationName(found[0].oper).decode().rsplit("/", 1)[0] if found[0].oper and l.told()[0] == 0 else None))
    return said


@cases("edge updated", {
    "to another": (("q", 0), ("y", 0)), "to another type": (("i", 0), ("y", 0)), "to itself": (("y", 0), ("y", 0)), "unknown output": (("q", 1), ("y", 0)), "unknown input": (("q", 0), ("y", 1)),
    "input -1": (("q", 0), ("y", -1)), "output -1": (("q", -1), ("y", 0)), "a node without inputs": (("q", 0), ("x", 0)), "to the same": (("x", 0), ("y", 0)),
})  # fmt: skip
def _(l, new, old):
    l.load(placeholder("x"), placeholder("q"), placeholder("i", INT32), identity("y", "x"))
    l.UpdateEdge(l.graph, l.out(*new), l.out(*old), l.status)
    return l.told(), l.names()


@cases("loop", {
    "nothing done": "", "no condition": "b", "no body": "c", "whole": "cbn", "no name": "cb", "condition of another graph": "xbn", "condition that is no bool": "fbn", "no inputs": "0", "body of another type": "cin",
    "name of a node": "cbx", "condition that has another shape": "sbn", "body swaps nothing": "cpn",
})  # fmt: skip
def _(l, what):
    l.load(constant("x"))
    n = 0 if what == "0" else 1
    w = l.NewWhile(l.graph, l.outs("x"), n, l.status)
    told = l.told()
    if told[0]:
        return told

    def made(graph, op, name, *inputs, dtype=None):
        d = l.NewOperation(graph, op, name)
        for i in inputs:
            l.AddInput(d, i)
        if dtype:
            l.SetAttrType(d, b"DstT", dtype)
        o = l.FinishOperation(d, l.status)
        assert o, l.told()
        return Output(o, 0)

    if "c" in what:
        w.cond_output = made(w.cond_graph, b"Less", b"less", w.cond_inputs[0], w.cond_inputs[0])
    if "f" in what:
        w.cond_output = made(w.cond_graph, b"Neg", b"neg", w.cond_inputs[0])
    if what[:1] == "x":
        w.cond_output = l.out("x")
    if "s" in what:
        w.cond_output = w.cond_inputs[0]
    if "b" in what:
        w.body_outputs[0] = made(w.body_graph, b"Neg", b"neg", w.body_inputs[0])
    if "i" in what:
        w.body_outputs[0] = made(w.body_graph, b"Cast", b"cast", w.body_inputs[0], dtype=INT32)
    if "p" in what:
        w.body_outputs[0] = w.body_inputs[0]
    w.name = b"loop" if "n" in what else b"x" if what[-1:] == "x" else None
    found = (Output * 1)()
    l.FinishWhile(c.byref(w), l.status, found)
    return l.told(), l.names()


@cases("loops of the name", [("a", "a"), ("a", "b"), ("a/b", "a"), ("x", "a")])
def _(l, *names):
    l.load(placeholder("x"))
    said = []
    for name in names:
        w = l.NewWhile(l.graph, l.outs("x"), 1, l.status)
        less, neg = l.NewOperation(w.cond_graph, b"Less", b"less"), l.NewOperation(w.body_graph, b"Neg", b"neg")
        l.AddInput(less, w.cond_inputs[0])
        l.AddInput(less, w.cond_inputs[0])
        l.AddInput(neg, w.body_inputs[0])
        w.cond_output = Output(l.FinishOperation(less, l.status), 0)
        w.body_outputs[0] = Output(l.FinishOperation(neg, l.status), 0)
        w.name = name.encode()
        found = (Output * 1)()
        l.FinishWhile(c.byref(w), l.status, found)
        said.append(l.told())
    s = l.session()
    return said, l.names(), l.told(), l.run(s, [("x", l.value((3.0,)))], [found[0]]) if said[-1][0] == 0 else None


@cases("loop of", {"an output that is not": ("x", 1), "another type": ("i", 0), "no operation": (None, 0)})
def _(l, name, index):
    l.load(constant("x"), placeholder("i", INT32))
    w = l.NewWhile(l.graph, l.outs((name, index)), 1, l.status)
    told = l.told()
    if not told[0]:
        l.AbortWhile(c.byref(w))
    return told, l.names()


# ---- tensors ----

ALL_TYPES = [*range(-1, 35), 99, 101, 103, 107, 120, 121, 1000]


@cases("size of type", ALL_TYPES)
def _(l, dtype):
    return l.DataTypeSize(dtype)


@cases("allocated", {
    f"{dtype} {dims} {size}": (dtype, dims, size) for dtype, dims, size in (
        (FLOAT, [], 4), (FLOAT, [], 0), (FLOAT, [], 3), (FLOAT, [], 8), (FLOAT, [2, 3], 24), (FLOAT, [2, 3], 23), (FLOAT, [2, 3], 25), (FLOAT, [0], 0), (FLOAT, [0], 4), (FLOAT, [0, 5], 0), (FLOAT, [-1], 4),
        (FLOAT, [1] * 8, 4), (FLOAT, [1] * 254, 4), (BOOL, [3], 3), (STRING, [2], 48), (STRING, [2], 2), (STRING, [], 24), (18, [1], 16), (8, [1], 8), (19, [3], 6), (14, [3], 6), (11, [3], 3), (24, [3], 3),
        (25, [3], 3), (29, [3], 3), (30, [3], 3), (RESOURCE, [], 8), (FLOAT, [1 << 20], 1 << 22), (1, [16], 64), (1, [3], 12), (1, [100], 400), (9, [1], 8), (4, [1], 1), (4, [63], 63), (4, [65], 65),
    )
})  # fmt: skip
def _(l, dtype, dims, size):
    t = l.AllocateTensor(dtype, (N * max(len(dims), 1))(*dims), len(dims), size)
    return t and [l.TensorType(t), l.NumDims(t), [l.Dim(t, i) for i in range(len(dims))], l.TensorByteSize(t), l.TensorElementCount(t), bool(l.TensorData(t))]


FREE = c.CFUNCTYPE(None, P, S, P)(lambda data, size, arg_: None)
ROOM = c.create_string_buffer(4096)


@cases("wrapped", {
    f"{dtype} {dims} {size} at {at}": (dtype, dims, size, at) for dtype, dims, size, at in (
        (FLOAT, [], 4, 0), (FLOAT, [], 4, 1), (FLOAT, [], 0, 0), (FLOAT, [], 3, 0), (FLOAT, [], 8, 0), (FLOAT, [2], 8, 4), (FLOAT, [2], 8, 3), (FLOAT, [0], 0, 0), (FLOAT, [-1], 4, 0), (FLOAT, [-1, -1], 4, 0),
        (STRING, [2], 48, 0), (STRING, [2], 47, 0), (STRING, [2], 0, 0), (FLOAT, [1 << 40, 1 << 40], 8, 0), (99, [2], 8, 0), (0, [2], 8, 0), (-1, [2], 8, 0), (101, [2], 8, 0), (20, [], 8, 0), (21, [], 8, 0),
        (24, [8], 8, 0), (29, [8], 8, 0), (30, [8], 8, 0), (25, [8], 8, 0), (8, [1], 8, 4), (18, [1], 16, 8), (18, [1], 16, 4),
    )
})  # fmt: skip
def _(l, dtype, dims, size, at):
    base = (c.addressof(ROOM) + 63) // 64 * 64
    t = l.NewTensor(dtype, (N * max(len(dims), 1))(*dims), len(dims), base + at, size, c.cast(FREE, P), None)
    return t and [l.TensorType(t), [l.Dim(t, i) for i in range(l.NumDims(t))], l.TensorByteSize(t), l.TensorElementCount(t), l.TensorData(t) == base + at if size else None]


@cases("aligned", {f"{n} bytes": n for n in (0, 1, 3, 4, 8, 12, 16, 20, 32, 48, 60, 63, 64, 65, 100, 127, 128, 129, 192, 256, 1000, 4096)})
def _(l, n):
    t = l.AllocateTensor(UINT8, (N * 1)(n), 1, n)
    return l.TensorIsAligned(t), l.TensorDefaultAlignment()


@cases("aligned results", {f"{n} floats": n for n in (1, 2, 4, 8, 16, 17, 100, 1000)})
def _(l, n):
    l.load(node("x", "Placeholder", dtype=typ(FLOAT)), add("y", "x", "x"))
    s = l.session()
    outputs = (P * 1)()
    l.SessionRun(s, None, l.outs("x"), (P * 1)(l.value([1.0] * n, (n,))), 1, l.outs("y"), outputs, 1, None, 0, None, l.status)
    return l.told(), l.TensorIsAligned(outputs[0])


@cases("reshaped", {str(d): d for d in ([6], [2, 3], [3, 2, 1], [5], [], [-1], [7], [2, -3])})
def _(l, *dims):
    t = l.value([1.0] * 6, (2, 3))
    dims = dims[0] if len(dims) == 1 and isinstance(dims[0], list) else dims
    l.SetShape(t, (N * max(len(dims), 1))(*dims), len(dims))
    return [l.Dim(t, i) for i in range(l.NumDims(t))], l.TensorElementCount(t), l.TensorByteSize(t)


@cases("bitcast", {
    f"{dtype} {dims}": (dtype, dims) for dtype, dims in ((FLOAT, [6]), (INT32, [2, 3]), (UINT8, [24]), (UINT8, [25]), (INT64, [3]), (INT64, [1, 3]), (DOUBLE, [2]), (STRING, [1]), (19, [12]), (99, [6]), (INT32, [-1]), (BOOL, [24]), (0, [6]))
})  # fmt: skip
def _(l, dtype, dims):
    to = l.value()
    l.TensorBitcastFrom(l.value([1.0] * 6, (2, 3)), dtype, to, (N * max(len(dims), 1))(*dims), len(dims), l.status)
    return l.told(), l.shown(to)


@cases("from proto", {
    "float": tensor(FLOAT, (1,), b"abcd"), "short": tensor(FLOAT, (2,), b"abcd"), "rubbish": b"\xff", "nothing": b"", "no type": field(2, shape(1)), "type 99": tensor(99, (1,), b"abcd"), "value": field(1, 1) + field(2, shape(2)) + field(5, 1.5),
    "too many": field(1, 1) + field(2, shape(1)) + field(5, 1.5) + field(5, 1.5), "none": field(1, 1) + field(2, shape(3)), "negative": tensor(FLOAT, (-1,), b"abcd"), "huge": tensor(FLOAT, (1 << 62, 4), b"abcd"),
})  # fmt: skip
def _(l, data):
    t = l.value()
    l.TensorFromProto(l.buffer(data), t, l.status)
    return l.told(), l.shown(t) if l.told()[0] == 0 else None


@cases("moved", ["fresh", "wrapped"])
def _(l, what):
    base = (c.addressof(ROOM) + 63) // 64 * 64
    t = l.value() if what == "fresh" else l.NewTensor(FLOAT, (N * 1)(), 0, base, 4, c.cast(FREE, P), None)
    moved = l.TensorMaybeMove(t)
    return bool(moved), moved == t


@cases("string of length", [0, 1, 21, 22, 23, 24, 25, 100, 1000])
def _(l, n):
    room = c.create_string_buffer(24)
    l.StringInit(room)
    l.StringCopy(room, b"a" * n, n)
    first = l.StringGetSize(room), l.StringGetCapacity(room), l.StringGetType(room)
    view = c.create_string_buffer(24)
    l.StringInit(view)
    l.StringAssignView(view, b"b" * n, n)
    return first, l.StringGetSize(view), l.StringGetCapacity(view), l.StringGetType(view)


# ---- statuses ----


@cases("status", {f"{code} {text}": (code, text) for code in (-1, 0, 1, 3, 16, 17, 20, 99) for text in ("", "text", "a\nb", "é", "x" * 5000)})
def _(l, code, text):
    l.SetStatus(l.status, code, text.encode())
    return l.told()


@cases("io error", [*range(-1, 136), 512, 1000])
def _(l, error):
    l.SetStatusFromIOError(l.status, error, b"context")
    return l.told()


@cases("payload", ["ok", "error"])
def _(l, what):
    l.SetStatus(l.status, 0 if what == "ok" else 3, b"text")
    l.SetPayload(l.status, b"k", b"v")
    l.SetPayload(l.status, b"k", b"w")
    l.SetPayload(l.status, b"", b"")
    found = []
    visit = c.CFUNCTYPE(None, T, T, P)(lambda k, v, a: found.append((k.decode(), v.decode())))
    each = l.SetPayload
    del each
    c.CDLL(LIBRARY).TF_ForEachPayload(P(l.status), visit, None)
    return sorted(found), l.told()


# ---- sessions ----

SMALL = (placeholder("x"), placeholder("i", INT32), identity("y", "x"), constant("c"), add("z", "y", "c"), node("n", "NoOp"), node("after", "NoOp", ["^z"]), placeholder("t", STRING),
         node("two", "Split", ["axis", "v"], T=typ(FLOAT), num_split=field(3, 2)), node("axis", "Const", dtype=typ(INT32), value=field(8, tensor(INT32, (), struct.pack("<i", 0)))),
         node("v", "Const", dtype=typ(FLOAT), value=field(8, tensor(FLOAT, (2,), struct.pack("<2f", 1, 2)))), node("shaped", "Placeholder", dtype=typ(FLOAT), shape=field(7, shape(2, -1))), identity("w", "shaped"),
         node("fail", "CheckNumerics", ["x"], T=typ(FLOAT), message=field(2, "said")))  # fmt: skip
RUNS = {
    "nothing": ([], [], []), "fetch": ([], ["c"], []), "fetch twice": ([], ["c", "c"], []), "fetch of a placeholder": ([], ["x"], []), "fetch of what needs one": ([], ["z"], []), "fed": ([("x", "one")], ["z"], []),
    "fed and fetched": ([("x", "one")], ["x"], []), "fed what is not needed": ([("x", "one")], ["c"], []), "fed twice": ([("x", "one"), ("x", "two")], ["z"], []), "fed twice the same": ([("x", "one"), ("x", "one")], ["z"], []),
    "fed another type": ([("x", "int")], ["z"], []), "fed int as float": ([("i", "one")], ["c"], []), "fed a constant": ([("c", "two"), ("x", "one")], ["z"], []), "fed in the middle": ([("y", "two")], ["z"], []),
    "target": ([], [], ["n"]), "target of a placeholder": ([], [], ["x"]), "target twice": ([], [], ["n", "n"]), "target that needs": ([], [], ["after"]), "target with a feed": ([("x", "one")], [], ["after"]),
    "fetch output 1": ([], [("c", 1)], []), "fetch output -1": ([], [("c", -1)], []), "fetch of a control": ([], [("n", 0)], []), "fetch of a control output": ([], [("n", -1)], []), "feed of a control": ([(("n", 0), "one")], [], []),
    "feed output 1": ([(("x", 1), "one")], ["c"], []), "feed output -1": ([(("x", -1), "one")], ["c"], []), "second output": ([], [("two", 1)], []), "output 2 of two": ([], [("two", 2)], []),
    "fed one of two": ([(("two", 0), "one")], [("two", 0), ("two", 1)], []), "fetch of no operation": ([], [(None, 0)], []), "feed of no operation": ([((None, 0), "one")], ["c"], []), "no target operation": ([], [], [None]),
    "shape that does not fit": ([("shaped", "vector")], ["w"], []), "shape that fits": ([("shaped", "matrix")], ["w"], []), "scalar for a shape": ([("shaped", "one")], ["w"], []), "fails": ([("x", "nan")], ["fail"], []),
    "fails beside": ([("x", "nan")], ["c", "fail"], []), "fails as a target": ([("x", "nan")], ["c"], ["fail"]), "string fed a float": ([("t", "one")], ["t"], []), "feed without a tensor": ([("x", "none")], ["z"], []),
    "fed all": ([("x", "one"), ("i", "int"), ("y", "one"), ("c", "two")], ["z", "x", "i", "y", "c"], ["n", "after"]), "fetch of a fed constant": ([("c", "two")], ["c"], []), "empty": ([("x", "empty")], ["z"], []),
}  # fmt: skip


def given(l, name):
    return {"one": lambda: l.value(), "two": lambda: l.value((2.0,)), "int": lambda: l.value((3,), (), INT32, "i"), "vector": lambda: l.value((1, 2, 3), (3,)), "matrix": lambda: l.value((1, 2), (2, 1)),
            "nan": lambda: l.value((float("nan"),)), "none": lambda: None, "empty": lambda: l.value((), (0,))}[name]()  # fmt: skip


@cases("run", RUNS)
def _(l, feeds, fetches, targets):
    l.load(*SMALL)
    s = l.session()
    return l.told(), [l.run(s, [(n, given(l, v)) for n, v in feeds], fetches, targets) for _i in range(2)]


@cases("run of functions", RUNS)
def _(l, feeds, fetches, targets):
    """By name, at a deprecated session."""
    s = l.NewDeprecatedSession(l.NewSessionOptions(), l.status)
    data = graph_def(*SMALL)
    l.ExtendGraph(s, data, len(data), l.status)

    def names(all_):
        texts = [f"{n[0]}:{n[1]}" if isinstance(n, tuple) else "" if n is None else n for n in all_]
        return (T * max(len(texts), 1))(*[t.encode() for t in texts])

    results = (P * max(len(fetches), 1))()
    values = (P * max(len(feeds), 1))(*[given(l, v) for _n, v in feeds])
    l.Run(s, None, names([n for n, _v in feeds]), values, len(feeds), names(fetches), results, len(fetches), names(targets), len(targets), None, l.status)
    return l.told(), [l.shown(results[i]) for i in range(len(fetches))]


NAMED = ["c", "c:0", "c:1", "c:-1", "c:", ":0", "", "^c", "^n", "zz", "zz:0", "n", "n:0", "c:0:0", "c:00", "c:9999999999999", "c ", " c", "two:1", "two"]


@cases("fetched by the name", NAMED)
def _(l, name):
    s = l.NewDeprecatedSession(l.NewSessionOptions(), l.status)
    data = graph_def(*SMALL)
    l.ExtendGraph(s, data, len(data), l.status)
    result = (P * 1)()
    l.Run(s, None, None, None, 0, (T * 1)(name.encode()), result, 1, None, 0, None, l.status)
    return l.told(), l.shown(result[0])


@cases("target of the name", NAMED)
def _(l, name):
    s = l.NewDeprecatedSession(l.NewSessionOptions(), l.status)
    data = graph_def(*SMALL)
    l.ExtendGraph(s, data, len(data), l.status)
    l.Run(s, None, None, None, 0, None, None, 0, (T * 1)(name.encode()), 1, None, l.status)
    return l.told()


@cases("fed by the name", NAMED)
def _(l, name):
    s = l.NewDeprecatedSession(l.NewSessionOptions(), l.status)
    data = graph_def(*SMALL)
    l.ExtendGraph(s, data, len(data), l.status)
    result = (P * 1)()
    l.Run(s, None, (T * 1)(name.encode()), (P * 1)(l.value((5.0,))), 1, (T * 1)(b"c"), result, 1, None, 0, None, l.status)
    return l.told(), l.shown(result[0])


@cases("deprecated session", ["no graph", "extended twice", "extended by rubbish", "closed", "extended after closing", "reset", "reset of nothing"])
def _(l, what):
    s = l.NewDeprecatedSession(l.NewSessionOptions(), l.status)
    data, more = graph_def(constant("c")), graph_def(constant("c"))
    if what == "no graph":
        l.Run(s, None, None, None, 0, (T * 1)(b"c"), (P * 1)(), 1, None, 0, None, l.status)
        return l.told()
    l.ExtendGraph(s, data, len(data), l.status)
    if what == "extended twice":
        l.ExtendGraph(s, more, len(more), l.status)
    elif what == "extended by rubbish":
        l.ExtendGraph(s, b"\xff", 1, l.status)
    elif "clos" in what:
        l.CloseDeprecatedSession(s, l.status)
        if what != "closed":
            l.ExtendGraph(s, more, len(more), l.status)
            return l.told()
        l.Run(s, None, None, None, 0, (T * 1)(b"c"), (P * 1)(), 1, None, 0, None, l.status)
    elif what == "reset":
        l.Reset(l.NewSessionOptions(), (T * 1)(b"a"), 1, l.status)
    else:
        l.Reset(l.NewSessionOptions(), None, 0, l.status)
    return l.told()


@cases("session", {
    "target": (b"zz", b""), "target of a scheme": (b"zz://a", b""), "grpc without address": (b"grpc://", b""), "grpc to nothing": (b"grpc://localhost:1", b""), "config rubbish": (b"", b"\xff"), "config": (b"", field(2, 1)),
    "bad port": (b"grpc://localhost:99999", b""), "local": (b"local", b""), "negative threads": (b"", field(2, -1)), "no cpus": (b"", field(1, field(1, "CPU") + field(2, 0))), "two cpus": (b"", field(1, field(1, "CPU") + field(2, 2))),
})  # fmt: skip
def _(l, target, config):
    l.load(constant("c"))
    if target.startswith(b"grpc"):
        config = field(11, 3000)
    options = l.NewSessionOptions()
    l.SetTarget(options, target)
    l.SetConfig(options, config, len(config), l.status)
    first = l.told()
    s = l.NewSession(l.graph, options, l.status)
    told = l.told()
    if not s:
        return first, told
    d = l.SessionListDevices(s, l.status)
    devices = d and [l.DeviceListName(d, i, l.status).decode() for i in range(l.DeviceListCount(d))]
    return first, told, devices, l.run(s, fetches=["c"])


@cases("device list", [-1, 0, 1, 99])
def _(l, i):
    l.load(constant("c"))
    d = l.SessionListDevices(l.session(), l.status)
    said = l.DeviceListName(d, i, l.status), l.told()
    said += l.DeviceListType(d, i, l.status), l.told()
    l.DeviceListMemoryBytes(d, i, l.status)
    return [s.decode() if isinstance(s, bytes) else s for s in said], l.told()


@cases("session's life", ["run after close", "close twice", "empty graph", "extend empty", "run of a node added later", "graph deleted first", "run in a second session", "another graph's fetch", "changed node"])
def _(l, what):
    if what != "empty graph" and what != "extend empty":
        l.load(constant("c"), identity("y", "c"))
    s = l.session()
    told = [l.told()]
    if what == "run after close":
        l.CloseSession(s, l.status)
        told.append(l.run(s, fetches=["c"]))
    elif what == "close twice":
        l.CloseSession(s, l.status)
        told.append(l.told())
        l.CloseSession(s, l.status)
        told.append(l.told())
        l.DeleteSession(s, l.status)
    elif what == "empty graph":
        told.append(l.run(s))
    elif what == "extend empty":
        l.ExtendSession(s, l.status)
    elif what == "run of a node added later":
        told.append(l.run(s, fetches=["c"]))
        l.load(constant("d"))
        told.append(l.run(s, fetches=["d"]))
    elif what == "graph deleted first":
        o = l.out("c")
        l.DeleteGraph(l.graph)
        told.append(l.run(s, fetches=[o]))
    elif what == "run in a second session":
        t = l.session()
        told.append(l.run(t, fetches=["c"]))
        told.append(l.run(s, fetches=["c"]))
    elif what == "another graph's fetch":
        told.append(l.run(s, fetches=[output_of_another_graph(l, constant("p"))]))
    else:
        told.append(l.run(s, fetches=["y"]))
        l.load(constant("d", 5.0))
        l.UpdateEdge(l.graph, l.out("d"), l.out("y"), l.status)
        told.append(l.told())
        told.append(l.run(s, fetches=["y"]))
    return told, l.told()


@cases("run options", {"rubbish": b"\xff", "nothing": b"", "trace": field(1, 3), "level 9": field(1, 9), "timeout": field(2, 60000), "negative timeout": field(2, -5), "no timeout": field(2, 0), "pool -1": field(3, -1), "pool 9": field(3, 9), "partition graphs": field(5, 1)})
def _(l, data):
    l.load(constant("c"))
    b = l.NewBuffer()
    got = l.run(l.session(), fetches=["c"], options=l.buffer(data), metadata=b)
    return got, bool(l.text(b))


@cases("run metadata that is not empty", ["c"])
def _(l, name):
    l.load(constant("c"))
    return l.run(l.session(), fetches=[name], metadata=l.buffer(b"abc"))


@cases("partial run", {
    "whole": (["x"], ["z"], [], [(["x"], ["z"])]), "in two parts": (["x", "c"], ["y", "z"], [], [(["x"], ["y"]), (["c"], ["z"])]), "fetch too early": (["x", "c"], ["z"], [], [(["x"], ["z"])]),
    "fed twice": (["x"], ["y", "z"], [], [(["x"], ["y"]), (["x"], ["z"])]), "fetched twice": (["x"], ["y", "z"], [], [(["x"], ["y"]), ([], ["y"])]), "not set up": (["x"], ["y"], [], [(["x"], ["z"])]),
    "feed not set up": (["x"], ["z"], [], [(["c"], ["z"])]), "after the end": (["x"], ["z"], [], [(["x"], ["z"]), ([], ["z"])]), "nothing": ([], [], [], [([], [])]), "unknown output": ([("x", 5)], ["z"], [], []),
    "unknown fetch": (["x"], [("z", 5)], [], []), "target": (["x"], [], ["after"], [(["x"], [])]), "fails": (["x"], ["fail"], [], [(["x"], ["fail"])]), "no feeds": ([], ["c"], [], [([], ["c"])]), "feeds that are not there": (["x"], ["z"], [], [([], ["z"])]),
})  # fmt: skip
def _(l, inputs, outputs, targets, steps):
    l.load(*SMALL)
    s = l.session()
    handle = P()
    l.SessionPRunSetup(s, l.outs(*inputs), len(inputs), l.outs(*outputs), len(outputs), l.ops(*targets), len(targets), c.byref(handle), l.status)
    told = [l.told()]
    if told[0][0] or not handle.value:
        return told
    text = c.cast(handle, T)
    for feeds, fetches in steps:
        results = (P * max(len(fetches), 1))()
        l.SessionPRun(s, text, l.outs(*feeds), (P * max(len(feeds), 1))(*[l.value() for _f in feeds]), len(feeds), l.outs(*fetches), results, len(fetches), None, 0, l.status)
        told.append((l.told(), [l.shown(results[i]) for i in range(len(fetches))]))
    return told


@cases("partial run with the handle", [None, "", "zz", "1;2"])
def _(l, handle):
    l.load(*SMALL)
    l.SessionPRun(l.session(), None if handle is None else handle.encode(), l.outs("x"), (P * 1)(l.value()), 1, l.outs("z"), (P * 1)(), 1, None, 0, l.status)
    return l.told()


@cases("named queue", {f"{what} {i}": (what, i) for what in ("dequeue", "enqueue") for i in (-1, 0)})
def _(l, what, i):
    l.load(constant("c"))
    s = l.session()
    if what == "dequeue":
        l.DequeueNamedTensor(s, i, l.status)
    else:
        l.EnqueueNamedTensor(s, i, l.value(), l.status)
    return l.told()


# ---- files, servers, lists ----


@cases("saved model at", {"nowhere": ("/nowhere", ["serve"]), "no tags": ("/nowhere", []), "a file": ("/etc/passwd", ["serve"]), "a folder without one": ("/etc", ["serve"]), "''": ("", ["serve"])})
def _(l, path, tags):
    s = l.LoadSessionFromSavedModel(l.NewSessionOptions(), None, path.encode(), (T * max(len(tags), 1))(*[t.encode() for t in tags]), len(tags), l.graph, None, l.status)
    return bool(s), l.told()


@cases("checkpoint at", ["/nowhere", "", "/etc", "/etc/passwd"])
def _(l, path):
    return bool(l.NewCheckpointReader(path.encode(), l.status)), l.told()


CLUSTER = field(1, field(1, "worker") + field(2, field(1, 0) + field(2, "localhost:0")))
SERVERS = {
    "rubbish": b"\xff", "nothing": b"", "no protocol": field(1, CLUSTER) + field(2, "worker"), "unknown protocol": field(1, CLUSTER) + field(2, "worker") + field(5, "zz"), "no job": field(1, CLUSTER) + field(5, "grpc"),
    "unknown job": field(1, CLUSTER) + field(2, "zz") + field(5, "grpc"), "unknown task": field(1, CLUSTER) + field(2, "worker") + field(3, 5) + field(5, "grpc"), "negative task": field(1, CLUSTER) + field(2, "worker") + field(3, -1) + field(5, "grpc"),
    "empty cluster": field(1, b"") + field(2, "worker") + field(5, "grpc"), "good": field(1, CLUSTER) + field(2, "worker") + field(5, "grpc"),
    "bad address": field(1, field(1, field(1, "worker") + field(2, field(1, 0) + field(2, "localhost")))) + field(2, "worker") + field(5, "grpc"),
    "bad port": field(1, field(1, field(1, "worker") + field(2, field(1, 0) + field(2, "localhost:99999")))) + field(2, "worker") + field(5, "grpc"),
}  # fmt: skip


@cases("server", SERVERS)
def _(l, data):
    s = l.NewServer(data, len(data), l.status)
    return bool(s), l.told()


@cases("api definitions", {"rubbish": b"zz{", "of an unknown op": b'op { graph_op_name: "NoSuch" summary: "x" }', "of an op": b'op { graph_op_name: "NoOp" summary: "x" }', "nothing": b""})
def _(l, text):
    ops = l.GetAllOpList()
    m = l.NewApiDefMap(ops, l.status)
    l.ApiDefMapPut(m, text, len(text), l.status)
    told = l.told()
    got = l.ApiDefMapGet(m, b"NoOp", 4, l.status)
    said = l.told(), l.text(got).hex() if got else None
    l.ApiDefMapGet(m, b"zz", 2, l.status)
    return told, said, l.told()


@cases("files", {"create": "CreateDir", "delete": "DeleteDir", "file": "DeleteFile", "children": "GetChildren", "library": "LoadSharedLibrary"})
def _(l, name):
    said = []
    for path in (b"/nowhere/a", b"", b"/etc/passwd/x", b"/etc/passwd"):
        if name == "DeleteFile" and path == b"/etc/passwd" or name == "DeleteDir" and path == b"/etc/passwd":
            continue
        getattr(l, name)(path, l.status)
        said.append(l.told())
    return said


@cases("file status of", ["/nowhere", "", "/etc", "/etc/passwd/x"])
def _(l, path):
    l.FileStat(path.encode(), c.create_string_buffer(64), l.status)
    return l.told()


# ---- nothing for a pointer ----

NULLS = {
    "NewOperation type": lambda l: l.NewOperation(l.graph, None, b"n") and None, "NewOperation name": lambda l: l.NewOperation(l.graph, b"NoOp", None) and None,
    "GraphOperationByName": lambda l: l.GraphOperationByName(l.graph, None), "GraphImportGraphDef buffer": lambda l: l.GraphImportGraphDef(l.graph, None, l.NewImportGraphDefOptions(), l.status),
    "GraphImportGraphDef options": lambda l: l.GraphImportGraphDef(l.graph, l.buffer(graph_def()), None, l.status), "GraphImportGraphDef empty buffer": lambda l: l.GraphImportGraphDef(l.graph, l.NewBuffer(), l.NewImportGraphDefOptions(), l.status),
    "SetPrefix": lambda l: l.ImportGraphDefOptionsSetPrefix(l.NewImportGraphDefOptions(), None), "SetTarget": lambda l: l.SetTarget(l.NewSessionOptions(), None), "SetConfig": lambda l: l.SetConfig(l.NewSessionOptions(), None, 0, l.status),
    "DeleteBuffer": lambda l: l.DeleteBuffer(None), "DeleteTensor": lambda l: l.DeleteTensor(None), "DeleteGraph": lambda l: l.DeleteGraph(None), "NewBufferFromString": lambda l: bool(l.NewBufferFromString(None, 0)),
    "NewSession options": lambda l: bool(l.NewSession(l.graph, None, l.status)), "FunctionImportFunctionDef": lambda l: bool(l.FunctionImportFunctionDef(None, 0, l.status)), "NewServer": lambda l: bool(l.NewServer(None, 0, l.status)),
    "SetStatus": lambda l: l.SetStatus(l.status, 3, None), "DeleteSession": lambda l: l.DeleteSession(None, l.status), "SetDevice": lambda l: l.SetDevice(l.NewOperation(l.graph, b"NoOp", b"n"), None),
    "GraphGetOpDef": lambda l: l.GraphGetOpDef(l.graph, None, l.NewBuffer(), l.status), "NewDeprecatedSession": lambda l: bool(l.NewDeprecatedSession(None, l.status)), "Reset": lambda l: l.Reset(None, None, 0, l.status),
    "SetAttrTensor": lambda l: l.SetAttrTensor(l.NewOperation(l.graph, b"Const", b"n"), b"value", None, l.status), "TensorMaybeMove": lambda l: l.TensorMaybeMove(None), "OperationName": lambda l: l.OperationName(None),
    "GraphToGraphDef": lambda l: l.GraphToGraphDef(l.graph, None, l.status), "ExtendGraph": lambda l: l.ExtendGraph(l.NewDeprecatedSession(l.NewSessionOptions(), l.status), None, 0, l.status),
    "LoadSessionFromSavedModel": lambda l: bool(l.LoadSessionFromSavedModel(l.NewSessionOptions(), None, None, None, 0, l.graph, None, l.status)), "OpIsStateful": lambda l: l.OpIsStateful(None, l.status),
    "NewTensor": lambda l: bool(l.NewTensor(FLOAT, None, 0, None, 0, c.cast(FREE, P), None)), "NewTensor of 4 bytes": lambda l: bool(l.NewTensor(FLOAT, None, 0, None, 4, c.cast(FREE, P), None)),
    "NewTensor without a deallocator": lambda l: bool(l.NewTensor(FLOAT, None, 0, c.addressof(ROOM), 4, None, None)), "AllocateTensor": lambda l: bool(l.AllocateTensor(FLOAT, None, 0, 4)),
    "TensorFromProto": lambda l: l.TensorFromProto(l.NewBuffer(), l.value(), l.status), "GetChildren": lambda l: bool(l.GetChildren(None, l.status)), "CreateDir": lambda l: l.CreateDir(None, l.status),
    "SessionRun status": lambda l: (l.load(constant("c")), l.SessionRun(l.session(), None, None, None, 0, None, None, 0, None, 0, None, None)) and None,
    "SessionRun": lambda l: (l.load(constant("c")), l.SessionRun(l.session(), None, None, None, 0, None, None, 0, None, 0, None, l.status)) and None,
    "NewGraph and deleted": lambda l: l.DeleteGraph(l.NewGraph()),
}  # fmt: skip


@cases("null", NULLS)
def _(l, call):
    result = call(l)
    return l.told(), result


# ---- running them ----


def tidy(text):
    """Addresses, ports and the like are left out."""
    text = re.sub(r"0x[0-9a-f]+", "0x", text)
    text = re.sub(r"running on \S+\.", "running on HOST.", text)
    return text


def observe(library, names):
    """What the cases give: a process of its own runs one after the other, and another goes on where one dies."""
    found, left = {}, list(names)
    while left:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            run_all(library, left, write)
        os.close(write)
        with os.fdopen(read) as f:
            for line in f:
                found[left.pop(0)] = json.loads(line)
        status = os.waitpid(child, 0)[1]
        if left:
            found[left.pop(0)] = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit {os.WEXITSTATUS(status)}"
    return found


def run_all(library, names, write):
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    for name in names:
        signal.alarm(LIMIT_S)
        library.begin()
        run, arguments = CASES[name]
        try:
            text = tidy(json.dumps(run(library, *arguments)))
        except Exception as e:  # noqa: BLE001 (told as the case's result)
            text = json.dumps(f"exception: {type(e).__name__}: {e}")
        os.write(write, text.encode() + b"\n")
    os._exit(0)


def main():
    library = Library(LIBRARY)
    word = sys.argv[2] if len(sys.argv) > 2 else ""
    json.dump(observe(library, [name for name in CASES if word in name]), sys.stdout)


if __name__ == "__main__":
    LIBRARY = sys.argv[1]
    main()
