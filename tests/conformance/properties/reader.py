"""Specs of readers: ops/reader.def.

Each case is a program: files, a queue of their names, a reader, and some steps that read, count, save, restore and
reset. Left out: num_records below 0 and beyond what a process can reserve, of which TensorFlow's process dies, and the
order of RecordInput, which is another one in every run of TensorFlow, as is what it does without any record: it waits
for one without end. FixedLengthRecordReader of the old kind fails in TensorFlow at an attribute that it lacks: test_files.py has it.
"""

import atexit
import gzip
import shutil
import struct
import tempfile
import zlib
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import reader_base_pb2

from draw import Program, spec

FOLDER = Path(tempfile.mkdtemp(prefix="weft-readers-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)

raw = tf.raw_ops
MAKERS = ("FixedLengthRecordReader", "IdentityReader", "TFRecordReader", "TextLineReader", "WholeFileReader")
OPERATIONS = ("ReaderNumRecordsProduced", "ReaderNumWorkUnitsCompleted", "ReaderRead", "ReaderReadUpTo", "ReaderReset", "ReaderRestoreState", "ReaderSerializeState")


# ---- files ----


def random_bytes(d, longest=60):
    return d.rng.integers(0, 256, d.int(0, longest), dtype=np.uint8).tobytes()


def lines(d):
    ends = [b"\n", b"\n", b"\r\n", b"\r", b"\n\n", b"\r\r\n"]
    return b"".join(d.one(b"", b"a", b"a line", b"x" * 300, b"\x00\xff", b"\r") + d.one(*ends) for _ in range(d.int(0, 6))) + d.one(b"", b"", b"the last", b"\r", b"x\r")


def framed(path, records, compression):
    options = tf.io.TFRecordOptions(compression_type=compression)
    with tf.io.TFRecordWriter(str(path), options) as w:
        for r in records:
            w.write(r)
    return path.read_bytes()


def compressed(data, kind):
    return {"": bytes, "ZLIB": zlib.compress, "GZIP": gzip.compress}[kind](data)


def snappy(data):
    """One block of literals of at most 60 bytes."""
    parts = [data[i : i + 60] for i in range(0, len(data), 60)]
    n, head = len(data), b""
    while n >= 128:
        head, n = head + bytes([n & 127 | 128]), n >> 7
    block = head + bytes([n]) + b"".join(bytes([(len(p) - 1) << 2]) + p for p in parts)
    return struct.pack(">I", len(block)) + block


def damaged(d, data):
    """Cut short, with another byte, or with more behind it."""
    at = d.int(0, max(len(data) - 1, 0))
    cut, other, more = data[:at], data[:at] + bytes([data[at] ^ d.int(1, 255)]) + data[at + 1 :] if data else b"z", data + random_bytes(d, 30)
    return d.one(cut, other, more)


def contents(d, kind, attrs, path):
    if kind == "TFRecordReader":
        compression = attrs["compression_type"]
        records = [random_bytes(d) for _ in range(d.int(0, 5))]
        data = framed(path, records, compression if compression in ("ZLIB", "GZIP") else "")
        if compression == "SNAPPY":
            data = snappy(data) if data else b""
        return damaged(d, data) if d.chance(0.1) else data
    if kind == "FixedLengthRecordReader":
        data = compressed(random_bytes(d), attrs.get("encoding", "") if attrs.get("encoding") in ("ZLIB", "GZIP") else "")
        return damaged(d, data) if d.chance(0.05) else data
    return lines(d) if kind == "TextLineReader" else random_bytes(d, 300)


def files(d, kind, attrs):
    folder = FOLDER / f"{d.op}-{d.number}"
    folder.mkdir(exist_ok=True)
    paths = []
    for i in range(d.int(0, 4)):
        path = folder / f"file{i}"
        path.write_bytes(contents(d, kind, attrs, path))
        paths.append(str(path))
    if d.chance(0.08):
        paths.insert(d.int(0, len(paths)), d.one(str(folder / "missing"), str(folder), ""))
    return paths


# ---- programs ----


def old_versions():
    """The graph is one of a time when ops had not been removed yet."""
    graph_def = tf.compat.v1.GraphDef()
    graph_def.node.add(name="of_old", op="NoOp")
    graph_def.versions.producer = 21
    tf.import_graph_def(graph_def, name="")


def maker_attrs(d, kind):
    if kind == "FixedLengthRecordReader":
        wrong = d.chance(0.03)
        attrs = dict(header_bytes=d.one(0, 0, 1, 5), record_bytes=d.one(1, 2, 3, 7, 20) if not d.chance(0.03) else 0, footer_bytes=d.one(0, 0, 1, 4), hop_bytes=d.one(0, 0, 1, 2, 5, 30))
        if wrong:
            attrs[d.one(*attrs)] = -1
        if d.op.endswith("V2"):
            attrs["encoding"] = d.one("", "ZLIB", "GZIP") if d.chance(0.95) else d.one("SNAPPY", "zlib")
        return attrs
    if kind == "TFRecordReader":
        return dict(compression_type=d.one("", "ZLIB", "GZIP", "SNAPPY" if d.chance(0.5) else "", "none" if d.chance(0.2) else ""))
    if kind == "TextLineReader":
        return dict(skip_header_lines=d.one(0, 0, 1, 2, 10) if d.chance(0.97) else -1)
    return {}


def queue_of(d, v2, names):
    """A queue, mostly one of single strings, and the op that fills it."""
    make = getattr(raw, d.one("FIFOQueue", "PaddingFIFOQueue", "RandomShuffleQueue") + ("V2" if v2 else "")) if len(names) < 2 else getattr(raw, "FIFOQueueV2" if v2 else "FIFOQueue")
    types, values = [tf.string], [tf.constant(names, tf.string)]
    wrong = d.one("int", "two", "vector") if d.chance(0.04) else ""
    shapes = [[]]
    if wrong == "int":
        types, values = [tf.int32], [tf.zeros([len(names)], tf.int32)]
    elif wrong == "two":
        types, values, shapes = types * 2, values * 2, shapes * 2
    elif wrong == "vector":
        values, shapes = [tf.stack(values * 2, 1)], [[2]]
    elif d.chance(0.2):
        values, shapes = [values[0][:, None]], [[1]]
    queue = make(component_types=types, shapes=shapes)
    enqueue = getattr(raw, "QueueEnqueueMany" + ("V2" if v2 else ""))(handle=queue, components=values)
    return queue, enqueue


def states(d, paths):
    S = reader_base_pb2.ReaderBaseState
    work = d.one(b"", *(p.encode() for p in paths))
    good = S(work_started=3, work_finished=3, num_records_produced=d.int(0, 9), current_work=work)
    bad = [S(work_started=3, work_finished=2), S(work_started=-1, work_finished=2), S(num_records_produced=-5), S(work_finished=-1)]
    return good.SerializeToString() if d.chance(0.8) else d.one(*(b.SerializeToString() for b in bad), b"\xff\xff", b"garbage", b"")


def program(d, kind, op, v2):
    """`op` is surely among the steps."""
    attrs = maker_attrs(d, kind)
    paths = files(d, kind, attrs)
    # The same draws for both builds.
    queue_draw = d.int(0, 2**31)
    wanted = [op] + [d.one(*OPERATIONS, "ReaderRead", "ReaderReadUpTo", "ReaderRead") for _ in range(d.int(2, 9))]
    d.rng.shuffle(wanted)
    state, counts = states(d, paths), [d.int(0, 6) for _ in wanted]
    shared = d.one("", "shared")

    def build():
        if not v2:
            old_versions()
        d.rng = np.random.default_rng(queue_draw)
        queue, enqueue = queue_of(d, v2, paths)
        suffix = "V2" if v2 else ""
        reader = getattr(raw, kind + suffix)(shared_name=f"{shared}{d.op}{d.number}" if shared else "", **attrs)
        many, saved = tf.compat.v1.placeholder(tf.int64), tf.compat.v1.placeholder(tf.string)
        made = {}

        def step(i, name):
            if name not in made:
                f = getattr(raw, name + suffix)
                if name == "ReaderRead":
                    made[name] = list(f(reader_handle=reader, queue_handle=queue))
                elif name == "ReaderReadUpTo":
                    made[name] = list(f(reader_handle=reader, queue_handle=queue, num_records=many))
                elif name == "ReaderRestoreState":
                    made[name] = f(reader_handle=reader, state=saved)
                else:
                    made[name] = f(reader_handle=reader)
            feeds = {many: counts[i]} if name == "ReaderReadUpTo" else {saved: state} if name == "ReaderRestoreState" else {}
            return made[name], feeds

        steps = [(enqueue, {}), (getattr(raw, "QueueClose" + suffix)(handle=queue), {})]
        return steps + [step(i, name) for i, name in enumerate(wanted)]

    return Program(d.op, build)


def is_v2(op):
    return op.endswith("V2")


@spec(*MAKERS[1:], *(m + "V2" for m in MAKERS))
def maker(d):
    return program(d, d.op.removesuffix("V2"), "ReaderRead", is_v2(d.op))


@spec(*(m + v for m in OPERATIONS for v in ("", "V2")))
def operation(d):
    kind = d.one(*MAKERS[not is_v2(d.op) :]) if d.chance(0.5) else d.one("IdentityReader", "WholeFileReader")
    return program(d, kind, d.op.removesuffix("V2"), is_v2(d.op))


@spec("RecordInput")
def record_input(d):
    """Whole epochs: the sum of the records' hashes is that of the files, in whatever order they come."""
    compression = d.one("", "ZLIB", "GZIP")
    folder = FOLDER / f"{d.op}-{d.number}"
    folder.mkdir(exist_ok=True)
    total = 0
    for i in range(d.int(1, 3)):
        records = [random_bytes(d) for _ in range(d.int(1 if i == 0 else 0, 5))]
        total += len(records)
        framed(folder / f"part{i}", records, compression)
    pattern = f"{folder}/part*" if d.chance(0.9) else f"{folder}/part0,{folder}/part1"
    if d.chance(0.1):
        pattern = f"{folder}/missing*"
    only = total if "," not in pattern else 0
    attrs = dict(file_random_seed=d.int(0, 999), file_shuffle_shift_ratio=d.one(0.0, 0.5), file_buffer_size=d.one(1, 2, 10000), file_parallelism=d.int(1, 4), batch_size=only, compression_type=compression)
    if d.chance(0.06):
        attrs[d.one("batch_size", "file_parallelism")] = -1

    def build():
        records = raw.RecordInput(file_pattern=pattern, **attrs)
        total_of = tf.reduce_sum(tf.strings.to_hash_bucket_fast(records, 2**40))
        return [([total_of, tf.shape(records)], {})] * 3

    return Program(d.op, build)
