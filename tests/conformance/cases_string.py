"""Cases of ops on strings and file names."""

import numpy as np
import tensorflow as tf

from opcase import C, dtypes_of
from support import sample


def s(*words, shape=None):
    a = np.array([w.encode() if isinstance(w, str) else w for w in words], object)
    return a if shape is None else a.reshape(shape)


def one(word):
    return np.array(word.encode() if isinstance(word, str) else word, object)


def cases():
    yield C("StringJoin", [s("a", "b"), s("c", "d")], separator="-")
    yield C("StringJoin", [one("x"), s("c", "d"), one("")], label="scalar")
    yield C("StringJoin", [s("a"), s("b", "c")], label="mismatch")
    yield C("StringJoin", [s(b"\0\xff"), s("é")], label="bytes")
    for dtype in dtypes_of("AsString"):
        if dtype not in (tf.string,):
            yield C("AsString", sample(dtype, (4,), 2), label=dtype.name)
    f = np.float32([1.5, -0.25, 1e10, 1e-7, np.inf, -np.inf, np.nan, 0.1])
    yield C("AsString", f, precision=3, label="precision")
    yield C("AsString", f, scientific=True, label="scientific")
    yield C("AsString", f, shortest=True, label="shortest")
    yield C("AsString", f, width=12, fill="0", label="zero-filled")
    yield C("AsString", np.int32([5, -5]), width=6, label="wide")
    yield C("AsString", np.int32([5, -5]), width=6, fill="-", label="left")
    yield C("AsString", np.int32([5, -5]), width=4, fill="+", label="signed")
    words = s("a", "b", "c", "d", "e", "f", shape=(2, 3))
    for label, axes in (
        ("rows", [1]),
        ("columns", [0]),
        ("both", [0, 1]),
        ("other-order", [1, 0]),
        ("negative", [-1]),
        ("none", []),
    ):
        yield C("ReduceJoin", words, np.int32(axes), separator=".", label=label)
    yield C("ReduceJoin", words, np.int32([0]), keep_dims=True, label="keep")
    yield C("ReduceJoin", words, np.int32([2]), label="out-of-range")
    texts = s("s3://x", "abc", "", "a\nc", "aXbXc", "123")
    for label, pattern in (
        ("prefix", "^s3://.*"),
        ("any", "a.c"),
        ("class", "[0-9]+"),
        ("choice", "abc|123"),
        ("empty", ""),
    ):
        yield C("StaticRegexFullMatch", texts, pattern=pattern, label=label)
        yield C("RegexFullMatch", texts, one(pattern), label=label)
    not_utf8 = s(b"a\xffb", b"\xff\xc3abc", b"aaa\xe4\xbd", b"\xc3", b"", "é")
    for pattern in ("a.*", ".*", "[^a]*", "\\w+", "(a|b)*", ""):
        yield C("StaticRegexFullMatch", not_utf8, pattern=pattern, label=f"not-utf8-{pattern}")
        yield C("RegexFullMatch", not_utf8, one(pattern), label=f"not-utf8-{pattern}")
    broken = s(b"a\xffb", b"\xff\xfe", b"\xe2\x82", b"a\xe2\x82b", b"\x82a", b"\xed\xa0\x80", b"x\xe0\x80\x80", b"\xf4\x90\x80\x80", b"\xc0\x80", b"caf\xc3\xa9")
    for pattern in (".", "[^a]", "\\W", "^.?", "x*", "", ".*", "a|", "\\b", "(.)(.)", "b$"):
        yield C("StaticRegexReplace", broken, pattern=pattern, rewrite="<\\0>", label=f"broken-{pattern}")
        yield C("StaticRegexReplace", broken, pattern=pattern, rewrite="<\\0>", replace_global=False, label=f"broken-first-{pattern}")
        yield C("StaticRegexFullMatch", broken, pattern=pattern, label=f"broken-{pattern}")
    yield C("RegexFullMatch", texts, one("(unclosed"), label="bad")
    yield C("StaticRegexReplace", texts, pattern="X", rewrite="--", label="all")
    yield C("StaticRegexReplace", texts, pattern="X", rewrite="--", replace_global=False, label="first")
    yield C("StaticRegexReplace", texts, pattern="([a-z])([A-Z])", rewrite="\\2\\1", label="groups")
    for rewrite in ("\\5", "\\1", "\\0\\9", "x\\q", "a\\", "\\\\5", "<\\0>"):
        for first in (True, False):
            yield C("StaticRegexReplace", s("abcb", "zz"), pattern="b", rewrite=rewrite, replace_global=not first, label=f"rewrite-{rewrite}-{first}")
    for dtype in (tf.float32, tf.float64, tf.int32, tf.int64):
        yield C("StringToNumber", s("1", "-12", " 7 ", "0"), out_type=dtype, label=dtype.name)
    yield C("StringToNumber", s("1.5e3", "inf", "-0.0", "nan"), label="floats")
    yield C("StringToNumber", s("1x"), label="bad")
    yield C("StringToNumber", s("99999999999"), out_type=tf.int32, label="too-large")
    yield C("StringToNumber", s(""), out_type=tf.int64, label="empty")
    yield C("StringFormat", [np.float32([1, 2, 3]), np.int32(7)], template="a {} b {}", placeholder="{}")
    yield C("StringFormat", [np.arange(20)], template="%s", summarize=2, label="summarised")
    yield C("ShardedFilename", one("/x/model"), 3, 12)
    yield C("ShardedFilespec", one("/x/model"), 12)
    yield C("MatchingFiles", one("/nonexistent-directory/*"), label="none")
    yield C("ReadFile", one("/nonexistent-directory/file"), label="missing")
    for op in ("Add",):
        yield C(op, s("a", "b"), s("c", "d"), label="concatenates")
    yield C("ScalarSummary", s("a", "b"), np.float32([1, 2]))
    yield C("MergeSummary", [one(b""), one(b"")], label="empty")
