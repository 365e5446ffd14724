"""tests/io/testdata: checkpoints that TensorFlow writes. Of the second format: tf.*, in three shards. Of the first: first-*, and first_snappy-*, which are the same
tables with compressed blocks (its own writer compresses nothing)."""
import ctypes
import struct
import tempfile

import numpy as np
import tensorflow as tf

import one_op

HERE = "tests/io/testdata"
v1 = tf.compat.v1
MAGIC = 0xDB4775248B80FB57


def bundle(folder):
    random = np.random.RandomState(0)
    f, d, h = random.randn(3, 4).astype(np.float32), random.randn(5), random.randn(3).astype(np.float16)
    p = np.arange(12, dtype=np.float32).reshape(6, 2)
    shards = [{"f": f, "h": h, "p": (p[:4], "6 2 0,4:-"), "b": np.array([True, False])},
              {"d": d, "p": (p[4:], "6 2 4,2:-"), "bf": np.array([1.5, 2.5], tf.bfloat16.as_numpy_dtype), "z": np.zeros([0, 3], np.float32)},
              {"i": np.arange(6, dtype=np.int64).reshape(2, 3), "s": np.array([b"ab", b"", b"x" * 300], object), "c": np.array([1 + 2j], np.complex64)}]
    with tf.Graph().as_default(), v1.Session(config=one_op.config()) as sess, tempfile.TemporaryDirectory() as parts:
        prefixes = []
        for i, shard in enumerate(shards):
            prefixes.append("%s/part%d" % (parts, i))
            values = [v if isinstance(v, tuple) else (v, "") for v in shard.values()]
            sess.run(tf.raw_ops.SaveV2(prefix=prefixes[-1], tensor_names=list(shard), shape_and_slices=[s for _, s in values], tensors=[tf.convert_to_tensor(v) for v, _ in values]))
        sess.run(tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=prefixes, destination_prefix=str(folder / "tf"), delete_old_dirs=False))


def first_format(folder):
    p = np.arange(12, dtype=np.float32).reshape(6, 2)
    files = [{"p": (p[:4], "6 2 0,4:-"), "ramp": (np.arange(-500, 500, dtype=np.int32), ""), "words": (np.array([b"one", b"", b"\0\xff"], object), ""),
              "half": (np.float16(1.5), ""), "z": (np.array([1 + 2j, 3], np.complex64), "")},
             {"p": (p[4:], "6 2 4,2:-")}]
    with tf.Graph().as_default(), v1.Session(config=one_op.config()) as sess:
        for i, file in enumerate(files):
            name = str(folder / ("first-%05d-of-00002" % i))
            sess.run(tf.raw_ops.SaveSlices(filename=name, tensor_names=list(file), shapes_and_slices=[s for _, s in file.values()],
                                           data=[tf.convert_to_tensor(v) for v, _ in file.values()]))


# ---- tables of the first format (LevelDB's, doc/table_format.md): blocks, each with a byte for its compression and a checksum ----


def varint(n):
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)


def read_varint(data, at):
    value, shift = 0, 0
    while True:
        value, shift, at = value | (data[at] & 127) << shift, shift + 7, at + 1
        if data[at - 1] < 128:
            return value, at


def masked_crc(data):
    table = masked_crc.table
    crc = 0xFFFFFFFF
    for b in data:
        crc = table[(crc ^ b) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


masked_crc.table = []
for _i in range(256):
    for _ in range(8):
        _i = _i >> 1 ^ (0x82F63B78 if _i & 1 else 0)
    masked_crc.table.append(_i)


def snappy(data):
    library = ctypes.CDLL("libsnappy.so.1")
    size = ctypes.c_size_t(library.snappy_max_compressed_length(ctypes.c_size_t(len(data))))
    out = ctypes.create_string_buffer(size.value)
    assert library.snappy_compress(data, ctypes.c_size_t(len(data)), out, ctypes.byref(size)) == 0
    return out.raw[:size.value]


def entries(block):
    """Keys and values of a block."""
    end = len(block) - 4 * (1 + struct.unpack("<I", block[-4:])[0])
    at, key, found = 0, b"", []
    while at < end:
        shared, at = read_varint(block, at)
        own, at = read_varint(block, at)
        length, at = read_varint(block, at)
        key = key[:shared] + block[at:at + own]
        found.append((key, block[at + own:at + own + length]))
        at += own + length
    return found


def block_of(pairs):
    """A block that shares no prefixes."""
    out, starts = b"", []
    for key, value in pairs:
        starts.append(len(out))
        out += varint(0) + varint(len(key)) + varint(len(value)) + key + value
    return out + b"".join(struct.pack("<I", s) for s in starts or [0]) + struct.pack("<I", len(starts or [0]))


def compressed(table):
    out = b""

    def add(block):
        nonlocal out
        handle = varint(len(out)) + varint(len(block := snappy(block)))
        out += block + b"\1" + struct.pack("<I", masked_crc(block + b"\1"))
        return handle

    def read(handle):
        offset, at = read_varint(handle, 0)
        size, _ = read_varint(handle, at)
        assert table[offset + size] == 0, "a block that is compressed"
        return table[offset:offset + size]

    footer = table[-48:]
    assert struct.unpack("<Q", footer[40:])[0] == MAGIC
    at = 0
    handles = []
    for _ in range(2):
        _, middle = read_varint(footer, at)
        _, end = read_varint(footer, middle)
        handles.append(footer[at:end])
        at = end
    index = [(key, add(read(handle))) for key, handle in entries(read(handles[1]))]
    ends = add(read(handles[0])) + add(block_of(index))
    return out + ends + bytes(40 - len(ends)) + struct.pack("<Q", MAGIC)


def make(root, out):
    folder = out / HERE
    bundle(folder)
    first_format(folder)
    for path in sorted(folder.glob("first-*")):
        (folder / path.name.replace("first-", "first_snappy-")).write_bytes(compressed(path.read_bytes()))
    with tf.Graph().as_default(), v1.Session(config=one_op.config()) as sess:
        for name, dtype in (("p", tf.float32), ("ramp", tf.int32)):
            plain, small = (sess.run(tf.raw_ops.Restore(file_pattern="%s/%s-?????-of-00002" % (folder, kind), tensor_name=name, dt=dtype)) for kind in ("first", "first_snappy"))
            assert np.array_equal(plain, small)
