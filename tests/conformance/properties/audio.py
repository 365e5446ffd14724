"""Specs of sound: ops/audio.def.

Left out: samples and spectra that are not finite, of which TensorFlow's transform makes other numbers than others do; attributes of
AudioMicrofrontend with which TensorFlow ends the process, reads beyond a table or shifts by more than a number has bits.
"""

import struct

import numpy as np
import tensorflow as tf

from draw import spec
from opcase import C


def text(value):
    out = np.empty((), object)
    out[()] = value
    return out


def wav(d):
    """A WAV file, with chunks that may be in one; sometimes damaged."""
    channels, frames = d.int(1, 4), d.int(0, 30)
    rate, bits, form = d.one(8000, 44100, 1, 2**31), 16, 1
    if d.chance(0.06):
        channels, bits, form = d.one((0, 16, 1), (2, 8, 1), (2, 24, 1), (1, 16, 3))
    per_frame = channels * 2
    head = b"".join(d.one(b"JUNK", b"bext", b"iXML", b"LIST" if d.chance(0.1) else b"link") + struct.pack("<I", 4) + b"abcd" for _ in range(d.one(0, 0, 1, 2)))
    long_format = d.chance(0.3)
    fields = struct.pack("<HHIIHH", form, channels, rate, (rate * per_frame) % 2**32, per_frame, bits)
    data = d.rng.bytes(2 * channels * frames)
    out = b"WAVE" + head + b"fmt " + struct.pack("<I", 18 if long_format else 16) + fields + (b"\0\0" if long_format else b"")
    if d.chance(0.2):
        out += b"LIST" + struct.pack("<I", 3) + b"xyz"
    out += b"data" + struct.pack("<I", len(data)) + data
    if d.chance(0.2):
        out += d.one(b"LIST\x04\0\0\0abcd", b"LIST\x09\0\0\0abcd", b"data\0\0\0\0", b"xy")
    out = b"RIFF" + struct.pack("<I", len(out)) + out
    how = d.rng.random()
    if how < 0.1:
        return out[: d.int(0, len(out))]
    if how < 0.2:
        broken = bytearray(out)
        broken[d.int(0, min(len(out) - 1, 60))] = d.int(0, 255)
        return bytes(broken)
    return out


@spec("DecodeWav")
def decode_wav(d):
    contents = text(wav(d))
    sizes = [d.one(-1, -1, 0, 1, 2, 7, 40) if d.chance(0.97) else d.one(-2, 2**31) for _ in range(2)]
    return C(d.op, contents if d.chance(0.97) else contents.reshape(1), desired_channels=sizes[0], desired_samples=sizes[1])


@spec("EncodeWav")
def encode_wav(d):
    shape = (d.int(0, 40), d.int(1, 4)) if d.chance(0.9) else d.shape(max_rank=3)
    rate = np.int32(d.one(8000, 1, 44100, 2**31 - 1) if d.chance(0.95) else d.one(0, -1))
    audio = d.values(tf.float32, shape, -1.1, 1.1, special=0)
    return C(d.op, audio, rate if d.chance(0.97) else rate.reshape(1))


@spec("AudioSpectrogram")
def spectrogram(d):
    shape = (d.int(0, 200), d.int(1, 3)) if d.chance(0.95) else d.shape(max_rank=3)
    audio = d.values(tf.float32, shape, -1, 1, special=0)
    window, stride = d.one(2, 3, 16, 25, 64, d.int(2, 100)), d.int(1, 50)
    return C(d.op, audio, window_size=window, stride=stride, magnitude_squared=d.chance(0.5), rtol=1e-5, atol=1e-5)


@spec("Mfcc")
def mfcc(d):
    shape = (d.dim(3), d.dim(4), d.one(d.int(2, 20), 129, 257)) if d.chance(0.95) else d.shape(max_rank=4)
    spectra = d.values(tf.float32, shape, 0, 10, special=0)
    rate = np.int32(d.one(8000, 16000, 44100, 100) if d.chance(0.95) else d.one(0, -5))
    bands = d.int(1, 45)
    wanted = d.int(1, bands) if d.chance(0.95) else d.one(0, bands + 1)
    low, high = d.one(20.0, 0.0, 300.0), d.one(4000.0, 1000.0, 30000.0, 50.0)
    if d.chance(0.05):
        low, high = d.one((-1.0, 100.0), (200.0, 100.0), (100.0, 100.0))
    attrs = dict(filterbank_channel_count=bands, dct_coefficient_count=wanted, lower_frequency_limit=low, upper_frequency_limit=high)
    return C(d.op, spectra, rate if d.chance(0.97) else rate.reshape(1), rtol=1e-4, atol=1e-4, **attrs)


@spec("AudioMicrofrontend")
def microfrontend(d):
    rate = d.one(16000, 8000, 44100, 11025)
    window = d.one(25, 20, 30, 7, 50)
    step = d.int(1, window)
    low = d.one(125.0, 0.0, 300.0, d.real(0, 1000))
    samples = int(d.one(0, 1, 2, 3.7, 6) * window * rate / 1000) + d.int(0, 3)
    kind = d.one("noise", "loud", "quiet", "tone", "silence", "edges")
    at = np.arange(samples)
    audio = {
        "noise": d.rng.normal(0, 3000, samples),
        "loud": d.rng.integers(-32768, 32768, samples),
        "quiet": d.rng.integers(-3, 4, samples),
        "tone": 20000 * np.sin(at * d.real(0.01, 3)),
        "silence": np.zeros(samples),
        "edges": np.where(at // d.int(1, 50) % 2, -32768, 32767),
    }[kind]
    audio = np.clip(audio, -32768, 32767).astype(np.int16)
    pcan = d.chance(0.5)
    attrs = dict(
        sample_rate=rate,
        window_size=window,
        window_step=step,
        num_channels=d.one(32, 40, 1, 7),
        upper_band_limit=d.one(7500.0, 3800.0, 3000.0, low + d.real(100, 4000)),
        lower_band_limit=low,
        smoothing_bits=d.one(10, 10, 8, 14),
        even_smoothing=d.one(0.025, 0.0, 1.0, d.real()),
        odd_smoothing=d.one(0.06, 0.0, 1.0, d.real()),
        min_signal_remaining=d.one(0.05, 0.0, 1.0, d.real()),
        enable_pcan=pcan,
        pcan_strength=d.one(0.95, 0.5, 0.1),
        pcan_offset=d.one(80.0, 1.0, 1000.0),
        gain_bits=d.one(21, 21, 24, 18),
        enable_log=d.chance(0.7),
        scale_shift=d.one(6, 0, 3, 10),
        left_context=d.one(0, 0, 1, 3),
        right_context=d.one(0, 0, 1, 2),
        frame_stride=d.one(1, 1, 2, 5),
        zero_padding=d.chance(0.5),
        out_scale=d.one(1, 1, 64, 3, -2),
        out_type=d.one(tf.uint16, tf.float32),
    )
    if d.chance(0.03):
        audio = audio.reshape(1, -1)
    return C(d.op, audio, rtol=0, atol=0, **attrs)
