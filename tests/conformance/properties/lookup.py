"""Specs of lookup tables and vocabularies: ops/lookup.def.

Each case is a session in which operations on one table run one after another. The order in which a table without
buckets exports its entries is not defined: they are compared in the order of a hash. Left out, because TensorFlow
reads beyond a buffer or ends the process: removing a scalar key from a dense table, importing buckets that are no
matrix or none at all, full-size defaults for no keys, a scalar's worth of column remapping; and because what it
exports of a dense table changes when the table does later in the step: exporting but at the end.
"""

import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import kernels

from draw import Draw, Program, spec
from opcase import C
from support import v1

KINDS = {"HashTable": "static", "MutableHashTable": "mutable", "MutableHashTableOfTensors": "tensors", "MutableDenseHashTable": "dense"}
WORDS = ["", "a", "b", "abc", "Hello World", "é", "日本語", b"\x00z", "q" * 40, "w1", "w2", "w3"]


def tables_of(op):
    """The (key, value) dtypes of a table op, as far as tensors of them can be fed."""
    pairs = set()
    for kernel in kernels.get_registered_kernels_for_op(op).kernel:
        types = {c.name: tf.as_dtype(c.allowed_values.list.type[0]) for c in kernel.constraint}
        if kernel.device_type == "CPU" and types["value_dtype"] not in (tf.variant, tf.resource):
            pairs.add((types["key_dtype"], types["value_dtype"]))
    return sorted(pairs, key=str)


class Table:
    """A table of some kind and the operations that a case runs on it."""

    def __init__(self, d, kind, form):
        self.d, self.kind, self.form = d, kind, form  # form: "", "V2" or "Anonymous"
        self.op = f"Anonymous{kind}" if form == "Anonymous" else kind + form
        self.key, self.value = d.one(*tables_of(self.op))
        self.key_shape = d.one((), (), (), (2,), (1,), (0,)) if KINDS[kind] == "dense" else ()
        self.value_shape = d.one((2,), (1,), (3,), (0,)) if KINDS[kind] == "tensors" else ()
        if KINDS[kind] == "dense":
            self.value_shape = d.one((), (), (2,), (0,))
        self.feeds = {}
        self.attrs = self.draw_attrs()
        self.reserved = [self.keys((), special=0), self.keys((), special=0)]
        self.steps = []

    def draw_attrs(self):
        d, attrs = self.d, dict(value_dtype=self.value)
        if KINDS[self.kind] == "dense":
            attrs.update(value_shape=self.value_shape, initial_num_buckets=d.one(4, 4, 8, 16, 64), max_load_factor=d.one(0.8, 0.5, 0.9, 0.1))
            if d.chance(0.1):
                attrs.update(d.one(dict(initial_num_buckets=3), dict(initial_num_buckets=0), dict(max_load_factor=1.0), dict(max_load_factor=0.0), dict(value_shape=[2, 2])))
        else:
            attrs["key_dtype"] = self.key
        if KINDS[self.kind] == "tensors":
            attrs["value_shape"] = self.value_shape if d.chance(0.95) else d.one([], [2, 2])
        if self.form != "Anonymous" and d.chance(0.7):
            name = f"{d.op}_{d.number}"  # the servers keep what has a name
            attrs.update(d.one(dict(shared_name=name), dict(use_node_name_sharing=True, name=name), dict(container="box", shared_name=name)))
        return attrs

    def keys(self, shape, special=0.1):
        d = self.d
        full = tuple(shape) + self.key_shape
        if self.key == tf.string:
            return d.texts(full, WORDS)
        return d.values(self.key, full, low=-6, high=9, special=special)

    def values(self, shape):
        full = tuple(shape) + self.value_shape
        return self.d.texts(full, WORDS) if self.value == tf.string else self.d.values(self.value, full)

    def feed(self, value):
        value = np.asarray(value)
        with tf.control_dependencies(None):  # else an op that has it for an input would need no control input
            port = v1.placeholder(tf.string if value.dtype == object else value.dtype)
        self.feeds[port] = value
        return port

    def handle(self):
        op = getattr(tf.raw_ops, self.op)
        if KINDS[self.kind] != "dense":
            return op(**self.attrs)
        empty, deleted = self.reserved
        if self.d.chance(0.05):
            deleted = self.d.one(empty, deleted[None])
        args = dict(empty_key=self.feed(empty))
        if self.form:
            args["deleted_key"] = self.feed(deleted)
        return op(**args, **self.attrs)

    def run(self, what, handle, **args):
        suffix = "" if self.form == "" else "V2"
        return getattr(tf.raw_ops, f"LookupTable{what}{suffix}")(table_handle=handle, **args)

    # ---- what a step may do ----
    def shape_of_keys(self):
        d = self.d
        if KINDS[self.kind] == "dense":
            return (d.int(1, 6),) if d.chance(0.9) else d.one((0,), (2, 2))
        return d.shape(max_rank=3, max_dim=4)

    def insert(self, handle, what="Insert"):
        d = self.d
        shape = self.shape_of_keys()
        keys, values = self.keys(shape), self.values(shape)
        if d.chance(0.06):
            values = d.one(values[None], values[..., None], self.values(shape + (2,)))
        return self.run(what, handle, keys=self.feed(keys), values=self.feed(values))

    def import_(self, handle):
        d = self.d
        if KINDS[self.kind] != "dense":
            return self.insert(handle, "Import")
        n, width = d.one(4, 4, 8, 1, 3), int(np.prod(self.key_shape))
        if self.key == tf.string:
            keys = d.texts((n, width), WORDS)
        else:
            keys = d.values(self.key, (n, width), low=-6, high=9)
        values = d.values(self.value, (n, int(np.prod(self.value_shape))))  # no dense table has texts
        # Buckets in which nothing is where it was put: TensorFlow looks all the same, and so must we.
        return self.run("Import", handle, keys=self.feed(keys), values=self.feed(values))

    def find(self, handle):
        d = self.d
        shape = self.shape_of_keys()
        keys = self.keys(shape)
        default = self.values(())
        if d.chance(0.2) and keys.size:
            default = self.values(shape)
        if d.chance(0.05):
            default = default[None]
        return self.run("Find", handle, keys=self.feed(keys), default_value=self.feed(default))

    def remove(self, handle):
        shape = self.shape_of_keys() or ((2,) if KINDS[self.kind] == "dense" else ())
        return self.run("Remove", handle, keys=self.feed(self.keys(shape)))

    def export(self, handle):
        keys, values = self.run("Export", handle, Tkeys=self.key, Tvalues=self.value)
        if KINDS[self.kind] == "dense":
            return [keys, values]
        hashes = tf.strings.to_hash_bucket_fast(keys if self.key == tf.string else tf.as_string(keys), 2**60)
        order = tf.argsort(hashes)
        return [tf.gather(keys, order), tf.gather(values, order)]

    def size(self, handle):
        return self.run("Size", handle)

    def initialize(self, handle):
        d = self.d
        n = d.dim(6)
        shape = (n,) if d.chance(0.9) else d.one((), (2, 2))
        keys = self.keys(shape, special=0.05)
        values = self.values(shape if d.chance(0.95) else (n + 1,))
        if values.size and d.chance(0.4):
            values[...] = values.flat[0]  # so that keys may come twice
        return getattr(tf.raw_ops, "InitializeTable" + ("" if self.form == "" else "V2"))(table_handle=handle, keys=self.feed(keys), values=self.feed(values))


OPERATIONS = {"Find": "find", "Insert": "insert", "Remove": "remove", "Size": "size", "Export": "export", "Import": "import_"}


def session_of(d, table, favourite=None):
    """A case: some operations on the table, with `favourite` among them."""
    names = ["find", "find", "insert", "insert", "size", "export", "import_"]
    if table.form != "":
        names.append("remove")
    if KINDS[table.kind] == "static":
        names = ["find", "find", "find", "size", "export", "initialize", "initialize", "insert", "import_"]
    chosen = [d.one(*names) for _ in range(d.int(2, 7))]
    if favourite:
        chosen += [favourite, d.one("find", "size", "export")]
    if KINDS[table.kind] == "static" and d.chance(0.8):
        chosen.insert(0, "initialize")

    if table.form == "Anonymous" and KINDS[table.kind] == "dense":
        chosen = [name for name in chosen if name != "export"] + ["export"]

    def build():
        table.feeds = {}
        handle = table.handle()
        steps = []
        if table.form == "Anonymous":  # a new table at each step: the operations run in one
            fetches = []
            for name in chosen:
                with tf.control_dependencies([f for f in tf.nest.flatten(fetches)]):
                    out = getattr(table, name)(handle)
                fetches.append(out)
            return [(fetches, table.feeds)]
        for name in chosen:
            steps.append((getattr(table, name)(handle), table.feeds))
        return steps

    return drawn_once(d, build, table)


def drawn_once(d, build, table=None):
    """The program is built twice, for both runtimes: with the same draws."""
    state = d.rng.bit_generator.state

    def again():
        d.rng.bit_generator.state = state
        return build()

    return Program(d.op, again)


FORMS = {}
for _kind in KINDS:
    for _form in ("", "V2", "Anonymous"):
        FORMS[f"Anonymous{_kind}" if _form == "Anonymous" else _kind + _form] = (_kind, _form)


@spec(*FORMS)
def table(d):
    kind, form = FORMS[d.op]
    return session_of(d, Table(d, kind, form))


@spec(*[f"LookupTable{name}{v}" for name in OPERATIONS for v in ("", "V2") if (name, v) != ("Remove", "")], "InitializeTable", "InitializeTableV2")
def operation(d):
    form = "V2" if d.op.endswith("V2") else ""
    name = d.op.removesuffix("V2").removeprefix("LookupTable")
    kinds = [k for k in KINDS if form or KINDS[k] != "dense"]
    if name == "InitializeTable":
        return session_of(d, Table(d, "HashTable" if d.chance(0.95) else d.one(*kinds), form), "initialize")
    case = session_of(d, Table(d, d.one(*kinds), form), OPERATIONS[name])
    case.alike = Alone(d, kinds, form, OPERATIONS[name])
    return case


class Alone:
    """One operation on a table of any kind, for its shapes."""

    def __init__(self, d, kinds, form, operation):
        self.place, self.kinds, self.form, self.operation = (d.op, d.number), kinds, form, operation

    def build(self):
        d = Draw(*self.place)
        table = Table(d, d.one(*self.kinds), self.form)
        handle = table.handle()
        return tf.nest.flatten(getattr(table, self.operation)(handle)), table.feeds


# ---- files ----


def number_text(d, dtype):
    if dtype == tf.string:
        return d.one("a", "b", "c d", "é", "日本語", "x" * 30, " lead", "trail ", str(d.int(0, 99)))
    if dtype in (tf.int32, tf.int64):
        return d.one(str(d.int(-9, 9)), str(d.int(0, 999)), str(2**31 - 1), " 5", "7 ", "12", "3")
    return d.one("1.5", "-2", "1e3", ".5", "0", "inf", "-0.25", " 1", "1e-40", "nan" if d.chance(0.1) else "2")


def path_of(d, name, lines, ends):
    path = os.path.join(tempfile.gettempdir(), f"weft_lookup_{d.op}_{d.number}_{name}.txt")
    data = ends.join(lines)
    if lines and d.chance(0.8):
        data += ends
    with open(path, "wb") as f:
        f.write(data.encode())
    return path


@spec("InitializeTableFromTextFile", "InitializeTableFromTextFileV2")
def from_file(d):
    table = Table(d, "HashTable" if d.chance(0.97) else "MutableHashTable", "V2" if d.op.endswith("V2") else "")
    delimiter = d.one("\t", "\t", ",", " ", "|")
    choices = {tf.int64: [-1, -2, 0, 1, 2], tf.string: [-2, -2, 0, 1, 2], tf.int32: [-2, 0, 1, 2], tf.float32: [0, 1, 2], tf.float64: [0, 1, 2], tf.bool: [0, 1]}
    key_index, value_index = d.one(*choices[table.key]), d.one(*choices[table.value])
    if d.chance(0.06):
        key_index, value_index = d.int(-2, 3), d.int(-2, 3)
    columns = max(key_index, value_index, 0) + 1 + d.int(0, 1)
    lines = []
    for i in range(d.dim(6, 0.08)):
        fields = [number_text(d, d.one(table.key, table.value)) for _ in range(columns)]
        if key_index >= 0:
            fields[key_index] = number_text(d, table.key)
            if d.chance(0.7) and table.key != tf.string:
                fields[key_index] = str(i)
            elif d.chance(0.7):
                fields[key_index] = f"k{i}"
        if value_index >= 0 and d.chance(0.95):
            fields[value_index] = number_text(d, table.value)
        line = delimiter.join(fields)
        if key_index == -2:
            line = str(i) if table.key != tf.string else (f"w{i}{delimiter}" + line if d.chance(0.8) else line)
        elif value_index == -2 and table.value != tf.string:
            line = number_text(d, table.value)
        lines.append(line)
    if d.chance(0.06):
        lines.insert(d.int(0, len(lines)), d.one("", "x", delimiter, "\r", "1\x002", "+5", "0x10", "99999999999999999999"))
    ends = d.one("\n", "\n", "\r\n")
    path = path_of(d, "words", lines, ends)
    size = d.one(-1, -1, -1, len(lines), max(len(lines) - 1, 0), len(lines) + 1, 0)
    attrs = dict(key_index=key_index, value_index=value_index, vocab_size=size, delimiter=delimiter, offset=d.one(0, 0, 0, 5, -3, 2**40))
    if d.chance(0.03):
        attrs["delimiter"] = d.one("", "ab")
    name = d.one(*[path] * 12, path + ".none", "", [path])

    def build():
        table.feeds = {}
        handle = table.handle()
        op = getattr(tf.raw_ops, d.op)
        init = op(table_handle=handle, filename=table.feed(np.asarray(name, object)), **attrs)
        steps = [(table.size(handle), table.feeds), (init, table.feeds), (table.export(handle), table.feeds)]
        steps += [(table.find(handle), table.feeds), (table.size(handle), table.feeds), (init, table.feeds)]
        return steps + [(table.initialize(handle), table.feeds), (init, table.feeds), (table.size(handle), table.feeds)]

    return drawn_once(d, build)


@spec("GenerateVocabRemapping")
def remapping(d):
    words = [f"w{i}" for i in range(8)] + ["a b", "é"]
    new = [str(w) for w in d.rng.permutation(words)[: d.dim(8, 0.05)]]
    old = [str(w) for w in d.rng.permutation(words)[: d.dim(8, 0.05)]]
    if d.chance(0.08):
        d.one(new, old).append(d.one("", "w1"))
    offset = d.int(0, max(len(new) - 1, 0))
    attrs = dict(new_vocab_offset=offset, num_new_vocab=d.int(0, max(len(new) - offset, 0)), old_vocab_size=d.one(-1, -1, len(old), max(len(old) - 1, 0)))
    if d.chance(0.08):
        attrs.update(d.one(dict(num_new_vocab=len(new) + 1), dict(new_vocab_offset=2**31), dict(old_vocab_size=len(old) + 1)))
    paths = [path_of(d, "new", new, "\n"), path_of(d, "old", old, "\n")]
    if d.chance(0.06):
        paths[d.int(0, 1)] = d.one("", "/tmp/none/none")
    files = [np.asarray(p if d.chance(0.98) else [p], object) for p in paths]
    return C(d.op, *files, **attrs)


@spec("LoadAndRemapMatrix")
def matrix(d):
    """TensorFlow leaves its memory as it was where a column is mapped that the matrix does not have."""
    rows, columns = d.int(1, 6), d.int(1, 5)
    stored = d.one((rows, columns), (rows, columns), (rows, columns), (rows,)) if d.chance(0.1) else (rows, columns)
    dtype = tf.float32 if d.chance(0.97) else tf.float64
    prefix = os.path.join(tempfile.gettempdir(), f"weft_matrix_{d.number}")
    value = d.values(dtype, stored)
    with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
        sess.run(tf.raw_ops.SaveV2(prefix=prefix, tensor_names=["m"], shape_and_slices=[""], tensors=[tf.constant(value)]))
    num_rows, num_cols = d.dim(7, 0.05), d.int(1, 6)
    row_map = pick(d, num_rows, rows)
    column_map = np.minimum(pick(d, num_cols, columns), columns - 1) if d.chance(0.7) else np.zeros(0, np.int64)
    if not column_map.size and d.chance(0.95):
        num_cols = columns
    moved = [num_rows - (row_map >= 0).sum(), num_cols - (column_map >= 0).sum() if column_map.size else 0]
    missing = moved[0] * num_cols + moved[1] * num_rows - moved[0] * moved[1]
    if d.chance(0.05):
        missing += d.one(1, -1)
    initial = d.values(tf.float32, (max(int(missing), 0),))
    attrs = dict(num_rows=num_rows if d.chance(0.97) else num_rows + 1, num_cols=num_cols, max_rows_in_memory=d.one(-1, -1, 0, 1, 2, 100))
    paths = [np.asarray(d.one(*[prefix] * 20, prefix + "none"), object), np.asarray(d.one(*["m"] * 20, "n"), object)]
    return C(d.op, *paths, row_map, column_map, initial, **attrs)


def pick(d, n, among):
    """Old numbers for n new ones: each once, but for mistakes; -1: new."""
    old = d.rng.permutation(max(among, n))[:n].astype(np.int64)
    old[old >= among] = -1
    old[d.rng.random(n) < 0.15] = -1
    if n > 1 and d.chance(0.05):
        old[0] = old[1]
    if n and d.chance(0.03):
        old[0] = among + 1
    return old
