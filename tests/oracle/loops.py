"""tests/executor/testdata: random graphs of nested conditionals and loops of Switch and Merge, and in expected.txt what TensorFlow computes of each."""
import random

import tensorflow as tf

import one_op

HERE = "tests/executor/testdata"
v1 = tf.compat.v1
GRAPHS, OUTPUTS, DEPTH, LIMIT = 24, 3, 3, 30


def value(r, known, depth):
    """A random expression of int32 scalars over the known ones; loops and conditionals nest up to `depth`."""
    kind = r.choice(["loop", "loop", "cond", "cond", "sum", "leaf"] if depth > 0 else ["sum", "leaf", "leaf"])
    if kind == "leaf":
        return r.choice(known) if r.random() < 0.7 else tf.constant(r.randint(-5, 5))
    if kind == "sum":
        a, b = value(r, known, depth - 1), value(r, known, depth - 1)
        return r.choice([tf.add, tf.subtract, tf.maximum, tf.minimum])(a, b)
    if kind == "cond":
        a, b = r.choice(known), value(r, known, 0)
        return v1.cond(a < b, lambda: tf.identity(value(r, known, depth - 1)), lambda: tf.identity(value(r, known, depth - 1)))
    turns, carried, out = r.randint(0, 4), r.randint(1, 3), None
    start = [tf.identity(value(r, known, 0)) for _ in range(carried)]

    def body(i, *values):
        inner = known + [i, *values]
        return [i + 1] + [tf.clip_by_value(value(r, inner, depth - 1), -LIMIT, LIMIT) if k == 0 or r.random() < 0.5 else values[k] - i for k in range(carried)]

    out = v1.while_loop(lambda i, *_: i < turns, body, [tf.constant(0), *start], parallel_iterations=r.choice([1, 2, 10]))
    return r.choice(out)


def make(root, out):
    lines = ["# Graphs of nested conditionals and loops, each with what TensorFlow computes: file, then output=int32 value."]
    for seed in range(GRAPHS):
        r, name = random.Random(seed), "loops_%02d.pb" % seed
        with tf.Graph().as_default() as graph:
            known = [tf.constant(r.randint(-5, 5)) for _ in range(3)]
            results = [tf.clip_by_value(value(r, known, DEPTH), -LIMIT, LIMIT) for _ in range(OUTPUTS)]
            (out / HERE / name).write_bytes(graph.as_graph_def().SerializeToString(deterministic=True))
            with v1.Session(config=one_op.config()) as sess:
                lines.append(" ".join([name] + ["%s=%d" % (t.name, v) for t, v in zip(results, sess.run(results))]))
    (out / HERE / "expected.txt").write_text("\n".join(lines) + "\n")
