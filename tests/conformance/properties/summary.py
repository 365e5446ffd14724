"""Specs of summaries and of the writers of event files: ops/summary.def.

A writer's case is a program: events are written, and the file is read back through the graph; of each event all but its time
is compared. Left out, because TensorFlow dies of them: images without pixels and sounds of another rank than 2 and 3 that are
written, values without an element, and tags and steps that are no scalars. Left out, because the parser that TensorFlow uses
then keeps a byte that it never read: metadata that ends in the middle of a string. CreateSummaryDbWriter writes a database of SQLite
in a form that TensorBoard no longer reads; there is no kernel.
"""

import os
import struct
import tempfile

import numpy as np
import tensorflow as tf

from draw import Program, spec
from opcase import C, dtypes_of

v1 = tf.compat.v1


def text(value):
    out = np.empty((), object)
    out[()] = value.encode() if isinstance(value, str) else value
    return out


def tag(d):
    value = text(d.one("loss", "a/b", "", "é"))
    return value if d.chance(0.96) else d.one(value.reshape(1), np.asarray([b"a", b"b"], object))


# ---- values as Summary messages ----


@spec("ScalarSummary")
def scalar_summary(d):
    shape = d.shape(max_rank=2)
    tags = d.texts(shape if d.chance(0.95) else d.shape(max_rank=2), ["loss", "a/b", "", "x"])
    return C(d.op, tags, d.values(d.dtype(), shape))


@spec("HistogramSummary")
def histogram_summary(d):
    values = d.values(d.dtype(), d.shape(max_rank=3), special=0.1) * (1 if d.chance(0.7) else 0)
    return C(d.op, tag(d), np.asarray(values))


def images(d, dtype):
    shape = (d.int(0, 4), d.int(1, 9), d.int(1, 9), d.one(1, 3, 4))
    return d.values(dtype, shape, *(d.one((0, 1), (-1, 1), (0, 255), (0, 1e-7)) if dtype != tf.uint8 else (0, 255)))


@spec("ImageSummary")
def image_summary(d):
    dtype = d.one(tf.uint8, tf.float32, tf.half, tf.float64)
    values = images(d, dtype) if d.chance(0.93) else d.values(dtype, d.shape(max_rank=5, max_dim=4, zero=0.2))
    color = [d.int(0, 255) for _ in range(4 if d.chance(0.95) else d.int(0, 3))]
    color = tf.make_tensor_proto(np.asarray(color, np.uint8) if d.chance(0.97) else np.uint8(3), dtype=tf.uint8)
    return C(d.op, tag(d), values, max_images=d.int(1, 5), bad_color=color)


def sounds(d):
    return d.values(tf.float32, (d.int(0, 4), d.int(0, 20), *d.one((), (1,), (2,))), -1.2, 1.2)


def rate(d):
    return d.one(8000.0, 44100.0, 0.3, 1.5, 2.0**31) if d.chance(0.95) else d.one(0.0, -1.0, 2.0**33)


@spec("AudioSummaryV2")
def audio_summary(d):
    values = sounds(d) if d.chance(0.93) else d.values(tf.float32, d.shape(max_rank=4))
    return C(d.op, tag(d), values, np.float32(rate(d)), max_outputs=d.int(1, 5))


@spec("AudioSummary")
def audio_summary_v1(d):
    values = sounds(d) if d.chance(0.93) else d.values(tf.float32, d.shape(max_rank=4))
    return C(d.op, tag(d), values, sample_rate=rate(d), max_outputs=d.int(1, 5))


ANY = (tf.float32, tf.float64, tf.int32, tf.uint8, tf.int64, tf.bool, tf.half, tf.bfloat16, tf.complex64, tf.string)


def metadata(d, broken=True):
    message = v1.SummaryMetadata(display_name="name", summary_description="é")
    message.plugin_data.plugin_name = "scalars"
    message.plugin_data.content = b"\x00\xff"
    data = message.SerializeToString()
    return text(d.one(b"", data, data, *([b"\xff", data + b"\x0a\xff"] if broken else [])))


@spec("TensorSummary")
def tensor_summary(d):
    return C(d.op, d.values(d.one(*ANY), d.shape()), description="words", labels=["a", "b"], display_name="name")


@spec("TensorSummaryV2")
def tensor_summary_v2(d):
    data = metadata(d)
    return C(d.op, tag(d), d.values(d.one(*ANY), d.shape()), data if d.chance(0.97) else data.reshape(1))


def summary(d):
    """A serialised Summary; sometimes none."""
    message = v1.Summary()
    for _ in range(d.int(0, 3)):
        message.value.add(tag=d.one("loss", "a", "b", "c", "d", ""), simple_value=d.real())
    data = message.SerializeToString()
    return data if d.chance(0.97) else d.one(b"\xff", data + b"\x0a\x05", b"\x0a\x03\x0a\x01\xff")


@spec("MergeSummary")
def merge_summary(d):
    def part():
        shape = d.one((), (), (2,), (0,), (1, 2))
        n = int(np.prod(shape))
        values = np.empty(n, object)
        values[:] = [summary(d) for _ in range(n)]
        return values.reshape(shape)

    return C(d.op, [part() for _ in range(d.int(1, 3))])


# ---- event files ----


def events(data):
    """The events of a file but for their time, one a line."""
    found = []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        event = v1.Event.FromString(data[12 : 12 + length])
        assert event.wall_time > 0
        event.ClearField("wall_time")
        if event.graph_def:  # attributes have no order
            event.graph_def = v1.GraphDef.FromString(event.graph_def).SerializeToString(deterministic=True)
        found.append(event.SerializeToString(deterministic=True))
        data = data[16 + length :]
    return found


def seen(values):
    """File names without time, host, process and number; contents as events."""
    values = [np.asarray(v) for v in values if v is not None]
    if not values:
        return []
    names, data = values
    suffixes = [os.path.basename(n).decode().split(".")[-1] for n in np.ravel(names)]
    return [np.asarray(suffixes, object), np.asarray(events(data[()]), object)]


def valid_image(d):
    dtype = d.one(tf.uint8, tf.float32, tf.half, tf.float64)
    return images(d, dtype) if d.chance(0.9) else d.values(dtype, (2, 3, 1))


def one_event(d, op, writer):
    """Adds a node that writes an event."""
    raw = tf.raw_ops
    step, name = tf.constant(d.one(0, 1, -1, 2**40), tf.int64), d.one("loss", "a/b", "")
    if op == "WriteScalarSummary":
        return raw.WriteScalarSummary(writer=writer, step=step, tag=name, value=d.values(d.dtype("T"), d.one((), (1,)), special=0.3))
    if op == "WriteHistogramSummary":
        return raw.WriteHistogramSummary(writer=writer, step=step, tag=name, values=d.values(d.one(*dtypes_of(op)), d.shape(max_rank=2), special=0.05))
    if op == "WriteImageSummary":
        color = np.asarray([255, 0, 10, 255][: d.one(4, 4, 4, 1)], np.uint8)
        return raw.WriteImageSummary(writer=writer, step=step, tag=name, tensor=valid_image(d), bad_color=color, max_images=d.int(1, 4))
    if op == "WriteAudioSummary":
        return raw.WriteAudioSummary(writer=writer, step=step, tag=name, tensor=sounds(d), sample_rate=rate(d), max_outputs=d.int(1, 4))
    if op == "WriteGraphSummary":
        with tf.Graph().as_default() as graph:
            tf.constant([1.0, 2.0], name="c")
        data = graph.as_graph_def().SerializeToString()
        return raw.WriteGraphSummary(writer=writer, step=step, tensor=data if d.chance(0.9) else b"\xff")
    if op == "WriteRawProtoSummary":
        parts = [summary(d) for _ in range(d.int(0, 3))]
        return raw.WriteRawProtoSummary(writer=writer, step=step, tensor=tf.constant(parts, tf.string, [len(parts)]))
    if op == "ImportEvent":
        data = v1.Event(wall_time=3.5, step=7, summary=v1.Summary(value=[v1.Summary.Value(tag="t", simple_value=2)])).SerializeToString()
        return raw.ImportEvent(writer=writer, event=data if d.chance(0.8) else b"\xff")
    return raw.WriteSummary(writer=writer, step=step, tensor=d.values(d.one(*ANY), d.shape()), tag=name, summary_metadata=metadata(d, broken=False)[()])


KINDS = ("WriteAudioSummary", "WriteGraphSummary", "WriteHistogramSummary", "WriteImageSummary", "WriteRawProtoSummary", "WriteScalarSummary", "WriteSummary", "ImportEvent")


@spec(*KINDS, "SummaryWriter", "CreateSummaryFileWriter", "FlushSummaryWriter", "CloseSummaryWriter")
def writer_program(d):
    state = d.rng.bit_generator.state

    def build():
        d.rng.bit_generator.state = state  # the same nodes each time
        raw = tf.raw_ops
        folder = tempfile.mkdtemp(prefix="weft_events_")
        place = os.path.join(folder, d.one("", "deep/er"))
        named = d.chance(0.8)
        writer = raw.SummaryWriter(shared_name=os.path.basename(folder) if named else "", name=os.path.basename(folder))
        queue, millis = d.one(0, 1, 2, 100), d.one(-1, 1000000, 1000000)
        create = raw.CreateSummaryFileWriter(writer=writer, logdir=place if d.chance(0.95) else [place], max_queue=queue, flush_millis=millis, filename_suffix=d.one(".v2", ".x"))
        flush, close = raw.FlushSummaryWriter(writer=writer), raw.CloseSummaryWriter(writer=writer)
        pattern = v1.placeholder(tf.string, [])  # fed, or TensorFlow would look for the files once only
        names = tf.io.matching_files(pattern)
        read, found = [names, tf.io.read_file(names[0])], {pattern: place.rstrip("/") + "/*"}
        steps = [(create, None)] if d.chance(0.95) else []
        for _ in range(d.int(0, 4)):
            kind = d.op if d.op in KINDS and d.chance(0.7) else d.one(*KINDS)
            d.op, op = kind, d.op
            steps.append((one_event(d, kind, writer), None))
            d.op = op
            if d.chance(0.2):
                steps.append(d.one((create, None), (flush, None), (read, found)))
        steps += [(flush, None), (read, found)] if d.chance(0.5) else []
        return [*steps, (close, None), (read, found), *d.one([], [(flush, None)], [(close, None)], [(create, None), (flush, None)])]

    return Program(d.op, build, seen=seen)
