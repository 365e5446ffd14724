"""tests/cuda/testdata: layers of Keras with their gradients, as graphs of constants: "x:0" goes in; "y:0", the loss "loss:0" and the gradients "gradient_<i>:0" of x
and of all weights come out."""
import tensorflow as tf
from tensorflow import keras

HERE = "tests/cuda/testdata"


def attention():
    """A block of a transformer: attention of two heads (Einsum), layer norms, GELU."""
    x = keras.Input([5, 6], batch_size=3)
    h = keras.layers.LayerNormalization(name="norm_0")(x + keras.layers.MultiHeadAttention(2, 4, name="attend")(x, x, x))
    inner = keras.layers.EinsumDense("abc,cd->abd", [None, 12], bias_axes="d", activation="gelu", name="inner")(h)
    return keras.Model(x, keras.layers.LayerNormalization(name="norm_1")(h + keras.layers.Dense(6, name="out")(inner)))


def lstm():
    """Two layers, each a loop over the time that keeps its values in tensor lists."""
    return keras.Sequential([keras.Input([7, 4], batch_size=3), keras.layers.LSTM(6, return_sequences=True, name="lstm_0"), keras.layers.LSTM(5, name="lstm_1")])


def write(maker, path):
    keras.backend.clear_session()
    keras.utils.set_random_seed(7)
    model = maker()
    weights, others = ([v.numpy() for v in group] for group in (model.trainable_variables, model.non_trainable_variables))

    @tf.function(input_signature=[tf.TensorSpec(model.inputs[0].shape, tf.float32, name="x")], autograph=False)
    def step(x):
        watched = [x] + [tf.constant(w) for w in weights]
        with tf.GradientTape() as tape:
            tape.watch(watched)
            y, _ = model.stateless_call(watched[1:], [tf.constant(v) for v in others], x)
            loss = tf.reduce_sum(tf.square(y - 0.5))
        for i, gradient in enumerate(tape.gradient(loss, watched)):
            tf.identity(gradient, name="gradient_%d" % i)
        return tf.identity(y, name="y"), tf.identity(loss, name="loss")

    path.write_bytes(step.get_concrete_function().graph.as_graph_def().SerializeToString(deterministic=True))


def make(root, out):
    for maker in (attention, lstm):
        write(maker, out / HERE / (maker.__name__ + ".pb"))
