"""Specs of ops/nn.def: convolutions and pools. Windows that do not fit, strides of nothing, shapes that disagree are among the cases."""

import numpy as np
import tensorflow as tf

from draw import spec
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
    return {"float16": 0.05, "bfloat16": 1.0, "float32": 1e-4, "float64": 1e-9}.get(tf.as_dtype(dtype).name, 0)


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
