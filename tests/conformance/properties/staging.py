"""Specs of staging areas: ops/staging.def, and Stage and its kin of ops/queue.def.

Each case is a session whose steps put tuples into one area and take them out; a model of the area chooses steps that do
not wait for ever, for TensorFlow's waits cannot be cancelled. Left out, because TensorFlow counts bytes wrong, reads
beyond a tuple or ends the process: memory limits of maps together with tuples of several tensors, peeks or keys that are
staged twice; numbers of indices that are not those of values or outputs; MapUnstageNoKey with bad indices. Which tuple of
an unordered map comes first is not defined: it has one when a key is not asked for.
"""

import numpy as np
import tensorflow as tf

from draw import Program, spec
from support import v1

DTYPES = (tf.float32, tf.int32, tf.int64, tf.string, tf.bool, tf.complex64, tf.float16, tf.uint8, tf.int16)


def bytes_of(value):
    return value.size * 24 if value.dtype == object else value.nbytes


class Area:
    """An area's attributes, and the tuples that it should hold."""

    def __init__(self, d, kind, is_map):
        self.d, self.kind, self.is_map = d, kind, is_map
        self.dtypes = [d.one(*DTYPES) for _ in range(d.int(1, 3))]
        self.capacity = d.one(0, 0, 1, 2, 3)
        self.limit = d.one(0, 0, 0, 40, 200) if not is_map or len(self.dtypes) == 1 else 0
        if self.limit:
            self.dtypes = [t for t in self.dtypes if t != tf.string] or [tf.float32]
        self.shared = dict(container=d.one("", "box"), shared_name=f"{d.op}_{d.number}")
        self.feeds, self.whole, self.parts, self.steps = {}, {}, {}, []
        self.next = 0

    def attrs(self, **more):
        return dict(capacity=self.capacity, memory_limit=self.limit, **self.shared, **more)

    def feed(self, value):
        value = np.asarray(value)
        port = v1.placeholder(tf.string if value.dtype == object else value.dtype)
        self.feeds[port] = value
        return port

    def op(self, name):
        return getattr(tf.raw_ops, self.kind + name)

    def values(self, which=None):
        return [self.d.values(t, self.d.shape(max_rank=2, max_dim=3)) for i, t in enumerate(self.dtypes) if which is None or i in which]

    def bytes(self):
        return sum(bytes_of(v) for held in (self.whole, self.parts) for t in held.values() for v in t if v is not None)

    def fits(self, values):
        """Whether it goes in at once (True), fails (None), or would wait (False)."""
        size = sum(bytes_of(v) for v in values)
        if self.limit and size > self.limit:
            return None
        return not (self.limit and size + self.bytes() > self.limit)

    def run(self, *fetches):
        self.steps.append((list(fetches), self.feeds))

    # ---- in order of arrival ----
    def stage(self):
        values = self.values()
        fits = self.fits(values)
        if fits is False or (fits and self.capacity and len(self.whole) >= self.capacity):
            return self.unstage()
        self.run(tf.raw_ops.Stage(values=[self.feed(v) for v in values], **self.attrs()))
        if fits:
            self.whole[self.next] = values
            self.next += 1

    def unstage(self):
        if not self.whole:
            return self.size()
        self.run(tf.raw_ops.Unstage(dtypes=self.dtypes, **self.attrs()))
        del self.whole[min(self.whole)]

    def peek(self):
        if not self.whole:
            return self.size()
        index = self.d.int(0, len(self.whole) - 1)
        if self.d.chance(0.1):
            index = [index]
        self.run(tf.raw_ops.StagePeek(index=self.feed(np.int32(index)), dtypes=self.dtypes, **self.attrs()))

    def both(self):
        """One that waits for the other."""
        if self.whole or self.limit:
            return self.peek()
        values = self.values()
        self.run(tf.raw_ops.Unstage(dtypes=self.dtypes, **self.attrs()), tf.raw_ops.Stage(values=[self.feed(v) for v in values], **self.attrs()))
        self.next += 1

    def mismatch(self):
        """Takes a tuple for one of another length."""
        if not self.whole:
            return self.size()
        self.run(tf.raw_ops.Unstage(dtypes=self.dtypes + [tf.float32], **self.attrs()))
        del self.whole[min(self.whole)]

    def size(self):
        self.run(self.op("MapSize" if self.is_map else "StageSize")(dtypes=self.dtypes, **self.attrs()))

    def clear(self):
        self.run(self.op("MapClear" if self.is_map else "StageClear")(dtypes=self.dtypes, **self.attrs()))
        self.whole, self.parts = {}, {}

    # ---- by key ----
    def incomplete_size(self):
        self.run(self.op("MapIncompleteSize")(dtypes=self.dtypes, **self.attrs()))

    def put(self):
        d, n = self.d, len(self.dtypes)
        key = d.one(d.int(0, 4), d.int(0, 4), d.one(-(2**63), 2**63 - 1, -5))
        which = sorted(d.rng.permutation(n)[: d.int(1, n)].tolist()) if d.chance(0.5) else list(range(n))
        values = self.values(which)
        fits = self.fits(values)
        is_part = len(which) < n
        if fits is False or (fits and not is_part and self.capacity and len(self.whole) >= self.capacity):
            return self.pop()
        if self.limit and key in self.whole:
            return self.pop()
        indices, good = list(which), fits
        if d.chance(0.08):
            indices, good = d.one(indices[::-1], [i + n for i in indices], [-1 - i for i in indices[::-1]]), False
        good = good and (indices == which)
        if not good and (len(which) == n or sorted(set(indices)) == indices):
            indices, good = which, fits
        shape = () if d.chance(0.95) else d.one((1,), (2,), (0,))
        keys = np.full(shape, key, np.int64)
        attrs = self.attrs(dtypes=self.dtypes)
        self.run(self.op("MapStage")(key=self.feed(keys), indices=self.feed(np.int32(indices)), values=[self.feed(v) for v in values], **attrs))
        if keys.size != 1 or not good:
            return None
        if not is_part:
            self.whole.setdefault(key, values)
            return None
        held = self.parts.setdefault(key, [None] * n)
        for i, v in zip(which, values):
            if held[i] is not None:
                break
            held[i] = v
        else:
            if all(v is not None for v in held):
                del self.parts[key]
                self.whole.setdefault(key, held)
        return None

    def take(self, name, removes):
        d = self.d
        if not self.whole:
            return self.incomplete_size()
        if name == "MapUnstageNoKey":
            if self.kind == "" and len(self.whole) > 1:
                return self.size()
            key = min(self.whole)
        else:
            key = d.one(*self.whole)
        held = self.whole[key]
        which = [i for i, v in enumerate(held) if v is not None]
        if d.chance(0.5):
            which = which[: d.int(1, len(which))]
        args = {}
        if name != "MapUnstageNoKey":
            if d.chance(0.08):
                which = d.one(list(range(len(held))), which[::-1])
            args["key"] = self.feed(np.int64(key))
        self.run(self.op(name)(indices=self.feed(np.int32(which)), dtypes=[self.dtypes[i] for i in which], **args, **self.attrs()))
        if which != sorted(which):
            return None
        for i in which:
            if held[i] is None:
                break
            if removes:
                held[i] = None
        if all(v is None for v in held):
            del self.whole[key]
        return None

    def pop(self):
        self.take("MapUnstage", True)

    def pop_any(self):
        self.take("MapUnstageNoKey", True)

    def map_peek(self):
        if self.limit:
            return self.size()
        return self.take("MapPeek", False)


METHODS = {
    "Stage": "stage",
    "Unstage": "unstage",
    "StagePeek": "peek",
    "StageSize": "size",
    "StageClear": "clear",
    "MapStage": "put",
    "MapUnstage": "pop",
    "MapPeek": "map_peek",
    "MapUnstageNoKey": "pop_any",
    "MapSize": "size",
    "MapIncompleteSize": "incomplete_size",
    "MapClear": "clear",
}


@spec(*METHODS, *[f"Ordered{name}" for name in METHODS if name.startswith("Map")])
def staging(d):
    kind = "Ordered" if d.op.startswith("Ordered") else ""
    name = METHODS[d.op.removeprefix("Ordered")]
    is_map = "Map" in d.op
    if is_map:
        names = ["put", "put", "put", "pop", "pop_any", "map_peek", "size", "incomplete_size", "clear"]
    else:
        names = ["stage", "stage", "stage", "unstage", "peek", "size", "both", "clear", "mismatch"]
    state = d.rng.bit_generator.state

    def build():
        d.rng.bit_generator.state = state
        area = Area(d, kind, is_map)
        for _ in range(d.int(3, 9)):
            getattr(area, d.one(*names, name, name))()
        return area.steps

    return Program(d.op, build)
