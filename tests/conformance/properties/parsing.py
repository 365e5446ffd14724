"""Specs of examples, CSV, tensors and raw bytes: ops/parsing.def.

Left out: a key that is asked for twice, of which TensorFlow finds neither; and variable-length features whose rows
have no elements, where TensorFlow divides by zero. What follows an empty gzip member is not read by TensorFlow.
"""

import gzip
import zlib

import numpy as np
import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

from draw import spec
from opcase import C

INT, FLOAT, TEXT = tf.int64, tf.float32, tf.string


def texts(values, shape=None):
    """An array of byte strings; numpy's own type for them loses zeros at the end."""
    values = list(values)
    a = np.empty(len(values), object)
    a[:] = values
    return a.reshape(shape if shape is not None else (len(values),))


# ---- raw bytes ----


def some_bytes(d, n):
    return d.rng.integers(0, 256, n, dtype=np.uint8).tobytes()


RAW_TYPES = (tf.half, tf.float32, tf.float64, tf.int32, tf.uint16, tf.uint8, tf.int16, tf.int8, tf.int64, tf.bfloat16)


@spec("DecodeRaw")
def decode_raw(d):
    dtype = d.one(*RAW_TYPES, tf.complex64, tf.complex128, tf.bool)
    shape = d.shape(max_rank=3, max_dim=4)
    n = int(np.prod(shape))
    length = d.int(0, 5) * dtype.size + (1 if d.chance(0.1) else 0)
    values = [some_bytes(d, length) if dtype != tf.bool else bytes(d.int(0, 1) for _ in range(length)) for _ in range(n)]
    if n and d.chance(0.05):
        values[d.int(0, n - 1)] += b"x"
    return C(d.op, texts(values, shape), out_type=dtype, little_endian=d.chance(0.6))


@spec("DecodePaddedRaw")
def decode_padded_raw(d):
    dtype = d.one(*RAW_TYPES)
    shape = d.shape(max_rank=3, max_dim=4)
    values = [some_bytes(d, d.int(0, 30)) for _ in range(int(np.prod(shape)))]
    length = d.int(1, 5) * dtype.size
    if d.chance(0.15):
        length = d.one(0, -1, -8, length + 1)
    length = np.int32(length) if d.chance(0.95) else np.asarray([length], np.int32)
    return C(d.op, texts(values, shape), length, out_type=dtype, little_endian=d.chance(0.6))


@spec("DecodeCompressed")
def decode_compressed(d):
    kind = d.one("ZLIB", "GZIP", "ZLIB", "GZIP", "", "SNAPPY" if d.chance(0.2) else "")

    def one():
        plain = some_bytes(d, d.int(0, 20)) * d.one(1, 3, 1, 20000)
        data = gzip.compress(plain, mtime=0) if kind == "GZIP" else zlib.compress(plain)
        if plain and d.chance(0.2):
            data += gzip.compress(b"more", mtime=0) if kind == "GZIP" else zlib.compress(b"more")
        if d.chance(0.05):
            data = data[: d.int(0, len(data))]
        return d.one(b"", b"no data", data + b"?") if d.chance(0.05) else data

    shape = d.shape(max_rank=2, max_dim=3)
    return C(d.op, texts((one() for _ in range(int(np.prod(shape)))), shape), compression_type=kind)


# ---- tensors ----

TENSOR_TYPES = (tf.float32, tf.float64, tf.int32, tf.uint8, tf.int16, tf.int8, tf.int64, tf.string, tf.bool, tf.half, tf.bfloat16, tf.complex64, tf.complex128, tf.uint16, tf.uint32, tf.uint64)


@spec("SerializeTensor")
def serialize_tensor(d):
    return C(d.op, d.values(d.one(*TENSOR_TYPES), d.shape()))


@spec("ParseTensor")
def parse_tensor(d):
    dtype = d.one(*TENSOR_TYPES)
    value = d.values(dtype, d.shape())
    proto = tf.make_tensor_proto(value, dtype) if d.chance(0.5) else None
    data = proto.SerializeToString() if proto is not None else tf.io.serialize_tensor(tf.constant(value, dtype)).numpy()
    if d.chance(0.1):
        data = d.one(b"", b"x", data[:-1], b"\x08\x01", b"\x08\x63")
    data = texts([data], ())
    return C(d.op, data if d.chance(0.95) else data.reshape(1), out_type=dtype if d.chance(0.9) else tf.float32)


# ---- CSV ----


def csv_field(d, dtype, delimiter, quotes):
    if d.chance(0.1):
        return d.one("", "NA")
    if dtype == tf.string:
        word = d.one("a", "hello world", " x ", "1.5", "é", 'say ""hi""', "a,b", "a;b", "two\nlines")
        if quotes and (d.chance(0.3) or any(c in word for c in ',;"\n')):
            return f'"{word}"'
        return "".join(c for c in word if c not in '"\n' + delimiter)
    if dtype.is_integer:
        text = str(d.one(0, 1, -7, 123456, 2**31 - 1, -(2**31), 2**31 if d.chance(0.1) else 5))
    else:
        text = d.one("0", "1.5", "-2.25e3", "1e-40", "1e39", "3", ".5", "inf", "-inf", "nan", "1e400")
    if d.chance(0.1):
        text = f" {text} "
    if quotes and d.chance(0.1):
        text = f'"{text}"'
    return d.one("x", "1 2", "--1", "1.5.2") if d.chance(0.01) else text


@spec("DecodeCSV")
def decode_csv(d):
    num = d.int(1, 5)
    types = [d.one(tf.float32, tf.float64, tf.int32, tf.int64, tf.string) for _ in range(num)]
    delimiter, quotes = d.one(",", ",", ";", "\t"), d.chance(0.75)
    shape = d.shape(max_rank=3, max_dim=4)

    def record():
        fields = [csv_field(d, t, delimiter, quotes) for t in types]
        text = delimiter.join(fields) + d.one("", "", "\n", "\r\n")
        if d.chance(0.03):
            text = d.one("", text + delimiter, delimiter + text, 'a"b', '"a', '"a"b', '"a""', "\n\n" + text, '"')
        return text.encode()

    records = texts((record() for _ in range(int(np.prod(shape)))), shape)
    columns = [i for i in range(num) if d.chance(0.6)] if d.chance(0.3) else []
    types = [types[i] for i in columns] or types
    if d.chance(0.03):
        columns = d.one([1, 0], [-1], [0, 0], [0, 7])
    defaults = [d.values(t, () if d.chance(0.3) else (1,) if d.chance(0.8) else (0,), low=0, high=9) for t in types]
    if d.chance(0.03):
        defaults[0] = d.one(np.zeros((1, 1), np.float32), np.zeros(2, np.float32))
    attrs = dict(field_delim=delimiter if d.chance(0.98) else d.one("", "ab"), use_quote_delim=quotes, na_value=d.one("", "NA"))
    return C(d.op, records, defaults, select_cols=columns, **attrs)


# ---- examples ----

KEYS = ["a", "b", "c", "dense", "é", ""]


def feature_values(d, dtype, n):
    if dtype == TEXT:
        return [d.one(b"", b"x", b"hello", b"\xff\x00", b"long" * 10) for _ in range(n)]
    return [v.item() for v in d.values(dtype, (n,))]


def feature(d, dtype, n):
    f = tf.train.Feature()
    values = feature_values(d, dtype, n)
    if dtype == TEXT:
        f.bytes_list.value.extend(values)
    elif dtype == FLOAT:
        f.float_list.value.extend(values)
    else:
        f.int64_list.value.extend(values)
    if not n:
        f.SetInParent()
        getattr(f, {TEXT: "bytes_list", FLOAT: "float_list", INT: "int64_list"}[dtype]).SetInParent()
    if d.chance(0.03):
        return tf.train.Feature()
    return f


def unpacked(dtype, values):
    """The list of a feature with its numbers one by one, as the first writers wrote it."""
    if dtype == INT:
        body = b"".join(b"\x08" + varint(v) for v in values)
        return b"\x1a" + varint(len(body)) + body
    body = b"".join(b"\x0d" + np.float32(v).tobytes() for v in values)
    return b"\x12" + varint(len(body)) + body


def varint(v):
    v &= 2**64 - 1
    out = bytearray()
    while v > 127:
        out.append(v & 127 | 128)
        v >>= 7
    return bytes(out + bytes([v]))


def block(tag, data):
    return bytes([tag]) + varint(len(data)) + data


def features_message(d, features):
    """{key: Feature} as the bytes of a Features message: entries in any order, keys twice, unknown keys."""
    entries = []
    for key, f in features.items():
        data = f.SerializeToString()
        if d.chance(0.1) and f.WhichOneof("kind") in ("int64_list", "float_list"):
            which = f.WhichOneof("kind")
            data = unpacked(INT if which == "int64_list" else FLOAT, getattr(f, which).value)
        pair = [block(0x0A, key.encode()), block(0x12, data)]
        entries.append(block(0x0A, b"".join(pair if d.chance(0.8) else pair[::-1])))
        if d.chance(0.03):
            entries.append(entries[0])
    if d.chance(0.2):
        entries.append(block(0x0A, block(0x0A, b"other") + block(0x12, feature(d, INT, 1).SerializeToString())))
    d.rng.shuffle(entries)
    return b"".join(entries)


def spoiled(d, data, p=0.03):
    """Broken bytes now and then; TensorFlow's client can show only errors that are UTF-8."""
    if not data or not d.chance(p) or not is_text(data):
        return data
    at = d.int(0, len(data) - 1)
    bad = d.one(data[:at], data + b"\x00", data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], b"\x12\x01x" + data, b"\x18\x05" + data, b"no example")
    return bad if is_text(bad) else data


def is_text(data):
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


class Wanted:
    """A feature that a case asks for."""

    def __init__(self, d, key, ragged=False):
        self.key, self.dtype = key, d.one(INT, FLOAT, TEXT)
        self.kind = d.one("dense", "sparse", "ragged" if ragged else "variable", "variable")
        inner = tuple(d.int(1, 3) for _ in range(d.int(0, 2)))
        if self.kind == "dense" and d.chance(0.05):
            inner += (0,)
        self.shape = (None, *inner) if self.kind == "variable" else inner
        self.stride = int(np.prod(inner, dtype=np.int64))
        self.splits = d.one(tf.int32, tf.int64)

    def size(self, d):
        if self.kind == "dense":
            return self.stride if d.chance(0.99) else self.stride + d.one(1, -1 if self.stride else 0)
        if self.kind == "variable":
            return self.stride * d.int(0, 3) + (1 if d.chance(0.01) else 0)
        return d.int(0, 4)

    def default(self, d):
        if self.kind == "variable":
            shape = d.one((), (1,), (1, 1)) if d.chance(0.98) else (0,)
        else:
            shape = self.shape if d.chance(0.9) else (0,)
            if d.chance(0.02):
                shape = (*self.shape, 2)
        return d.values(self.dtype, shape)


def wanted_features(d, ragged=False):
    keys = list(d.rng.permutation(KEYS))[: d.int(0, 5)]
    return [Wanted(d, str(k), ragged) for k in keys]


def example(d, wanted):
    features = {}
    for w in wanted:
        if d.chance(0.1):
            continue
        dtype = w.dtype if d.chance(0.995) else d.one(INT, FLOAT, TEXT)
        features[w.key] = feature(d, dtype, w.size(d))
    data = block(0x0A, features_message(d, features)) if features or d.chance(0.5) else b""
    return spoiled(d, data)


def of_kind(wanted, *kinds):
    return [w for w in wanted if w.kind in kinds]


def keys(wanted):
    return texts(w.key.encode() for w in wanted)


@spec("ParseExample")
def parse_example(d):
    wanted = wanted_features(d)
    dense, sparse = of_kind(wanted, "dense", "variable"), of_kind(wanted, "sparse")
    n = d.one(0, 1, 2, 5, 40)
    serialized = texts(example(d, wanted) for _ in range(n))
    names = texts((b"e%d" % i for i in range(n if d.chance(0.95) else n + 1)) if d.chance(0.3) else [])
    scalars = [[texts([w.key.encode()], ()) for w in part] for part in (sparse, dense)]
    if d.chance(0.03):
        serialized = serialized.reshape(1, -1)
    return C(d.op, serialized, names, *scalars, [w.default(d) for w in dense], sparse_types=[w.dtype for w in sparse], dense_shapes=[w.shape for w in dense])


@spec("ParseExampleV2")
def parse_example_v2(d):
    wanted = wanted_features(d, ragged=True)
    dense, sparse, ragged = of_kind(wanted, "dense", "variable"), of_kind(wanted, "sparse"), of_kind(wanted, "ragged")
    n = d.one(0, 1, 2, 5, 40)
    serialized = texts(example(d, wanted) for _ in range(n))
    names = texts((b"e%d" % i for i in range(n if d.chance(0.95) else n + 1)) if d.chance(0.3) else [])
    if n == 1 and d.chance(0.8):
        serialized, names = serialized.reshape(()), texts([])
    if d.chance(0.03):
        serialized = serialized.reshape(1, -1)
    key_lists = [keys(part) for part in (sparse, dense, ragged)]
    if d.chance(0.03):
        key_lists[d.int(0, 2)] = texts([b"more"] * d.int(1, 4))
    attrs = dict(ragged_value_types=[w.dtype for w in ragged], ragged_split_types=[w.splits for w in ragged])
    return C(d.op, serialized, names, *key_lists, [w.default(d) for w in dense], num_sparse=len(sparse), sparse_types=[w.dtype for w in sparse], dense_shapes=[w.shape for w in dense], **attrs)


@spec("ParseSingleExample")
def parse_single_example(d):
    wanted = wanted_features(d)
    dense, sparse = of_kind(wanted, "dense", "variable"), of_kind(wanted, "sparse")
    serialized = texts([example(d, wanted)], () if d.chance(0.97) else (1,))
    attrs = dict(sparse_keys=[w.key for w in sparse], dense_keys=[w.key for w in dense], sparse_types=[w.dtype for w in sparse])
    return C(d.op, serialized, [w.default(d) for w in dense], num_sparse=len(sparse), dense_shapes=[w.shape for w in dense], **attrs)


# ---- sequence examples ----


class WantedPart:
    """A feature of the context, or a list of features, that a case asks for."""

    def __init__(self, d, key, is_list, ragged):
        self.key, self.is_list, self.dtype = key, is_list, d.one(INT, FLOAT, TEXT)
        self.kind = d.one("dense", "sparse", "ragged" if ragged else "sparse")
        self.shape = tuple(d.int(1, 3) for _ in range(d.int(0, 2)))
        self.stride = int(np.prod(self.shape, dtype=np.int64))
        self.splits = d.one(tf.int32, tf.int64)
        self.may_lack = d.chance(0.85)

    def size(self, d):
        if self.kind == "dense":
            return self.stride if d.chance(0.995) else self.stride + 1
        return d.int(0, 4)

    def default(self, d):
        shape = self.shape if d.chance(0.9) else (0,)
        return d.values(self.dtype, (*self.shape, 2) if d.chance(0.02) else shape)

    def feature(self, d):
        if self.kind != "dense" and d.chance(0.1):
            return tf.train.Feature()
        dtype = self.dtype if d.chance(0.998) else d.one(INT, FLOAT, TEXT)
        f = feature(d, dtype, self.size(d))
        return f if f.WhichOneof("kind") or self.kind != "dense" else feature(d, dtype, self.size(d))


def wanted_parts(d, ragged=False):
    context, lists = (list(d.rng.permutation(KEYS))[: d.int(0, 4)] for _ in range(2))
    return [WantedPart(d, str(k), False, ragged) for k in context] + [WantedPart(d, str(k), True, ragged) for k in lists]


def sequence_example(d, wanted):
    e = tf.train.SequenceExample()
    for w in wanted:
        if d.chance(0.1 if w.kind != "dense" else 0.03):
            continue
        if not w.is_list:
            e.context.feature[w.key].CopyFrom(w.feature(d))
            continue
        e.feature_lists.feature_list[w.key].SetInParent()
        for _ in range(d.int(0, 4)):
            e.feature_lists.feature_list[w.key].feature.add().CopyFrom(w.feature(d))
    if d.chance(0.2):
        e.context.feature["other"].int64_list.value.append(1)
        e.feature_lists.feature_list["other"].feature.add()
    data = e.SerializeToString()
    if d.chance(0.05):
        data += d.one(b"\x18\x05", b"\x22\x01x")
    return data


def parts(wanted, is_list, kind):
    return [w for w in wanted if w.is_list == is_list and w.kind == kind]


def types(wanted):
    return [w.dtype for w in wanted]


def sequence_attrs(cs, cd, fs, fd):
    return dict(
        Ncontext_sparse=len(cs), Nfeature_list_sparse=len(fs), Nfeature_list_dense=len(fd), context_sparse_types=types(cs), feature_list_dense_types=types(fd), feature_list_sparse_types=types(fs), context_dense_shapes=[w.shape for w in cd], feature_list_dense_shapes=[w.shape for w in fd]
    )


def sequence_batch(d, wanted, scalar=0.2):
    n = d.one(0, 1, 2, 5)
    serialized = texts(sequence_example(d, wanted) for _ in range(n))
    names = texts((b"e%d" % i for i in range(n)) if d.chance(0.3) else [])
    if n == 1 and d.chance(scalar * 3):
        serialized = serialized.reshape(())
    return serialized if d.chance(0.97) else serialized.reshape(1, -1), names


@spec("ParseSequenceExample")
def parse_sequence(d):
    wanted = wanted_parts(d)
    cs, cd, fs, fd = (parts(wanted, is_list, kind) for is_list in (False, True) for kind in ("sparse", "dense"))
    serialized, names = sequence_batch(d, wanted)
    attrs = sequence_attrs(cs, cd, fs, fd)
    attrs.update(Ncontext_dense=len(cd), context_sparse_keys=[w.key for w in cs], context_dense_keys=[w.key for w in cd], feature_list_sparse_keys=[w.key for w in fs], feature_list_dense_keys=[w.key for w in fd])
    attrs["feature_list_dense_missing_assumed_empty"] = [w.key for w in fd if w.may_lack]
    return C(d.op, serialized, names, [w.default(d) for w in cd], **attrs)


@spec("ParseSequenceExampleV2")
def parse_sequence_v2(d):
    """Without ragged features of a single example, whose splits TensorFlow does not set."""
    wanted = wanted_parts(d, ragged=True)
    cs, cd, cr, fs, fd, fr = (parts(wanted, is_list, kind) for is_list in (False, True) for kind in ("sparse", "dense", "ragged"))
    serialized, names = sequence_batch(d, wanted, scalar=0 if cr or fr else 0.2)
    key_lists = [keys(part) for part in (cs, cd, cr, fs, fd, fr)]
    if d.chance(0.03):
        key_lists[d.int(0, 5)] = texts([b"more"] * 7)
    attrs = sequence_attrs(cs, cd, fs, fd)
    attrs.update(context_ragged_value_types=types(cr), context_ragged_split_types=[w.splits for w in cr], feature_list_ragged_value_types=types(fr), feature_list_ragged_split_types=[w.splits for w in fr])
    lacking = np.asarray([w.may_lack for w in fd], bool)
    return C(d.op, serialized, names, *key_lists, lacking, [w.default(d) for w in cd], **attrs)


@spec("ParseSingleSequenceExample")
def parse_single_sequence(d):
    wanted = wanted_parts(d)
    cs, cd, fs, fd = (parts(wanted, is_list, kind) for is_list in (False, True) for kind in ("sparse", "dense"))
    serialized = texts([sequence_example(d, wanted)], () if d.chance(0.97) else (1,))
    lacking = texts(w.key.encode() for w in fd if w.may_lack)
    scalars = [[texts([w.key.encode()], ()) for w in part] for part in (cs, cd, fs, fd)]
    attrs = sequence_attrs(cs, cd, fs, fd)
    for name in ("Ncontext_sparse", "Nfeature_list_sparse", "Nfeature_list_dense"):
        del attrs[name]
    return C(d.op, serialized, lacking, *scalars, [w.default(d) for w in cd], texts([d.one(b"", b"name")], ()), **attrs)


# ---- edit distance ----


def sequences(d, dtype, shape):
    """Indices, values and shape of a sparse tensor of sequences."""
    rows = [i for i in np.ndindex(*shape[:-1]) if d.chance(0.8)]
    indices = [(*row, k) for row in rows for k in range(d.int(0, shape[-1]))]
    indices = np.asarray(indices, np.int64).reshape(-1, len(shape))
    values = d.values(dtype, (len(indices),), low=0, high=2)
    if len(indices) and d.chance(0.03):
        indices[d.int(0, len(indices) - 1), d.int(0, len(shape) - 1)] = d.one(-1, 100)
    if d.chance(0.03):
        return d.one((indices, values, np.asarray(shape[:-1], np.int64)), (indices, values[:-1] if len(values) else np.zeros(2, values.dtype), np.asarray(shape, np.int64)), (indices, values, np.asarray(shape, np.int64) - 1))
    return indices, values, np.asarray(shape, np.int64)


@spec("EditDistance")
def edit_distance(d):
    dtype = d.one(tf.int64, tf.int32, tf.float32, tf.string, tf.int8, tf.float64, tf.bool, tf.half)
    shape = tuple(d.int(1, 4) for _ in range(d.int(1, 3))) + (d.int(1, 8),)
    if d.chance(0.03):
        shape = d.one(shape[-1:], (0, 3))
    other = (*shape[:-1], d.int(1, 8)) if d.chance(0.9) else tuple(s + d.int(0, 2) for s in shape)
    return C(d.op, *sequences(d, dtype, shape), *sequences(d, dtype, other), normalize=d.chance(0.6))


# ---- messages by their descriptors ----

FIELD = descriptor_pb2.FieldDescriptorProto
FIELD_TYPES = {  # name: its type, and the dtypes that hold it
    "double": (FIELD.TYPE_DOUBLE, [tf.float64]),
    "float": (FIELD.TYPE_FLOAT, [tf.float32, tf.float64]),
    "int64": (FIELD.TYPE_INT64, [tf.int64]),
    "uint64": (FIELD.TYPE_UINT64, [tf.uint64]),
    "int32": (FIELD.TYPE_INT32, [tf.int32, tf.int64]),
    "fixed64": (FIELD.TYPE_FIXED64, [tf.uint64]),
    "fixed32": (FIELD.TYPE_FIXED32, [tf.uint32, tf.uint64]),
    "bool": (FIELD.TYPE_BOOL, [tf.bool]),
    "string": (FIELD.TYPE_STRING, [tf.string]),
    "bytes": (FIELD.TYPE_BYTES, [tf.string]),
    "uint32": (FIELD.TYPE_UINT32, [tf.uint32, tf.uint64]),
    "sfixed32": (FIELD.TYPE_SFIXED32, [tf.int32, tf.int64]),
    "sfixed64": (FIELD.TYPE_SFIXED64, [tf.int64]),
    "sint32": (FIELD.TYPE_SINT32, [tf.int32, tf.int64]),
    "sint64": (FIELD.TYPE_SINT64, [tf.int64]),
    "enum": (FIELD.TYPE_ENUM, [tf.int32]),
    "message": (FIELD.TYPE_MESSAGE, [tf.string]),
}
DEFAULTS = {"double": "-2.5", "float": "1.25", "int64": "-7", "uint64": "9", "int32": "-3", "bool": "true", "string": "abc", "bytes": "\\001x", "uint32": "6", "sint32": "-1", "enum": "E2"}


def message_file():
    """A proto2 file: message M has for each type a single field, a repeated and a packed one, and some with defaults."""
    file = descriptor_pb2.FileDescriptorProto(name="weft_m.proto", package="weft.test", syntax="proto2")
    enum = file.enum_type.add(name="E")
    for i, name in enumerate(["E1", "E2", "E3"]):
        enum.value.add(name=name, number=3 - i)
    m = file.message_type.add(name="M")
    number = 0
    for name, (kind, _) in FIELD_TYPES.items():
        for label, suffix in [(FIELD.LABEL_OPTIONAL, "1"), (FIELD.LABEL_REPEATED, "n"), (FIELD.LABEL_REPEATED, "p"), (FIELD.LABEL_OPTIONAL, "d")]:
            if (suffix == "p" and name in ("string", "bytes", "message")) or (suffix == "d" and name not in DEFAULTS):
                continue
            number += 1
            f = m.field.add(name=f"{name}_{suffix}", number=number if number < 30 else number * 50, label=label, type=kind)
            if suffix == "p":
                f.options.packed = True
            if suffix == "d":
                f.default_value = DEFAULTS[name]
            if name in ("enum", "message"):
                f.type_name = ".weft.test.E" if name == "enum" else ".weft.test.M"
    return file


FILE = message_file()
SET = descriptor_pb2.FileDescriptorSet(file=[FILE]).SerializeToString()
POOL = descriptor_pool.DescriptorPool()
POOL.Add(FILE)
MESSAGE = message_factory.GetMessageClass(POOL.FindMessageTypeByName("weft.test.M"))
FIELDS = {f.name: f for f in FILE.message_type[0].field}


def field_kind(name):
    return name.rsplit("_", 1)[0]


def field_value(d, kind):
    if kind in ("double", "float"):
        return d.one(0.0, 1.5, -3.25, float("inf"), 1e30)
    if kind == "bool":
        return d.chance(0.5)
    if kind == "string":
        return d.one("", "abc", "é", "x" * 30)
    if kind == "bytes":
        return d.one(b"", b"abc", b"\xff\x00", b"x" * 30)
    if kind == "enum":
        return d.int(1, 3)
    bits = 64 if kind.endswith("64") else 32
    if kind.startswith(("u", "fixed")):
        return d.one(0, 1, 300, 2**bits - 1)
    return d.one(0, 1, -1, 300, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)))


def message(d, depth=0):
    m = MESSAGE()
    for name in d.rng.choice(sorted(FIELDS), d.int(0, 8)):
        kind = field_kind(name)
        repeated = FIELDS[name].label == FIELD.LABEL_REPEATED
        if kind == "message":
            if depth < 2:
                for _ in range(d.int(1, 2) if repeated else 1):
                    (getattr(m, name).add() if repeated else getattr(m, name)).CopyFrom(message(d, depth + 1))
        elif repeated:
            getattr(m, name).extend(field_value(d, kind) for _ in range(d.int(0, 4)))
        else:
            setattr(m, name, field_value(d, kind))
    return m


def wire(d):
    """A serialized message; now and then two of them, one behind the other, or broken bytes."""
    text = message(d).SerializeToString()
    if d.chance(0.1):
        text += b"\x92\x92\x01\x02xy"  # a field that the descriptor lacks
    if d.chance(0.04) and text:
        text = d.one(text[:-1], text + b"\x0f", text + b"\x00", b"\xff" + text)
    return text


def wanted_fields(d, names):
    picked = [str(n) for n in d.rng.choice(names, d.int(1, 6), replace=False)]
    return picked, [d.one(*FIELD_TYPES[field_kind(n)][1]) for n in picked]


def message_text(d):
    """A message in text format, as its printer writes it or as people do; now and then none."""
    text = text_format.MessageToString(message(d), as_one_line=d.chance(0.3), pointy_brackets=d.chance(0.2), use_short_repeated_primitives=d.chance(0.3))
    if d.chance(0.3):
        odd = ["int64_n: [1, -2,0x10]", "int32_1: 017", "string_1: 'a' \"b\\n\\101\\x41\"", "bool_1: t;", "float_1: 1.5f,", "double_n: -inf double_n: nan", "message_1 <>", "message_1: { enum_1: E2 }", "enum_1: 2", "# nothing", "uint64_1: 18446744073709551615", "bytes_1: '\\xff\\000'"]
        wrong = ["x: 1", "int64_1: 'a'", "int64_1 5", "int32_1: 4294967296", "uint32_1: -1", "message_1 {", "}", "int64_1: 1 int64_1: 2", "enum_1: E9", "enum_1: 9", "enum_n: [1, -7]", "bool_1: 2", "string_1: 'a", "double_1: 1e", "[a.b]: 1"]
        text += d.one(" ", "\n") + (d.one(*odd) if d.chance(0.7) else d.one(*wrong))
    return text.encode()


@spec("DecodeProtoV2")
def decode_proto(d):
    """Fields are in the order of their numbers: TensorFlow gives one that is not to another field. Of defaults of
    unsigned fields it keeps eight bits."""
    shape = d.shape(0, 2, 3)
    n = int(np.prod(shape, dtype=int))
    source, kind = b"bytes://" + SET, "weft.test.M"
    names, types = wanted_fields(d, sorted(FIELDS))
    form = d.one("binary", "binary", "text")
    values = [wire(d) if form == "binary" else message_text(d) for _ in range(n)]
    if form == "binary" and d.chance(0.1):
        source, kind, names, types = b"local://", "tensorflow.TensorShapeProto", ["unknown_rank", "dim"], [tf.bool, tf.string]
        values = [tf.TensorShape([d.int(0, 9)] * d.int(0, 3)).as_proto().SerializeToString() for _ in range(n)]
    if d.chance(0.08):
        wrong = d.int(0, 4)
        source = b"bytes://\n\x7f" if wrong == 0 else source
        kind = "weft.test.N" if wrong == 1 else kind
        names[0] = "nothing" if wrong == 2 else names[0]
        types[0] = tf.complex64 if wrong == 3 else types[0]
        source = b"nothing" if wrong == 4 else source
    return C(d.op, texts(values, shape), message_type=kind, field_names=names, output_types=types, descriptor_source=source, message_format=form if d.chance(0.98) else "json", sanitize=d.chance(0.3))


@spec("EncodeProto")
def encode_proto(d):
    shape = d.shape(1, 2, 3)
    names, types = wanted_fields(d, [n for n in sorted(FIELDS) if field_kind(n) != "message"])
    values, most = [], []
    for name, dtype in zip(names, types):
        width = d.int(0, 3)
        most.append(width)
        values.append(d.values(dtype, (*shape, width), special=0.2) if dtype != tf.string else d.texts((*shape, width), ["", "abc", "x" * 30]))
    sizes = np.stack([d.rng.integers(0, w + 1, shape) for w in most], -1).astype(np.int32)
    if sizes.size and d.chance(0.05):
        sizes.flat[d.int(0, sizes.size - 1)] = 9
    if d.chance(0.04):
        sizes = sizes.reshape(-1)
    if d.chance(0.04):
        names[0] = "nothing"
    return C(d.op, sizes, values, field_names=names, message_type="weft.test.M", descriptor_source=b"bytes://" + SET)


def json_value(d, kind):
    if kind == "int64List":
        return d.one("1", "-5", '"7"', "1.0", "1e3", "9223372036854775807", "null", "1.5", "true", '"x"', "9223372036854775808", "01")
    if kind == "floatList":
        return d.one("1", "-2.5", '"NaN"', '"-Infinity"', "1e-50", '"1.5"', "1.", "1e40", "NaN", '"inf"', "null", ".5")
    return d.one('"YWJj"', '"_-8="', '"YQ"', '""', "null", '"!!"', "5", '"YR=="', '"YQ="', "'YWJj'")


@spec("DecodeJSONExample")
def decode_json(d):
    """Mostly JSON, as protobuf's parser takes it."""

    def feature():
        kind = d.one("int64List", "floatList", "bytesList")
        values = [json_value(d, kind) if d.chance(0.2) else {"int64List": "3", "floatList": "0.5", "bytesList": '"YWJj"'}[kind] for _ in range(d.int(0, 3))]
        name = kind if d.chance(0.8) else {"int64List": "int64_list", "floatList": "float_list", "bytesList": "bytes_list"}[kind]
        value = "[" + d.one(",", " , ").join(values) + ("," if values and d.chance(0.1) else "") + "]"
        if values and d.chance(0.1):
            value = values[0]
        return "{" + f'"{name}":{{"value":{value}}}' + "}" if d.chance(0.93) else d.one("null", "{}", "[]", '{"x":1}')

    def example():
        keys = [d.one('"a"', "'b'", "c", '"\\u00e9\\n"', '"\\ud83d\\ude00"', '""', '"d/e"') for _ in range(d.int(0, 3))]
        if d.chance(0.9):
            keys = sorted(set(keys))
        body = ",".join(f"{k}:{feature()}" for k in keys)
        text = '{"features":{"feature":{' + body + "}}}"
        if d.chance(0.08):
            text = d.one("", "{}", "[]", "null", text[:-1], text + " x", text + " ", '{"features":null}', '{"x":1}', '{"features":{},}', '{"features":{"feature":[]}}')
        return text.encode()

    shape = d.shape(0, 2, 3)
    return C(d.op, texts([example() for _ in range(int(np.prod(shape, dtype=int)))], shape))
