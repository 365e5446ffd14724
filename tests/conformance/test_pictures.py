"""Pictures of three bytes a pixel, resized: the loops that take two columns at a time, at every width and edge."""

import numpy as np
import pytest
import tensorflow as tf

from support import on_both, v1

SIZES = [(h, w, oh, ow) for h, w in ((1, 1), (1, 7), (5, 2), (3, 33)) for oh, ow in ((1, 1), (2, 5), (7, 8), (4, 31), (9, 64))]


@pytest.mark.parametrize("align, half", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_resized_bytes(cluster, align, half, channels):
    rng = np.random.RandomState(3)
    images = [rng.randint(0, 256, [2, h, w, channels]).astype(np.uint8) for h, w, _, _ in SIZES]

    def build(_):
        made = [
            tf.raw_ops.ResizeBilinear(images=v1.placeholder_with_default(x, x.shape), size=[oh, ow], align_corners=align, half_pixel_centers=half)
            for x, (_, _, oh, ow) in zip(images, SIZES)
        ]
        return lambda sess: sess.run(made)

    got, want = on_both(cluster, build)
    for g, w, size in zip(got, want, SIZES):
        np.testing.assert_array_equal(g, w, err_msg=str(size))  # the same roundings
