"""Specs of files, checkpoints and text: ops/io.def.

Left out: numbers whose shortest text C's printf and
TensorFlow write in other ways; names of files in the current folder, which is another one for each process.
"""

import atexit
import shutil
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf

from draw import Program, spec
from opcase import C
from properties.string import WORDS, pattern_of, scalar, strings, subjects, texts

FOLDER = Path(tempfile.mkdtemp(prefix="weft-io-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)

raw = tf.raw_ops
v1 = tf.compat.v1
NUMBERS = (tf.float32, tf.float64, tf.half, tf.bfloat16, tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.uint32, tf.uint64, tf.bool, tf.complex64, tf.complex128)
SAVED = (*NUMBERS, tf.string)


def folder_of(d):
    folder = FOLDER / f"{d.op}-{d.number}"
    folder.mkdir(exist_ok=True)
    return folder


# ---- text ----


@spec("AsString")
def as_string(d):
    dtype = d.one(*dtypes_of_text(d))
    attrs = dict(precision=d.one(-1, -1, 0, 1, 3, 10), scientific=d.chance(0.25), shortest=d.chance(0.25), width=d.one(-1, -1, 0, 8, 20), fill=d.one("", "", "0", " ", "-", "+") if d.chance(0.95) else d.one("ab", "x"))
    return C(d.op, d.values(dtype, d.shape(max_rank=3), special=0.2), **attrs)


def dtypes_of_text(d):
    from opcase import dtypes_of

    return dtypes_of(d.op, "T", (*NUMBERS, tf.string))


@spec("StringToNumber")
def string_to_number(d):
    words = ["1", "-1", "+1", " 7 ", "3.5", "-0", "1e10", "0x10", "nan", "inf", "-inf", "INF", "1e400", "1e-400", "127", "128", "2147483647", "2147483648", "4294967295", "4294967296", "9223372036854775807", "-9223372036854775808", "18446744073709551615", "12abc" if d.chance(0.1) else "12", "" if d.chance(0.1) else "0", ".5", "5.", "1_0" if d.chance(0.1) else "10", "\t3\n", "00012", "0.1", "1.17549435e-38", "3.4028236e38"]
    dtype = d.one(tf.float32, tf.float64, tf.int32, tf.int64, tf.uint32, tf.uint64)
    n = d.int(0, 3)
    return C(d.op, d.texts((n,) if d.chance(0.8) else d.shape(max_rank=2, max_dim=2), words), out_type=dtype)


@spec("StringJoin")
def string_join(d):
    shape = d.shape(max_rank=3)
    parts = [d.texts(shape if d.chance(0.7) else (), WORDS) for _ in range(d.int(0 if d.chance(0.1) else 1, 4))]
    if parts and d.chance(0.05):
        parts.append(d.texts(d.shape(max_rank=2), WORDS))
    return C(d.op, parts, separator=d.one("", ",", "--"))


@spec("ReduceJoin")
def reduce_join(d):
    x = strings(d, max_rank=4, max_dim=3)
    axes = [d.axis(x.ndim, 0.03) for _ in range(d.int(0, max(x.ndim, 1)))]
    if len({a % max(x.ndim, 1) for a in axes}) < len(axes) and d.chance(0.9):
        axes = axes[:1]
    indices = np.asarray(axes, np.int32)
    if len(axes) == 1 and d.chance(0.5):
        indices = indices.reshape(())
    return C(d.op, x, indices, keep_dims=d.chance(0.5), separator=d.one("", ",", " | "))


@spec("StringFormat")
def string_format(d):
    n = d.int(0, 3)
    inputs = [d.values(d.one(*NUMBERS[:11], tf.string), d.shape(max_rank=3, max_dim=7), special=0.1) for _ in range(n)]
    placeholder = d.one("%s", "{}", "%t%")
    count = n if d.chance(0.9) else n + d.one(-1, 1)
    return C(d.op, inputs, template="a" + f" {placeholder} b" * max(count, 0), placeholder=placeholder, summarize=d.one(3, 1, 10, -1, 0))


@spec("RegexFullMatch")
def regex_full_match(d):
    p = scalar(pattern_of(d))
    return C(d.op, subjects(d), p if d.chance(0.95) else p.reshape(1))


@spec("StaticRegexFullMatch")
def static_regex_full_match(d):
    return C(d.op, subjects(d), pattern=pattern_of(d))


@spec("StaticRegexReplace")
def static_regex_replace(d):
    rewrite = d.one("", "x", "<\\0>", "\\1", "\\\\", "long text")
    return C(d.op, subjects(d), pattern=pattern_of(d), rewrite=rewrite, replace_global=d.chance(0.7))


# ---- names and whole files ----


@spec("ShardedFilename")
def sharded_filename(d):
    number = lambda: np.asarray(d.one(0, 1, 7, 99999, 100000, -1), np.int32)  # noqa: E731
    return C(d.op, scalar(d.one("a", "", "/b/c", "é")), number(), number())


@spec("ShardedFilespec")
def sharded_filespec(d):
    return C(d.op, scalar(d.one("a", "", "/b/c")), np.asarray(d.one(0, 1, 7, 99999, 100000, -1), np.int32))


def as_uri(d, path):
    """The path, or what also names it."""
    return "file://" + path if d.chance(0.1) else path


@spec("MatchingFiles")
def matching_files(d):
    folder = folder_of(d)
    for name in ("a", "b.txt", ".hidden", "c-1", "[x]"):
        (folder / name).write_bytes(b"")
    (folder / "sub").mkdir(exist_ok=True)
    (folder / "sub" / "d.txt").write_bytes(b"")

    def one():
        return as_uri(d, str(folder)) + d.one("/", "/", "/", "//") + d.one("*", "*//d.txt", "sub//*", "sub//d.txt", "a", "missing", "?", "*.txt", "*/*.txt", "sub/*", "[ab]*", "[!a]*", "\\a", ".*", "sub", "*b", "*/", "c-[0-9]", "[", "\\[x\\]", "")

    patterns = texts([one() for _ in range(d.int(0, 3))]) if d.chance(0.6) else scalar(one())
    return C(d.op, patterns if d.chance(0.97) else patterns.reshape(1, -1))


@spec("ReadFile")
def read_file(d):
    folder = folder_of(d)
    (folder / "f").write_bytes(d.rng.integers(0, 256, d.int(0, 100), dtype=np.uint8).tobytes())
    name = as_uri(d, str(folder / d.one("f", "f", "f", "missing", ""))) if d.chance(0.95) else d.one("s3", "http", "a.b", "1a", "_", "") + ":/" + str(folder / "f")
    return C(d.op, scalar(name) if d.chance(0.95) else texts([name]))


@spec("WriteFile")
def write_file(d):
    """Written, then read."""
    folder = folder_of(d)
    name = as_uri(d, str(folder / d.one("f", "new/deep/f", "g")))
    if d.chance(0.05):
        name = d.one(str(folder), "s3://bucket/f", "http://host/f")
    value = d.one(b"", b"some", b"\x00\xff")

    def build():
        write = raw.WriteFile(filename=name, contents=value)
        return [(write, {}), (raw.ReadFile(filename=name), {}), (write, {})]

    return Program(d.op, build)


# ---- checkpoints ----


def parts_of(d, shape):
    """A slice: its text, and the indices it covers."""
    if not shape or d.chance(0.3):
        return "", (Ellipsis,)
    text, index = [], []
    for n in shape:
        if n == 0 or d.chance(0.4):
            text.append("-")
            index.append(slice(None))
            continue
        begin = d.int(0, n - 1)
        length = d.int(1, n - begin)
        text.append(f"{begin},{length}")
        index.append(slice(begin, begin + length))
    return " ".join(map(str, shape)) + " " + ":".join(text), tuple(index)


SLICED = ("float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool", "complex64", "complex128")  # TensorFlow reads no part of others


def saved(d, dtypes=SAVED):
    values = [d.values(d.one(*dtypes), d.shape(max_rank=3), special=0.1) for _ in range(d.int(1, 3))]
    return [f"t{i}" if i or d.chance(0.8) else "scope/é" for i in range(len(values))], values


@spec("SaveV2", "RestoreV2")
def save_v2(d):
    prefix = as_uri(d, str(folder_of(d) / "ckpt"))
    names, values = saved(d)
    slices = [parts_of(d, v.shape) if v.dtype.name in SLICED else ("", ()) for v in values]
    wrong = d.one("names", "dtype", "missing", "prefix", "slice") if d.chance(0.15) else ""

    def build():
        ports = [v1.placeholder(v.dtype if v.dtype != object else tf.string) for v in values]
        write = raw.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names), tensors=ports)
        asked = ["other" if wrong == "missing" else n for n in names]
        types = [p.dtype for p in ports]
        if wrong == "dtype":
            types[0] = tf.float32 if types[0] != tf.float32 else tf.int32
        spec_texts = ["9 0,1" if wrong == "slice" else s for s, _ in slices]
        where = prefix + "x" if wrong == "prefix" else prefix
        read = raw.RestoreV2(prefix=where, tensor_names=asked, shape_and_slices=spec_texts, dtypes=types)
        return [(write, dict(zip(ports, values))), (list(read), {})]

    return Program(d.op, build)


@spec("MergeV2Checkpoints")
def merge(d):
    folder = folder_of(d)
    names, values = saved(d)
    keeps, lacks = d.chance(0.5), d.chance(0.1)

    def build():
        shutil.rmtree(folder)
        folder.mkdir()
        parts = [str(folder / "parts" / f"p{i}") for i in range(len(names))]
        writes = [raw.SaveV2(prefix=p, tensor_names=[n], shape_and_slices=[""], tensors=[tf.constant(v)]) for p, n, v in zip(parts, names, values)]
        asked = parts + [str(folder / "parts" / "missing")] if lacks else parts
        join = raw.MergeV2Checkpoints(checkpoint_prefixes=asked, destination_prefix=str(folder / "all"), delete_old_dirs=not keeps)
        read = raw.RestoreV2(prefix=str(folder / "all"), tensor_names=names, shape_and_slices=[""] * len(names), dtypes=[tf.as_dtype(v.dtype) if v.dtype != object else tf.string for v in values])
        return [(writes, {}), (join, {}), (list(read), {}), (raw.MatchingFiles(pattern=str(folder / "parts" / "*")), {})]

    return Program(d.op, build)


FIRST_FORMAT = (tf.float32, tf.float64, tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.bool, tf.complex64, tf.string, tf.half)


@spec("Save", "SaveSlices", "Restore", "RestoreSlice")
def save_v1(d):
    path = as_uri(d, str(folder_of(d) / "first"))
    names, values = saved(d, FIRST_FORMAT)
    slices = [parts_of(d, v.shape) for v in values]
    wrong = d.one("dtype", "missing", "path", "slice") if d.chance(0.15) else ""

    def build():
        ports = [v1.placeholder(v.dtype if v.dtype != object else tf.string) for v in values]
        if d.op == "SaveSlices":
            write = raw.SaveSlices(filename=path, tensor_names=names, shapes_and_slices=[""] * len(names), data=ports)
        else:
            write = raw.Save(filename=path, tensor_names=names, data=ports)
        steps = [(write, dict(zip(ports, values)))]
        for name, port, (text, _) in zip(names, ports, slices):
            dtype = port.dtype
            if wrong == "dtype":
                dtype = tf.float32 if dtype != tf.float32 else tf.int32
            where = path + "x" if wrong == "path" else path
            name = "other" if wrong == "missing" else name
            steps.append((raw.Restore(file_pattern=where, tensor_name=name, dt=dtype), {}))
            text = "9 0,1" if wrong == "slice" else text
            steps.append((raw.RestoreSlice(file_pattern=where, tensor_name=name, shape_and_slice=text, dt=dtype), {}))
        return steps

    return Program(d.op, build)
