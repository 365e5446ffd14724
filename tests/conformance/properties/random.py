"""Specs of random numbers: ops/random.def. With given seeds the numbers are TensorFlow's, bit for bit.

A stream goes on from step to step, so that such a case is a session with several. Left out: both seeds 0, which ask
for other numbers each time (of those only the shapes are compared); counters with fewer words than the algorithm
has, of which TensorFlow reads behind the end; parameters for which TensorFlow tries for ever (alpha that is NaN or
below -2/3, rates and counts that are not finite or above what the output can hold); and shapes of int64 for
StatefulRandomBinomial, with which TensorFlow's process ends.
"""

import numpy as np
import tensorflow as tf

from draw import Program, spec
from opcase import C

REMOVED = ("RandomPoisson", "StatefulStandardNormal")  # from today's graphs
EXACT = dict(rtol=0, atol=0)
FLOATS = (tf.float16, tf.bfloat16, tf.float32, tf.float64)
INTS = (tf.int32, tf.int64)
FULL_INTS = (tf.int32, tf.int64, tf.uint32, tf.uint64)


def array(values, dtype):
    return np.asarray(values, dtype.as_numpy_dtype if isinstance(dtype, tf.DType) else dtype)


def sizes(d, dtype, max_rank=4, wrong=0.06):
    """A shape as a tensor; some of them are none."""
    shape = d.shape(max_rank=max_rank, max_dim=d.one(3, 5, 9))
    if d.chance(0.1):
        shape = (d.int(100, 700),)
    if d.chance(wrong):
        top = np.iinfo(dtype.as_numpy_dtype).max
        shape = d.one((-1,), (2, -3), (top, top, top), (0, 2**14), [[2, 3]], 4, (0, -1))
    return array(shape, dtype)


def words(d, n):
    """Random 64 bit integers; some are small, and near the ends of their range."""
    return [d.one(0, 1, 7, 2**32 - 1, 2**32, 2**63, 2**64 - 1, d.int(0, 2**62), d.int(0, 2**62)) for _ in range(n)]


def bits(values):
    return np.asarray(values, np.uint64)


def seeds(d):
    """The attributes of an op with a stream: not both are 0."""
    s = [d.one(0, 1, 87, -5, 2**40 + 3, -(2**63), 2**63 - 1) for _ in range(2)]
    return dict(seed=s[0] or 1, seed2=s[1]) if d.chance(0.5) else dict(seed=s[0], seed2=s[1] or 1)


def repeated(d, make, **attrs):
    """The op in three steps of one session, each with inputs of its own."""
    made = [make() for _ in range(3)]
    case = C(d.op, *made[0], **attrs)

    def build():
        before_removal()
        outs, feeds = case.build()
        return [(outs, dict(zip(feeds, inputs))) for inputs in made]

    return Program(d.op, build, alike=None if d.op in REMOVED else case, **EXACT)


def before_removal():
    """Makes the empty default graph one of an old version, which may hold ops that are removed today."""
    old = tf.compat.v1.GraphDef()
    old.versions.producer = 21
    tf.import_graph_def(old, name="")


# ---- streams ----


@spec("RandomUniform", "RandomStandardNormal", "TruncatedNormal")
def stream(d):
    t = d.one(*INTS)
    return repeated(d, lambda: [sizes(d, t)], dtype=d.one(*FLOATS), **seeds(d))


def bounds(d, dtype, wrong=0.05):
    info = np.iinfo(dtype.as_numpy_dtype)
    low, high = sorted(d.one(0, 1, 5, -3, 1000, info.min, info.max, d.int(info.min // 2, info.max // 2)) for _ in range(2))
    if low == high:
        high, low = (high + 1, low) if high < info.max else (high, low - 1)
    if d.chance(wrong):
        low, high = d.one((high, low), (low, low))
    low, high = array(low, dtype), array(high, dtype)
    return d.one([low.reshape(1), high], [low, high.reshape(1, 1)]) if d.chance(wrong / 2) else [low, high]


@spec("RandomUniformInt")
def stream_int(d):
    t, dtype = d.one(*INTS), d.one(*INTS)
    return repeated(d, lambda: [sizes(d, t), *bounds(d, dtype)], **seeds(d))


@spec("RandomShuffle")
def shuffle(d):
    dtype = d.dtype()
    return repeated(d, lambda: [d.values(dtype, rows_to_shuffle(d))], **seeds(d))


def rows_to_shuffle(d):
    return (d.int(10, 300), *d.shape(max_rank=1)) if d.chance(0.2) else d.shape(max_rank=4)


def logits(d, dtype):
    shape = (d.dim(6, 0.05), d.dim(9, 0.03))
    x = d.values(dtype, shape, low=-6, high=6)
    return d.one(x[0], x[None]) if shape[0] and d.chance(0.03) else x


def num_samples(d):
    n = array(d.one(0, 1, 2, 3, 4, 5, 17, 100) if d.chance(0.96) else -1, tf.int32)
    return n if d.chance(0.97) else n.reshape(1)


@spec("Multinomial")
def multinomial(d):
    dtype = d.one(*FLOATS)
    return repeated(d, lambda: [logits(d, dtype), num_samples(d)], output_dtype=d.one(*INTS), **seeds(d))


@spec("NonDeterministicInts")
def non_deterministic(d):
    """Only shapes and errors: values differ each time."""
    t, dtype = d.one(*INTS, *INTS, tf.int16), d.one(*FULL_INTS)
    case = C(d.op, sizes(d, t, wrong=0.2), dtype=dtype)

    def build():
        outs, feeds = case.build()
        return [([tf.shape(outs[0], tf.int64)], feeds)]

    return Program(d.op, build, alike=case)


# ---- without state ----


def seed_pair(d, dtypes=INTS):
    dtype = d.one(*dtypes)
    info = np.iinfo(dtype.as_numpy_dtype)
    seed = array([d.one(0, 1, 7, info.min, info.max, d.int(0, info.max // 2)) for _ in range(2)], dtype)
    return seed if d.chance(0.96) else d.one(seed[:1], seed[None], array([1, 2, 3], dtype))


@spec("StatelessRandomUniform", "StatelessRandomNormal", "StatelessTruncatedNormal")
def stateless(d):
    return C(d.op, sizes(d, d.one(*INTS)), seed_pair(d), dtype=d.one(*FLOATS), **EXACT)


@spec("StatelessRandomUniformInt")
def stateless_int(d):
    return C(d.op, sizes(d, d.one(*INTS)), seed_pair(d), *bounds(d, d.one(*INTS)))


@spec("StatelessRandomUniformFullInt")
def stateless_full_int(d):
    return C(d.op, sizes(d, d.one(*INTS)), seed_pair(d, FULL_INTS), dtype=d.one(*FULL_INTS))


def keyed(d):
    """key, counter, algorithm"""
    key, counter = bits(words(d, 1)), bits(words(d, d.one(2, 2, 2, 3)))
    alg = array(d.one(1, 1, 3), tf.int32)
    if d.chance(0.1):
        key, counter, alg = d.one(
            (key[:0], counter, alg),
            (key[0], counter, alg),
            (key, counter[:0], alg),
            (key, counter[None], alg),
            (key, counter, alg.reshape(1)),
            (key, counter, array(d.one(0, 2, 4, -1, 1000), tf.int32)),
        )
    return [key, counter, alg]


@spec("StatelessRandomUniformV2", "StatelessRandomNormalV2", "StatelessTruncatedNormalV2")
def stateless_v2(d):
    return C(d.op, sizes(d, d.one(*INTS)), *keyed(d), dtype=d.one(*FLOATS), **EXACT)


@spec("StatelessRandomUniformIntV2")
def stateless_int_v2(d):
    return C(d.op, sizes(d, d.one(*INTS)), *keyed(d), *bounds(d, d.one(*INTS)))


@spec("StatelessRandomUniformFullIntV2")
def stateless_full_int_v2(d):
    return C(d.op, sizes(d, d.one(*INTS)), *keyed(d), dtype=d.one(*FULL_INTS))


@spec("StatelessShuffle")
def stateless_shuffle(d):
    return C(d.op, d.values(d.dtype(), rows_to_shuffle(d)), *keyed(d), **EXACT)


@spec("StatelessMultinomial")
def stateless_multinomial(d):
    return C(d.op, logits(d, d.one(*FLOATS)), num_samples(d), seed_pair(d), output_dtype=d.one(*INTS))


@spec("StatelessRandomGetAlg")
def get_alg(d):
    return C(d.op)


@spec("StatelessRandomGetKeyCounter", "StatelessRandomGetKeyCounterAlg")
def get_key_counter(d):
    return C(d.op, seed_pair(d))


# ---- state in a variable ----

BAD_STATES = ([1, 2], [], [[1, 2, 3]], 7)


def state(d, tag=False):
    """A variable's value: (the algorithm,) counter and key; some are none, and None is a variable without a value."""
    value = np.asarray([*([d.one(1, 1, 3)] if tag else []), *bits(words(d, d.one(3, 3, 4))).view(np.int64)], np.int64)
    if d.chance(0.12):
        value = d.one(value.astype(np.int32), value.astype(np.float32), *(np.asarray(v, np.int64) for v in BAD_STATES), None)
    if tag and value is not None and value.size and d.chance(0.1):
        value.flat[0] = d.one(0, 2, 4, -1)
    return value


def algorithm(d, dtype=tf.int64):
    alg = array(d.one(1, 1, 1, 3) if d.chance(0.93) else d.one(0, 2, 2, 4, -1, 1000), dtype)
    return alg if d.chance(0.97) else alg.reshape(1)


def with_state(d, value, make, **attrs):
    """The op in three steps, each with inputs of its own, and what the variable is after each."""
    made = [make() for _ in range(3)]

    def case_of(handle):
        return C(d.op, handle, *made[0], **attrs)

    def build():
        before_removal()
        dtype = tf.as_dtype(np.int64 if value is None else value.dtype)
        handle = tf.raw_ops.VarHandleOp(dtype=dtype, shape=None, shared_name=f"{d.op} {d.number}")
        outs, feeds = case_of(handle).build()
        steps = []
        if value is not None:
            steps = [([tf.raw_ops.AssignVariableOp(resource=handle, value=value)], {})]
            steps += [([tf.raw_ops.RngSkip(resource=handle, algorithm=array(1, tf.int64), delta=array(0, tf.int64))], {})]
        # No constant and no fetched value may share the variable's memory: TensorFlow's binomial does not move on then.
        read = tf.stack([tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)] * 2)
        for inputs in made:
            steps += [(outs, dict(zip(feeds, inputs))), (read, {})]
        return steps

    return Program(d.op, build, **EXACT)


@spec("StatefulUniform", "StatefulStandardNormalV2", "StatefulTruncatedNormal")
def stateful(d):
    t = d.one(*INTS, *INTS, tf.int16) if d.chance(0.3) else d.one(*INTS)
    return with_state(d, state(d), lambda: [algorithm(d), sizes(d, t)], dtype=d.one(*FLOATS))


@spec("StatefulStandardNormal")
def stateful_v1(d):
    t = d.one(*INTS)
    return with_state(d, state(d, tag=True), lambda: [sizes(d, t)], dtype=d.one(*FLOATS))


@spec("StatefulUniformFullInt")
def stateful_full_int(d):
    t = d.one(*INTS)
    return with_state(d, state(d), lambda: [algorithm(d), sizes(d, t)], dtype=d.one(*FULL_INTS))


@spec("StatefulUniformInt")
def stateful_int(d):
    t, dtype = d.one(*INTS), d.one(*INTS)
    return with_state(d, state(d), lambda: [algorithm(d), sizes(d, t), *bounds(d, dtype)])


def skipped(d, dtype):
    delta = bits(words(d, 1)).view(dtype.as_numpy_dtype)
    return delta[0] if d.chance(0.97) else delta


@spec("RngSkip")
def rng_skip(d):
    return with_state(d, state(d), lambda: [algorithm(d), skipped(d, tf.int64)])


@spec("RngReadAndSkip")
def rng_read_and_skip(d):
    value = state(d)
    if value is not None and value.ndim == 1 and value.size > 3:
        value = value[:3]  # of a longer one TensorFlow writes more than the output holds
    return with_state(d, value, lambda: [algorithm(d, tf.int32), skipped(d, tf.uint64)])


# ---- distributions with parameters ----

REALS = (tf.float16, tf.float32, tf.float64)
NUMBERS = (*REALS, *INTS)


def of(d, dtype, shape, *some):
    """An array of numbers each of which is one of `some`."""
    n = int(np.prod(shape, dtype=np.int64))
    return np.asarray([d.one(*some) for _ in range(n)], np.float64).astype(dtype.as_numpy_dtype).reshape(shape)


def alphas(d, dtype, shape):
    low = float(np.finfo(np.float16).tiny) / 4
    return of(d, dtype, shape, 1.0, 0.5, 2.0, 3.7, 0.1, 0.01, 1e-3, low, 10.0, 100.0, 3e4, d.real(0, 1), d.real(0, 20), 0.0)


def ending(d, t, tail, wrong=0.05):
    """A shape as a tensor that ends in `tail`; some do not."""
    shape = (*(d.one((d.int(100, 900),), d.shape(max_rank=2)) if d.chance(0.15) else d.shape(max_rank=2)), *tail)
    if d.chance(wrong):
        shape = d.one(shape[1:], (*shape, 2), (-1, *tail), (2,))
    shape = array(list(shape), t)
    return shape if d.chance(0.98) else shape[None]


def parameter_shape(d):
    return d.shape(max_rank=2, max_dim=4, zero=0.03)


@spec("RandomGamma")
def gamma(d):
    t, dtype = d.one(*INTS), d.one(*REALS)
    return repeated(d, lambda: [sizes(d, t, max_rank=2), alphas(d, dtype, parameter_shape(d))], **seeds(d))


def graded(case, parameters):
    """Numbers are exact, gradients are not: TensorFlow sums floats, and stops early where alpha is large."""
    wide = parameters.dtype == np.float64
    case.gradient_tolerance = (1e-7, 1e-9) if wide else (1e-3, 1e-3)
    return case


@spec("StatelessRandomGammaV2", "StatelessRandomGammaV3")
def stateless_gamma(d):
    alpha = alphas(d, d.one(*REALS), parameter_shape(d))
    source = [seed_pair(d)] if d.op.endswith("V2") else keyed(d)
    case = graded(C(d.op, ending(d, d.one(*INTS), alpha.shape), *source, alpha, **EXACT), alpha)
    case.has_gradient = bool(np.all((alpha >= 0.01) & (alpha <= 100)))
    return case


def rates(d, dtype, shape, output):
    """Below what the output can hold: of greater rates TensorFlow tries for ever to find a number."""
    top = {tf.float16: 3e4, tf.int32: 1e9}.get(output, 1e15)
    some = (0.0, 0.5, 1.0, 3.0, 9.0, 10.0, 11.0, 20.0, 100.0, 1000.0, 2.5e4, min(top, 1e9), top, d.real(0, 10), d.real(10, 50))
    limit = {tf.float16: 3e4, tf.int32: 1e9}.get(dtype, 1e15)
    return of(d, dtype, shape, *(s for s in some if s <= min(top, limit)), *([-1.0, -0.25] if d.chance(0.1) else []))


@spec("RandomPoisson")
def poisson(d):
    t, dtype = d.one(*INTS), d.one(*REALS)
    return repeated(d, lambda: [sizes(d, t, max_rank=2), rates(d, dtype, parameter_shape(d), dtype)], **seeds(d))


@spec("RandomPoissonV2")
def poisson_v2(d):
    t, dtype, output = d.one(*INTS), d.one(*NUMBERS), d.one(*NUMBERS)
    return repeated(d, lambda: [sizes(d, t, max_rank=2), rates(d, dtype, parameter_shape(d), output)], dtype=output, **seeds(d))


@spec("StatelessRandomPoisson")
def stateless_poisson(d):
    output = d.one(*NUMBERS)
    rate = rates(d, d.one(*NUMBERS), parameter_shape(d), output)
    return C(d.op, ending(d, d.one(*INTS), rate.shape), seed_pair(d), rate, dtype=output, **EXACT)


def trials(d, max_rank=2):
    """Counts and probabilities that broadcast, and the shape that they have together."""
    dtype = d.one(*REALS)
    a, b = d.broadcast(max_rank=max_rank, max_dim=4, zero=0.03)
    counts = of(d, dtype, a, 0.0, 1.0, 2.5, 10.0, 25.0, 100.0, 1000.0, 3e4, -1.0, d.int(0, 50))
    chances = of(d, dtype, b, 0.0, 1.0, 0.5, 0.1, 0.9, 1e-3, 0.999, 1.5, -0.1, d.real(), d.real())
    try:
        return counts, chances, np.broadcast_shapes(a, b)
    except ValueError:
        return counts, chances, a


@spec("StatelessRandomBinomial")
def stateless_binomial(d):
    counts, chances, shape = trials(d)
    return C(d.op, ending(d, d.one(*INTS), shape), seed_pair(d), counts, chances, dtype=d.one(*NUMBERS), **EXACT)


@spec("StatefulRandomBinomial")
def stateful_binomial(d):
    counts, chances, shape = trials(d, max_rank=d.one(1, 2))
    return with_state(d, state(d), lambda: [algorithm(d), ending(d, tf.int32, shape), counts, chances], dtype=d.one(*NUMBERS))


def truncated(d, dtype, shapes):
    """Means, deviations and bounds of those shapes; bounds far from the mean, infinite ones, some that are wrong."""
    mean = of(d, dtype, shapes[0], 0.0, 1.0, -2.0, 10.0)
    deviation = of(d, dtype, shapes[1], 1.0, 0.5, 3.0)
    kinds = [(-1, 1), (-3, 3), (-0.5, 20), (2, 5), (-9, -4), (5, np.inf), (-np.inf, 1), (4, 4.5), (-np.inf, 30)]
    low, high = d.one(*kinds)
    if d.chance(0.06):
        low, high = d.one((1, 1), (2, 1), (-np.inf, np.inf), (np.nan, 1))
        deviation = deviation * d.one(dtype.as_numpy_dtype(1), dtype.as_numpy_dtype(0), dtype.as_numpy_dtype(-1))
    return [mean, deviation, of(d, dtype, shapes[2], low), of(d, dtype, shapes[3], high)]


@spec("ParameterizedTruncatedNormal")
def truncated_stream(d):
    t, dtype = d.one(*INTS), d.one(*REALS)

    def make():
        shape = d.shape(min_rank=1, max_rank=3) if d.chance(0.9) else (d.int(1, 30), d.int(100, 700))
        rows = shape[0]
        shapes = [d.one((), (1,), (rows,)) for _ in range(4)] if d.chance(0.6) else [()] * 4
        if d.chance(0.04):
            shapes[d.int(0, 3)] = d.one((rows + 1,), (1, 1), (0,))
        size = array(list(shape), t)
        if d.chance(0.04):
            size = d.one(size[:0], size[None], size - 7, size[0])
        return [size, *truncated(d, dtype, shapes)]

    return repeated(d, make, **seeds(d))


@spec("StatelessParameterizedTruncatedNormal")
def truncated_seeded(d):
    dtype = d.one(*REALS)
    shapes = d.broadcast(4, max_rank=2, max_dim=4, zero=0.03)
    try:
        whole = np.broadcast_shapes(*shapes)
    except ValueError:
        whole = shapes[0]
    parameters = truncated(d, dtype, shapes)
    case = graded(C(d.op, ending(d, d.one(*INTS), whole), seed_pair(d), *parameters, **EXACT), parameters[0])
    case.has_gradient = dtype != tf.float16  # of which differences of distribution functions leave nothing
    return case


# ---- others ----


@spec("RandomIndexShuffle")
def index_shuffle(d):
    """An index above max_index has no place: TensorFlow may look for one for ever."""
    dtype, seed_type = d.one(*FULL_INTS), d.one(*FULL_INTS)
    n = d.int(1, 6)
    top = int(np.iinfo(dtype.as_numpy_dtype).max)
    many = [d.chance(0.5) for _ in range(3)]
    limits = [min(d.one(0, 1, 5, 100, 65535, 65536, 10**6, 2**31 - 1, 2**40, 2**63 - 1), top) for _ in range(n if many[2] else 1)]
    index = [d.int(0, min(limits)) for _ in range(n if many[0] else 1)]
    seed = array(bits(words(d, 3 * (n if many[1] else 1))).astype(seed_type.as_numpy_dtype), seed_type)
    index, seed, limits = array(index, dtype), seed.reshape(-1, 3), array(limits, dtype)
    index, seed, limits = index if many[0] else index[0], seed if many[1] else seed[0], limits if many[2] else limits[0]
    if d.chance(0.08):
        index, seed, limits = d.one((index, seed[..., :2], limits), (np.resize(index, n + 1), seed, limits), (index, seed, np.resize(limits, (1, 1))), (index, seed[None], limits))
    return C(d.op, index, seed, limits, rounds=d.one(4, 4, 6, 8, 20))


@spec("StochasticCastToInt")
def stochastic_cast(d):
    dtype = d.one(*FLOATS)
    low = d.one(-4, -200, -4e4, -1e10) if dtype != tf.float16 else d.one(-4, -200, -4e4)
    return C(d.op, d.values(dtype, d.shape(max_rank=d.one(1, 3, 4), max_dim=d.one(5, 40)), low=low, high=-low), *keyed(d), Tout=d.one(tf.int8, tf.int16, tf.int32))


@spec("RandomGammaGrad")
def gamma_grad(d):
    """Of a float TensorFlow sums in floats; the result here is nearer to the gradient."""
    dtype = d.one(tf.float32, tf.float64)
    a, b = d.broadcast(max_rank=4)
    alpha = d.values(dtype, a, low=d.one(0.05, 0.5), high=d.one(3, 40))
    sample = d.values(dtype, b, low=0.01, high=d.one(3, 60))
    return C(d.op, alpha, sample, **(dict(rtol=2e-4, atol=2e-5) if dtype == tf.float32 else dict(rtol=1e-8, atol=1e-10)))
