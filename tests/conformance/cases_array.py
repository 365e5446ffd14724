"""Cases of ops that move, select and count elements: bit-exact for every dtype."""

import numpy as np
import tensorflow as tf

from opcase import C, dtypes_of
from support import ALL_DTYPES, sample

F = tf.float32
I32, I64 = np.int32, np.int64


def x(*shape, dtype=F, seed=0):
    return sample(dtype, shape, seed)


def shapes():
    for op in ("Shape", "Size"):
        for out in (tf.int32, tf.int64):
            yield C(op, x(2, 0, 3), out_type=out, label=out.name)
        yield C(op, x(), label="scalar")
        yield C(op, x(3, dtype=tf.string), label="string")
    yield C("Rank", x(2, 1, 1))
    yield C("Rank", x(), label="scalar")
    yield C("ShapeN", [x(2), x(), x(0, 4)], out_type=tf.int64)
    for label, shape in {
        "plain": [6],
        "infer": [2, -1, 3],
        "scalar": [],
        "bad": [7],
        "two-infer": [-1, -1],
        "negative": [-2, 3],
    }.items():
        value = x(1) if label == "scalar" else x(12) if label == "infer" else x(2, 3)
        yield C("Reshape", value, I32(shape), label=label)
    yield C("Reshape", x(0, 3), I64([-1, 3]), label="empty")
    yield C("Reshape", x(0, 3), I32([-1, 0]), label="empty-infer")
    for axis in (0, 1, -1, 2, 3, -4):
        yield C("ExpandDims", x(2, 3), I32(axis), label=f"{axis}")
    yield C("Squeeze", x(1, 3, 1, 2), label="all")
    yield C("Squeeze", x(1, 3, 1, 2), squeeze_dims=[-2], label="one")
    yield C("Squeeze", x(1, 3), squeeze_dims=[1], label="not-one")
    yield C("EnsureShape", x(2, 3), shape=[None, 3], label="fits")
    yield C("EnsureShape", x(2, 3), shape=[None, 4], label="differs")
    yield C("BroadcastArgs", I32([3, 1]), I32([1, 4]))
    yield C("BroadcastArgs", I32([3]), I32([4]), label="mismatch")
    for a, b in (([2, 3], [3]), ([], [4, 5]), ([2, 1], [1, 2]), ([1], [1]), ([3, 1, 2], [1, 4, 1]), ([2], [3])):
        yield C("BroadcastGradientArgs", I32(a), I32(b), label=f"{a}-{b}")
    yield C("InvertPermutation", I32([2, 0, 1]))
    yield C("InvertPermutation", I64([]), label="empty")
    yield C("InvertPermutation", I32([0, 0]), label="twice")
    yield C("InvertPermutation", I32([0, 2]), label="out-of-range")
    yield C("ConcatOffset", 1, [I32([2, 3, 4]), I32([2, 5, 4]), I32([2, 1, 4])])
    yield C("ConcatOffset", -1, [I32([2, 3]), I32([2, 5])], label="negative")
    yield C("ConcatOffset", 0, [I32([2, 3]), I32([2, 5])], label="mismatch")


def joins():
    for dtype in ALL_DTYPES:
        parts = [x(2, 3, dtype=dtype, seed=i) for i in range(3)]
        yield C("ConcatV2", parts, I32(1), label=dtype.name)
        yield C("Pack", parts, axis=1, label=dtype.name)
        yield C("Unpack", parts[0], num=3, axis=1, label=dtype.name)
        yield C("Split", 1, parts[0], num_split=3, label=dtype.name)
        yield C("Transpose", parts[0], I32([1, 0]), label=dtype.name)
        yield C("Tile", parts[0], I32([2, 2]), label=dtype.name)
        yield C("Identity", x(dtype=dtype), label=f"move-{dtype.name}")
    yield C("ConcatV2", [x(2, 3), x(0, 3), x(1, 3)], I64(-2), label="unequal")
    yield C("ConcatV2", [x(2, 3), x(2, 4)], I32(0), label="mismatch")
    yield C("ConcatV2", [x(2), x(2)], I32(1), label="axis-out-of-range")
    yield C("ConcatV2", [x(0), x(0)], I32(0), label="empty")
    yield C("ConcatV2", [x(100, 50), x(100, 70)], I32(1), label="large")
    yield C("Concat", 1, [x(2, 3), x(2, 1)])
    for axis in (0, 2, -1, -3, 3):
        yield C("Pack", [x(2, 3), x(2, 3, seed=1)], axis=axis, label=f"axis{axis}")
    yield C("Pack", [x(), x(seed=1)], label="scalars")
    yield C("Pack", [x(2), x(3)], label="mismatch")
    yield C("Unpack", x(2, 3), num=2, label="rows")
    yield C("Unpack", x(2, 3), num=3, label="wrong-number")
    yield C("Unpack", x(0, 3), num=0, label="none")
    yield C("Split", 0, x(6), num_split=2, label="vector")
    yield C("Split", -1, x(2, 4, 4), num_split=4, label="last")
    yield C("Split", 0, x(5), num_split=2, label="uneven")
    yield C("SplitV", x(6, 2), I64([1, 3, 2]), 0, num_split=3)
    yield C("SplitV", x(2, 6), I32([1, -1]), 1, num_split=2, label="infer")
    yield C("SplitV", x(6), I32([1, 2]), 0, num_split=2, label="wrong-sum")
    for perm in ([2, 0, 1], [0, 2, 1], [0, 1, 2], [2, 1, 0]):
        yield C("Transpose", x(2, 3, 4), I32(perm), label=f"{perm}")
    yield C("Transpose", x(2, 3, 4, 5, 2), I64([4, 0, 3, 1, 2]), label="rank5")
    yield C("Transpose", x(0, 3), I32([1, 0]), label="empty")
    yield C("Transpose", x(), I32([]), label="scalar")
    yield C("Transpose", x(2, 3), I32([0]), label="wrong-size")
    yield C("Tile", x(2, 3), I32([0, 1]), label="none")
    yield C("Tile", x(3), I64([4]), label="vector")
    for rank in (9, 12):
        yield C("Tile", x(*[1] * rank), I32([2] * rank), label=f"ones-of-rank-{rank}")
        yield C("Tile", x(*[2] * rank), I32([1] * (rank - 2) + [2, 3]), label=f"rank-{rank}")
    yield C("Tile", x(*[2] * 9), I32([2] * 9), label="rank-9-all")
    yield C("Tile", np.array(["a", "b"] * 256, object).reshape([2] * 9), I32([2] * 9), label="rank-9-strings")
    yield C("Tile", x(2, 3), I32([1]), label="wrong-size")
    yield C("Tile", x(2), I32([-1]), label="negative")
    yield C("BroadcastTo", x(3, 1), I32([2, 3, 4]))
    yield C("BroadcastTo", x(), I64([2, 2]), label="scalar")
    yield C("BroadcastTo", x(3), I32([2]), label="mismatch")
    yield C("IdentityN", [x(2), np.int64(3), np.array([b"a"], object)])


def slices():
    for begin, size in (([0, 1], [2, 2]), ([1, 0], [-1, -1]), ([2, 3], [0, 0]), ([1, 1], [2, 3]), ([-1, 0], [1, 1])):
        yield C("Slice", x(2, 3), I32(begin), I32(size), label=f"{begin}-{size}")
    yield C("Slice", x(4, dtype=tf.string), I64([1]), I64([2]), label="string")
    masks = [
        ("all", [0, 0, 0], [2, 3, 4], [1, 1, 1], {}),
        ("steps", [0, 2, 3], [2, 0, -5], [1, -1, -2], {}),
        ("masks", [1, 1, 1], [1, 1, 1], [1, 1, 2], dict(begin_mask=5, end_mask=6)),
        ("negative", [-1, -3, 0], [9, -1, 2], [1, 1, 1], {}),
        ("ellipsis", [0, 1], [0, 3], [1, 1], dict(ellipsis_mask=1)),
        ("new-axis", [0, 0, 1], [0, 0, 2], [1, 1, 1], dict(new_axis_mask=3)),
        ("shrink", [1, -1], [2, 0], [1, 1], dict(shrink_axis_mask=3)),
        (
            "mixed",
            [0, 0, 0, 1],
            [0, 0, 0, 2],
            [1, 1, 1, 1],
            dict(ellipsis_mask=2, new_axis_mask=4, shrink_axis_mask=8),
        ),
        ("empty", [1, 2, 0], [1, 0, 4], [1, 1, 1], {}),
        ("beyond", [0, 0, 0], [100, 100, 100], [1, 2, 3], {}),
    ]
    for label, begin, end, strides, attrs in masks:
        for index in (I32, I64):
            yield C(
                "StridedSlice",
                x(2, 3, 4),
                index(begin),
                index(end),
                index(strides),
                label=f"{label}-{index.__name__}",
                **attrs,
            )
    for label, begin, end, strides, attrs in masks:
        with tf.Graph().as_default():
            shape = tf.raw_ops.StridedSlice(input=x(2, 3, 4), begin=begin, end=end, strides=strides, **attrs).shape
        yield C(
            "StridedSliceGrad", I32([2, 3, 4]), I32(begin), I32(end), I32(strides), x(*shape), label=label, **attrs
        )
    yield C("StridedSlice", x(2, 3), I32([0]), I32([1]), I32([0]), label="zero-stride")
    yield C("StridedSlice", x(2, 3), I32([5]), I32([6]), I32([1]), shrink_axis_mask=1, label="shrink-out-of-range")
    yield C("StridedSlice", x(3), I32([0, 0]), I32([1, 1]), I32([1, 1]), label="too-many")
    yield C("StridedSliceGrad", I32([3]), I32([0]), I32([2]), I32([1]), x(3), label="wrong-gradient")
    for op in ("Pad", "PadV2"):
        more = [np.float32(7.0)] if op == "PadV2" else []
        yield C(op, x(2, 3), I32([[1, 0], [2, 1]]), *more)
        yield C(op, x(2, 1, 3, 2), I64([[0, 1], [1, 1], [0, 0], [2, 0]]), *more, label="rank4")
        yield C(op, x(0), I32([[1, 2]]), *more, label="empty")
        yield C(op, x(), np.zeros((0, 2), I32), *more, label="scalar")
        yield C(op, x(2), I32([[-1, 0]]), *more, label="negative")
        yield C(op, x(2), I32([[1, 0], [0, 0]]), *more, label="wrong-size")
    yield C("Pad", np.array([b"a"], object), I32([[1, 1]]), label="string")
    for mode in ("REFLECT", "SYMMETRIC"):
        yield C("MirrorPad", x(3, 4), I32([[1, 2], [2, 1]]), mode=mode, label=mode)
        yield C("MirrorPadGrad", x(6, 7), I32([[1, 2], [2, 1]]), mode=mode, label=mode)
        yield C("MirrorPad", x(2), I32([[3, 0]]), mode=mode, label=f"{mode}-too-much")
    yield C("ReverseV2", x(2, 3, 2), I32([0, -1]))
    yield C("ReverseV2", x(3, dtype=tf.string), I64([0]), label="string")
    yield C("ReverseV2", x(3), I32([1]), label="out-of-range")
    yield C("ReverseV2", x(3), I32([0, 0]), label="twice")
    yield C("Reverse", x(2, 3), np.array([False, True]))


def gathers():
    for dtype in ALL_DTYPES:
        yield C("GatherV2", x(4, 3, dtype=dtype), I32([3, 0, 0]), I32(0), label=dtype.name)
        yield C("GatherNd", x(4, 3, dtype=dtype), I32([[3, 2], [0, 1]]), label=dtype.name)
        yield C("Select", np.array([True, False]), x(2, dtype=dtype), x(2, dtype=dtype, seed=1), label=dtype.name)
        yield C(
            "SelectV2", np.array([[True], [False]]), x(2, dtype=dtype), x(2, 2, dtype=dtype, seed=1), label=dtype.name
        )
        yield C("Fill", I32([2, 3]), x(dtype=dtype), label=dtype.name)
    p = x(3, 4, 5)
    yield C("Gather", p, I64([[2, 0]]))
    for axis in (1, 2, -1, -3):
        yield C("GatherV2", p, I64([[1, 0], [2, 2]]), I32(axis), label=f"axis{axis}")
    yield C("GatherV2", x(2, 3, 4), I32([[0, 2], [1, 1]]), I64(1), batch_dims=1, label="batch")
    yield C("GatherV2", p, I32(1), I32(1), label="scalar")
    yield C("GatherV2", p, I32([]), I32(0), label="no-index")
    yield C("GatherV2", p, np.int16([1]), I32(0), label="int16")
    yield C("GatherV2", p, I32([3]), I32(0), label="out-of-range")
    yield C("GatherV2", p, I32([-1]), I32(1), label="negative")
    yield C("GatherV2", p, I32([0]), I32(3), label="axis-out-of-range")
    yield C("GatherV2", x(0, 3), I32([0]), I32(0), label="of-nothing")
    yield C("GatherNd", p, I64([[[1], [2]]]), label="rows")
    yield C("GatherNd", p, np.zeros((2, 0), I32), label="whole")
    yield C("GatherNd", p, I32([[3, 0]]), label="out-of-range")
    yield C("GatherNd", p, I32([[0, 0, 0, 0]]), label="too-deep")
    bad = I32([[7], [0], [-1], [1]])  # the last that is not in range is the error
    yield C("GatherNd", p, bad, label="two-out-of-range")
    yield C("ScatterNd", bad, np.float32([1, 2, 3, 4]), I32([4]), label="two-out-of-range")
    for op in ("TensorScatterUpdate", "TensorScatterAdd", "TensorScatterMax", "ScatterNdNonAliasingAdd"):
        yield C(op, np.float32([1, 2, 3]), bad, np.float32([1, 2, 3, 4]), label="two-out-of-range")
    yield C("ScatterNd", I32([[1], [3], [1]]), x(3, 2), I32([4, 2]))
    yield C("ScatterNd", I64([[0, 1], [1, 0]]), np.int64([5, 6]), I64([2, 2]), label="cells")
    yield C("ScatterNd", I32([[1], [0], [1]]), np.array(["a", "b", "c"], object), I32([3]), label="strings")
    yield C("ScatterNd", I32([[1], [1], [1]]), np.array([["a", ""], ["", "d"], ["e", "f"]], object), I32([2, 2]), label="rows-of-strings")
    yield C("ScatterNd", I32([[4]]), np.float32([1]), I32([4]), label="out-of-range")
    yield C("ScatterNd", I32([[0]]), np.float32([1, 2]), I32([4]), label="mismatch")
    yield C("Select", np.array([True, False]), x(2, 3), x(2, 3, seed=1), label="rows")
    yield C("Select", np.array(True), x(2, 3), x(2, 3, seed=1), label="whole")
    yield C("Select", np.array([True]), x(2, 3), x(2, 3, seed=1), label="mismatch")
    yield C("SelectV2", np.array(False), np.float32(1), x(3), label="scalar")
    yield C("SelectV2", np.array([True, False]), x(3), x(3), label="mismatch")
    for dtype in dtypes_of("Where"):
        yield C("Where", np.array([[0, 1], [1, 0], [1, 1]]).astype(dtype.as_numpy_dtype), label=dtype.name)
    yield C("Where", np.zeros((0, 2), bool), label="empty")
    yield C("Where", np.array(True), label="scalar")
    for ids in (I32, I64):
        for dtype in (tf.float32, tf.int64, tf.complex64):
            yield C(
                "UnsortedSegmentSum",
                x(4, 2, dtype=dtype),
                ids([2, 0, -1, 2]),
                I32(3),
                label=f"{dtype.name}-{ids.__name__}",
            )
    yield C("UnsortedSegmentSum", x(2, 2, 3), I32([[0, 1], [1, 0]]), I64(2), label="matrix-ids")
    yield C("UnsortedSegmentSum", x(0, 2), I32([]), I32(2), label="empty")
    yield C("UnsortedSegmentSum", x(2), I32([0, 3]), I32(3), label="out-of-range")
    yield C("UnsortedSegmentSum", x(2), I32([0, 0]), I32(-1), label="negative-number")
    yield C("DynamicStitch", [I32([0, 2]), I32([1, 3])], [x(2, 2), x(2, 2, seed=1)])
    yield C("DynamicStitch", [I32(1), I32([[0, 1]])], [x(3), x(1, 2, 3, seed=1)], label="overlap")
    yield C("DynamicStitch", [I32([0])], [x(2)], label="mismatch")


def makers():
    yield C("Fill", I64([0, 3]), np.float32(1), label="empty")
    yield C("Fill", I32([]), np.float32(1), label="to-scalar")
    yield C("Fill", I32([-1]), np.float32(1), label="negative")
    yield C("Fill", I32([2]), np.float32([1, 2]), label="not-scalar")
    for a, b, d in ((0, 5, 1), (5, 0, -2), (3, 3, 1), (0, 10, 3), (5, 0, 1), (0, 5, 0)):
        yield C("Range", I32(a), I32(b), I32(d), label=f"{a}-{b}-{d}")
    yield C("Range", np.float32(0), np.float32(1), np.float32(0.3), label="float")
    yield C("Range", I64(2**40), I64(2**40 + 3), I64(1), label="int64")
    yield C("LinSpace", np.float32(0), np.float32(1), I32(5))
    yield C("LinSpace", np.float64(3), np.float64(-1), I64(1), label="one")
    yield C("LinSpace", np.float32(0), np.float32(1), I32(0), label="none")
    for axis in (-1, 0, 1):
        yield C("OneHot", I64([[0, 2], [1, -1]]), 3, np.float32(5), np.float32(-5), axis=axis, label=f"axis{axis}")
    yield C("OneHot", np.uint8([0, 3]), 2, I32(1), I32(0), label="uint8")
    yield C("OneHot", I32(1), 3, np.array(True), np.array(False), label="scalar")
    yield C("OneHot", I32([1]), -1, np.float32(1), np.float32(0), label="negative-depth")
    yield C("Empty", I32([2, 3]), dtype=tf.float32, init=True)
    for dtype in (tf.int32, tf.string, tf.float32, tf.int64):
        v = (
            np.array([b"b", b"a", b"b"], object)
            if dtype == tf.string
            else np.array([5, 1, 5, 3, 1]).astype(dtype.as_numpy_dtype)
        )
        yield C("Unique", v, label=dtype.name)
    yield C("Unique", I32([]), out_idx=tf.int64, label="empty")
    yield C("Unique", x(2, 2), label="matrix")
    yield C("ListDiff", I32([1, 2, 3, 4, 2]), I32([2, 4]))
    yield C("ListDiff", np.array([b"a", b"b"], object), np.array([b"b"], object), out_idx=tf.int64, label="string")
    yield C("Diag", x(2, 2))
    yield C("Diag", I32([1, 2, 3]), label="int")
    yield C("DiagPart", x(3, 3))
    yield C("DiagPart", x(2, 3, 2, 3), label="rank4")
    yield C("DiagPart", x(2, 3), label="not-square")
    yield from matrix_diagonals()
    yield from set_operations()


def matrix_diagonals():
    for v in (x(3), x(2, 3), I32([[1, 2]])):
        yield C("MatrixDiag", v, label=str(v.shape) + v.dtype.name)
    yield C("MatrixDiagPart", x(2, 3, 4))
    yield C("MatrixDiagPart", x(3, 2), label="tall")
    yield C("MatrixSetDiag", x(2, 3, 4), x(2, 3))
    yield C("MatrixSetDiag", x(2, 3, 4), x(2, 4), label="wrong")
    pad = np.float32(7)
    for align in ("LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"):
        for k in ([0], [1], [-2], [-1, 1], [0, 2], [-2, -1], [-2, 3]):
            for shape in ((3, 4), (2, 4, 3)):
                yield C("MatrixDiagPartV3", x(*shape), I32(k), pad, align=align, label=f"{align}{k}{shape}")
                longest = min(shape[-2] + min(k[-1], 0), shape[-1] - max(k[0], 0))
                d = x(*shape[:-2], k[-1] - k[0] + 1, longest) if len(k) == 2 else x(*shape[:-2], longest)
                yield C("MatrixSetDiagV3", x(*shape), d, I32(k), align=align, label=f"{align}{k}{shape}")
                yield C("MatrixDiagV3", d, I32(k), I32(shape[-2]), I32(shape[-1]), pad, align=align, label=f"{align}{k}{shape}")
    yield C("MatrixDiagV3", x(3), I32(0), I32(-1), I32(-1), pad, label="square")
    yield C("MatrixDiagV3", x(3), I32(-2), I32(-1), I32(-1), pad, label="below")
    yield C("MatrixDiagV3", x(3), I32(1), I32(3), I32(-1), pad, label="rows")
    yield C("MatrixDiagV3", x(3), I32(1), I32(2), I32(-1), pad, label="too-few-rows")
    yield C("MatrixDiagV3", x(3), I32(1), I32(5), I32(6), pad, label="inconsistent")
    yield C("MatrixDiagV3", x(2, 3), I32([1, -1]), I32(-1), I32(-1), pad, label="upside-down")
    yield C("MatrixDiagPartV3", x(3, 4), I32([4]), pad, label="outside")
    yield C("MatrixDiagV2", x(2, 3), I32([0, 1]), I32(-1), I32(-1), pad)
    yield C("MatrixDiagPartV2", x(3, 4), I32([-1, 1]), pad)
    yield C("MatrixSetDiagV2", x(3, 4), x(2, 3), I32([-1, 0]))


def set_operations():
    a, b = I32([[1, 5, 3, 3], [2, 2, 9, 0]]), I32([[3, 4, 1], [7, 9, 9]])
    for operation in ("a-b", "b-a", "intersection", "union"):
        yield C("DenseToDenseSetOperation", a, b, set_operation=operation, label=operation)
        yield C("DenseToDenseSetOperation", I64([3, -1, 2]), I64([2, 8]), set_operation=operation, label=operation + "-vector")
        words = np.array([[b"b", b"a", b"ab"]], object), np.array([[b"a", b""]], object)
        yield C("DenseToDenseSetOperation", *words, set_operation=operation, label=operation + "-string")
    yield C("DenseToDenseSetOperation", I32([]), I32([2]), set_operation="a-b", label="empty")
    yield C("DenseToDenseSetOperation", a, I32([[1]]), set_operation="a-b", label="other-groups")
    yield C("DenseToDenseSetOperation", a, I32([1]), set_operation="a-b", label="other-rank")


def cases():
    yield from shapes()
    yield from joins()
    yield from slices()
    yield from gathers()
    yield from makers()
