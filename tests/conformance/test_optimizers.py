"""Every optimizer of version 1, with dense and sparse gradients, on both kinds of variables: as the oracle."""

import numpy as np
import pytest
import tensorflow as tf

from support import PS, assert_same, on_both, v1

train = v1.train
OPTIMIZERS = {
    "gradient_descent": lambda: train.GradientDescentOptimizer(0.1),
    "momentum": lambda: train.MomentumOptimizer(0.1, 0.9),
    "nesterov": lambda: train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "adagrad": lambda: train.AdagradOptimizer(0.3, initial_accumulator_value=0.2),
    "adadelta": lambda: train.AdadeltaOptimizer(1.0, rho=0.9, epsilon=1e-3),
    "adam": lambda: train.AdamOptimizer(0.05),
    "rmsprop": lambda: train.RMSPropOptimizer(0.02, momentum=0.5),
    "rmsprop_centered": lambda: train.RMSPropOptimizer(0.02, decay=0.8, centered=True, epsilon=1e-3),
    "ftrl": lambda: train.FtrlOptimizer(0.2, l1_regularization_strength=0.01, l2_regularization_strength=0.02),
    "ftrl_power": lambda: train.FtrlOptimizer(0.2, learning_rate_power=-0.7, l1_regularization_strength=0.05),
    "ftrl_shrinkage": lambda: train.FtrlOptimizer(0.2, l2_shrinkage_regularization_strength=0.1),
    "proximal_gradient_descent": lambda: train.ProximalGradientDescentOptimizer(
        0.1, l1_regularization_strength=0.02, l2_regularization_strength=0.1
    ),
    "proximal_adagrad": lambda: train.ProximalAdagradOptimizer(
        0.2, l1_regularization_strength=0.01, l2_regularization_strength=0.1
    ),
    "locking": lambda: train.AdamOptimizer(0.05, use_locking=True),
}
START = np.linspace(-1, 1, 12).reshape(4, 3)
TARGET = np.cos(np.arange(12)).reshape(4, 3)


def dense_loss(w, dtype):
    return tf.reduce_sum(tf.square(w - tf.constant(TARGET, dtype)))


def sparse_loss(w, dtype):
    rows = tf.nn.embedding_lookup(w, [1, 3, 1, 0])  # row 1 twice: its gradients add up; row 2 never
    return tf.reduce_sum(tf.square(rows - tf.constant(TARGET, dtype)))


def descend(cluster, make_optimizer, make_loss, use_resource, dtype, **tolerance):
    """Five steps on the cluster and locally; the variable and all slots must agree after each."""

    def build(place):
        with place(PS):
            w = v1.Variable(START.astype(dtype.as_numpy_dtype), use_resource=use_resource, name="w")
        loss = make_loss(w, dtype)
        step = make_optimizer().minimize(loss)
        state = sorted(v1.global_variables(), key=lambda v: v.name)

        def steps(sess):
            sess.run(v1.global_variables_initializer())
            history = []
            for _ in range(5):
                sess.run(step)
                history.append(sess.run(state))
            return [v.name for v in state], history

        return steps

    (names, got), (want_names, want) = on_both(cluster, build)
    assert names == want_names
    for i, (g, w) in enumerate(zip(got, want)):
        for name, a, b in zip(names, g, w):
            assert_same(a, b, what=f"{name} after step {i + 1}", **tolerance)
    assert not np.array_equal(want[0][-1], START)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("loss", [dense_loss, sparse_loss], ids=["dense", "sparse"])
def test_descends_as_tensorflow_does(cluster, use_resource, loss, name):
    descend(cluster, OPTIMIZERS[name], loss, use_resource, tf.float32, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["gradient_descent", "momentum", "adagrad", "adam", "rmsprop", "ftrl"])
@pytest.mark.parametrize("loss", [dense_loss, sparse_loss], ids=["dense", "sparse"])
def test_descends_in_double_precision(cluster, use_resource, loss, name):
    descend(cluster, OPTIMIZERS[name], loss, use_resource, tf.float64, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", ["gradient_descent", "momentum", "adam", "rmsprop"])
def test_descends_in_half_precision(cluster, use_resource, name):
    descend(cluster, OPTIMIZERS[name], dense_loss, use_resource, tf.float16, rtol=1e-2, atol=5e-3)


@pytest.mark.parametrize("loss", [dense_loss, sparse_loss], ids=["dense", "sparse"])
def test_adagrad_da_descends(cluster, use_resource, loss):
    def build(place):
        with place(PS):
            w = v1.Variable(START.astype(np.float32), use_resource=use_resource, name="w")
            counter = v1.Variable(tf.constant(1, tf.int64), use_resource=use_resource, name="counter")
        optimizer = train.AdagradDAOptimizer(
            0.2,
            counter,
            initial_gradient_squared_accumulator_value=0.1,
            l1_regularization_strength=0.001,
            l2_regularization_strength=0.1,
        )
        step = optimizer.minimize(loss(w, tf.float32), global_step=counter)

        def steps(sess):
            sess.run(v1.global_variables_initializer())
            history = []
            for _ in range(4):
                sess.run(step)
                history.append(sess.run(w))
            return history

        return steps

    got, want = on_both(cluster, build)
    for g, w in zip(got, want):
        assert_same(g, w, rtol=1e-5, atol=1e-6)


# Raw update operations that no optimizer class of version 1 makes: (slots, scalars, attributes, has a sparse form).
RAW = {
    "ApplyAdaMax": (["m", "v"], dict(beta1_power=0.9, lr=0.1, beta1=0.9, beta2=0.99, epsilon=1e-7), {}),
    "ApplyAddSign": (["m"], dict(lr=0.1, alpha=1.0, sign_decay=0.9, beta=0.8), {}),
    "ApplyPowerSign": (["m"], dict(lr=0.1, logbase=0.7, sign_decay=0.9, beta=0.8), {}),
    "ApplyAdagradV2": (["accum"], dict(lr=0.1, epsilon=1e-3), dict(update_slots=True)),
    "ApplyAdam": (
        ["m", "v"],
        dict(beta1_power=0.8, beta2_power=0.9, lr=0.1, beta1=0.9, beta2=0.99, epsilon=1e-7),
        dict(use_nesterov=True),
    ),
    "ApplyAdagrad": (["accum"], dict(lr=0.1), dict(update_slots=False)),
    "ApplyFtrl": (["accum", "linear"], dict(lr=0.1, l1=0.01, l2=0.02, lr_power=-0.5), {}),
    "ApplyFtrlV2": (["accum", "linear"], dict(lr=0.1, l1=0.01, l2=0.02, l2_shrinkage=0.03, lr_power=-0.5), {}),
    "ApplyKerasMomentum": (["accum"], dict(lr=0.1, momentum=0.9), {}),
    "ApplyKerasMomentumNesterov": (["accum"], dict(lr=0.1, momentum=0.9), dict(use_nesterov=True)),
    "ApplyAdamWithAmsgrad": (
        ["m", "v", "vhat"],
        dict(beta1_power=0.8, beta2_power=0.9, lr=0.1, beta1=0.9, beta2=0.99, epsilon=1e-7),
        {},
    ),
}
RESOURCE_ONLY = {"ApplyKerasMomentum", "ApplyKerasMomentumNesterov", "ApplyAdamWithAmsgrad"}
SPARSE = {
    "SparseApplyAdagradV2": (["accum"], dict(lr=0.1, epsilon=1e-3), {}),
    "SparseApplyMomentum": (["accum"], dict(lr=0.1, momentum=0.9), dict(use_nesterov=True)),
    "SparseApplyFtrl": (["accum", "linear"], dict(lr=0.1, l1=0.01, l2=0.02, lr_power=-0.5), {}),
    "SparseApplyFtrlV2": (["accum", "linear"], dict(lr=0.1, l1=0.01, l2=0.02, l2_shrinkage=0.03, lr_power=-0.5), {}),
    "SparseApplyKerasMomentum": (["accum"], dict(lr=0.1, momentum=0.9), {}),
}


def raw_update(cluster, op_name, table, use_resource, indices=None):
    slots, scalars, attrs = table

    def build(place):
        with place(PS):
            names = ["var", *slots]
            values = [START if n == "var" else np.full((4, 3), 0.1 + 0.1 * i) for i, n in enumerate(names)]
            vs = {
                n: v1.Variable(x.astype(np.float32), use_resource=use_resource, name=n) for n, x in zip(names, values)
            }
            grad = np.sin(np.arange(12)).reshape(4, 3).astype(np.float32)
            args = {n: (v.handle if use_resource else v._ref()) for n, v in vs.items()}
            args.update({n: tf.constant(x, tf.float32) for n, x in scalars.items()})
            if indices is not None:
                args["indices"], grad = tf.constant(indices), grad[: len(indices)]
            raw = ("Resource" if use_resource else "") + op_name.replace("Nesterov", "")
            update = getattr(tf.raw_ops, raw)(grad=tf.constant(grad), **args, **attrs)

        def steps(sess):
            sess.run(v1.global_variables_initializer())
            out = []
            for _ in range(3):
                sess.run(update.op if hasattr(update, "op") else update)
                out.extend(sess.run(list(vs.values())))
            return out

        return steps

    got, want = on_both(cluster, build)
    for g, w in zip(got, want):
        assert_same(g, w, rtol=1e-5, atol=1e-6, what=op_name)


@pytest.mark.parametrize("op_name", RAW)
def test_raw_updates(cluster, op_name, use_resource):
    if op_name in RESOURCE_ONLY and not use_resource:
        use_resource = True
    raw_update(cluster, op_name, RAW[op_name], use_resource)


@pytest.mark.parametrize("op_name", SPARSE)
def test_raw_sparse_updates_with_repeated_rows(cluster, op_name, use_resource):
    if "Keras" in op_name:
        use_resource = True
    raw_update(cluster, op_name, SPARSE[op_name], use_resource, indices=[2, 0, 2])


def test_a_sparse_update_out_of_range_is_refused(cluster, use_resource):
    def build(place):
        with place(PS):
            w = v1.Variable(START.astype(np.float32), use_resource=use_resource, name="w")
            a = v1.Variable(START.astype(np.float32), use_resource=use_resource, name="a")
        args = dict(lr=0.1, grad=tf.ones([1, 3]), indices=tf.constant([9]))
        if use_resource:
            update = tf.raw_ops.ResourceSparseApplyAdagrad(var=w.handle, accum=a.handle, **args)
        else:
            update = tf.raw_ops.SparseApplyAdagrad(var=w._ref(), accum=a._ref(), **args).op

        def steps(sess):
            sess.run(v1.global_variables_initializer())
            with pytest.raises(tf.errors.InvalidArgumentError) as caught:
                sess.run(update)
            return caught.value.op.name

        return steps

    got, want = on_both(cluster, build)
    assert got == want
