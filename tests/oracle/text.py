"""Tensors, attributes and shapes as the text tables of the C tests write them (tests/kernels/harness.h, tests/ops/shape_inference_test.c)."""
import re

import numpy as np
import tensorflow as tf

DTYPES = {d.name: d for d in (tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.uint32, tf.uint64,
                              tf.bool, tf.complex64, tf.complex128, tf.string, tf.resource, tf.variant)}
DTYPES |= {"half": tf.float16, "float": tf.float32, "double": tf.float64}
NAMES = {tf.float16: "half", tf.float32: "float", tf.float64: "double"}
ELEMENT = re.compile(r"'((?:[^'\\]|\\.)*)'|[^,\s|]+")
TENSOR = re.compile(r"(\w+)\[([-\d,]*)\](:?)")


def dtype_of(word):
    """"float" or "float_ref" as a dtype."""
    return DTYPES[word[:-4]]._as_ref if word.endswith("_ref") else DTYPES[word]


def unescape(text):
    return re.sub(rb"\\(x[0-9a-fA-F]{2}|.)", lambda m: bytes([int(m[1][1:], 16)]) if m[1][:1] == b"x" else {b"n": b"\n", b"t": b"\t"}.get(m[1], m[1]),
                  text.encode("latin-1"))


def escape(value):
    return "".join(c if 32 <= ord(c) < 127 and c not in "'\\" else "\\" + c if c in "'\\" else "\\x%02x" % ord(c) for c in value.decode("latin-1"))


def element(word, quoted, dtype):
    if dtype == tf.string:
        return unescape(quoted)
    if dtype.is_complex:
        real, imaginary = word.rsplit(":", 1)
        return complex(float(real), float(imaginary))
    if dtype.is_floating:
        return float(word)
    return bool(int(word)) if dtype == tf.bool else int(word)


def tensors(text):
    """Arrays of "float[2]:1,2 string[]:'a'"; None for "?"."""
    found, at = [], 0
    text = text.strip()
    while at < len(text):
        if text[at] in "? ":
            found += [None] if text[at] == "?" else []
            at += 1
            continue
        m = TENSOR.match(text, at)
        dtype, shape, at = DTYPES[m[1]], [int(d) for d in m[2].split(",") if d], m.end()
        values = []
        while m[3] and at < len(text) and text[at] != " ":
            e = ELEMENT.match(text, at)
            values.append(element(e[0], e[1], dtype))
            at = e.end() + (text[e.end():e.end() + 1] == ",")
        array = np.empty(len(values), dtype.as_numpy_dtype)
        for i, v in enumerate(values):
            with np.errstate(all="ignore"):
                array[i] = v
        found.append(array.reshape(shape))
    return found


def number(value, dtype):
    """The shortest text that reads back as the same element."""
    if dtype.is_complex:
        part = tf.float32 if dtype == tf.complex64 else tf.float64
        return number(part.as_numpy_dtype(value.real), part) + ":" + number(part.as_numpy_dtype(value.imag), part)
    if dtype == tf.string:
        return "'" + escape(value if isinstance(value, bytes) else value.encode()) + "'"
    if dtype.is_floating:
        if not np.isfinite(float(value)):
            return str(float(value))
        wide = np.float32(value) if dtype == tf.bfloat16 else value
        digits = next((d for d in range(1, 9) if dtype.as_numpy_dtype(float("%.*g" % (d, wide))) == value), None) if dtype == tf.bfloat16 else None
        text = "%.*g" % (digits, wide) if digits else np.format_float_positional(wide, unique=True, trim="-") if 1e-5 <= abs(float(wide)) < 1e16 else repr(wide.item())
        return "0" if float(value) == 0 and not np.signbit(wide) else "-0" if float(value) == 0 else text
    return str(int(value))


def tensor(array, dtype=None):
    dtype = dtype or tf.as_dtype(array.dtype if array.dtype != object else tf.string)
    head = "%s[%s]" % (NAMES.get(dtype, dtype.name), ",".join(map(str, array.shape)))
    return head + ":" * bool(array.size) + ",".join(number(v, dtype) for v in array.reshape(-1))


def shape(text):
    """"[2,?]" as a TensorShape; "?" as an unknown one."""
    return tf.TensorShape(None) if text == "?" else tf.TensorShape([None if d in "?" else int(d) for d in text[1:-1].split(",") if d])


def attribute_words(text):
    """{"k": "v"} of "k=v k='two words'"."""
    return {m[1]: m[2] for m in re.finditer(r"(\w+)=((?:'(?:[^'\\]|\\.)*'|\[[^\]]*\]|[^\s])*)", text)}


def attribute(word, kind):
    """The value of an attribute, for op_def_library."""
    if kind.startswith("list("):
        inner = kind[5:-1]
        return [attribute(w, inner) for w in re.findall(r"\[[^\]]*\]|'[^']*'|[^, \[\]]+", word[1:-1])]
    if kind == "int":
        return int(word)
    if kind == "float":
        return float(word)
    if kind == "bool":
        return word == "true"
    if kind == "type":
        return DTYPES[word]
    if kind == "shape":
        return shape(word)
    if kind == "string":
        return unescape(word[1:-1] if word.startswith("'") else word)
    raise ValueError("an attribute of kind " + kind)
