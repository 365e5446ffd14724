"""The layers of networks.py in PyTorch, by torch.nn.functional: images in memory as NHWC ("channels last"), fused attention and LSTM."""

import networks
import torch
import torch.nn.functional as F

TRANSPOSED = {"conv": (3, 2, 0, 1), "depthwise": (2, 3, 0, 1), "dense": (1, 0)}  # from TensorFlow's order of a weight's dimensions


class Net(torch.nn.Module):
    """A network over weights that it is given: {name: tensor}, in PyTorch's order."""

    def __init__(self, model, weights, is_training):
        super().__init__()
        self.model, self.is_training = model, is_training
        for name, value in weights.items():
            if name.endswith(("_mean", "_variance")):
                self.register_buffer(name, value)
            else:
                self.register_parameter(name, torch.nn.Parameter(value, requires_grad=is_training))

    def forward(self, *inputs):
        return self.model.network(self, *inputs)

    def get(self, name):
        return getattr(self, name)

    def conv(self, x, filters, kernel, stride, name, bias=False):
        return F.conv2d(x, self.get(name), self.get(f"{name}_bias") if bias else None, stride, (kernel - 1) // 2)

    def depthwise(self, x, kernel, stride, name):
        return F.conv2d(x, self.get(name), None, stride, (kernel - 1) // 2, groups=x.shape[1])

    def batch_norm(self, x, name, epsilon):
        mean, variance, scale, offset = (self.get(f"{name}_{part}") for part in ("mean", "variance", "scale", "offset"))
        return F.batch_norm(x, mean, variance, scale, offset, self.is_training, 0.1, epsilon)

    relu, relu6, silu, sigmoid, tanh = map(staticmethod, (F.relu, F.relu6, F.silu, torch.sigmoid, torch.tanh))

    def gelu(self, x, exact):
        return F.gelu(x, approximate="none" if exact else "tanh")

    def max_pool(self, x):
        return F.max_pool2d(x, 3, 2, 1)

    def image_mean(self, x, keep=False):
        return x.mean((2, 3), keepdim=keep)

    def channels(self, x):
        return x.shape[1]

    def dense(self, x, units, name):
        return F.linear(x, self.get(name), self.get(f"{name}_bias"))

    def product_transposed(self, x, w):
        return F.linear(x, w)

    def layer_norm(self, x, name, epsilon):
        return F.layer_norm(x, x.shape[-1:], self.get(f"{name}_scale"), self.get(f"{name}_offset"), epsilon)

    def table(self, name, rows, size):
        return self.get(name)

    def lookup(self, ids, table):
        # Gradients of wide models' tables are a few rows, as TensorFlow's are; that of a table that is a matrix elsewhere is dense.
        return F.embedding(ids, table, sparse=self.is_training and self.model.loss == "click")

    def split(self, x, parts):
        return x.chunk(parts, -1)

    def concat(self, parts):
        return torch.cat(parts, -1)

    def attention(self, q, k, v, heads, mask=None, causal=False):
        def by_head(x):
            return x.view(x.shape[0], x.shape[1], heads, x.shape[2] // heads).transpose(1, 2)

        bias = None if mask is None else (1.0 - mask.float())[:, None, None, :] * -1e9
        y = F.scaled_dot_product_attention(by_head(q), by_head(k), by_head(v), bias, is_causal=causal)
        return y.transpose(1, 2).reshape(q.shape)

    def lstm(self, x, units, name):
        zeros = x.new_zeros([1, x.shape[0], units])
        flat = [self.get(name), self.get(f"{name}_recurrent"), self.get(f"{name}_bias"), self.get(f"{name}_bias").detach() * 0]
        return torch.lstm(x, (zeros, zeros), flat, True, 1, 0.0, self.is_training, False, True)[0]

    def pair_products(self, vectors):
        z = torch.stack(vectors, 1)
        rows, columns = torch.tril_indices(len(vectors), len(vectors), -1)
        return torch.bmm(z, z.transpose(1, 2))[:, rows, columns]


def transposed(weights):
    """TensorFlow's weights, {name: (kind, array)}, in PyTorch's order."""
    made = {}
    for name, (kind, value) in weights.items():
        t = torch.from_numpy(value)
        t = t.permute(TRANSPOSED[kind]) if kind in TRANSPOSED else t
        made[name] = t.contiguous(memory_format=torch.channels_last) if kind in ("conv", "depthwise") else t.contiguous()
    return made


def fed(values):
    """Inputs as tensors; images are only seen as NCHW, their bytes stay."""
    return [t.permute(0, 3, 1, 2) if t.ndim == 4 else t for t in map(torch.from_numpy, values)]


def loss(kind, logits, labels):
    if kind == "click":
        return F.binary_cross_entropy_with_logits(logits, labels)
    return F.cross_entropy(logits.flatten(0, -2), labels.long().flatten())


def made(name, weights, is_training):
    return Net(networks.MODELS[name], weights, is_training).train(is_training)
