"""Specs of images: ops/image.def."""

import numpy as np
import tensorflow as tf

from draw import Program, made_by, spec
from opcase import C

# ---- resizing ----


def bent(d, shape, p=0.03):
    """The shape, or with probability p another rank or a dimension of another size."""
    shape = list(shape)
    if d.chance(p):
        return d.one(shape[:-1], shape + [2], [], [0 if i == d.int(0, len(shape) - 1) else s for i, s in enumerate(shape)])
    return shape


def image_shape(d, high=7):
    return [d.dim(3), d.dim(high, zero=0.02), d.dim(high, zero=0.02), d.one(1, 3, 4, d.dim(9, zero=0.02))]


def size(d, high=9):
    if d.chance(0.06):
        return d.one(np.int32([0, 3]), np.int32([3, -1]), np.int32([-1, -1]), np.int32([3]), np.int32([[3, 3]]), np.int32([3, 3, 3]), np.int32(3))
    return np.int32([d.int(1, high), d.int(1, high)])


def resize_attrs(d, half=True):
    attrs = {"align_corners": d.chance(0.3)}
    if half:
        attrs["half_pixel_centers"] = d.chance(0.4) and (not attrs["align_corners"] or d.chance(0.1))
    return attrs


# TensorFlow sums the products of a pixel in another order, so that what cancels out differs by the rounding of the terms.
TERMS = {"rtol": 1e-5, "atol": 1e-4}


def tame(x):
    """Without numbers whose products overflow: where they do depends on the order of the steps."""
    return np.where(np.abs(x.astype(np.float64)) > 1e30, np.asarray(2, x.dtype), x) if x.dtype.kind in "fV" else x


@spec("ResizeBilinear", "ResizeBicubic", "ResizeNearestNeighbor", "ResizeArea")
def resize(d):
    x = d.values(d.dtype(), bent(d, image_shape(d)))
    to = size(d, 20 if d.chance(0.2) else 9)
    if d.chance(0.1) and x.ndim == 4:
        to = np.int32(x.shape[1:3])
    if d.chance(0.03):
        to = np.int32([1, 2000])
    exact = d.op == "ResizeNearestNeighbor"
    return C(d.op, x if exact else tame(x), to, **({} if exact else TERMS), **resize_attrs(d, d.op != "ResizeArea"))


@spec("ResizeBilinearGrad", "ResizeBicubicGrad")
def resize_grad(d):
    x = image_shape(d)
    dy = [x[0], d.dim(9, zero=0.02), d.dim(9, zero=0.02), x[3]]
    dtype = d.dtype()
    # Half sums are kept in single precision and rounded once; the order of the terms is the same.
    return C(d.op, tame(d.values(tf.float32, bent(d, dy))), d.values(dtype, bent(d, x)), **({"atol": 1e-2} if dtype.size == 2 else TERMS), **resize_attrs(d))


@spec("ResizeNearestNeighborGrad")
def resize_nearest_grad(d):
    dy = [d.dim(3), d.dim(9, zero=0.02), d.dim(9, zero=0.02), d.dim(9, zero=0.02)]
    return C(d.op, d.values(d.dtype(), bent(d, dy)), size(d), **resize_attrs(d))


# ---- colour ----


def pixels(d, dtype, min_rank):
    """Colours: with equal channels, grey, black, outside of [0, 1]."""
    shape = d.shape(min_rank - 1, min_rank + 1) + (3,)
    x = d.values(dtype, shape, low=0, high=1, special=0) if d.chance(0.7) else d.values(dtype, shape, special=0)
    if d.chance(0.3) and x.size:
        x[..., 1] = x[..., d.one(0, 2)]
    if d.chance(0.2):
        x = np.round(x.astype(np.float64) * 2).astype(x.dtype) / np.asarray(2, x.dtype)
    if d.chance(0.05):
        x = d.one(x[..., :2], x.reshape(-1), x[..., None])
    return x


@spec("RGBToHSV", "HSVToRGB")
def colour_space(d):
    dtype = d.dtype()
    # Half types: each step is rounded, and a difference of one rounding may be as large as a hue of almost grey.
    return C(d.op, pixels(d, dtype, 1), **({"rtol": 2e-2, "atol": 2e-2} if dtype.size == 2 else {}))


@spec("AdjustHue", "AdjustSaturation", "AdjustContrastv2")
def adjust(d):
    """Infinities are left out: TensorFlow adds turns to a hue for ever."""
    x = pixels(d, tf.float32, 3)
    if d.op == "AdjustContrastv2" and d.chance(0.7):
        x = d.values(tf.float32, d.shape(3, 5, zero=0.03))
        x = np.where(np.abs(x) > 1e30, np.float32(2), x)
    by = np.float32(d.one(0, 0.5, 1, -0.3, -1, d.real(-3, 3), d.real(-3, 3)))
    if d.chance(0.04):
        by = np.float32([0.5])
    return C(d.op, x, by, rtol=2e-5, atol=2e-5)


@spec("AdjustContrast")
def adjust_contrast(d):
    """Without extreme integers: TensorFlow's order of a sum is that of its vector registers."""
    dtype = d.dtype()
    x = tame(d.values(dtype, d.shape(3, 5, zero=0.03), special=0 if tf.as_dtype(dtype).is_integer else 0.15))
    low, high = sorted([d.real(-20, 20), d.real(-20, 20)])
    scalars = [np.float32(v) for v in (d.one(0, 0.5, 1, -1, d.real(-3, 3)), low, high)]
    if d.chance(0.06):
        i = d.int(0, 2)
        scalars[i] = scalars[i][None]
    return C(d.op, x, *scalars, rtol=1e-4, atol=1e-3)


@spec("QuantizedResizeBilinear")
def quantized_resize(d):
    """Without empty batches: TensorFlow forgets the range of those."""
    dtype = d.dtype("T", (tf.quint8, tf.qint32, tf.float32))
    shape = image_shape(d, 6)
    shape[0] = max(1, shape[0])
    x = tame(d.values(tf.float32, bent(d, shape)))
    if dtype != tf.float32:
        wide = d.chance(0.3)
        x = d.values({"quint8": tf.uint8, "qint32": tf.int32}[dtype.name], x.shape, low=-(2**31) if wide else None, high=2**31 - 1 if wide else None).astype(dtype.as_numpy_dtype)
    low, high = np.float32(d.real(-3, 1)), np.float32(d.real(0, 4))
    if d.chance(0.04):
        low = low[None]
    return C(d.op, x, size(d), low, high, rtol=1e-5, atol=1e-4, align_corners=d.chance(0.3), half_pixel_centers=d.chance(0.3))


# ---- resampling ----

SAMPLINGS = ("lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle", "keyscubic", "mitchellcubic", "Lanczos3")


def scales(d):
    """Scale and translation."""
    s = np.float32([d.one(1, 0.5, 2, d.real(0.1, 4)), d.one(1, 0.25, 3, d.real(0.1, 4))])
    t = np.float32([d.one(0, 0, d.real(-4, 4)), d.one(0, -0.5, d.real(-4, 4))])
    if d.chance(0.08):
        i = d.int(0, 1)
        s[i] = d.one(0, -1, np.nan, np.inf, 1e-20, 100)
    if d.chance(0.05):
        s, t = d.one((s[:1], t), (s[None], t), (s, t[:1]), (s, t[0]))
    return s, t


def sampling_attrs(d):
    return {"kernel_type": "cubic" if d.chance(0.03) else d.one(*SAMPLINGS), "antialias": d.chance(0.6)}


@spec("ScaleAndTranslate")
def scale_and_translate(d):
    x = tame(d.values(d.dtype(), bent(d, image_shape(d))))
    return C(d.op, x, size(d), *scales(d), **TERMS, **sampling_attrs(d))


@spec("ScaleAndTranslateGrad")
def scale_and_translate_grad(d):
    x = image_shape(d)
    dy = tame(d.values(tf.float32, bent(d, [x[0], d.dim(9, zero=0.02), d.dim(9, zero=0.02), x[3]])))
    return C(d.op, dy, d.values(tf.float32, bent(d, x)), *scales(d), **TERMS, **sampling_attrs(d))


def differentiated(d, case):
    """A program that runs the node with constants and its gradient: TensorFlow's client asks for the transforms' rank."""

    def build():
        inputs = [tf.constant(v) for v in case.inputs]
        out = C(d.op, *inputs, **case.attrs).build()[0][0]
        return [([out, tf.gradients(out, inputs[:1])[0]], {})]

    return Program(d.op, build, rtol=1e-4, atol=1e-3)


@spec("ImageProjectiveTransformV2", "ImageProjectiveTransformV3")
def projective(d):
    """Integers stay in their type's range: others are undefined."""
    dtype = d.dtype("dtype")
    shape = bent(d, image_shape(d, 6))
    x = tame(d.values(dtype, shape, special=0 if tf.as_dtype(dtype).is_integer else 0.15))
    rows = d.one(1, shape[0] if shape else 1)
    t = np.zeros((rows, 8), np.float32)
    t[:, 0] = t[:, 4] = 1
    if d.chance(0.8):
        t += d.values(tf.float32, (rows, 8), low=-1, high=1, special=0.1) * np.float32([1, 1, 4, 1, 1, 4, 0.1, 0.1])
    if d.chance(0.2):
        t[:, 6:] = d.one(0, -1, 1)
    if d.chance(0.05):
        t = d.one(t[:, :7], np.concatenate([t, t, t]), t.reshape(-1))
    fill = [] if d.op.endswith("V2") else [np.float32([1] if d.chance(0.03) else d.int(0, 9))]
    how = {"interpolation": d.one("NEAREST", "BILINEAR"), "fill_mode": d.one("CONSTANT", "REFLECT", "WRAP", "NEAREST")}
    tolerance = {"rtol": 1e-4, "atol": 1e-3} if tf.as_dtype(dtype).is_floating and dtype.size > 2 else {"atol": 1} if tf.as_dtype(dtype).is_integer else {"atol": 0.1}
    case = C(d.op, x, t, size(d, 7), *fill, **tolerance, **how)
    return differentiated(d, case) if d.chance(0.3) and t.shape == (rows, 8) and x.ndim == 4 and tf.as_dtype(dtype) == tf.float32 else case


# ---- pieces of images ----


def boxes_of(d, n, special=0.04):
    """Corners in any order, some of them outside."""
    b = d.values(tf.float32, (n, 4), low=d.one(0, -0.3), high=d.one(1, 1.4), special=0)
    if d.chance(0.2):
        b = np.round(b * 2) / np.float32(2)
    if n and d.chance(special):
        b[d.int(0, n - 1), d.int(0, 3)] = d.one(np.nan, np.inf, 1e30, -1e30)
    return b


def crop_method(d):
    return d.one("bilinear", "bilinear", "nearest")


@spec("CropAndResize")
def crop_and_resize(d):
    dtype = d.dtype()
    shape, n = bent(d, image_shape(d)), d.dim(4)
    x = tame(d.values(dtype, shape))
    boxes, owners = boxes_of(d, n), d.indices(shape[0] if shape else 1, (n,), tf.int32, wrong=0.04)
    if d.chance(0.05):
        boxes, owners = d.one((boxes[:, :3], owners), (boxes[:-1], owners), (boxes, owners[None]), (boxes.reshape(-1), owners))
    case = C(d.op, x, boxes, owners, size(d, 6), **TERMS, method=crop_method(d), extrapolation_value=d.one(0.0, 2.5, -1.0))
    # TensorFlow's gradients compute with positions that are not finite.
    case.has_gradient = bool(np.all(np.abs(boxes) < 1e30))
    return case


def crops(d, channels):
    """How many crops there are, and the gradient of them."""
    n = d.dim(4)
    return n, tame(d.values(tf.float32, bent(d, [n, d.dim(5, 0.02), d.dim(5, 0.02), channels])))


@spec("CropAndResizeGradImage")
def crop_grad_image(d):
    """Boxes that overlap add up in any order in TensorFlow."""
    dtype = d.dtype()
    shape = [d.int(1, 3), d.dim(6, 0.02), d.dim(6, 0.02), d.dim(4)]
    n, dy = crops(d, shape[3])
    owners = d.indices(shape[0], (n,), tf.int32, wrong=0.04)
    wanted = np.int32(bent(d, shape))
    if d.chance(0.03):
        wanted = d.one(np.int32([-1, 3, 3, shape[3]]), wanted[None])
    return C(d.op, dy, boxes_of(d, n, 0), owners, wanted, T=dtype, method=crop_method(d), **({"atol": 0.05, "rtol": 0.02} if dtype.size == 2 else TERMS))


@spec("CropAndResizeGradBoxes")
def crop_grad_boxes(d):
    shape = image_shape(d, 6)
    shape[0] = max(1, shape[0])
    n, dy = crops(d, shape[3])
    x = tame(d.values(d.dtype(), bent(d, shape), special=0))
    return C(d.op, dy, x, boxes_of(d, n, 0), d.indices(shape[0], (n,), tf.int32, wrong=0.04), rtol=1e-4, atol=1e-2)


@spec("ExtractGlimpse", "ExtractGlimpseV2")
def glimpse(d):
    """Noise is random in TensorFlow, whatever the seed: it is zero here, or the window lies inside of the image."""
    shape = image_shape(d, 6)
    shape[1:3] = [max(1, s) for s in shape[1:3]]
    x = d.values(tf.float32, bent(d, shape))
    offsets = d.values(tf.float32, (shape[0], 2), low=d.one(-1, -7, 0), high=d.one(1, 7), special=0)
    if d.chance(0.05):
        offsets = d.one(offsets[:, :1], offsets[None], np.concatenate([offsets, offsets]))
    to = np.int32([d.dim(7), d.dim(7)])
    if d.chance(0.05):
        to = d.one(np.int32([-1, 2]), np.int32([2]), np.int32([[2, 2]]))
    noise = {"uniform_noise": False, "noise": "zero"}
    if d.chance(0.08):
        noise = d.one({"uniform_noise": True, "noise": "gaussian"}, {"uniform_noise": False, "noise": "pink"}, {"uniform_noise": True, "noise": "zero"})
    return C(d.op, x, to, offsets, centered=d.chance(0.5), normalized=d.chance(0.5), **noise)


# ---- boxes ----


@spec("DrawBoundingBoxes", "DrawBoundingBoxesV2")
def draw_boxes(d):
    dtype = d.dtype()
    shape = [d.dim(3), d.dim(9, 0.03), d.dim(9, 0.03), d.one(1, 3, 4, 2 if d.chance(0.1) else 3)]
    x = d.values(dtype, bent(d, shape))
    n = d.dim(13)
    boxes = boxes_of(d, shape[0] * n).reshape([shape[0], n, 4])
    if d.chance(0.04):
        boxes = d.one(boxes[..., :3], boxes[:, 0] if n else boxes, np.concatenate([boxes, boxes]))
    colours = [d.values(tf.float32, d.one((d.dim(4), 4), (d.dim(4), d.dim(5)), (3,)))] if d.op.endswith("V2") else []
    return C(d.op, x, boxes, *colours)


def scored(d, n, dtype):
    """Boxes that overlap much, and scores, some of which are equal."""
    boxes = d.values(dtype, (n, 4), low=0, high=d.one(1, 3), special=0.05)
    if n and d.chance(0.5):
        base = boxes[d.int(0, n - 1)]
        near = d.values(dtype, (n, 4), low=-0.2, high=0.2, special=0)
        boxes = np.where(d.rng.random((n, 1)) < 0.6, base + near, boxes).astype(boxes.dtype)
    scores = d.values(dtype, (n,), low=-1, high=1, special=0.1)
    return boxes, np.round(scores * 4).astype(scores.dtype) / scores.dtype.type(4) if d.chance(0.3) else scores


def bad_suppression(d, boxes, scores, scalars):
    """With a shape or a scalar that is none."""
    which = d.int(0, 4)
    if which == 0:
        return boxes[:, :3], scores, scalars
    if which == 1:
        return boxes, scores[:-1], scalars
    if which == 2:
        return boxes, scores[None], scalars
    if which == 3:
        i = d.int(0, len(scalars) - 1)
        return boxes, scores, [s[None] if k == i else s for k, s in enumerate(scalars)]
    return boxes[0] if len(boxes) else boxes, scores, scalars


@spec("NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV3", "NonMaxSuppressionV4", "NonMaxSuppressionV5", "NonMaxSuppressionWithOverlaps")
def suppress(d):
    version = {"": 1, "s": 0}.get(d.op[len("NonMaxSuppression") :][-1:], 0) or int(d.op[-1] if d.op[-1].isdigit() else 0)
    dtype = d.dtype() if version > 1 else tf.float32
    n = d.one(d.dim(6), d.dim(30))
    boxes, scores = scored(d, n, dtype)
    if version == 0:
        boxes = d.values(tf.float32, (n, n), low=0, high=1, special=0.05)
    threshold = dtype if version == 5 else d.one(tf.float16, tf.float32)
    real = tf.as_dtype(threshold if version > 1 else tf.float32).as_numpy_dtype
    scalars = [np.int32(d.one(n, 3, d.int(0, 8), -1 if d.chance(0.1) else 5))]
    if version != 1:
        scalars.append(real(d.one(0.5, 0, 1, d.real(), d.one(1.5, -0.5, np.nan) if d.chance(0.2) else 0.3)))
    if version == 0 or version > 2:
        scalars.append(real(d.one(0, -5, d.real(-1, 1), d.one(np.inf, -np.inf, np.nan) if d.chance(0.2) else -1)))
    if version == 5:
        scalars.append(real(d.one(0, 0.5, d.real(), -1 if d.chance(0.2) else 1)))
    if d.chance(0.06):
        boxes, scores, scalars = bad_suppression(d, boxes, scores, scalars)
    attrs = {"iou_threshold": d.one(0.5, d.real(), 1.5 if d.chance(0.2) else 0.2)} if version == 1 else {}
    if version > 3:
        attrs["pad_to_max_output_size"] = d.chance(0.5)
    return C(d.op, boxes, scores, *scalars, **attrs)


@spec("CombinedNonMaxSuppression")
def combined_suppress(d):
    """Scores are all different: which of two equal ones comes first is the sort's choice in TensorFlow."""
    batch, n, classes = d.dim(3), d.dim(9), d.dim(4)
    q = d.one(1, classes)
    boxes = d.values(tf.float32, (batch, n, q, 4), low=-0.2, high=d.one(1, 2), special=0.05)
    scores = d.rng.permutation(batch * n * classes).reshape(batch, n, classes).astype(np.float32) / np.float32(50) - np.float32(0.3)
    scalars = [np.int32(d.int(1, 6)), np.int32(d.int(1, 12)), np.float32(d.one(0.5, 0, 1, d.real())), np.float32(d.one(0, -5, d.real(-1, 1)))]
    if d.chance(0.08):
        i = d.int(0, 3)
        scalars[i] = d.one(scalars[i][None], scalars[i].dtype.type(-1))
    if d.chance(0.06):
        boxes, scores = d.one((boxes[..., :3], scores), (boxes, scores[:, :-1]), (boxes[0] if batch else boxes, scores), (np.concatenate([boxes] * 2, 2), scores))
    return C(d.op, boxes, scores, *scalars, pad_per_class=d.chance(0.5), clip_boxes=d.chance(0.5))


# ---- random parts ----


def in_steps(d, node, steps=3):
    """A program that runs one node several times: its stream of numbers goes on."""

    def build():
        outs, feeds = node.build()
        return [(outs, feeds)] * steps

    return Program(d.op, build)


@spec("RandomCrop")
def random_crop(d):
    """Sizes below 0 end TensorFlow's process."""
    shape = [d.dim(9), d.dim(9), d.dim(4)]
    to = np.int64([d.int(0, shape[0]), d.int(0, shape[1])])
    if d.chance(0.1):
        to[d.int(0, 1)] = 12
    if d.chance(0.05):
        to = d.one(to[:1], to[None])
    case = C(d.op, d.values(d.dtype(), bent(d, shape)), to, seed=d.int(1, 99), seed2=d.int(0, 99))
    return made_by(7, case, steps=3)


@spec("SampleDistortedBoundingBox", "SampleDistortedBoundingBoxV2", "StatelessSampleDistortedBoundingBox")
def sample_box(d):
    dtype = d.dtype("T")
    top = min(tf.as_dtype(dtype).max, 200)
    image = np.asarray([d.one(0, d.int(1, top)) if d.chance(0.1) else d.int(1, top), d.int(1, top), 3], tf.as_dtype(dtype).as_numpy_dtype)
    boxes = d.values(tf.float32, (d.dim(2), d.dim(3), 4), low=0, high=1, special=0)
    boxes.sort(-1)
    if d.chance(0.06):
        image, boxes = d.one((image[:2], boxes), (image[None], boxes), (image, boxes[..., :3]), (image, boxes + np.float32(0.5)), (image, boxes[0] if len(boxes) else boxes))
    areas = sorted([d.real(0.01, 1), d.real(0.01, 1)])
    attrs = {
        "aspect_ratio_range": d.one([0.75, 1.33], sorted([d.real(0.05, 5), d.real(0.05, 5)])),
        "area_range": d.one([0.05, 1.0], areas, areas, areas[::-1]),
        "max_attempts": d.one(100, 1, 3),
        "use_image_if_no_bounding_boxes": d.chance(0.6),
    }
    if d.chance(0.08):
        attrs.update(d.one({"max_attempts": 0}, {"area_range": [0.5, 1.5]}, {"area_range": [0.5]}, {"aspect_ratio_range": [0.0, 1.0]}, {"aspect_ratio_range": [1.0, 1.0, 1.0]}))
    least = np.float32(d.one(0.1, 0, 1, d.real(), -0.5 if d.chance(0.2) else 0.5))
    if d.op == "StatelessSampleDistortedBoundingBox":
        return C(d.op, image, boxes, least, d.values(d.one(tf.int32, tf.int64), (3 if d.chance(0.03) else 2,)), **attrs)
    attrs.update(seed=d.int(1, 99), seed2=d.int(0, 99))
    if d.op == "SampleDistortedBoundingBox":
        return in_steps(d, C(d.op, image, boxes, min_object_covered=float(least), **attrs))
    return in_steps(d, C(d.op, image, boxes, least[None] if d.chance(0.03) else least, **attrs))
