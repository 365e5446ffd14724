"""tests/kernels/testdata/golden/*.txt: what TensorFlow's kernels compute. A line's op, attributes and inputs are the source; its results are made here."""
import numpy as np
import tensorflow as tf

import one_op
import text

HERE = "tests/kernels/testdata/golden"
CODES = {v: k for k, v in vars(tf.errors).items() if isinstance(v, int) and k.isupper()}
# Of a float's last place TensorFlow's own kernels disagree from one CPU to another: what is as near as this stays as it is written.
NEAR = {tf.float16: 1e-3, tf.bfloat16: 1e-2, tf.float32: 1e-5, tf.complex64: 1e-5, tf.float64: 1e-12, tf.complex128: 1e-12}


def near(written, got, dtype, tolerance):
    """Whether the written array, with None for nothing written, says what was computed."""
    if written is None or written.shape != np.shape(got):
        return False
    if dtype == tf.string:
        return all(w == g for w, g in zip(written.reshape(-1), np.reshape(got, -1)))
    wide = np.complex128 if dtype.is_complex else np.float64 if dtype.is_floating else None
    a, b = (np.asarray(v).astype(wide) if wide else np.asarray(v) for v in (written, got))
    if wide is None:
        return bool((a == b).all())
    return bool(np.allclose(a, b, tolerance, tolerance, equal_nan=True))


def outcome(written, got, tolerance):
    """The text of one run's result; where what is written says the same, that."""
    written = written.strip()
    if isinstance(got, Exception):
        said = getattr(got, "message", None) or str(got)
        code, _, part = written[1:].partition(" ")
        is_same = written.startswith("!") and code == CODES.get(getattr(got, "error_code", 3)) and part in said
        return written if is_same else "!%s %s" % (CODES[getattr(got, "error_code", 3)], said.split("\n")[0])
    old = [] if written.startswith("!") else text.tensors(written)
    if len(old) == len(got) and all(o is None or near(o, v, d, NEAR.get(d, 0) if tolerance is None else tolerance) for o, (v, d) in zip(old, got)):
        return written
    return " ".join("?" if i < len(old) and old[i] is None else text.tensor(np.asarray(v, object if d == tf.string else None), d) for i, (v, d) in enumerate(got))


def made(line):
    if not line or line.startswith("#"):
        return line
    head, inputs, *results = line.split("|")
    words = head.split()
    tolerance = float(words[0][1:]) if words[0].startswith("~") else None
    op = words[tolerance is not None]
    got = one_op.run(op, head.split(op, 1)[1], text.tensors(inputs), len(results))
    return "|".join([head, inputs] + [" %s " % outcome(r, g, tolerance) for r, g in zip(results, got)]).rstrip()


def make(root, out):
    for path in sorted((root / HERE).glob("*.txt")):
        lines = path.read_text(encoding="latin-1").split("\n")
        (out / HERE / path.name).write_text("\n".join(map(made, lines)), encoding="latin-1")
