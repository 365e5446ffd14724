"""Specs of strings: ops/string.def.

Left out: the fingerprint of rows without elements of strings, which TensorFlow does not set; and in UTF-8 parts of a negative position with a negative length, which have no
meaning.
"""

import base64

import numpy as np
import tensorflow as tf

from draw import spec
from opcase import C

WORDS = ["", "a", "abc", "Hello World", "é", "日本語", "-12", "3.5", "a,b;c", "  x ", "\t a\n", b"\x00z", b"\xff\xfe", "straße", "q" * 40, "ΑΣ ΟΔΟΣ", "ǅ", "ﬁn", "İ", "aé日𝄞z", "x,,y", ",", "a  b   c", "w" * 100]
TEXT = [w for w in WORDS if isinstance(w, str)]


def texts(values, shape=None):
    values = [v.encode() if isinstance(v, str) else v for v in values]
    a = np.empty(len(values), object)
    a[:] = values
    return a.reshape(shape if shape is not None else (len(values),))


def scalar(value):
    return texts([value], ())


def strings(d, **of_shape):
    return d.texts(d.shape(**of_shape), WORDS)


def random_bytes(d, longest=200):
    return d.rng.integers(0, 256, d.int(0, longest), dtype=np.uint8).tobytes()


# ---- numbers ----


def hashed(d):
    shape = d.shape(max_rank=3)
    return texts((random_bytes(d) for _ in range(int(np.prod(shape)))), shape) if d.chance(0.6) else d.texts(shape, WORDS)


def buckets(d):
    return d.one(1, 2, 10, 1000, 2**31, 2**40 + 7, 2**63 - 1)


@spec("StringToHashBucket", "StringToHashBucketFast")
def to_bucket(d):
    return C(d.op, hashed(d), num_buckets=buckets(d))


@spec("_TensorToHashBucketFast")
def numbers_to_bucket(d):
    """Of dtypes without a sign TensorFlow's kernel refuses all values."""
    return C(d.op, d.values(d.dtype(), d.shape(max_rank=3), special=0.3), num_buckets=buckets(d))


@spec("StringToHashBucketStrong")
def to_bucket_strong(d):
    key = [d.int(-(2**62), 2**62), d.one(0, 1, -1, 2**63 - 1)]
    return C(d.op, hashed(d), num_buckets=buckets(d), key=key if d.chance(0.95) else d.one([1], [1, 2, 3], []))


FINGERPRINT_TYPES = (tf.float32, tf.float64, tf.int32, tf.uint8, tf.int8, tf.int64, tf.string, tf.bool, tf.half)


@spec("Fingerprint")
def fingerprint(d):
    dtype = d.one(*FINGERPRINT_TYPES, tf.string)
    shape = d.shape(min_rank=0 if d.chance(0.05) else 1, max_rank=4)
    if dtype == tf.string and 0 in shape[1:]:
        shape = (2, 3)
    data = d.values(dtype, shape) if dtype != tf.string else d.texts(shape, WORDS)
    method = scalar("farmhash64" if d.chance(0.95) else "md5")
    return C(d.op, data, method if d.chance(0.95) else method.reshape(1))


@spec("StringLength")
def string_length(d):
    return C(d.op, strings(d), unit=d.one("BYTE", "UTF8_CHAR"))


# ---- a string for each string ----


@spec("StringLower", "StringUpper")
def string_case(d):
    return C(d.op, strings(d), encoding=d.one("", "utf-8", "utf-8", "utf-8" if d.chance(0.9) else "utf-16"))


@spec("StringStrip")
def string_strip(d):
    return C(d.op, strings(d))


@spec("EncodeBase64")
def encode_base64(d):
    return C(d.op, hashed(d), pad=d.chance(0.5))


@spec("DecodeBase64")
def decode_base64(d):
    def one():
        text = base64.urlsafe_b64encode(random_bytes(d, 30))
        if d.chance(0.5):
            text = text.rstrip(b"=")
        return d.one(text + b"=", b"=", b"==", b"====", b"a+b/", b"a b=", b"YW=I", text[:-1]) if d.chance(0.01) else text

    shape = d.shape(max_rank=3)
    return C(d.op, texts((one() for _ in range(int(np.prod(shape)))), shape))


# What patterns are made of, and how RE2 reads it beside other engines: sets, anchors, flags, groups, what is a literal after
# all, and what is refused. Left out is \C, half of a character of which PCRE2 knows nothing.
ATOMS = """a b c . \\d \\w \\s \\D \\W \\S \\b \\B ^ $ \\A \\z é 日 [a-c] [^a] [é-ü] [^\\n] [a\\]b] []a] [^]a] [a-] [\\d-z] [\\w-.] [\\S\\n]
    [[:alpha:]] [[:^digit:]] [[:punct:]-] [:alpha:] [[.a.]] [[=a=]] [a&&b] [\\x00-\\x7f] \\pL \\PL \\p{Greek} \\p{^Lu} \\pC [\\pN_] \\p{Any}
    \\x41 \\x{65e5} \\x{d800} \\101 \\07 \\08 \\n \\t \\v \\f \\. \\/ \\_ \\Qa.b\\E (?i:A) (?i)é (?i)k (?i)[a-k] (?i)\\w
    (?m)^ (?m)$ (?s). (a|ab) (a*) (?:a|b) (?P<n>b) (?P<1é>a) () (|a) { } ] , a{,3} a{01} {a} (a{0}) a{99999999999} #""".split() + [" ", "a\n"]
REFUSED = """( ) [ [a [b-a] [a-\\d] * | \\ \\1 \\8 \\Z \\h \\e \\K \\cA \\x \\x{ \\x{} \\x{41 \\x{110000} \\x4 \\p{Foo} \\p{greek} \\p{Grek} \\pX \\p \\p{L (?=a)
    (?!a) (?<=a) (?<n>a) (?#x) (?R) (?1) (?|a) (?>a) (?x) (?P=n) (?P<> (?P<n-a>a) (?P<n (?-) (?i-) (?i--s) (? a** a*+ a{2}{3} a{2,1} a{1001} (a{40}){40}""".split()
FLAGS = ["(?i)", "(?s)", "(?m)", "(?U)", "(?-i)", "\\Q\\E"]  # between atoms, and no atoms
QUANTIFIERS = ["*", "+", "?", "*?", "+?", "??", "{2}", "{1,}", "{0,2}", "{1,2}?", "(?i)*"]


def pattern_of(d):
    if d.chance(0.06):
        return "a" + d.one(*REFUSED)  # alone, since TensorFlow's client takes [[:alpha:]] in a message for a node
    pattern = ""
    for _ in range(d.int(1, 4)):
        pattern += d.one(*FLAGS) if d.chance(0.1) else ""
        pattern += d.one(*ATOMS) + (d.one(*QUANTIFIERS) if d.chance(0.3) else "") + ("|" if d.chance(0.1) else "")
    return "(" + pattern + ")" if d.chance(0.15) else pattern


def subjects(d):
    own = ["ab", "aab", "ABC", "a.b", "KkK", "ſs", "a\nb", "\n", "ab\n", " a b ", "\x0b", "x-y", "]", "a]", "{a}", "a{,3}", "[]", "\\", "e\u0301", b"a\xff", b"\xe6\x97", b"\xed\xa0\x80"]
    return d.texts(d.shape(max_rank=3, max_dim=8), TEXT + own)


@spec("RegexReplace")
def regex_replace(d):
    rewrite = d.one("", "x", "<\\0>", "\\\\", "long text", "\\1", "[\\0\\1]", "a\\q")
    pattern, rewrite = scalar(pattern_of(d)), scalar(rewrite)
    if d.chance(0.05):
        pattern, rewrite = d.one((pattern.reshape(1), rewrite), (pattern, rewrite.reshape(1)))
    return C(d.op, subjects(d), pattern, rewrite, replace_global=d.chance(0.7))


@spec("Substr")
def substr(d):
    unit = d.one("BYTE", "UTF8_CHAR")
    shape = d.shape(max_rank=2, max_dim=4)
    word = ["Hello World", "日本語日本語", "aé日𝄞z", "w" * 30]
    if unit == "UTF8_CHAR":
        word.append(b"\xff\x80abc\xc3")  # in bytes an error shows the string, and the client can read only UTF-8
    at = d.one(shape, shape, (), shape[1:], tuple(1 for _ in shape))
    if d.chance(0.03):
        at = d.shape(max_rank=3)
    n = int(np.prod(at, dtype=np.int64))
    dtype = d.one(np.int32, np.int64)
    pos = np.asarray([d.int(-5, 5) for _ in range(n)], dtype).reshape(at)
    size = np.asarray([d.int(0, 7) for _ in range(n)], dtype).reshape(at)
    if n and d.chance(0.1):
        pos.flat[d.int(0, n - 1)] = d.one(6, 12, -12, np.iinfo(dtype).max, np.iinfo(dtype).min)
    if n and d.chance(0.2):
        size.flat[d.int(0, n - 1)] = d.one(np.iinfo(dtype).max, 100) if unit == "UTF8_CHAR" else d.one(np.iinfo(dtype).max, -1)
    if d.chance(0.03):
        size = size.reshape(*at, 1)
    return C(d.op, d.texts(shape, word), pos, size, unit=unit)


# ---- parts ----


@spec("StringSplit")
def string_split(d):
    delimiter = scalar(d.one(" ", ",", ", ", ",;", "", "a"))
    shape = (d.one(0, 1, 3, 8),) if d.chance(0.95) else d.one((), (2, 2))
    return C(d.op, d.texts(shape, WORDS), delimiter if d.chance(0.95) else delimiter.reshape(1), skip_empty=d.chance(0.6))


@spec("StringSplitV2")
def string_split_v2(d):
    sep = scalar(d.one("", "", " ", ",", ",,", "  ", "abc", "é"))
    shape = (d.one(0, 1, 3, 8),) if d.chance(0.95) else d.one((), (2, 2))
    return C(d.op, d.texts(shape, WORDS), sep if d.chance(0.95) else sep.reshape(1), maxsplit=d.one(-1, -1, 0, 1, 2, 5, -7))


def splits(d, n, rows, dtype):
    cuts = np.sort(d.rng.integers(0, n + 1, max(rows - 1, 0)))
    all_cuts = np.concatenate([[0], cuts, [n]]).astype(dtype)
    if d.chance(0.08):
        all_cuts = d.one(all_cuts[:-1], all_cuts[::-1].copy(), all_cuts + 1, all_cuts[:0], np.asarray([0, -1, n], dtype), all_cuts.reshape(1, -1))
    return all_cuts


@spec("StringNGrams")
def string_ngrams(d):
    n = d.int(0, 12)
    widths = [d.int(1, 5) for _ in range(d.int(0, 3))]
    preserve = d.chance(0.4)
    if d.chance(0.03):
        widths += [d.one(0, -1)]
    attrs = dict(left_pad=d.one("", "L"), right_pad=d.one("", "RR"), pad_width=d.int(0 if preserve and not widths else -1, 4))
    return C(d.op, d.texts((n,), TEXT), splits(d, n, d.int(1, 5), d.one(np.int32, np.int64)), separator=d.one("", " ", "--"), ngram_widths=widths, preserve_short_sequences=preserve, **attrs)


@spec("UnsortedSegmentJoin")
def segment_join(d):
    shape = d.shape(min_rank=1, max_rank=3, zero=0.03)
    rank = d.int(1, len(shape)) if d.chance(0.97) else d.int(0, len(shape))
    num = d.int(0 if d.chance(0.05) else 1, 6)
    ids = d.indices(num, shape[:rank], d.one(tf.int32, tf.int64), wrong=0.03)
    count = d.one(np.int32, np.int64)(num if d.chance(0.97) else -1)
    return C(d.op, d.texts(shape, WORDS), ids, count if d.chance(0.97) else count.reshape(1), separator=d.one("", ",", " - "))


# ---- Unicode ----

ENCODINGS = ["UTF-8", "UTF-8", "utf8", "UTF-16-BE", "UTF-32-BE", "US-ASCII", "ISO-8859-1", "windows-1252"]
PYTHON = {"UTF-16-BE": "utf-16-be", "UTF-32-BE": "utf-32-be", "US-ASCII": "ascii", "ISO-8859-1": "latin-1", "windows-1252": "cp1252"}


def encoded(d, shape):
    """Strings in an encoding, some of them broken."""
    encoding = d.one(*ENCODINGS) if d.chance(0.97) else "no such encoding"

    def one():
        text = d.one(*TEXT, "tab\tand\x01", "�", "\x00z", "end\x7f\x80").encode(PYTHON.get(encoding, "utf-8"), "replace")
        return text if d.chance(0.9) else d.one(b"\xff\xfe", b"\xc3", b"a\x80b", b"\xe6\x97", b"\xed\xa0\x80x", b"\xf4\x90\x80\x80", text[:-1])

    return texts((one() for _ in range(int(np.prod(shape)))), shape), encoding


def unicode_attrs(d):
    replacement = d.one(65533, 65533, 32, 0x1F600) if d.chance(0.97) else d.one(-1, 0x110000)
    return dict(errors=d.one("replace", "replace", "ignore", "strict" if d.chance(0.3) else "ignore"), replacement_char=replacement)


@spec("UnicodeDecode", "UnicodeDecodeWithOffsets")
def unicode_decode(d):
    values, encoding = encoded(d, d.shape(max_rank=3, max_dim=4))
    # With offsets and splits of int32 TensorFlow's process dies.
    splits_type = tf.int64 if d.op == "UnicodeDecodeWithOffsets" else d.one(tf.int32, tf.int64)
    return C(d.op, values, input_encoding=encoding, replace_control_characters=d.chance(0.3), Tsplits=splits_type, **unicode_attrs(d))


@spec("UnicodeTranscode")
def unicode_transcode(d):
    values, encoding = encoded(d, d.shape(max_rank=3, max_dim=4))
    output = d.one("UTF-8", "UTF-16-BE", "UTF-32-BE")
    return C(d.op, values, input_encoding=encoding, output_encoding=output, replace_control_characters=d.chance(0.3), **unicode_attrs(d))


@spec("UnicodeEncode")
def unicode_encode(d):
    n = d.int(0, 12)
    codes = np.asarray([d.one(65, 0xE9, 0x65E5, 0x1F600, 0, 0x10FFFD) for _ in range(n)], np.int32)
    if n and d.chance(0.2):
        codes[d.int(0, n - 1)] = d.one(-1, 0xD800, 0x110000, 0xFFFF, 0xFDD0, 2**31 - 1)
    return C(d.op, codes, splits(d, n, d.int(1, 5), d.one(np.int32, np.int64)), output_encoding=d.one("UTF-8", "UTF-16-BE", "UTF-32-BE"), **unicode_attrs(d))


@spec("UnicodeScript")
def unicode_script(d):
    codes = [0, 65, 0xE9, 0x3B1, 0x410, 0x5D0, 0x627, 0x905, 0xE01, 0x3042, 0x30A2, 0x65E5, 0xAC00, 0x300, 0x1F600, 0xD800, 0x110000, -1, 2**31 - 1, -(2**31)]
    shape = d.shape(max_rank=3)
    return C(d.op, np.asarray([d.one(*codes) for _ in range(int(np.prod(shape)))], np.int32).reshape(shape))
