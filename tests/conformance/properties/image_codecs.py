"""Specs of image files: the decoders and encoders in ops/image.def.

Files come from TensorFlow's own encoders and from small writers of GIF, BMP and of PNG's rarer forms here; some are cut off,
have wrong bytes, or claim sizes that they have not. Left out, because TensorFlow gives bytes that it never set or dies: GIF
frames that end in the middle, JPEG files to be recovered that do not end in the data of a scan,
and BMP files that are stored from the top and read as another type than uint8; and, of ExtractJpegShape, damaged
progressive files: TensorFlow's build of libjpeg-turbo accepts parameters of a scan that the system's refuses.
"""

import functools
import struct
import zlib

import numpy as np
import tensorflow as tf

from draw import spec
from opcase import C

# ---- files ----


@functools.lru_cache(maxsize=None)
def run(op, key, shape, dtype, attrs):
    """A file that TensorFlow writes of a smooth image with some noise."""
    rng = np.random.default_rng(key)
    height, width, channels = shape
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(channels), indexing="ij")
    top = np.iinfo(dtype).max
    smooth = 0.5 + 0.4 * np.sin(y / 5 + c) * np.cos(x / 3 - c)
    image = np.clip((smooth + rng.normal(0, 0.1, shape)) * top, 0, top).astype(dtype)
    with tf.device("CPU"), tf.init_scope():
        return op(image, **dict(attrs)).numpy()


def jpeg(d, small=False):
    side = 17 if small else 50
    shape = (d.int(1, side), d.int(1, side), d.one(1, 3, 3))
    attrs = dict(quality=d.one(5, 50, 95, 100), progressive=d.chance(0.3), optimize_size=d.chance(0.3), chroma_downsampling=d.chance(0.6))
    return run(tf.io.encode_jpeg, d.int(0, 5), shape, "uint8", tuple(attrs.items()))


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def plain_png(d):
    """Any colour type and depth, interlaced or not, perhaps with a palette and with transparency."""
    color, depth = d.one((0, 1), (0, 2), (0, 4), (0, 8), (0, 16), (2, 8), (2, 16), (3, 1), (3, 2), (3, 4), (3, 8), (4, 8), (4, 16), (6, 8), (6, 16))
    height, width = d.int(1, 20), d.int(1, 20)
    samples = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[color]
    interlaced = d.chance(0.3)
    passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)] if interlaced else [(0, 0, 1, 1)]
    rows = b""
    for x0, y0, dx, dy in passes:
        w, h = -(-(width - x0) // dx), -(-(height - y0) // dy)
        if w > 0 and h > 0:
            size = -(-w * samples * depth // 8)
            rows += b"".join(bytes([d.int(0, 4)]) + d.rng.bytes(size) for _ in range(h))
    parts = [chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlaced))]
    if d.chance(0.2):
        parts.append(chunk(b"gAMA", struct.pack(">I", 45455)))
    if color == 3:
        parts.append(chunk(b"PLTE", d.rng.bytes(3 * (1 << depth))))
        if d.chance(0.4):
            parts.append(chunk(b"tRNS", d.rng.bytes(d.int(1, 1 << depth))))
    elif color in (0, 2) and d.chance(0.3):
        parts.append(chunk(b"tRNS", d.rng.bytes(2 * samples)))
    if d.chance(0.2):
        parts.append(chunk(b"tEXt", b"Comment\0some words"))
    data = zlib.compress(rows)
    cut = d.int(0, len(data))
    parts += [chunk(b"IDAT", data[:cut]), chunk(b"IDAT", data[cut:]), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def png(d):
    if d.chance(0.6):
        return plain_png(d)
    shape = (d.int(1, 20), d.int(1, 20), d.int(1, 4))
    return run(tf.io.encode_png, d.int(0, 5), shape, d.one("uint8", "uint16"), (("compression", d.int(-1, 9)),))


def lzw(pixels, depth):
    """GIF's compression in its simplest form: a clear code in front of each few pixels."""
    clear, end = 1 << depth, (1 << depth) + 1
    bits, n = 0, 0
    codes = []
    for i, p in enumerate(pixels):
        if i % ((1 << depth) - 2) == 0:
            codes.append(clear)
        codes.append(int(p))
    for code in [*codes, end]:
        bits |= code << n
        n += depth + 1
    data = bits.to_bytes((n + 7) // 8, "little")
    blocks = b"".join(bytes([len(data[i : i + 255])]) + data[i : i + 255] for i in range(0, len(data), 255))
    return bytes([depth]) + blocks + b"\0"


def gif(d, frames=None):
    depth = d.int(2, 6)
    width, height = d.int(1, 20), d.int(1, 20)
    has_global = d.chance(0.9)
    out = b"GIF8" + d.one(b"9", b"7") + b"a" + struct.pack("<HHBBB", width, height, (0x80 | (depth - 1)) if has_global else 0, 0, 0)
    out += d.rng.bytes(3 << depth) if has_global else b""
    for _ in range(d.one(1, 1, 2, 4) if frames is None else frames):
        if d.chance(0.4):
            out += b"!\xf9\x04" + bytes([d.one(0, 1, 5, 9), 0, 0, d.int(0, (1 << depth) - 1)]) + b"\0"
        if d.chance(0.2):
            out += b"!\xfe\x05hello\x03abc\0"
        w, h = (width, height) if d.chance(0.6) else (d.int(1, 20), d.int(1, 20))
        left, top = (0, 0) if d.chance(0.6) else (d.int(0, 12), d.int(0, 12))
        has_local, interlaced = d.chance(0.3 if has_global else 0.9), d.chance(0.3)
        out += b"," + struct.pack("<HHHHB", left, top, w, h, (0x80 if has_local else 0) | (0x40 if interlaced else 0) | (depth - 1))
        out += d.rng.bytes(3 << depth) if has_local else b""
        out += lzw(d.rng.integers(0, 1 << depth, w * h), depth)
    return out + (b";" if d.chance(0.9) else b"")


def bmp(d):
    bits = d.one(8, 24, 24, 32, 31) if d.chance(0.95) else d.one(1, 4, 16, 0, -24)
    width, height = d.int(1, 20), d.int(1, 20)
    channels = max(bits // 8, 1)
    header = d.one(54, 54, 122, 32) if channels > 1 else 54 + 1024
    body = d.rng.bytes(height * (-(-channels * width // 4) * 4))
    fields = struct.pack("<2sIHHIIiiHhIIiiII", b"BM", header + len(body), 0, 0, header, 40, width, height if d.op == "DecodeImage" or d.chance(0.7) else -height, 1, bits, 0, len(body), 0, 0, 0, 0)
    return (fields + bytes(2000))[:header] + body


def claims(d, data):
    """The file with another size in its header."""
    big = d.one(0, 1, 40, 255, 65535, 2**31 - 1, 2**31, 2**32 - 1)
    if data.startswith(b"\x89PNG"):
        header = bytearray(data[16:29])
        at = d.one(0, 4)
        header[at : at + 4] = struct.pack(">I", big)
        return data[:8] + chunk(b"IHDR", bytes(header)) + data[33:]
    if data.startswith(b"BM"):
        at = d.one(10, 18, 22)
        return data[:at] + struct.pack("<I", big) + data[at + 4 :]
    at = max(data.find(b"\xff\xc0"), data.find(b"\xff\xc2"))
    if at > 0:
        at += d.one(5, 7)
        return data[:at] + struct.pack(">H", d.one(0, 1, 40, 100)) + data[at + 2 :]
    return data


def damaged(d, data):
    """Cut off, with other bytes, or with something behind it."""
    data = bytearray(data)
    how = d.int(0, 4)
    if how == 0:
        return bytes(data[: d.int(0, len(data))])
    if how == 1:
        return bytes(data) + d.rng.bytes(d.int(1, 20))
    if how == 2:
        return claims(d, bytes(data))
    for _ in range(d.int(1, 3)):
        data[d.int(0, len(data) - 1)] = d.int(0, 255)
    return bytes(data)


def text(value):
    out = np.empty((), object)
    out[()] = value
    return out


def contents(d, make, wrong=0.25):
    data = make(d)
    if d.chance(wrong) and not data.startswith(b"GIF"):
        data = damaged(d, data)
    elif d.chance(0.03):
        data = d.one(b"", b"\xff\xd8\xff", b"GIF89a", b"BM", b"\x89PNG\r\n\x1a\n", b"no image", b"RIFF1234WEBPVP8 ")
    return text(data) if d.chance(0.97) else text(data).reshape(1)


def channels(d):
    return d.one(0, 0, 1, 3, 4) if d.chance(0.97) else d.one(2, -1, 5, 2**31)


# ---- decoders ----


def jpeg_attrs(d):
    method = d.one("", "INTEGER_FAST", "INTEGER_ACCURATE") if d.chance(0.97) else "FLOAT"
    ratio = d.one(1, 1, 2, 4, 8) if d.chance(0.97) else d.one(3, 0, -1)
    fraction = d.one(1.0, 1.0, 0.5, 0.0, 2.0)
    return dict(channels=d.one(0, 0, 1, 3) if d.chance(0.9) else channels(d), ratio=ratio, fancy_upscaling=d.chance(0.5), try_recover_truncated=d.chance(0.4), acceptable_fraction=fraction, dct_method=method)


def cut_jpeg(d):
    """A file that ends in its only scan."""
    data = jpeg(d)
    at = data.find(b"\xff\xda")
    return data if data.count(b"\xff\xda") > 1 else data[: d.int(at + 15, len(data))]


@spec("DecodeJpeg")
def decode_jpeg(d):
    attrs = jpeg_attrs(d)
    if attrs["try_recover_truncated"]:  # elsewhere TensorFlow may read the end of a file again and again
        return C(d.op, contents(d, cut_jpeg, 0), **attrs)
    make = jpeg if d.chance(0.85) else d.one(png, bmp, lambda d: gif(d, d.int(1, 2)))
    return C(d.op, contents(d, make, 0.4), **attrs)


def window(d, data, ratio):
    """A part of the image, if `data` is a JPEG file with a header."""
    at = max(data.find(b"\xff\xc0"), data.find(b"\xff\xc2"))
    height, width = (-(-n // ratio) for n in struct.unpack(">HH", (data[at + 5 : at + 9] + bytes(4))[:4]))
    y, x = d.int(0, max(height - 1, 0)), d.int(0, max(width - 1, 0))
    part = [y, x, d.int(1, max(height - y, 1)), d.int(1, max(width - x, 1))]
    if d.chance(0.1):
        part[d.int(0, 3)] = d.one(0, -1, 100)
    return np.asarray(part, np.int32)


@spec("DecodeAndCropJpeg")
def crop_jpeg(d):
    data = contents(d, jpeg if d.chance(0.95) else d.one(png, bmp, gif), 0.15)
    attrs = jpeg_attrs(d)
    attrs["try_recover_truncated"] = False  # TensorFlow copies rows from above the image where nothing could be read
    part = window(d, data.ravel()[0], max(attrs["ratio"], 1))
    if d.chance(0.03):
        part = d.one(part[:3], part.reshape(2, 2), part.reshape(1, 4))
    return C(d.op, data, part, **attrs)


@spec("DecodePng")
def decode_png(d):
    make = png if d.chance(0.85) else d.one(jpeg, bmp, lambda d: gif(d, d.int(1, 2)))
    dtype = d.one(tf.uint8, tf.uint16)
    return C(d.op, contents(d, make), channels=channels(d), dtype=dtype)


@spec("DecodeGif")
def decode_gif(d):
    return C(d.op, contents(d, gif if d.chance(0.8) else d.one(jpeg, png, bmp)))


@spec("DecodeBmp")
def decode_bmp(d):
    return C(d.op, contents(d, bmp if d.chance(0.9) else d.one(jpeg, png, gif)), channels=channels(d))


@spec("DecodeImage")
def decode_image(d):
    make = d.one(jpeg, png, gif, bmp)
    wrong = 0 if make is bmp else 0.25
    dtype = d.one(tf.uint8, tf.uint16, tf.float32)
    return C(d.op, contents(d, make, wrong), channels=channels(d), dtype=dtype, expand_animations=d.chance(0.5))


@spec("ExtractJpegShape")
def jpeg_shape(d):
    data = (jpeg if d.chance(0.95) else png)(d)
    wrong = 0 if b"\xff\xc2" in data else 0.4
    return C(d.op, contents(d, lambda d: data, wrong), output_type=d.one(tf.int32, tf.int64))


# ---- encoders ----


def image(d, dtype, shape):
    top = np.iinfo(dtype).max
    if d.chance(0.3):
        return d.rng.integers(0, top + 1, shape).astype(dtype)
    ramp = np.linspace(0, d.int(1, top), int(np.prod(shape)) or 1)[: int(np.prod(shape))]
    return ramp.astype(dtype).reshape(shape)


def one_image(d):
    shape = (d.int(1, 40), d.int(1, 40), d.one(1, 3)) if d.chance(0.9) else d.shape(min_rank=1, max_rank=4, max_dim=4)
    return image(d, np.uint8, shape)


@spec("EncodeJpeg")
def encode_jpeg(d):
    quality = d.int(0, 100) if d.chance(0.97) else d.one(-1, 101)
    density = [d.one(300, 72, 0, 65535, 65536, -1) for _ in range(2)]
    xmp = d.one("", "", "<x:xmpmeta/>", "m" * 65505 if d.chance(0.2) else "é")
    pixels = one_image(d)
    form = d.one("", "grayscale" if pixels.shape[-1] == 1 else "rgb") if d.chance(0.9) else d.one("grayscale", "rgb")
    attrs = dict(format=form, progressive=d.chance(0.3), optimize_size=d.chance(0.3), chroma_downsampling=d.chance(0.6), density_unit=d.one("in", "cm"))
    return C(d.op, pixels, quality=quality, x_density=density[0], y_density=density[1], xmp_metadata=xmp, **attrs)


@spec("EncodeJpegVariableQuality")
def encode_jpeg_quality(d):
    quality = np.int32(d.int(0, 100) if d.chance(0.95) else d.one(-1, 101, 2**31 - 1))
    return C(d.op, one_image(d), quality if d.chance(0.95) else quality.reshape(1))


@spec("EncodePng")
def encode_png(d):
    batch = d.shape(max_rank=2, max_dim=3)
    shape = (*batch, d.int(1, 20), d.int(1, 20), d.int(1, 4)) if d.chance(0.9) else d.shape(max_rank=5, max_dim=5, zero=0.2)
    dtype = d.one(np.uint8, np.uint16)
    return C(d.op, image(d, dtype, shape), compression=d.int(-1, 9) if d.chance(0.97) else d.one(-2, 10))
