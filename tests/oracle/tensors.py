"""tests/tensor/testdata/tensors.pb: pairs of TensorProtos, one with typed fields, the same with tensor_content, as an AttrValue.ListValue in field 8.

TensorFlow's own decoder says of each pair that both mean the same (types of handles apart, which it does not decode into arrays)."""
import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, tensor_pb2

HERE = "tests/tensor/testdata"
FIELDS = {tf.float32: "float_val", tf.float64: "double_val", tf.int64: "int64_val", tf.bool: "bool_val", tf.uint32: "uint32_val", tf.uint64: "uint64_val",
          tf.complex64: "scomplex_val", tf.complex128: "dcomplex_val", tf.float16: "half_val", tf.bfloat16: "half_val"}
PLAIN = [tf.float32, tf.float64, tf.int32, tf.int16, tf.int8, tf.uint8, tf.uint16, tf.int64, tf.bool, tf.uint32, tf.uint64, tf.complex64, tf.complex128, tf.float16,
         tf.bfloat16, tf.qint8, tf.quint8, tf.qint16, tf.quint16, tf.qint32]
FORMS = [([2, 3], 6), ([2, 3], 4), ([2, 3], 1), ([2, 3], 0), ([], 1), ([0, 3], 0), ([300], 7)]  # shape, how many elements are written: the last one counts for the rest


def proto(dtype, shape):
    t = tensor_pb2.TensorProto(dtype=dtype.as_datatype_enum)
    t.tensor_shape.SetInParent()
    for d in shape:
        t.tensor_shape.dim.add(size=d)
    return t


def plain_pair(dtype, shape, written, random):
    base = {tf.qint8: tf.int8, tf.quint8: tf.uint8, tf.qint16: tf.int16, tf.quint16: tf.uint16, tf.qint32: tf.int32}.get(dtype, dtype)
    values = random.randn(max(written, 1)) * 80
    values = values + 1j * random.randn(len(values)) if base.is_complex else values if base.is_floating else values > 0 if base == tf.bool else \
        np.abs(values) if base.is_unsigned else values
    values = values[:written].astype(base.as_numpy_dtype)
    typed, content = proto(dtype, shape), proto(dtype, shape)
    count = int(np.prod(shape))
    full = np.zeros(count, base.as_numpy_dtype)
    if written:
        full[:written], full[written:] = values, values[-1]
    field = FIELDS.get(dtype, "int_val")
    if field == "half_val":
        values = values.view(np.uint16)
    if base.is_complex:
        values = np.stack([values.real, values.imag], 1).reshape(-1)
    getattr(typed, field).extend(values.tolist())
    content.tensor_content = full.tobytes()
    assert np.array_equal(tf.make_ndarray(typed).astype(full.dtype).reshape(-1), full), (dtype, shape)
    return typed, content


def varint(n):
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)


def string_pairs():
    words = [b"", b"a", b"\0\xff", b"y" * 22, b"x" * 23, b"z" * 300]
    for shape, values, full in (([2, 3], words, words), ([6], words[:2] + [b"x" * 22], words[:2] + [b"x" * 22] * 4), ([2], [], [b"", b""]),
                                ([2], words, words[:2]), ([0], [], [])):
        typed, whole = proto(tf.string, shape), proto(tf.string, shape)
        typed.string_val.extend(values)
        whole.string_val.extend(full)
        yield typed, whole
    coded, whole = proto(tf.string, [2, 3]), proto(tf.string, [2, 3])
    coded.tensor_content = b"".join(varint(len(w)) for w in words) + b"".join(words)
    whole.string_val.extend(words)
    yield coded, whole


def handle_pair():
    """A handle that is not written is an empty one."""
    typed, whole = proto(tf.resource, [2]), proto(tf.resource, [2])
    for t in (typed, whole):
        h = t.resource_handle_val.add(device="/job:ps/task:0/device:CPU:0", container="localhost", name="v", hash_code=2**56 + 5, maybe_type_name="N10tensorflow3VarE")
        d = h.dtypes_and_shapes.add(dtype=tf.float32.as_datatype_enum)
        d.shape.dim.add(size=3)
        d.shape.dim.add(size=-1)
    whole.resource_handle_val.add()
    return typed, whole


def make(root, out):
    random = np.random.RandomState(1)
    pairs = [plain_pair(d, shape, written, random) for d in PLAIN for shape, written in FORMS]
    pairs += [*string_pairs(), handle_pair()]
    (out / HERE / "tensors.pb").write_bytes(attr_value_pb2.AttrValue.ListValue(tensor=[t for pair in pairs for t in pair]).SerializeToString(deterministic=True))
