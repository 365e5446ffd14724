"""Specs of ops/nn.def: convolutions and pools. Windows that do not fit, strides of nothing, shapes that disagree are among the cases."""

import numpy as np
import tensorflow as tf

from draw import Program, made_by, spec
from opcase import C


class Window:
    """Windows of a convolution or a pool over an image with `space` spatial dimensions.

    Weft computes channels in front ("NCHW") on the CPU, where TensorFlow refuses them: such images are drawn only where
    TensorFlow says that it has no kernel.
    """

    def __init__(self, d, space, explicit=False, dilated=True, equal_strides=False, hostile=0.08, channels_first=0.25):
        self.d, self.space = d, space
        self.n, self.c = d.dim(3), d.dim(4, 0.03)
        self.sizes = [d.dim(7 if space == 2 else 5, 0.03) for _ in range(space)]
        self.k = [d.int(1, 3) for _ in range(space)]
        self.strides = [d.one(1, 1, 2, 3) for _ in range(space)]
        if equal_strides and not d.chance(0.05):
            self.strides = self.strides[:1] * space
        self.dilations = [1] * space
        if dilated and d.chance(0.25):
            self.dilations = [d.int(1, 3) for _ in range(space)]
        self.first = d.chance(channels_first)
        self.padding = d.one("SAME", "VALID", "EXPLICIT") if explicit else d.one("SAME", "VALID")
        self.pads = [(d.int(0, 2), d.int(0, 2)) for _ in range(space)]
        self.outer_stride = self.outer_dilation = 1
        if d.chance(hostile):
            which = d.int(0, 4)
            i = d.int(0, space - 1)
            if which == 0:
                self.k[i] = d.int(4, 12)
            elif which == 1:
                self.strides[i] = d.one(7, 100, 2**31 - 1)
            elif which == 2:
                self.outer_stride = 2
            elif which == 3 and dilated:
                self.dilations[i] = d.one(5, 40)
            elif which == 4:
                self.sizes[i] = d.one(0, 1)

    def layout(self, batch, space, channel):
        return [batch, channel, *space] if self.first else [batch, *space, channel]

    def image(self, channels=None):
        return self.layout(self.n, self.sizes, self.c if channels is None else channels)

    def format(self):
        return {2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}[self.space][self.first]

    def paddings(self):
        """The attribute explicit_paddings."""
        if self.padding != "EXPLICIT":
            return []
        return [int(v) for pair in self.layout((0, 0), self.pads, (0, 0)) for v in pair]

    def outs(self, k=None):
        """The spatial sizes of the result; None where the window does not fit."""
        result = []
        for i in range(self.space):
            span = ((k or self.k)[i] - 1) * self.dilations[i] + 1
            room = self.sizes[i] + (sum(self.pads[i]) if self.padding == "EXPLICIT" else 0)
            out = -(-self.sizes[i] // self.strides[i]) if self.padding == "SAME" else (room - span + self.strides[i]) // self.strides[i]
            result.append(max(out, 0))
        return result

    def without_empty_result(self):
        """TensorFlow's process ends where it computes gradients of a result that is empty because of its spatial sizes."""
        for i, out in enumerate(self.outs()):
            if out == 0 and self.sizes[i] > 0:
                self.k[i] = 1

    def attrs(self, explicit=False, format=True, dilations=True):
        attrs = {"strides": self.layout(self.outer_stride if self.d.chance(0.5) else 1, self.strides, self.outer_stride), "padding": self.padding}
        if explicit:
            attrs["explicit_paddings"] = self.paddings()
        if format:
            attrs["data_format"] = self.format()
        if dilations:
            attrs["dilations"] = self.layout(1, self.dilations, self.outer_dilation)
        return attrs

    def pool_attrs(self, **how):
        attrs = self.attrs(dilations=False, **how)
        attrs["ksize"] = self.layout(1, self.k, self.outer_stride if self.d.chance(0.5) else 1)
        return attrs


def bent(d, shape, wrong=0.06):
    """The shape; with probability `wrong` another one."""
    shape = list(shape)
    if d.chance(wrong):
        if d.chance(0.3):
            return shape[:-1]
        i = d.int(0, len(shape) - 1)
        shape[i] = max(0, shape[i] + d.one(-1, 1, 2))
    return shape


def tolerance(dtype):
    """Sums of many products: those that cancel keep the error of the largest."""
    return {"float16": 0.125, "bfloat16": 1.0, "float32": 1e-4, "float64": 1e-9}.get(tf.as_dtype(dtype).name, 0)


def tame(x):
    """Without finite numbers that are so large that the order of a sum decides what is left of it."""
    wide = np.asarray(x).astype(np.float64)
    return np.where(np.isfinite(wide) & (np.abs(wide) > 1e4), np.asarray(1, x.dtype), x)


def convolution(d, w, groups=1, zero=0.03):
    """Shapes of an image, a filter and the result."""
    cg = w.c
    w.c *= groups
    oc = d.dim(4, zero) * groups
    filter_shape = [*w.k, cg, oc]
    return w.image(), filter_shape, w.layout(w.n, w.outs(), oc)


def grouped(w, x, f):
    """TensorFlow has no gradients of grouped convolutions on the CPU, Weft has."""
    if len(x) != 4 or len(f) != 4:
        return False
    channels = x[1 if w.first else 3]
    return channels != f[2] and f[2] > 0 and channels % f[2] == 0


def without_nan(x):
    """Which maximum wins over NaN depends on TensorFlow's kernel."""
    return np.where(np.isnan(x), np.asarray(0, x.dtype), x) if tf.as_dtype(x.dtype).is_floating else x


@spec("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter")
def conv2d(d):
    dtype = d.dtype()
    w = Window(d, 2, explicit=True, channels_first=0.25 if d.op == "Conv2D" else 0)
    if d.op != "Conv2D":
        w.sizes = [max(1, s) for s in w.sizes]  # TensorFlow's gradients leave their memory as it was
    w.without_empty_result()
    x, f, y = convolution(d, w, d.one(1, 1, 1, 2, 3) if d.op == "Conv2D" else 1)
    attrs = w.attrs(explicit=True)
    finite = {"special": 0} if d.op != "Conv2D" else {"special": 0.05}
    tol = tolerance(dtype)
    if d.op == "Conv2D":
        x, f = bent(d, x), bent(d, f)
        case = C(d.op, d.values(dtype, x, **finite), d.values(dtype, f, **finite), atol=tol, **attrs)
        case.has_gradient = not grouped(w, x, f) and min(w.sizes + w.outs()) > 0
        return case
    if grouped(w, x, bent_f := bent(d, f)):
        bent_f = f
    if d.op == "Conv2DBackpropInput":
        sizes = bent(d, x)
        if grouped(w, sizes, bent_f):
            sizes = x
        if d.chance(0.1):
            sizes = w.sizes
        if d.chance(0.03):
            sizes = [*sizes[:-1], d.one(-1, -(2**31), 2**31 - 1)]
        return C(d.op, np.int32(sizes), d.values(dtype, bent_f, **finite), d.values(dtype, bent(d, y), **finite), atol=tol, **attrs)
    if grouped(w, bent_x := bent(d, x), bent_f):
        bent_x = x
    return C(d.op, d.values(dtype, bent_x, **finite), np.int32(bent_f), d.values(dtype, bent(d, y), **finite), atol=tol, **attrs)


@spec("DepthwiseConv2dNative", "DepthwiseConv2dNativeBackpropInput", "DepthwiseConv2dNativeBackpropFilter")
def depthwise(d):
    dtype = d.dtype()
    w = Window(d, 2, explicit=True, equal_strides=True, channels_first=0.25 if d.op == "DepthwiseConv2dNative" else 0)
    if d.op != "DepthwiseConv2dNative" or d.chance(0.8):
        # TensorFlow's gradients leave their memory as it was where an input has no elements.
        w.n, w.c, w.sizes = max(1, w.n), max(1, w.c), [max(1, s) for s in w.sizes]
    if d.op != "DepthwiseConv2dNative":
        w.dilations = [1, 1]  # TensorFlow's gradients are those of a convolution without dilations
    w.without_empty_result()
    m = d.dim(3, 0.03 if d.op == "DepthwiseConv2dNative" else 0)
    x, f, y = w.image(), [*w.k, w.c, m], w.layout(w.n, w.outs(), w.c * m)
    attrs = w.attrs(explicit=True)
    tol = tolerance(dtype)
    if d.op == "DepthwiseConv2dNative":
        image, filters = bent(d, x), bent(d, f)
        case = C(d.op, d.values(dtype, image, special=0), d.values(dtype, filters, special=0), atol=tol, **attrs)
        case.has_gradient = (image, filters) == (x, f) and min(x + f + y) > 0 and max(w.dilations) == 1
        return case
    if d.op == "DepthwiseConv2dNativeBackpropInput":
        filters = bent(d, f)
        filters = f if 0 in filters else filters
        return C(d.op, np.int32(bent(d, x)), d.values(dtype, filters, special=0), d.values(dtype, bent(d, y), special=0), atol=tol, **attrs)
    return C(d.op, d.values(dtype, bent(d, x), special=0), np.int32(bent(d, f)), d.values(dtype, bent(d, y), special=0), atol=tol, **attrs)


@spec("Conv3D", "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2")
def conv3d(d):
    dtype = d.dtype()
    w = Window(d, 3, dilated=d.chance(0.15), channels_first=0.05)
    w.without_empty_result()
    x, f, y = convolution(d, w, zero=0)  # TensorFlow's process ends where there is no channel to compute a gradient of
    attrs, tol = w.attrs(), tolerance(dtype)
    if d.op == "Conv3D":
        return C(d.op, d.values(dtype, bent(d, x), special=0), d.values(dtype, bent(d, f), special=0), atol=tol, **attrs)
    if d.op == "Conv3DBackpropInputV2":
        sizes = np.asarray(bent(d, x), d.one(np.int32, np.int64))
        return C(d.op, sizes, d.values(dtype, bent(d, f), special=0), d.values(dtype, bent(d, y), special=0), atol=tol, **attrs)
    return C(d.op, d.values(dtype, bent(d, x), special=0), np.int32(bent(d, f)), d.values(dtype, bent(d, y), special=0), atol=tol, **attrs)


# NaN is not among the values of MaxPool3D: which one wins depends on how many channels fill a vector register.
@spec("MaxPool3D", "AvgPool3D")
def pool3d(d):
    dtype = d.dtype()
    w = Window(d, 3, dilated=False, channels_first=0.05)
    x = d.values(dtype, bent(d, w.image()), special=0.3)
    if d.op == "MaxPool3D":
        x = np.where(np.isnan(x), np.asarray(-np.inf, x.dtype), x)
    return C(d.op, x, **w.pool_attrs())


@spec("AvgPool3DGrad")
def avg_pool3d_grad(d):
    dtype = d.dtype()
    w = Window(d, 3, dilated=False, channels_first=0.05)
    sizes = bent(d, w.image())
    if d.chance(0.03):
        sizes[d.int(0, len(sizes) - 1)] = d.one(-1, -(2**31))
    if d.chance(0.05):
        sizes = -1  # no unknown shape
    return C(d.op, np.int32(sizes), tame(d.values(dtype, bent(d, w.layout(w.n, w.outs(), w.c), 0.15))), atol=tolerance(dtype), **w.pool_attrs())


@spec("MaxPool3DGrad", "MaxPool3DGradGrad")
def max_pool3d_grad(d):
    dtype = d.dtype()
    w = Window(d, 3, dilated=False, channels_first=0.05)
    x = d.values(dtype, w.image(), low=-3, high=3, special=0.1)
    y = d.values(dtype, bent(d, w.layout(w.n, w.outs(), w.c)), low=-3, high=3, special=0.1)
    if d.chance(0.7) and x.size and y.size:  # maxima, or nearly
        x = np.round(x.astype(np.float64)).astype(x.dtype)
        y = np.round(y.astype(np.float64)).astype(y.dtype)
    dy = d.values(dtype, bent(d, x.shape if d.op == "MaxPool3DGradGrad" else y.shape))
    return C(d.op, x, y, dy, atol=tolerance(dtype), **w.pool_attrs())


@spec("MaxPool", "AvgPool")
def pool(d):
    dtype = d.dtype()
    w = Window(d, 2, explicit=d.op == "MaxPool", dilated=False, channels_first=0)
    attrs = w.pool_attrs(explicit=d.op == "MaxPool")
    if d.op == "MaxPool" and d.chance(0.1):  # over channels
        k = d.int(1, 3)
        attrs["ksize"], attrs["strides"] = w.layout(1, (1, 1), k), w.layout(1, (1, 1), d.one(k, k, k, 1))
    shape = bent(d, w.image())
    case = C(d.op, d.values(dtype, shape), atol=tolerance(dtype) if d.op == "AvgPool" else None, **attrs)
    case.has_gradient = min(shape + w.outs()) > 0  # else TensorFlow leaves its memory as it was
    return case


@spec("MaxPoolV2")
def max_pool_v2(d):
    dtype = d.dtype()
    w = Window(d, 2, dilated=False, channels_first=0)
    attrs = w.pool_attrs()
    ksize, strides = attrs.pop("ksize"), attrs.pop("strides")
    if d.chance(0.05):
        ksize = d.one(ksize[:3], [0, *ksize[1:]], [*ksize[:1], -1, *ksize[2:]])
    # Of nothing but -inf the maximum is the lowest number or -inf in TensorFlow, as its kernels go.
    shape = bent(d, w.image())
    x = without_nan(d.values(dtype, shape))
    if tf.as_dtype(dtype).is_floating:
        x = np.where(np.isneginf(x), np.asarray(0, x.dtype), x)
    case = C(d.op, x, np.int32(ksize), np.int32(strides), **attrs)
    case.has_gradient = min(shape + w.outs()) > 0
    return case


@spec("MaxPoolWithArgmax")
def with_argmax(d):
    dtype = d.dtype()
    w = Window(d, 2, dilated=False, channels_first=0)
    attrs = w.pool_attrs(format=False)
    return C(d.op, d.values(dtype, bent(d, w.image()), special=0.05), Targmax=d.one(tf.int32, tf.int64), include_batch_in_index=d.chance(0.4), **attrs)


@spec("MaxPoolGradWithArgmax")
def grad_with_argmax(d):
    dtype = d.dtype()
    w = Window(d, 2, dilated=False, channels_first=0)
    w.without_empty_result()
    attrs = w.pool_attrs(format=False)
    x, y = w.image(), w.layout(w.n, w.outs(), w.c)
    batch = d.chance(0.4)
    cells = int(np.prod(x[1:])) * (x[0] if batch else 1)
    index = d.indices(cells, y, tf.int64, wrong=0)  # others end TensorFlow's process
    return C(d.op, d.values(dtype, x), d.values(dtype, y), index, include_batch_in_index=batch, atol=tolerance(dtype), **attrs)


@spec("AvgPoolGrad")
def avg_pool_grad(d):
    dtype = d.dtype()
    w = Window(d, 2, dilated=False, channels_first=0)
    w.without_empty_result()
    sizes = w.image()
    if d.chance(0.03):
        sizes[d.int(0, len(sizes) - 1)] = d.one(-1, -(2**31))
    # A gradient of another shape ends TensorFlow's process.
    return C(d.op, np.int32(sizes), tame(d.values(dtype, w.layout(w.n, w.outs(), w.c))), atol=tolerance(dtype), **w.pool_attrs())


@spec("MaxPoolGrad", "MaxPoolGradV2", "MaxPoolGradGrad", "MaxPoolGradGradV2")
def max_pool_grad(d):
    dtype = d.dtype()
    second, v2 = "GradGrad" in d.op, d.op.endswith("V2")
    w = Window(d, 2, explicit=d.op == "MaxPoolGrad", dilated=False, channels_first=0)
    w.without_empty_result()
    attrs = w.pool_attrs(explicit=d.op == "MaxPoolGrad")
    window = [np.int32(attrs.pop(a)) for a in ("ksize", "strides")] if v2 else []
    x, y = w.image(), w.layout(w.n, w.outs(), w.c)
    inputs = [without_nan(d.values(dtype, bent(d, x, 0.03))), d.values(dtype, bent(d, y, 0.03)), d.values(dtype, bent(d, x if second else y, 0.03))]
    true = False
    if (second or d.chance(0.5)) and min(y, default=0) > 0 and min(x) > 0:  # the true maxima: it looks for them
        nhwc = np.moveaxis(inputs[0], 1, 3) if w.first and inputs[0].ndim == 4 else inputs[0]
        try:
            made = tf.raw_ops.MaxPool(input=nhwc, ksize=[1, *w.k, 1], strides=[1, *w.strides, 1], padding=w.padding).numpy()
            inputs[1] = np.moveaxis(made, 3, 1) if w.first else made
            true = w.padding != "EXPLICIT"
        except tf.errors.OpError:
            pass
    case = C(d.op, *inputs, *window, atol=tolerance(dtype), **attrs)
    case.has_gradient = true
    return case


@spec("Conv3DBackpropInput", "Conv3DBackpropFilter")
def conv3d_old(d):
    """Of graphs before version 10; the input or the filter itself says the shape of the gradient."""
    dtype = d.dtype()
    w = Window(d, 3, dilated=False, channels_first=0)
    w.without_empty_result()
    x, f, y = convolution(d, w, zero=0)
    inputs = [d.values(dtype, bent(d, s), special=0) for s in (x, f, y)]
    return C(d.op, *inputs, atol=tolerance(dtype), **w.attrs(format=False))


# ---- windows without weights ----


@spec("Dilation2D", "Dilation2DBackpropInput", "Dilation2DBackpropFilter")
def dilation(d):
    """Rates below 1 and windows over images without pixels are left out: TensorFlow leaves its memory as it was."""
    dtype = d.dtype()
    w = Window(d, 2, channels_first=0)
    w.sizes = [max(1, s) for s in w.sizes]
    f = [*w.k, w.c]
    x = w.image()
    attrs = {"strides": [1, *w.strides, w.outer_stride], "rates": [1, *w.dilations, 1], "padding": w.padding}
    inputs = [d.values(dtype, bent(d, x, 0.04)), d.values(dtype, bent(d, f, 0.04))]
    if d.op == "Dilation2D":
        case = C(d.op, *inputs, atol=tolerance(dtype), **attrs)
        case.has_gradient = min(x + f + w.outs()) > 0
        return case
    w.c, w.n = max(1, w.c), max(1, w.n)
    y = d.values(dtype, bent(d, [x[0], *w.outs(), x[3]], 0.04), special=0)
    return C(d.op, *inputs, y, atol=tolerance(dtype), **attrs)


def windows(d, space, sizes, strides, rates=None):
    """ksizes, strides and rates, some of which are refused."""
    attrs = {"ksizes": [1, *sizes, 1], "strides": [1, *strides, 1], "padding": d.one("SAME", "VALID")}
    if rates:
        attrs["rates"] = [1, *rates, 1]
    if d.chance(0.06):
        name = d.one(*[a for a in attrs if a != "padding"])
        attrs[name][d.int(0, space + 1)] = d.one(0, 2)
    return attrs


@spec("ExtractImagePatches")
def image_patches(d):
    dtype = d.dtype()
    x = [d.dim(3), d.dim(7, 0.03), d.dim(7, 0.03), d.dim(4, 0.03)]
    attrs = windows(d, 2, [d.int(1, 4), d.int(1, 4)], [d.int(1, 4), d.int(1, 4)], [d.one(1, 1, 2, 3), d.one(1, 1, 2)])
    case = C(d.op, d.values(dtype, bent(d, x, 0.04)), atol=tolerance(dtype), **attrs)
    case.has_gradient = min(x) > 0
    return case


@spec("ExtractVolumePatches")
def volume_patches(d):
    """TensorFlow's client asks for the input's shape to differentiate it, so that this is a program."""
    dtype = d.dtype()
    x = [d.dim(2), *(d.dim(5, 0.02) for _ in range(3)), d.dim(3, 0.03)]
    attrs = windows(d, 3, [d.int(1, 3) for _ in range(3)], [d.int(1, 3) for _ in range(3)])
    value = d.values(dtype, bent(d, x, 0.04))
    if not d.chance(0.3) or value.shape != tuple(x) or min(x) == 0 or 0 in attrs["ksizes"] + attrs["strides"] or not tf.as_dtype(dtype).is_floating:
        return C(d.op, value, **attrs)

    def build():
        image = tf.constant(value)
        out = C(d.op, image, **attrs).build()[0][0]
        if 0 in out.shape.as_list():
            return [([out], {})]
        return [([out, tf.gradients(out, [image])[0]], {})]

    return Program(d.op, build, atol=tolerance(dtype))


# ---- fractional pooling ----


def fractional_attrs(d):
    """Pooling whose windows are the same each time; others are random whatever the seed."""
    ratio = [1.0, d.one(1.0, 1.5, 2.0, d.real(1, 3)), d.one(1.0, 1.44, d.real(1, 3)), 1.0]
    attrs = {"pooling_ratio": ratio, "pseudo_random": d.chance(0.5), "overlapping": d.chance(0.5), "deterministic": True, "seed": d.int(1, 50), "seed2": d.int(0, 50)}
    if d.chance(0.06):
        attrs.update(d.one({"deterministic": False}, {"pooling_ratio": [1.5, 1.5, 1.5, 1.0]}, {"pooling_ratio": [1.0, 0.5, 1.5, 1.0]}, {"pooling_ratio": [1.0, 1.5, 1.5, 2.0]}))
    return attrs


@spec("FractionalMaxPool", "FractionalAvgPool")
def fractional_pool(d):
    dtype = d.dtype()
    x = [d.dim(3), d.dim(12, 0.02), d.dim(12, 0.02), d.dim(3, 0.02)]
    special = 0 if d.op == "FractionalAvgPool" or tf.as_dtype(dtype).is_floating else 0.15
    return C(d.op, d.values(dtype, bent(d, x, 0.04), special=special), atol=tolerance(dtype), **fractional_attrs(d))


def sequence(d, size, out):
    """Where windows begin."""
    cuts = np.sort(d.rng.integers(0, size + 1, out + 1)) if d.chance(0.3) else np.linspace(0, size, out + 1).astype(np.int64)
    cuts = cuts.astype(np.int64)
    if d.chance(0.04):
        cuts[d.int(0, out)] = d.one(-1, size + 4)
    return cuts


@spec("FractionalAvgPoolGrad")
def fractional_avg_grad(d):
    dtype = d.dtype()
    x = [d.dim(3), d.int(1, 9), d.int(1, 9), d.dim(3)]
    out = [d.int(1, x[1]), d.int(1, x[2])]
    dy = d.values(dtype, [x[0], *out, x[3]], special=0)
    if d.chance(0.03):
        dy = dy[0] if len(dy) else dy
    sizes = np.int64(x)
    if d.chance(0.05):
        sizes = d.one(sizes[:3], sizes[None], np.int64([x[0], 0, x[2], x[3]]), np.int64([x[0], -1, x[2], x[3]]))
    rows = sequence(d, x[1], out[0])
    return C(d.op, sizes, dy, rows[:-1] if d.chance(0.03) else rows, sequence(d, x[2], out[1]), overlapping=d.chance(0.5), atol=tolerance(dtype))


@spec("FractionalMaxPoolGrad")
def fractional_max_grad(d):
    """Of a true pool, or of one whose result is another: that is refused. Windows that go on beyond the result end TensorFlow's process."""
    dtype = d.dtype()
    attrs = {**fractional_attrs(d), "deterministic": True, "pooling_ratio": [1.0, d.real(1, 2.5), d.real(1, 2.5), 1.0]}
    x = np.round(d.values(dtype, [d.int(1, 3), d.int(3, 9), d.int(3, 9), d.int(1, 3)], special=0))
    y, rows, columns = (v.numpy() for v in tf.raw_ops.FractionalMaxPool(value=x, **attrs))
    dy = d.values(dtype, y.shape, special=0)
    if d.chance(0.06):
        y, rows = d.one((y + y.dtype.type(1), rows), (y, rows[:-1]), (y, rows[None]), (y[0], rows))
    return C(d.op, x, y, dy, rows, columns, overlapping=attrs["overlapping"], atol=tolerance(dtype))


# ---- layouts and blocks ----


@spec("DataFormatDimMap", "DataFormatVecPermute")
def data_format(d):
    dtype = d.dtype()
    letters = d.one("NHWC", "NHWC", "NDHWC")
    attrs = {"src_format": "".join(d.rng.permutation(list(letters))), "dst_format": "".join(d.rng.permutation(list(letters)))}
    if d.chance(0.08):
        attrs["dst_format"] = d.one("NHW", "NHWW", "NHWX", "NCDHWX", "")
    if d.op == "DataFormatDimMap":
        return C(d.op, d.values(dtype, d.shape(0, 3), low=-9, high=9), **attrs)
    n = len(letters)
    shape = d.one((n,), (n - 2,), (n, 2), (n - 2, 2), d.shape(0, 3))
    return C(d.op, d.values(dtype, shape), **attrs)


@spec("SpaceToBatch", "BatchToSpace")
def square_blocks(d):
    dtype = d.dtype()
    b = d.int(2, 3)
    pads = np.asarray([[d.one(0, 0, 1, 2), d.one(0, 0, 1, 2)] for _ in range(2)], d.one(np.int32, np.int64))
    if d.op == "SpaceToBatch":
        n, size = d.dim(3), [max(0, b * d.int(1, 3) - int(p.sum())) for p in pads]
    else:
        n, size = d.dim(2) * b * b, [d.dim(4), d.dim(4)]
    x = bent(d, [n, *size, d.dim(3)])
    if d.chance(0.06):
        pads = d.one(pads[:1], pads - 3, pads.reshape(-1), pads + 40)
    return C(d.op, d.values(dtype, x), pads, block_size=b)


# ---- the largest ----


@spec("TopKV2")
def top_k(d):
    """NaN is left out: TensorFlow's order of it depends on the sort."""
    dtype = d.dtype()
    x = without_nan(d.values(dtype, d.shape(0 if d.chance(0.05) else 1, 4, 9)))
    n = x.shape[-1] if x.ndim else 1
    k = np.asarray(d.one(0, 1, n, d.int(0, n), n + 1 if d.chance(0.2) else n, -1 if d.chance(0.2) else 1), d.one(np.int16, np.int32, np.int64))
    return C(d.op, x, k[None] if d.chance(0.03) else k, sorted=True, index_type=d.one(tf.int16, tf.int32, tf.int64))


@spec("ApproxTopK")
def approx_top_k(d):
    """TensorFlow asks for the shape when the graph is made, so that inputs are constants."""
    dtype = d.dtype()
    x = without_nan(d.values(dtype, d.shape(1, 3, d.one(9, 9, 300), zero=0)))
    k, recall = d.int(0, x.shape[-1]), d.one(0.95, 0.5)

    def build():
        value = tf.constant(x)
        out = C(d.op, value, k=k, recall_target=recall).build()[0]
        return [(out + ([tf.gradients(out[0], [value])[0]] if k else []), {})]

    return Program(d.op, build)


@spec("InTopK", "InTopKV2")
def in_top_k(d):
    dtype = d.dtype()
    rows, classes = d.dim(5), d.dim(7)
    predictions = d.values(tf.float32, bent(d, [rows, classes]))
    if d.chance(0.3):
        predictions = np.round(predictions)
    targets = d.indices(classes, (rows,), dtype, wrong=0.2)
    k = d.one(1, 2, 3, 0, -1, classes, 100)
    if d.chance(0.04):
        targets = d.one(targets[:-1], targets[None])
    if d.op == "InTopK":
        return C(d.op, predictions, targets, k=k)
    k = np.asarray(k, tf.as_dtype(dtype).as_numpy_dtype)
    return C(d.op, predictions, targets, k[None] if d.chance(0.04) else k)


# ---- normalisation ----


@spec("LRN", "LRNGrad")
def lrn(d):
    dtype = d.dtype()
    shape = [d.dim(2), d.dim(3), d.dim(3), d.dim(9)]
    attrs = {"depth_radius": d.int(0, 5), "bias": d.one(1.0, d.real(0.5, 3)), "alpha": d.one(1.0, d.real(0.1, 2)), "beta": d.one(0.5, 1.0, d.real(0.1, 1.5))}
    tol = {"rtol": 2e-2, "atol": 5e-2} if dtype.size == 2 else {"rtol": 1e-4, "atol": 1e-5}
    x = d.values(dtype, bent(d, shape), low=-2, high=2, special=0)
    if d.op == "LRN":
        return C(d.op, x, **tol, **attrs)
    y = np.asarray(tf.nn.lrn(tf.cast(x, tf.float32), **attrs)).astype(x.dtype) if x.ndim == 4 and x.size else d.values(dtype, shape, special=0)
    return C(d.op, d.values(dtype, bent(d, x.shape), special=0), x, y, **tol, **attrs)


def norm_tolerance(dtype):
    return {"rtol": 2e-2, "atol": 5e-2} if tf.as_dtype(dtype).size == 2 else {"rtol": 1e-3, "atol": 1e-3}


def norm_layout(d, volumes):
    """Shape of the images and data_format. Weft has no layout of volumes with channels in front that TensorFlow lacks."""
    n, c = d.int(1, 3), d.int(1, 4)
    space = [d.int(1, 4) for _ in range(3 if volumes else 2)]
    first = d.chance(0.3)
    return ([n, c, *space] if first else [n, *space, c]), c, {(2, 0): "NHWC", (2, 1): "NCHW", (3, 0): "NDHWC", (3, 1): "NCDHW"}[len(space), int(first)]


@spec("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def batch_norm(d):
    """Empty images are left out: of these the statistics are TensorFlow's memory as it was."""
    dtype = d.dtype()
    shape, c, layout = norm_layout(d, d.op.endswith("V3") and d.chance(0.3))
    training, factor = d.chance(0.6), d.one(1.0, 1.0, 0.3)
    vectors = [d.values(tf.float32, (c,), low=-2, high=2, special=0) for _ in range(2)]
    given = not training or factor != 1.0
    vectors.append(d.values(tf.float32, (c if given else 0,), low=-2, high=2, special=0))
    vectors.append(d.values(tf.float32, (c if given else 0,), low=0.1, high=3, special=0))
    if d.chance(0.06):
        i = d.int(0, 3)
        vectors[i] = d.one(vectors[i][None], np.concatenate([vectors[i], np.float32([1])]))
    x = d.values(dtype, bent(d, shape, 0.03), special=0)
    case = C(d.op, x, *vectors, epsilon=d.one(1e-4, 1e-3, 0.1), exponential_avg_factor=factor, data_format=layout, is_training=training, outputs=3, **norm_tolerance(dtype))
    case.has_gradient = min(x.shape) > 0 and x.ndim == len(shape)
    return case


@spec("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3")
def batch_norm_grad(d):
    """With channels in front TensorFlow refuses the gradient of inference; Weft, too."""
    dtype = d.dtype()
    shape, c, layout = norm_layout(d, d.op.endswith("V3") and d.chance(0.3))
    training = d.chance(0.6)
    x, dy = d.values(dtype, shape, special=0), d.values(dtype, bent(d, shape, 0.03), special=0)
    vectors = [d.values(tf.float32, (c,), low=low, high=3, special=0) for low in (-2, -2, 0.1)]
    if d.chance(0.05):
        i = d.int(0, 2)
        vectors[i] = d.one(vectors[i][None], np.concatenate([vectors[i], np.float32([1])]))
    if d.op.endswith("V3"):
        vectors.append(np.zeros((), np.float32))
    case = C(d.op, dy, x, *vectors, epsilon=d.one(1e-3, 0.1), data_format=layout, is_training=training, outputs=3, **norm_tolerance(dtype))
    # A variance of nothing is 0, and its inverse large; the statistics of a half are TensorFlow's of the half.
    case.has_gradient = int(np.prod(shape)) // c > 1 and tf.as_dtype(dtype).size > 2
    return case


@spec("BatchNormWithGlobalNormalization", "BatchNormWithGlobalNormalizationGrad")
def global_norm(d):
    """Of graphs before version 9. Vectors of another length than the channels end TensorFlow's process."""
    dtype = d.dtype()
    shape = [d.dim(3), d.dim(4), d.dim(4), d.int(1, 4)]
    x = d.values(dtype, bent(d, shape, 0) if not d.chance(0.04) else shape[1:], special=0)
    vectors = [d.values(dtype, shape[3:], low=low, high=2, special=0) for low in (-2, 0.1, -2, -2)]
    if d.chance(0.04):
        vectors[d.int(0, 2)] = vectors[0][None]
    attrs = {"variance_epsilon": d.one(0.001, 0.5), "scale_after_normalization": d.chance(0.5)}
    tol = norm_tolerance(dtype)
    if d.op.endswith("Grad"):
        return C(d.op, x, *vectors[:3], d.values(dtype, shape, special=0), **attrs, **tol)
    case = C(d.op, x, *vectors, **attrs, **tol)

    def build():
        outs, feeds = case.build()
        grads = tf.gradients(outs[0], list(feeds), tf.ones_like(outs[0]))
        return [(outs, feeds), (grads, feeds)]

    return made_by(8, Program(d.op, build, **tol))


# ---- convolution of any kind; fused ops ----


@spec("Conv")
def conv_general(d):
    """TensorFlow keeps merged batch dimensions merged where the result is empty, and has no explicit paddings of volumes: neither is drawn."""
    dtype = d.dtype()
    space = d.one(2, 2, 3)
    w = Window(d, space, explicit=space == 2, dilated=space == 2 or d.chance(0.1), channels_first=0.05)
    w.without_empty_result()
    x, f, _ = convolution(d, w, zero=0)
    attrs = w.attrs(explicit=True, format=False, dilations=d.chance(0.5))
    attrs["data_format"] = "CHANNELS_FIRST" if w.first else "CHANNELS_LAST"
    if d.chance(0.03):
        attrs["groups"] = 2
    batch = d.one(1, 1, 1, 2, 0) if min(x) > 0 and min(w.outs()) > 0 else 1
    if batch == 2:
        x = [d.int(1, 2), *x]
    elif batch == 0:
        x = x[1:]
    return C(d.op, d.values(dtype, bent(d, x, 0.04), special=0), d.values(dtype, bent(d, f, 0.04), special=0), batch_dims=batch, atol=tolerance(dtype) * (2 if dtype.size == 2 else 1), **attrs)


@spec("FusedPadConv2D", "FusedResizeAndPadConv2D")
def pad_conv(d):
    """TensorFlow wants to know the inputs' shapes when the graph is made. Of several images it pads the first and takes that for all: one is drawn."""
    dtype = d.dtype()
    x = [1, d.int(1, 6), d.int(1, 6), d.int(1, 3)]
    mode, k = d.one("REFLECT", "SYMMETRIC"), [d.int(1, 3), d.int(1, 3)]
    to = [d.int(1, 7), d.int(1, 7)] if "Resize" in d.op else x[1:3]
    most = [s - (mode == "REFLECT") for s in to]
    pads = np.int32([[0, 0], [d.int(0, min(2, most[0])), d.int(0, min(2, most[0]))], [d.int(0, min(2, most[1])), d.int(0, min(2, most[1]))], [0, 0]])
    f = [*k, x[3], d.int(1, 3)]
    if d.chance(0.06):
        pads = d.one(pads + 9, -pads - 1, pads + np.int32([[1, 0], [0, 0], [0, 0], [0, 0]]))
    size = [np.int32(to) if not d.chance(0.04) else np.int32([0, 3])] if "Resize" in d.op else []
    attrs = {"mode": mode, "strides": [1, d.int(1, 2), d.int(1, 2), 1], "padding": d.one("SAME", "VALID")}
    if size:
        attrs["resize_align_corners"] = d.chance(0.3)
    values = [d.values(dtype, x, special=0), *size, pads, d.values(dtype, f, special=0)]

    def build():
        feeds = {tf.compat.v1.placeholder(v.dtype, v.shape): v for v in values}
        return [(C(d.op, *feeds, **attrs).build()[0], feeds)]

    return Program(d.op, build, atol=tolerance(dtype) * (2 if dtype.size == 2 else 1))


def fused(d, *inputs, **attrs):
    """A program of one node of an op that only TensorFlow's own passes make."""

    def build():
        return [C(d.op, *inputs, **attrs).build()]

    return Program(d.op, build, rtol=1e-4, atol=1e-4)


def fusion(d, channels, activations):
    """What follows, and its arguments."""
    ops, args = [], []
    if d.chance(0.75) or activations[-1] == "GeluExact":
        ops, args = ["BiasAdd"], [d.values(tf.float32, (channels,), special=0)]
    else:
        ops = ["FusedBatchNorm"]
        args = [d.values(tf.float32, (channels,), low=low, special=0) for low in (-2, -2, -2, 0.1)]
    if d.chance(0.8):
        ops.append(d.one(*activations))
    return {"fused_ops": ops, "epsilon": d.one(1e-4, 0.1), "leakyrelu_alpha": d.one(0.2, 0.5)}, args


@spec("_FusedConv2D")
def fused_conv(d):
    """In single precision: other types TensorFlow computes only on processors that have them. The other fused ops it has no kernels for without its passes."""
    w = Window(d, 2, dilated=False, equal_strides=True, channels_first=0, hostile=0)
    w.sizes, w.n, w.c = [max(3, s) for s in w.sizes], max(1, w.n), max(1, w.c)
    out = d.int(1, 3)
    how, args = fusion(d, out, ("Relu", "Relu6", "Elu", "LeakyRelu"))
    attrs = {**w.attrs(), **how, "strides": [1, *w.strides, 1], "num_args": len(args)}
    return fused(d, d.values(tf.float32, w.image(), special=0), d.values(tf.float32, [*w.k, w.c, out], special=0), args, [], **attrs)


@spec("_FusedMatMul")
def fused_product(d):
    m, k, n = d.int(1, 5), d.int(1, 5), d.int(1, 5)
    ta, tb = d.chance(0.3), d.chance(0.3)
    how, args = fusion(d, n, ("Relu", "Relu6", "Elu", "LeakyRelu", "Tanh", "Sigmoid", "GeluApproximate", "GeluExact"))
    a, b = d.values(tf.float32, (k, m) if ta else (m, k), special=0), d.values(tf.float32, (n, k) if tb else (k, n), special=0)
    return fused(d, a, b, args, transpose_a=ta, transpose_b=tb, **how)
