"""Specs of queues, accumulators and barriers: ops/queue.def. Staging areas are in staging.py.

Each case is a session whose steps work on one object; a count of what it holds chooses steps that do not wait for ever,
or pairs in one step of which one waits for the other. A shuffling queue's order is random: what comes out is compared
sorted. Left out: up to so many tuples of a closed PriorityQueue that has fewer, which TensorFlow loses
(test_queues.py has it). Also, because TensorFlow's process ends: to take from an accumulator by a number that is no scalar, and to use one with another dtype; and, because it waits for
ever, to close a barrier twice; values of another shape than a barrier's keys ask for, which TensorFlow takes in part. A step that is no scalar is an error, but TensorFlow adds the gradient all the same.
"""

import numpy as np
import tensorflow as tf

from draw import Program, spec
from opcase import dtypes_of
from support import v1

R = tf.raw_ops
DTYPES = (tf.float32, tf.int32, tf.int64, tf.string, tf.bool, tf.complex64, tf.float16)


class Steps:
    def __init__(self, d):
        self.d, self.feeds, self.steps = d, {}, []

    def feed(self, value):
        value = np.asarray(value)
        port = v1.placeholder(tf.string if value.dtype == object else value.dtype)
        self.feeds[port] = value
        return port

    def run(self, *fetches):
        self.steps.append((list(fetches), self.feeds))

    def name(self):
        return dict(container=self.d.one("", "box"), shared_name=self.d.one("", f"{self.d.op}_{self.d.number}"))


def program(cls):
    """Makes a spec of a class whose run_all() adds the steps; for both runtimes with the same draws."""

    def make(d):
        state = d.rng.bit_generator.state

        def build():
            d.rng.bit_generator.state = state
            case = cls(d)
            case.run_all()
            return case.steps

        return Program(d.op, build, rtol=1e-3, atol=1e-3)

    return make


# ---- queues ----

KINDS = ("FIFOQueue", "PaddingFIFOQueue", "PriorityQueue", "RandomShuffleQueue")
OPERATIONS = {
    "QueueEnqueue": "put",
    "QueueEnqueueMany": "put_many",
    "QueueDequeue": "take",
    "QueueDequeueMany": "take_many",
    "QueueDequeueUpTo": "take_up_to",
    "QueueSize": "size",
    "QueueIsClosed": "is_closed",
    "QueueClose": "close",
}


class Queue(Steps):
    def __init__(self, d):
        super().__init__(d)
        self.version = "V2" if d.op.endswith("V2") else ""
        self.kind = next((k for k in KINDS if d.op.startswith(k)), None) or d.one(*KINDS)
        if d.op.startswith("QueueDequeueUpTo") and self.kind in ("RandomShuffleQueue", "PriorityQueue"):
            self.kind = "FIFOQueue"
        self.types = [d.one(*DTYPES) for _ in range(d.int(1, 3))]
        if self.kind == "RandomShuffleQueue":
            self.types = [tf.int32]
        self.shapes = [d.shape(max_rank=2, max_dim=3, zero=0) for _ in self.types]
        if self.kind == "RandomShuffleQueue":
            self.shapes = [()]
        self.has_shapes = self.kind in ("PaddingFIFOQueue", "PriorityQueue", "RandomShuffleQueue") or d.chance(0.6)
        self.capacity = d.one(-1, 3, 5, 8)
        self.count, self.closed = 0, False
        self.handle = self.make()

    def make(self):
        d = self.d
        shapes = list(self.shapes) if self.has_shapes else []
        if self.kind == "PaddingFIFOQueue":
            shapes = [[None if d.chance(0.5) else s for s in shape] for shape in shapes]
        if d.chance(0.03):
            shapes = shapes[1:] if self.kind == "PriorityQueue" else shapes + [()]
            if not self.has_shapes and len(self.types) == 1:  # it has the right number of them now
                self.has_shapes, self.shapes = True, shapes
        attrs = dict(component_types=self.types, shapes=shapes, capacity=self.capacity, **self.name())
        if self.kind == "RandomShuffleQueue":
            attrs.update(min_after_dequeue=0, seed=d.int(0, 5), seed2=3)
        return getattr(R, self.kind + self.version)(**attrs)

    def op(self, name):
        return getattr(R, name + self.version) if name != "QueueIsClosed" else getattr(R, name + self.version)

    def values(self, *front):
        d, values = self.d, []
        if self.kind == "PriorityQueue":
            n = int(np.prod(front, dtype=int))
            places = d.rng.permutation(64)[:n] % 7 - 2  # some are equal
            values.append(places.reshape(front).astype(np.int64))
        for t, shape in zip(self.types, self.shapes):
            full = (*front, *shape)
            if d.chance(0.03):
                full = (*full, 2)
            values.append(d.values(t if d.chance(0.98) else tf.int8, full, special=0.05))
        return [self.feed(v) for v in values]

    def room(self):
        return self.capacity - self.count if self.capacity > 0 else 9

    def good(self, values, *front):
        """Whether the queue takes them."""
        shapes = [(*front, *s) for s in self.shapes]
        rest = values[1:] if self.kind == "PriorityQueue" else values
        fits = all(self.feeds[v].shape == s or not self.has_shapes for v, s in zip(rest, shapes))
        return fits and all(v.dtype == t for v, t in zip(rest, self.types))

    def put(self):
        if not self.closed and self.room() < 1:
            return self.take()
        values = self.values()
        self.run(self.op("QueueEnqueue")(handle=self.handle, components=values))
        if not self.closed and self.good(values):
            self.count += 1

    def put_many(self):
        n = self.d.int(0, 3)
        if not self.closed and self.room() < n:
            return self.take()
        values = self.values(n)
        self.run(self.op("QueueEnqueueMany")(handle=self.handle, components=values))
        if not self.closed and self.good(values, n):
            self.count += n

    def take_types(self):
        return ([tf.int64] if self.kind == "PriorityQueue" else []) + self.types

    def sorted(self, out):
        return [tf.sort(x) if self.kind == "RandomShuffleQueue" and x.shape.rank != 0 else x for x in out]

    def take(self):
        if self.count < 1 and not self.closed:
            return self.both()
        out = self.op("QueueDequeue")(handle=self.handle, component_types=self.take_types() if self.d.chance(0.97) else [tf.int16])
        if self.kind == "RandomShuffleQueue" and self.count > 1:
            return self.take_all()
        self.run(*out)
        if out[0].dtype != tf.int16:
            self.count = max(self.count - 1, 0)

    def take_all(self):
        self.batch("QueueDequeueMany", self.count)

    def batch(self, name, n):
        out = self.op(name)(handle=self.handle, n=self.feed(np.int32(n)), component_types=self.take_types())
        self.run(*self.sorted(out))
        if self.has_shapes and n >= 0:
            self.count -= n if n <= self.count else self.count if name == "QueueDequeueUpTo" else 0

    def take_many(self):
        n = self.d.int(0, 4) if self.d.chance(0.95) else -1
        if self.kind == "RandomShuffleQueue":
            n = self.count
        if n > self.count and not self.closed and self.has_shapes:
            return self.put()
        self.batch("QueueDequeueMany", n)

    def take_up_to(self):
        if self.kind == "PriorityQueue":
            return self.size()
        n = self.d.int(0, 4) if self.d.chance(0.95) else -1
        if self.kind == "RandomShuffleQueue":
            n = self.count
        if n > self.count and not self.closed and self.has_shapes:
            return self.put()
        self.batch("QueueDequeueUpTo", n)

    def both(self):
        """A dequeue that waits for the enqueue of the same step."""
        values = self.values()
        if not self.good(values):
            return self.size()
        out = self.op("QueueDequeue")(handle=self.handle, component_types=self.take_types())
        self.run(*out, self.op("QueueEnqueue")(handle=self.handle, components=values))

    def size(self):
        self.run(self.op("QueueSize")(handle=self.handle))

    def is_closed(self):
        self.run(self.op("QueueIsClosed")(handle=self.handle))

    def close(self):
        self.run(self.op("QueueClose")(handle=self.handle, cancel_pending_enqueues=self.d.chance(0.5)))
        self.closed = True

    def run_all(self):
        d = self.d
        name = d.op.removesuffix("V2")
        names = ["put", "put", "put_many", "put_many", "take", "take", "take_many", "take_up_to", "size", "is_closed", "close"]
        if name in OPERATIONS:
            names += [OPERATIONS[name]] * 3
        for _ in range(d.int(3, 9)):
            getattr(self, d.one(*names))()


spec(*[k + v for k in KINDS for v in ("", "V2")], *[o + v for o in OPERATIONS for v in ("", "V2")])(program(Queue))


@spec("FakeQueue")
def fake(d):
    class Fake(Queue):
        def make(self):
            self.version = "V2"
            handle = super().make()
            self.version = ""
            return R.FakeQueue(resource=handle)

    return program(Fake)(d)


# ---- accumulators ----


class Accumulator(Steps):
    """A dense or sparse one; a count of good gradients tells what may be taken without waiting."""

    def __init__(self, d):
        super().__init__(d)
        self.is_sparse = d.op.startswith("Sparse")
        self.front = "Resource" if d.op.startswith("Resource") else ""
        maker = "SparseConditionalAccumulator" if self.is_sparse else self.front + "ConditionalAccumulator"
        self.dtype = d.one(*dtypes_of(maker, "dtype"))
        self.shape = d.shape(min_rank=1 if self.is_sparse else 0, max_rank=3, max_dim=4, zero=0.03)
        self.declared = None if d.chance(0.3) else [None if d.chance(0.3) else s for s in self.shape]
        self.step, self.count, self.gathered = 0, 0, None
        self.handle = getattr(R, maker)(dtype=self.dtype, shape=self.declared, reduction_type=d.one("MEAN", "SUM"), **self.name())

    def op(self, name):
        return getattr(R, ("Sparse" if self.is_sparse and "Gradient" in name else self.front) + name)

    def apply(self):
        d = self.d
        step = self.feed(np.int64(self.step + d.one(0, 0, 0, 1, -1)))
        counts = self.feeds[step] >= self.step
        if self.is_sparse:
            return self.apply_sparse(step, counts)
        shape = self.shape if d.chance(0.93) else d.shape(max_rank=3, max_dim=4)
        self.run(self.op("AccumulatorApplyGradient")(handle=self.handle, local_step=step, gradient=self.feed(d.values(self.dtype, shape))))
        fits = tf.TensorShape(self.declared).is_compatible_with(shape) and (self.count == 0 or shape == self.gathered)
        if counts and fits:
            self.count, self.gathered = self.count + 1, shape

    def apply_sparse(self, step, counts):
        """Indices ascend, so that sums are of the same rows."""
        d, declared = self.d, self.declared or [None]
        rows = self.shape[0]
        indices = np.sort(d.rng.permutation(rows)[: d.int(0, rows)]).astype(np.int64)
        wrongs = ["count", "rank"]
        if indices.size and declared[0] is not None:
            wrongs.append("limit")
        if self.declared:
            wrongs.append("shape")
        if len(self.shape) > 1 and (self.count or declared[-1] is not None):
            wrongs.append("row")
        wrong = d.one(*wrongs) if d.chance(0.1) else ""
        if wrong == "limit":
            indices[-1] = rows + 1
        tail = (*self.shape[1:-1], self.shape[-1] + 1) if wrong == "row" else self.shape[1:]
        values = d.values(self.dtype, () if wrong == "rank" else (len(indices) + (wrong == "count"), *tail))
        given = np.asarray(self.shape[1:] if wrong == "shape" else self.shape, np.int64)
        self.run(
            R.SparseAccumulatorApplyGradient(
                handle=self.handle,
                local_step=step,
                gradient_indices=self.feed(indices),
                gradient_values=self.feed(values),
                gradient_shape=self.feed(given),
                has_known_shape=wrong == "shape" or d.chance(0.5),
            )
        )
        self.count += counts and not wrong

    def take(self):
        d = self.d
        n = d.int(1, self.count) if self.count and d.chance(0.95) else d.one(0, -1)
        out = self.op("AccumulatorTakeGradient")(handle=self.handle, num_required=self.feed(np.int32(n)), dtype=self.dtype)
        self.run(*tf.nest.flatten(out))
        if n > 0:
            self.count, self.step = 0, self.step + 1

    def set_step(self):
        self.step += self.d.int(-1, 2)
        self.run(self.op("AccumulatorSetGlobalStep")(handle=self.handle, new_global_step=self.feed(np.int64(self.step))))

    def size(self):
        self.run(self.op("AccumulatorNumAccumulated")(handle=self.handle))

    def run_all(self):
        d = self.d
        names = ["apply", "apply", "apply", "take", "size", "set_step"]
        wanted = next((n for w, n in (("Apply", "apply"), ("Take", "take"), ("SetGlobal", "set_step"), ("NumAcc", "size")) if w in d.op), "apply")
        for _ in range(d.int(2, 7)):
            getattr(self, d.one(*names, wanted, wanted))()
        self.size()


DENSE = [front + op for front in ("", "Resource") for op in ("AccumulatorApplyGradient", "AccumulatorNumAccumulated", "AccumulatorSetGlobalStep", "AccumulatorTakeGradient", "ConditionalAccumulator")]
spec(*DENSE, "SparseAccumulatorApplyGradient", "SparseAccumulatorTakeGradient", "SparseConditionalAccumulator")(program(Accumulator))


# ---- barriers ----


class Barrier(Steps):
    """Keys with the components that they have; a taking that would wait is left out. One new key at a time: the order of
    those that come in together, which have one index, is not defined."""

    def __init__(self, d):
        super().__init__(d)
        self.types = [d.one(*DTYPES) for _ in range(d.int(1, 3))]
        self.shapes = [d.shape(max_rank=2, max_dim=3, zero=0) for _ in self.types]
        shapes = list(self.shapes) if d.chance(0.97) else []
        capacity = -1 if d.chance(0.98) else 3
        self.handle = R.Barrier(component_types=self.types, shapes=shapes, capacity=capacity, **self.name())
        self.keys, self.used, self.closed, self.cancelled = {}, 0, False, False

    def ready(self):
        return sum(len(has) == len(self.types) for has in self.keys.values())

    def insert(self):
        d = self.d
        component = d.int(0, len(self.types) - 1)
        open_keys = [k for k, has in self.keys.items() if component not in has and has]
        fresh = [] if self.closed and d.chance(0.8) else [f"k{self.used}"][: d.int(0, 4)]
        keys = fresh + open_keys[: d.int(0, len(open_keys))]
        again = [k for k, has in self.keys.items() if component in has and len(has) < len(self.types)]
        good = not self.cancelled and not (self.closed and fresh)
        if not good and len(keys) > 1:
            keys = keys[:1]
        if again and d.chance(0.05):
            keys, good = again[:1], False
        shape = (len(keys), *self.shapes[component])
        dtype = self.types[component]
        if d.chance(0.02) and not fresh:
            dtype, good = (tf.uint8 if dtype != tf.uint8 else tf.int8), False
        values = self.feed(d.values(dtype, shape, special=0.05))
        self.run(R.BarrierInsertMany(handle=self.handle, keys=self.feed(np.asarray([k.encode() for k in keys], object)), values=values, component_index=component))
        if not good:
            return
        self.used += len(fresh)
        for k in keys:
            self.keys.setdefault(k, set()).add(component)

    def take(self):
        d = self.d
        ready, fewer = self.ready(), d.chance(0.3)
        n = d.int(1, ready) if ready else 0
        if self.closed and d.chance(0.4):
            n = len(self.keys) + d.int(1, 2)
        if n == 0:
            return self.size()
        out = R.BarrierTakeMany(handle=self.handle, num_elements=self.feed(np.int32(n)), component_types=self.types, allow_small_batch=fewer)
        self.run(*tf.nest.flatten(out))
        if n > ready and not (fewer and self.closed):
            return
        for k in [k for k, has in self.keys.items() if len(has) == len(self.types)][:n]:
            del self.keys[k]

    def size(self):
        self.run(R.BarrierReadySize(handle=self.handle), R.BarrierIncompleteSize(handle=self.handle))

    def close(self):
        if self.closed:  # TensorFlow waits for ever
            return self.size()
        cancels = self.d.chance(0.4)
        self.run(R.BarrierClose(handle=self.handle, cancel_pending_enqueues=cancels))
        self.closed = True
        if cancels:
            self.cancelled = True
            self.keys = {k: has for k, has in self.keys.items() if len(has) == len(self.types)}

    def run_all(self):
        d = self.d
        wanted = {"BarrierTakeMany": "take", "BarrierClose": "close"}.get(d.op, "insert")
        for _ in range(d.int(3, 9)):
            getattr(self, d.one("insert", "insert", "insert", "insert", "take", "size", "close" if d.chance(0.3) else "insert", wanted))()
        self.size()


spec("Barrier", "BarrierClose", "BarrierIncompleteSize", "BarrierInsertMany", "BarrierReadySize", "BarrierTakeMany")(program(Barrier))
