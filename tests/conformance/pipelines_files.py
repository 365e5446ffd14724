"""Pipelines over files, as people write them, for test_datasets: records, lines, CSV; good files and bad ones.

The files are written once, into a folder of this process.
"""

import atexit
import gzip
import os
import shutil
import sqlite3
import struct
import tempfile
import zlib

import numpy as np
import tensorflow as tf
from tensorflow.python.ops import gen_experimental_dataset_ops

from pipelines import AUTOTUNE, D, pipeline

FOLDER = tempfile.mkdtemp(prefix="weft-pipelines-")
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)


def path(name):
    return os.path.join(FOLDER, name)


def write(name, data):
    os.makedirs(os.path.dirname(path(name)), exist_ok=True)
    with open(path(name), "wb") as f:
        f.write(data)
    return path(name)


# ---- the files ----


def records(values, compression=""):
    """The bytes of a file of records."""
    name = path("scratch")
    with tf.io.TFRecordWriter(name, compression) as w:
        for v in values:
            w.write(v)
    with open(name, "rb") as f:
        return f.read()


def feature(value):
    if isinstance(value, (bytes, list)) and (isinstance(value, bytes) or (value and isinstance(value[0], bytes))):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=value if isinstance(value, list) else [value]))
    value = np.asarray(value).reshape(-1)
    if value.dtype.kind == "f":
        return tf.train.Feature(float_list=tf.train.FloatList(value=value))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=value))


def example(**features):
    return tf.train.Example(features=tf.train.Features(feature={k: feature(v) for k, v in features.items()})).SerializeToString()


RNG = np.random.RandomState(7)
NUMBERED = [b"record %d" % i * (i % 4 + 1) for i in range(25)]
PLAIN = records(NUMBERED)
TEXT = b"the cat sat on the mat\r\nand the dog\n\nlay\rdown  there\nwithout a last line's end"


def png(seed):
    """The bytes of a picture, written without TensorFlow's kernels."""
    rng = np.random.RandomState(seed)
    height, width = rng.randint(5, 12, 2)
    rows = b"".join(b"\0" + rng.randint(0, 256, width * 3).astype(np.uint8).tobytes() for _ in range(height))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


PICTURES = [example(image=png(i), label=i % 3, name=b"picture %d" % i) for i in range(12)]
PEOPLE = [
    example(
        age=20 + i,
        height=np.float32(1.5 + i / 100),
        name=b"person %d" % i,
        tags=[b"tag%d" % k for k in range(i % 4)] or [b""],
        scores=np.arange(i % 5, dtype=np.float32) / 3,
        clicks=np.arange(i % 3) + i,
        where=np.arange(4, dtype=np.float32) * i,
    )
    for i in range(23)
]
write("plain.tfrecord", PLAIN)
write("packed.tfrecord.gz", gzip.compress(PLAIN))
write("packed.tfrecord.z", zlib.compress(PLAIN))
write("large.tfrecord", records([bytes([i]) * (i * 70001) for i in range(5)] + [b"", b"x" * (256 * 1024 - 16), b"y"]))
write("large.tfrecord.gz", records([bytes([i]) * (i * 70001) for i in range(5)], "GZIP"))
write("empty", b"")
write("text.txt", TEXT)
write("text.txt.gz", gzip.compress(TEXT))
write("long.txt", b"\n".join(b"word " * n for n in (0, 1, 60000, 2, 50000, 40000)))
write("fixed.bin", b"HEAD" + bytes(range(60)) + b"TAIL")
write("fixed.bin.gz", gzip.compress(b"HEAD" + bytes(range(60)) + b"TAIL"))
write("fixed.bin.z", zlib.compress(b"HEAD" + bytes(range(60)) + b"TAIL"))
for i in range(4):
    write(f"shards/part-{i}.tfrecord", records([b"shard %d record %d" % (i, k) for k in range(5 + i)]))
for i in range(3):
    write(f"pictures/part-{i}.tfrecord", records(PICTURES[i::3]))
    write(f"people/part-{i}.tfrecord", records(PEOPLE[i::3]))
    write(f"lines/part-{i}.txt", b"".join(b"line %d of file %d\n" % (k, i) for k in range(4 + i)))
os.makedirs(path("folder"))
write("cut-in-data.tfrecord", PLAIN[:-9])
write("cut-in-length.tfrecord", PLAIN[: -len(NUMBERED[-1]) - 16 + 5])
write("cut-in-checksum.tfrecord", PLAIN[:-2])
write("bad-length.tfrecord", PLAIN[:50] + bytes([PLAIN[50] ^ 1]) + PLAIN[51:])
write("bad-first.tfrecord", bytes([PLAIN[0] ^ 1]) + PLAIN[1:])
write("bad-data.tfrecord", PLAIN[:-30] + bytes([PLAIN[-30] ^ 4]) + PLAIN[-29:])
write("cut.tfrecord.gz", gzip.compress(PLAIN)[:-30])
write("bad.tfrecord.gz", gzip.compress(PLAIN)[:40] + b"????" + gzip.compress(PLAIN)[44:])
write("cut.tfrecord.z", zlib.compress(PLAIN)[:-30])


# ---- records ----


def tfrecords(*names, **options):
    return tf.data.TFRecordDataset([path(n) for n in names], **options)


@pipeline
def records_plain():
    return tfrecords("plain.tfrecord")


@pipeline
def records_of_one_name():
    return tf.data.TFRecordDataset(path("plain.tfrecord"))


@pipeline
def records_gzip():
    return tfrecords("packed.tfrecord.gz", "packed.tfrecord.gz", compression_type="GZIP")


@pipeline
def records_zlib():
    return tfrecords("packed.tfrecord.z", "packed.tfrecord.z", compression_type="ZLIB", buffer_size=7)


@pipeline
def records_large():
    return tfrecords("large.tfrecord").map(lambda x: (tf.strings.length(x), tf.strings.substr(x, 0, 3)))


@pipeline
def records_large_packed():
    return tfrecords("large.tfrecord.gz", compression_type="GZIP").map(lambda x: (tf.strings.length(x), tf.strings.substr(x, 0, 3)))


@pipeline
def records_around_an_empty_file():
    return tfrecords("empty", "plain.tfrecord", "empty")


@pipeline
def records_of_no_known_compression():
    return D.from_tensor_slices([path("plain.tfrecord")]).flat_map(lambda f: tf.data.TFRecordDataset(f, compression_type=""))


@pipeline
def records_sharded_and_interleaved():
    files = D.list_files(path("shards/part-*.tfrecord"), shuffle=False)
    return files.interleave(tf.data.TFRecordDataset, cycle_length=3, block_length=2)


@pipeline
def records_of_listed_files_in_seeded_order():
    files = D.list_files(path("shards/part-*.tfrecord"), shuffle=True, seed=5)
    return files.flat_map(tf.data.TFRecordDataset)


@pipeline
def records_by_workers():
    files = D.list_files([path("shards/part-*.tfrecord"), path("plain.tf*")], shuffle=False)
    return files.shard(2, 1).flat_map(tf.data.TFRecordDataset).shuffle(5, seed=9).batch(3)


@pipeline
def pictures_decoded_and_augmented():
    spec = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}

    def read(record):
        parsed = tf.io.parse_single_example(record, spec)
        image = tf.image.decode_png(parsed["image"], channels=3)
        image = tf.image.resize(tf.cast(image, tf.float32) / 255.0, [8, 8])
        image = tf.image.stateless_random_flip_left_right(image, seed=[3, 4])
        return tf.image.stateless_random_brightness(image, 0.2, seed=[5, 6]), parsed["label"]

    files = D.list_files(path("pictures/part-*.tfrecord"), shuffle=False)
    return files.flat_map(tf.data.TFRecordDataset).map(read, num_parallel_calls=2).shuffle(6, seed=2).batch(4).prefetch(1)


@pipeline
def examples_parsed_in_batches():
    spec = {
        "age": tf.io.FixedLenFeature([], tf.int64),
        "height": tf.io.FixedLenFeature([1], tf.float32),
        "name": tf.io.FixedLenFeature([], tf.string),
        "where": tf.io.FixedLenFeature([2, 2], tf.float32),
        "missing": tf.io.FixedLenFeature([], tf.int64, default_value=-1),
    }
    return tfrecords("people/part-0.tfrecord", "people/part-1.tfrecord").batch(4).map(lambda r: tf.io.parse_example(r, spec))


@pipeline
def examples_sparse_and_ragged():
    spec = {
        "tags": tf.io.VarLenFeature(tf.string),
        "scores": tf.io.RaggedFeature(tf.float32),
        "clicks": tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
    }
    return tfrecords("people/part-0.tfrecord").batch(3).map(lambda r: tf.io.parse_example(r, spec))


@pipeline
def examples_without_a_required_feature():
    spec = {"clicks": tf.io.FixedLenFeature([1], tf.int64)}
    return tfrecords("people/part-0.tfrecord").map(lambda r: tf.io.parse_single_example(r, spec))



# ---- data sets that parse ----

OF_PERSON = {
    "age": tf.io.FixedLenFeature([], tf.int64),
    "clicks": tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
    "height": tf.io.FixedLenFeature([1], tf.float32),
    "missing": tf.io.FixedLenFeature([2], tf.string, default_value=[b"a", b"b"]),
    "name": tf.io.FixedLenFeature([], tf.string),
    "scores": tf.io.RaggedFeature(tf.float32),
    "tags": tf.io.VarLenFeature(tf.string),
    "where": tf.io.FixedLenFeature([2, 2], tf.float32),
}


def parsed(features, batches, **options):
    return batches.apply(tf.data.experimental.parse_example_dataset(features, **options))


@pipeline
def examples_by_a_data_set():
    return parsed(OF_PERSON, tfrecords("people/part-0.tfrecord", "people/part-1.tfrecord").batch(4), num_parallel_calls=3)


@pipeline
def examples_by_a_data_set_of_its_own_mind():
    return parsed(OF_PERSON, tfrecords("people/part-0.tfrecord").batch(2).repeat(4), num_parallel_calls=AUTOTUNE)


@pipeline(any_order=True)
def examples_by_a_data_set_in_any_order():
    return parsed({"age": OF_PERSON["age"]}, tfrecords("people/part-0.tfrecord").batch(2), num_parallel_calls=3, deterministic=False)


@pipeline
def examples_by_a_data_set_ragged_and_composed():
    spec = {
        "scores": tf.io.RaggedFeature(tf.float32, row_splits_dtype=tf.int64),
        "pairs": tf.io.RaggedFeature(tf.float32, value_key="where", partitions=[tf.io.RaggedFeature.UniformRowLength(2)]),
        "votes": tf.io.SparseFeature("clicks", "clicks", tf.int64, 100),
        "no tags": tf.io.VarLenFeature(tf.int64),
    }
    return parsed(spec, tfrecords("people/part-0.tfrecord", "people/part-2.tfrecord").batch(5))


@pipeline
def examples_by_a_data_set_without_a_required_feature():
    return parsed({"clicks": tf.io.FixedLenFeature([1], tf.int64)}, tfrecords("people/part-0.tfrecord").batch(1), num_parallel_calls=2)


@pipeline
def examples_by_a_data_set_of_empty_batches():
    return parsed(OF_PERSON, D.from_tensors(tf.zeros([0], tf.string)).repeat(2))


@pipeline
def examples_in_batches_of_files():
    return tf.data.experimental.make_batched_features_dataset(
        path("people/part-*.tfrecord"), 4, OF_PERSON, reader=tf.data.TFRecordDataset, num_epochs=2, shuffle=False, label_key="age", drop_final_batch=True
    )


@pipeline
def examples_in_shuffled_batches_of_files():
    return tf.data.experimental.make_batched_features_dataset(
        path("people/part-0.tfrecord"), 3, OF_PERSON, reader=tf.data.TFRecordDataset, num_epochs=2, shuffle_seed=3, shuffle_buffer_size=5, reader_num_threads=1
    )


def damaged(seed):
    """An example that is cut, has a bit turned, a byte more, or a byte less."""
    rng = np.random.RandomState(seed)
    data = bytearray(PEOPLE[7 + seed % 5])
    at = rng.randint(len(data))
    if seed % 4 == 0:
        data[at] ^= 1 << rng.randint(8)
    elif seed % 4 == 1:
        del data[at:]
    elif seed % 4 == 2:
        data.insert(at, rng.randint(256))
    else:
        del data[at]
    return bytes(data)


for seed in range(0, 48, 4):

    def bad_examples(seed=seed):
        values = [PEOPLE[1]] + [damaged(s) for s in range(seed, seed + 4)] + [PEOPLE[2]]
        return parsed(OF_PERSON, D.from_tensor_slices(values).batch(1), num_parallel_calls=1 + seed % 3)

    pipeline(bad_examples, name=f"examples_by_a_data_set_damaged_{seed}")


# ---- lines ----


def lines(*names, **options):
    return tf.data.TextLineDataset([path(n) for n in names], **options)


@pipeline
def lines_plain():
    return lines("text.txt", "empty", "text.txt")


@pipeline
def lines_gzip():
    return lines("text.txt.gz", compression_type="GZIP", buffer_size=3)


@pipeline
def lines_long():
    return lines("long.txt").map(lambda x: (tf.strings.length(x), tf.strings.substr(x, 0, 6)))


@pipeline
def lines_filtered():
    return lines("text.txt").filter(lambda x: tf.strings.regex_full_match(x, ".*the.*")).map(tf.strings.upper)


@pipeline
def lines_to_ids():
    words = tf.constant([b"the", b"cat", b"dog", b"mat"])
    table = tf.lookup.StaticVocabularyTable(tf.lookup.KeyValueTensorInitializer(words, tf.range(4, dtype=tf.int64)), num_oov_buckets=3)
    return lines("text.txt").map(lambda x: table.lookup(tf.strings.split([x]).values)).map(lambda ids: (ids, tf.size(ids)))


@pipeline
def lines_skipped_and_interleaved():
    files = D.list_files(path("lines/*.txt"), shuffle=False)
    return files.interleave(lambda f: tf.data.TextLineDataset(f).skip(1), cycle_length=2, num_parallel_calls=None)


@pipeline
def lines_zipped_with_numbers():
    return D.zip((lines("lines/part-0.txt"), D.range(100))).repeat(2).batch(3, drop_remainder=True)


# ---- records of a fixed length ----


def fixed(*names, **options):
    return tf.data.FixedLengthRecordDataset([path(n) for n in names], **options)


@pipeline
def fixed_plain():
    return fixed("fixed.bin", "fixed.bin", record_bytes=12, header_bytes=4, footer_bytes=4)


@pipeline
def fixed_decoded():
    return fixed("fixed.bin", record_bytes=12, header_bytes=4, footer_bytes=4).map(lambda r: tf.reshape(tf.io.decode_raw(r, tf.uint8), [3, 4]))


@pipeline
def fixed_gzip():
    return fixed("fixed.bin.gz", "fixed.bin.gz", record_bytes=6, header_bytes=4, footer_bytes=4, compression_type="GZIP")


@pipeline
def fixed_zlib():
    return fixed("fixed.bin.z", record_bytes=20, header_bytes=2, footer_bytes=6, compression_type="ZLIB")


@pipeline
def fixed_of_another_length():
    return fixed("fixed.bin", "fixed.bin", record_bytes=7, header_bytes=4, footer_bytes=4)


@pipeline
def fixed_of_another_length_packed():
    return fixed("fixed.bin.gz", "fixed.bin.gz", record_bytes=7, header_bytes=4, footer_bytes=4, compression_type="GZIP")


@pipeline
def fixed_shorter_than_its_header():
    return fixed("empty", "fixed.bin", record_bytes=12, header_bytes=4, footer_bytes=4)


@pipeline
def fixed_header_of_everything():
    return fixed("fixed.bin.gz", "fixed.bin.z", record_bytes=12, header_bytes=400, footer_bytes=4, compression_type="GZIP")


# ---- bad files ----

BAD = {
    "cut_in_data": "cut-in-data.tfrecord",
    "cut_in_length": "cut-in-length.tfrecord",
    "cut_in_checksum": "cut-in-checksum.tfrecord",
    "bad_length": "bad-length.tfrecord",
    "bad_first": "bad-first.tfrecord",
    "bad_data": "bad-data.tfrecord",
    "missing": "missing.tfrecord",
    "folder": "folder",
    "text": "text.txt",
    "packed": "packed.tfrecord.gz",
}
for _name, _file in BAD.items():
    pipeline(lambda file=_file: tfrecords("shards/part-0.tfrecord", file, "shards/part-1.tfrecord"), name=f"bad_records_{_name}")
    pipeline(lambda file=_file: tfrecords("shards/part-0.tfrecord", file).batch(4), name=f"bad_records_batched_{_name}")
for _name, _file, _kind in [
    ("gzip_cut", "cut.tfrecord.gz", "GZIP"),
    ("gzip_bad", "bad.tfrecord.gz", "GZIP"),
    ("gzip_plain", "plain.tfrecord", "GZIP"),
    ("gzip_zlib", "packed.tfrecord.z", "GZIP"),
    ("gzip_empty", "empty", "GZIP"),
    ("gzip_folder", "folder", "GZIP"),
    ("zlib_cut", "cut.tfrecord.z", "ZLIB"),
    ("zlib_plain", "plain.tfrecord", "ZLIB"),
    ("zlib_gzip", "packed.tfrecord.gz", "ZLIB"),
]:
    pipeline(lambda file=_file, kind=_kind: tfrecords(file, compression_type=kind), name=f"bad_records_{_name}", may_be_empty=True)
    pipeline(lambda file=_file, kind=_kind: lines(file, compression_type=kind), name=f"bad_lines_{_name}", may_be_empty=True)
for _name in ["missing.txt", "folder"]:
    pipeline(lambda file=_name: lines("text.txt", file, "text.txt"), name=f"bad_lines_{_name.partition('.')[0]}")
    pipeline(lambda file=_name: fixed(file, record_bytes=3, header_bytes=1, compression_type="GZIP"), name=f"bad_fixed_packed_{_name.partition('.')[0]}")
    pipeline(lambda file=_name: fixed(file, record_bytes=1), name=f"bad_fixed_{_name.partition('.')[0]}")


# ---- CSV ----

PEOPLE_CSV = b"""name,age,height,member
Anna,31,1.70,1
"Bo, the second",,1.81,0
"Said ""yes""
twice",45,nan,1
Dee,28,NA,
"",7,1e2,0
"""
write("people.csv", PEOPLE_CSV)
write("people-crlf.csv", PEOPLE_CSV.replace(b"\n", b"\r\n"))
write("people-cr.csv", PEOPLE_CSV.replace(b"\n", b"\r"))
write("people.csv.gz", gzip.compress(PEOPLE_CSV))
write("numbers.csv", b"\n".join(b"%d,%d,%.3f,word%d" % (i, i * i, i / 7, i) for i in range(40)))
write("wide.csv", b"a,b,c,d,e\n" + b"".join(b",".join(b"%d" % (i * 5 + k) for k in range(5)) + b"\n" for i in range(9)))
write("long.csv", b"".join(b'%d,"%s",%d\n' % (i, b'x""y, \n' * (i * 9000), i) for i in range(6)))


def csv(names, defaults, **options):
    names = [path(n) for n in ([names] if isinstance(names, str) else names)]
    return tf.data.experimental.CsvDataset(names, defaults, **options)


PERSON = [tf.string, tf.int64, tf.float32, tf.int32]
PERSON_DEFAULTS = [["unnamed"], np.array([-1]), np.array([0.5], np.float32), np.array([9], np.int32)]


@pipeline
def csv_plain():
    return csv(["numbers.csv", "numbers.csv"], [tf.int32, tf.int64, tf.float64, tf.string])


for _name in ["people.csv", "people-crlf.csv", "people-cr.csv"]:
    pipeline(lambda file=_name: csv(file, PERSON_DEFAULTS, header=True, na_value="NA"), name="csv_" + _name.partition(".")[0].replace("-", "_"))


@pipeline
def csv_gzip():
    return csv("people.csv.gz", PERSON_DEFAULTS, header=True, na_value="NA", compression_type="GZIP", buffer_size=5)


@pipeline
def csv_required():
    return csv("people.csv", PERSON, header=True, na_value="NA")


@pipeline
def csv_without_quotes():
    return csv("people.csv", PERSON_DEFAULTS, header=True, use_quote_delim=False, na_value="NA")


@pipeline
def csv_selected():
    return csv("people.csv", PERSON_DEFAULTS[1:3], header=True, na_value="NA", select_cols=[1, 2])


@pipeline
def csv_excluded():
    return csv("wide.csv", [tf.int32] * 3, header=True, exclude_cols=[0, 3])


@pipeline
def csv_selected_beyond():
    return csv("wide.csv", [tf.int32] * 2, header=True, select_cols=[1, 7])


@pipeline
def csv_of_one_column():
    return csv("text.txt", [tf.string], field_delim="\t")


@pipeline
def csv_by_blanks():
    return csv("text.txt", [["-"]] * 7, field_delim=" ")


@pipeline
def csv_long_fields():
    return csv("long.csv", [tf.int32, [""], tf.int32]).map(lambda a, b, c: (a, tf.strings.length(b), tf.strings.substr(b, 0, 9), c))


@pipeline
def csv_too_few():
    return csv("wide.csv", [tf.int32] * 6, header=True)


@pipeline
def csv_too_many():
    return csv("wide.csv", [tf.int32] * 4, header=True)


@pipeline
def csv_not_numbers():
    return csv("wide.csv", [tf.int32] * 5)


@pipeline(may_be_empty=True)
def csv_header_of_nothing():
    return csv(["empty", "wide.csv"], [tf.int32] * 5, header=True)


for _i, _text in enumerate(
    [b'"open,1', b'a"b,1\nc,2\n', b'"a"b",1\nc,2\n', b'"a"', b'"a",', b"a,", b"\n\n1,2\n", b",\n,", b'"a"\r\n"b",1', b"a,1\r\r\nb,2", b'"a""",1\n"""",2', b'"a"x\nb,1\n"c"', b"1,2,3\n4,5", b'a,"', b'""', b"\0,\xff\n"]
):
    write(f"odd-{_i}.csv", _text)
    pipeline(lambda i=_i: csv(f"odd-{i}.csv", [["-"], ["+"]]), name=f"csv_odd_{_i}", may_be_empty=True)
    pipeline(lambda i=_i: csv(f"odd-{i}.csv", [tf.string, [7]], header=True), name=f"csv_odd_numbers_{_i}", may_be_empty=True)
for _name in ["missing.csv", "folder"]:
    pipeline(lambda file=_name: csv(["wide.csv", file], [[0]] * 5), name=f"csv_{_name.partition('.')[0]}")


# ---- caches ----


def fresh(name):
    """A folder that is empty at the begin of each program, on either side."""
    return os.path.join(tempfile.mkdtemp(dir=FOLDER), name)


@pipeline
def cached_in_memory():
    return D.range(6).map(lambda x: x + 1).cache().repeat(3)


@pipeline
def cached_then_shuffled():
    return lines("lines/part-0.txt", "lines/part-1.txt").cache().shuffle(4, seed=3).repeat(2).batch(3)


@pipeline
def cached_and_cut_short():
    return D.range(6).map(lambda x: x * 2).cache().take(4).repeat(3)


@pipeline
def cached_what_fails_at_first():
    return tfrecords("bad-data.tfrecord").cache().repeat(2)


@pipeline(may_be_empty=True)
def cached_nothing():
    return D.range(0).cache().repeat(2)


@pipeline
def cached_on_file():
    return D.from_tensor_slices((np.arange(12).reshape(6, 2), [b"a", b"", b"cc" * 40, b"d", b"e", b"f"])).cache(fresh("cache")).repeat(3)


@pipeline
def cached_on_file_and_cut_short():
    return D.range(6).cache(fresh("cache")).take(3).repeat(2)


@pipeline(may_be_empty=True)
def cached_on_file_nothing():
    return D.range(0).cache(fresh("cache")).repeat(2)


@pipeline
def cached_twice_in_one_file():
    name = fresh("cache")
    return D.zip((D.range(4).cache(name), D.range(4).cache(name)))


@pipeline
def cached_by_a_folder_that_is_missing():
    return D.range(3).cache(path("no/such/folder/cache"))
@pipeline
def csv_made():
    return tf.data.experimental.make_csv_dataset(path("people.csv"), batch_size=2, label_name="member", num_epochs=2, shuffle=False, na_value="NA")


@pipeline
def csv_made_and_shuffled():
    return tf.data.experimental.make_csv_dataset(
        path("numbers.csv"), batch_size=7, column_names=["a", "b", "c", "d"], header=False, num_epochs=1, shuffle=True, shuffle_seed=8, shuffle_buffer_size=10
    )


# ---- rows of a database ----


def database(name, rows):
    with sqlite3.connect(path(name)) as c:
        c.execute("CREATE TABLE t (i INTEGER, r REAL, s TEXT, b BLOB, a)")
        c.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", rows)
    c.close()
    return path(name)


EXTREMES = [0, 1, -1, 127, 128, -129, 255, 256, 65535, 65536, -(2**31), 2**31, 2**63 - 1, -(2**63)]
ANY = [None, "12abc", 3.99, -7, b"\0\xff", "", "text", 1e300, "0", "inf", "9" * 30, "\u00e9", 2.5, b"9"]
database("t.sqlite", [(i, i / 7, f"row {k}" * (k % 3), bytes(range(k)), a) for k, (i, a) in enumerate(zip(EXTREMES, ANY))])
with open(path("t.sqlite"), "rb") as f:
    DATABASE = f.read()
write("cut.sqlite", DATABASE[:5000])
write("bad.sqlite", DATABASE[:100] + b"\xff" * 3000 + DATABASE[3100:])
write("no.sqlite", b"no database at all " * 99)


def rows(query, *types, of="t.sqlite", driver="sqlite"):
    return tf.data.experimental.SqlDataset(driver, path(of), query, types)


for _type in (tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.bool, tf.float64, tf.string):
    for _column in "irsba":
        pipeline(lambda t=_type, c=_column: rows(f"SELECT {c} FROM t", t), name=f"rows_{_column}_{_type.name}")


@pipeline
def rows_of_all_columns_in_order():
    return rows("SELECT i, r, s, b, a FROM t ORDER BY s DESC, i LIMIT 9", tf.int64, tf.float64, tf.string, tf.string, tf.string).batch(4)


for _name, _query in {
    "none": "SELECT i FROM t WHERE i = 5",
    "comments": "-- i\nSELECT i FROM t; SELECT r FROM t",
    "of_nothing": "",
    "of_another_table": "SELECT i FROM u",
    "of_no_grammar": "SELEC",
    "of_two_columns": "SELECT i, r FROM t",
    "failing": "SELECT CASE WHEN i = 128 THEN json_extract('{', '$') ELSE i END FROM t",
    "large": "SELECT length(zeroblob(3000000000)) FROM t",
    "of_a_recursion": "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 50) SELECT x FROM n",
}.items():
    pipeline(lambda query=_query: rows(query, tf.int64), name=f"rows_{_name}", may_be_empty=True)
for _name, _query in {
    "snapped": "SELECT hex(snap(s)), hex(snap(b)), snap(i), snap(r), hex(snap(a)) FROM t",
    "snapped_and_back": "SELECT unsnap(snap(s)), unsnap(snap(b)), unsnap(snap(i)), unsnap(snap(r)), unsnap(snap(a)) FROM t",
    "snapped_types": "SELECT typeof(unsnap(snap(s))), typeof(unsnap(snap(b))), typeof(snap(a)), typeof(unsnap(snap(a))), 1 FROM t",
    "snapped_long": "SELECT length(snap(x)), unsnap(snap(x)) = x, length(snap(y)), length(unsnap(snap(y))), 1 FROM "
    "(SELECT replace(hex(zeroblob(50000)), '0', 'ab') AS x, zeroblob(100000) AS y)",
    "snapped_nothing": "SELECT hex(snap('')), hex(snap(x'')), typeof(unsnap(x'')), typeof(unsnap(x'03')), typeof(unsnap(x'04'))",
}.items():
    pipeline(lambda query=_query: rows(query, *[tf.string] * 5), name=f"rows_{_name}")
for _name, _value in {"text": "'abc'", "byte": "x'05'", "cut": "x'0311'", "length": "x'03ffffffff7f00'", "huge": "x'03ffffffff0300'", "body": "x'031100613e'"}.items():
    pipeline(lambda value=_value: rows(f"SELECT unsnap({value})", tf.string), name=f"rows_unsnapped_{_name}", may_be_empty=True)
for _name in ("cut", "bad", "no"):
    pipeline(lambda of=f"{_name}.sqlite": rows("SELECT i FROM t", tf.int64, of=of), name=f"rows_of_a_file_{_name}", may_be_empty=True)


@pipeline
def rows_of_another_driver():
    return rows("SELECT i FROM t", tf.int64, driver="mysql")


@pipeline
def rows_as_floats():
    return rows("SELECT i FROM t", tf.float32)


# ---- data sets saved and loaded ----


def loaded(name, spec, **options):
    return tf.data.Dataset.load(path(name), element_spec=spec, **options)


def save_once(name, build, **options):
    """A data set that TensorFlow has saved, for either to load."""
    if not os.path.exists(path(name)):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            session.run(build().save(path(name), **options))
    return name


PAIRS = (tf.TensorSpec([2], tf.int64), tf.TensorSpec([], tf.string))


def pairs():
    return D.from_tensor_slices((np.arange(14).reshape(7, 2), [b"a", b"", b"c" * 50, b"d", b"e", b"f", b"g"]))


@pipeline
def loaded_plain():
    return loaded(save_once("saved-plain", pairs), PAIRS)


@pipeline
def loaded_gzip():
    return loaded(save_once("saved-gzip", pairs, compression="GZIP"), PAIRS, compression="GZIP")


@pipeline
def loaded_shards_in_order():
    name = save_once("saved-shards", pairs, shard_func=lambda x, y: x[0] % 3)
    return loaded(name, PAIRS, reader_func=lambda shards: shards.flat_map(lambda s: s))


@pipeline
def loaded_shards_by_turns():
    name = save_once("saved-shards", pairs, shard_func=lambda x, y: x[0] % 3)
    return loaded(name, PAIRS, reader_func=lambda shards: shards.interleave(lambda s: s, cycle_length=2))


class RawStrings(D):
    """A data set of strings by the variant of an op that Python has no class for."""

    element_spec = tf.TensorSpec([], tf.string)

    def _inputs(self):
        return []


@pipeline
def files_that_match():
    patterns = tf.constant([path("shards/*-[12].tfrecord"), path("plain.*"), path("no*thing"), path("*")])
    return RawStrings(gen_experimental_dataset_ops.matching_files_dataset(patterns)).filter(lambda f: tf.logical_not(tf.strings.regex_full_match(f, ".*(saved|scratch).*")))


@pipeline
def files_that_do_not_match():
    return RawStrings(gen_experimental_dataset_ops.matching_files_dataset(tf.constant([path("no*thing")])))


@pipeline
def ids_of_a_table_made_of_a_data_set():
    words = D.from_tensor_slices([b"the", b"cat", b"dog"]).enumerate().map(lambda i, w: (w, i))
    table = tf.data.experimental.table_from_dataset(words, num_oov_buckets=2, key_dtype=tf.string)
    return lines("text.txt").map(lambda x: table.lookup(tf.strings.split([x]).values)).map(lambda ids: (ids, tf.size(ids)))
