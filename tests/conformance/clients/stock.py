"""Programs of the 1.x line under TensorFlow's own strategies, one a line of JSON on standard input.

A program: {"jobs", "strategy", "model", "optimizer", "input", "loop", "workers", "directory"}; jobs are the servers
that run it. The clients of several workers, as ParameterServerStrategy has them, are graphs and sessions of their own,
which take turns: what is asynchronous becomes a fixed order. Prints a line for each program: the losses, the step
counts and what the checkpointed variables are at the end, or the error that ended it.

strategy: make_strategy() has them. input: dataset, uneven (make_dataset_iterator), distributed, distributed_uneven
(experimental_distribute_dataset; uneven: the last batch of an epoch is smaller), function, input_fn, feeds, none. loop:
session, saver (saved in the middle, gone on with in new sessions), monitored (twice, with MonitoredTrainingSession).
"""

import itertools
import json
import os
import sys
import traceback

from support import config, v1

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

ROWS, BATCH = 40, 12  # an epoch's last batch has four rows


def rows():
    return tf.data.Dataset.range(ROWS, output_type=tf.int32).map(row)


def row(i):
    """Some features of row i, a word, and a label."""
    x = tf.cast((i * [1, 3, 5, 7]) % [5, 7, 3, 11], tf.float32) / 5.0
    return {"x": x, "word": i % 7}, tf.reduce_sum(x * [1.0, -2.0, 3.0, 0.5], keepdims=True) + 0.25


# ---- models: the loss of a batch ----


def variable(name, shape, value=None, **options):
    count = int(np.prod(shape))
    if value is None:
        value = (np.arange(count) % 5 - 2) / 7.0
    value = np.reshape(np.broadcast_to(np.float32(value), [count]), shape)
    return v1.get_variable(name, initializer=value, use_resource=True, **options)


def mean_square(e):
    return tf.reduce_mean(tf.square(e))


def linear(x, y):
    return mean_square(tf.matmul(x["x"], variable("w", [4, 1])) + variable("b", [1], 0.0) - y)


def deep(x, y):
    h = x["x"]
    for i, n in enumerate([6, 5]):
        h = tf.nn.tanh(tf.matmul(h, variable(f"w{i}", [h.shape[1], n])) + variable(f"b{i}", [n], 0.0))
    return mean_square(tf.matmul(h, variable("out", [5, 1])) - y)


def batch_norm(x, y):
    """Moving statistics are of each replica and saved as their mean, as tf.keras and tf.layers have them."""
    h = tf.matmul(x["x"], variable("w", [4, 3]))
    gamma, beta = variable("gamma", [3], 1.0), variable("beta", [3], 0.0)
    kind = dict(synchronization=tf.VariableSynchronization.ON_READ, aggregation=tf.VariableAggregation.MEAN, trainable=False)
    moving = [variable("moving_mean", [3], 0.0, **kind), variable("moving_variance", [3], 1.0, **kind)]
    h, mean, variance = v1.nn.fused_batch_norm(h[:, None, None, :], gamma, beta)
    for var, now in zip(moving, [mean, variance]):
        v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, var.assign_add((now - var) * 0.1))
    return mean_square(tf.matmul(h[:, 0, 0, :], variable("out", [3, 1])) - y)


def embedding(x, y):
    table = variable("table", [7, 3])
    return mean_square(tf.matmul(tf.nn.embedding_lookup(table, x["word"]), variable("out", [3, 1])) - y)


def partitioned(x, y):
    with v1.variable_scope("parts", partitioner=v1.fixed_size_partitioner(2)):
        table = v1.get_variable("table", [7, 3], initializer=v1.constant_initializer(0.125), use_resource=True)
    h = tf.nn.embedding_lookup(table, x["word"])
    return mean_square(tf.matmul(h, variable("out", [3, 1])) - y)


def recurrent(x, y):
    kernel = tf.identity(variable("kernel", [4, 3]))

    def cell(i, h):
        return i + 1, tf.tanh(tf.matmul(tf.concat([h, x["x"][:, i, None]], axis=1), kernel))

    _, h = tf.while_loop(lambda i, _: i < 4, cell, [0, tf.zeros_like(x["x"])[:, :3]])
    return mean_square(tf.matmul(h, variable("out", [3, 1])) - y)


def metrics(x, y):
    p = tf.matmul(x["x"], variable("w", [4, 1]))
    _, update = v1.metrics.mean_squared_error(y, p)
    v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
    return mean_square(p - y)


def averaged(x, y):
    loss = linear(x, y)
    average = v1.train.ExponentialMovingAverage(0.5)
    v1.add_to_collection("after_training", average)
    return loss


MODELS = {f.__name__: f for f in (linear, deep, batch_norm, embedding, partitioned, recurrent, metrics, averaged)}

OPTIMIZERS = {
    "sgd": lambda: v1.train.GradientDescentOptimizer(0.05),
    "momentum": lambda: v1.train.MomentumOptimizer(0.05, 0.5),
    "nesterov": lambda: v1.train.MomentumOptimizer(0.05, 0.5, use_nesterov=True),
    "adam": lambda: v1.train.AdamOptimizer(0.05),
    "adagrad": lambda: v1.train.AdagradOptimizer(0.05),
    "adadelta": lambda: v1.train.AdadeltaOptimizer(0.5),
    "rmsprop": lambda: v1.train.RMSPropOptimizer(0.02, momentum=0.5, centered=True),
    "ftrl": lambda: v1.train.FtrlOptimizer(0.05, l1_regularization_strength=0.001),
    "decay": lambda: v1.train.AdamOptimizer(v1.train.exponential_decay(0.1, v1.train.get_global_step(), 2, 0.5, staircase=True)),
    "clipped": lambda: Clipped(v1.train.MomentumOptimizer(0.05, 0.5)),
}


class Clipped:
    def __init__(self, optimizer):
        self.optimizer = optimizer

    def minimize(self, loss, global_step):
        gradients, variables = zip(*self.optimizer.compute_gradients(loss))
        gradients, _ = tf.clip_by_global_norm(gradients, 0.5)
        return self.optimizer.apply_gradients(zip(gradients, variables), global_step=global_step)


# ---- strategies and what they read ----


def make_strategy(name, jobs, task):
    experimental = v1.distribute.experimental
    worker = f"/job:worker/replica:0/task:{task}/device:CPU:"
    if name == "ps":
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec(jobs), task_type="worker", task_id=task, num_accelerators={"GPU": 0})
        return experimental.ParameterServerStrategy(resolver)
    if name == "central":
        return experimental.CentralStorageStrategy()
    if name == "central_2":
        return experimental.CentralStorageStrategy(["/cpu:0", "/cpu:1"], "/cpu:0")
    if name == "central_named":
        return experimental.CentralStorageStrategy([worker + "0", worker + "1", worker + "2"], worker + "1")
    if name == "central_ps":
        return experimental.CentralStorageStrategy([worker + "0", worker + "1"], "/job:ps/task:0/device:CPU:0")
    if name == "one_device":
        return v1.distribute.OneDeviceStrategy("/cpu:0")
    if name == "one_device_1":
        return v1.distribute.OneDeviceStrategy("/cpu:1")
    if name == "one_device_ps":
        return v1.distribute.OneDeviceStrategy("/job:ps/task:0")
    if name == "mirrored":
        return v1.distribute.MirroredStrategy()
    if name == "mirrored_2":
        return v1.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    if name == "mirrored_copy":
        return v1.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"], v1.distribute.HierarchicalCopyAllReduce(num_packs=1))
    if name == "mirrored_3":
        return v1.distribute.MirroredStrategy(["/cpu:0", "/cpu:1", "/cpu:2"], v1.distribute.ReductionToOneDevice())
    if name == "mirrored_named":
        return v1.distribute.MirroredStrategy([worker + "0", worker + "1"])
    return v1.distribute.MirroredStrategy(
        ["/job:worker/task:0/device:CPU:0", "/job:worker/task:1/device:CPU:0"], v1.distribute.ReductionToOneDevice())


def own_rows(context):
    size = context.get_per_replica_batch_size(BATCH)
    return rows().shard(context.num_input_pipelines, context.input_pipeline_id).repeat(2).batch(size, drop_remainder=True)


def shuffled():
    return rows().shuffle(16, seed=7).repeat(3).batch(BATCH, drop_remainder=True).prefetch(2)


class Input:
    """Where a step's batch comes from."""

    def __init__(self, kind, strategy):
        self.kind, self.initializers, self.placeholders, self.step = kind, [], None, 0
        if kind == "dataset":
            self.iterator = strategy.make_dataset_iterator(shuffled())
        elif kind == "uneven":
            self.iterator = strategy.make_dataset_iterator(rows().repeat(2).batch(BATCH))
        elif kind == "input_fn":
            self.iterator = strategy.make_input_fn_iterator(own_rows)
        elif kind == "function":
            self.iterator = v1.data.make_initializable_iterator(strategy.distribute_datasets_from_function(own_rows))
        elif kind == "distributed":
            self.iterator = v1.data.make_initializable_iterator(strategy.experimental_distribute_dataset(shuffled()))
        elif kind == "distributed_uneven":
            self.iterator = v1.data.make_initializable_iterator(strategy.experimental_distribute_dataset(rows().batch(BATCH)))
        else:
            self.iterator = None
        if kind == "feeds":
            columns = [(tf.float32, [BATCH, 4]), (tf.int32, [BATCH]), (tf.float32, [BATCH, 1])]
            self.placeholders = [v1.placeholder(dtype, shape) for dtype, shape in columns]
        if self.iterator is not None:
            begin = self.iterator.initialize() if hasattr(self.iterator, "initialize") else self.iterator.initializer
            self.initializers = tf.nest.flatten(begin)

    def batch(self):
        if self.iterator is not None:
            return self.iterator.get_next()
        if self.placeholders is not None:
            return {"x": self.placeholders[0], "word": self.placeholders[1]}, self.placeholders[2]
        i = tf.range(BATCH, dtype=tf.int32)
        return tf.map_fn(row, i, fn_output_signature=({"x": tf.float32, "word": tf.int32}, tf.float32))

    def feeds(self):
        if self.placeholders is None:
            return {}
        self.step += 1
        n = np.arange(BATCH) + self.step
        x = np.float32(np.outer(n, [1, 2, 3, 5]) % 7 / 3)
        return dict(zip(self.placeholders, [x, n % 7, x @ np.float32([[1], [2], [-1], [0]])]))


# ---- programs ----


containers = itertools.count()  # nothing is left of the programs before


class Program:
    """One worker's graph."""

    def __init__(self, case, jobs, task, container):
        self.case = case
        self.strategy = make_strategy(case["strategy"], jobs, task)
        self.graph = tf.Graph()
        with self.graph.as_default(), self.graph.container(container), self.strategy.scope():
            v1.set_random_seed(3)
            self.global_step = v1.train.get_or_create_global_step()
            optimizer = OPTIMIZERS[case["optimizer"]]()
            self.input = Input(case["input"], self.strategy)

            def step(batch):
                loss = MODELS[case["model"]](*batch)
                updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
                with tf.control_dependencies([u for u in updates if u is not None]):
                    train = optimizer.minimize(loss, global_step=self.global_step)
                for average in v1.get_collection("after_training"):
                    with tf.control_dependencies([train]):
                        train = average.apply(v1.trainable_variables())
                with tf.control_dependencies([train]):
                    return tf.identity(loss)

            loss = self.strategy.extended.call_for_each_replica(step, args=(self.input.batch(),))
            self.loss = self.strategy.reduce(tf.distribute.ReduceOp.MEAN, loss, axis=None)
            self.losses = self.strategy.experimental_local_results(loss)
            with tf.control_dependencies([self.loss]):
                self.at = tf.identity(self.global_step.read_value())
            self.saver = v1.train.Saver()
            self.initialize = v1.global_variables_initializer(), v1.local_variables_initializer()
            self.saved = {v.op.name if hasattr(v, "op") else v.name: v for v in v1.global_variables()}
            self.values = {name: tf.identity(v) for name, v in self.saved.items()}
        self.config = self.strategy.update_config_proto(config())

    def session(self, target, is_first):
        sess = v1.Session(target, graph=self.graph, config=self.config)
        if is_first:
            sess.run(self.initialize[0])
        sess.run(self.initialize[1])
        sess.run(self.input.initializers)
        return sess

    def step(self, sess):
        return sess.run([self.loss, self.losses, self.at], self.input.feeds())


def tell(told, got):
    loss, losses, at = got
    told.append([float(loss), [float(v) for v in losses], int(at)])


def make_programs(case, jobs, workers):
    container = f"program{next(containers)}"
    return [Program(case, jobs, task, container) for task in range(workers)]


def run(case, jobs):
    targets = ["grpc://" + address for address in jobs["worker"]]
    workers, steps = case["workers"], 6
    programs = make_programs(case, jobs, workers)
    told, ended, values = [], None, {}
    try:
        if case["loop"] == "monitored":
            run_monitored(programs, targets, steps, case["directory"], told)
        sessions = [p.session(targets[i], i == 0 and case["loop"] != "monitored") for i, p in enumerate(programs)]
        if case["loop"] == "monitored":
            programs[0].saver.restore(sessions[0], tf.train.latest_checkpoint(case["directory"]))
        else:
            for step in range(steps):
                for p, s in zip(programs, sessions):
                    tell(told, p.step(s))
                if case["loop"] == "saver" and step == steps // 2:
                    path = programs[0].saver.save(sessions[0], os.path.join(case["directory"], "model"), global_step=step)
                    reader = tf.train.load_checkpoint(path)
                    values.update({f"saved/{k}": reader.get_tensor(k).tolist() for k in reader.get_variable_to_shape_map()})
                    for s in sessions:
                        s.close()
                    programs = make_programs(case, jobs, workers)
                    sessions = [p.session(targets[i], i == 0) for i, p in enumerate(programs)]
                    programs[0].saver.restore(sessions[0], path)
    except tf.errors.OpError as e:
        ended = [type(e).__name__, e.message]
    if ended is None or ended[0] == "OutOfRangeError":
        values.update({k: v.tolist() for k, v in sessions[0].run(programs[0].values).items()})
        for s in sessions:
            s.close()
    return {"told": told, "ended": ended, "values": values}


def run_monitored(programs, targets, steps, directory, told):
    p = programs[0]
    with p.graph.as_default(), p.strategy.scope():
        for op in p.input.initializers:
            v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, op)
        for _ in range(2):  # the second goes on from the first one's checkpoint
            with v1.train.MonitoredTrainingSession(
                targets[0], checkpoint_dir=directory, config=p.config, hooks=[v1.train.StopAtStepHook(num_steps=steps // 2)],
                save_checkpoint_steps=2, save_checkpoint_secs=None, save_summaries_steps=None, save_summaries_secs=None,
                log_step_count_steps=None, stop_grace_period_secs=1
            ) as sess:
                while not sess.should_stop():
                    tell(told, p.step(sess))


def main():
    v1.disable_v2_behavior()
    for line in sys.stdin:
        case = json.loads(line)
        try:
            result = run(case, case["jobs"])
        except Exception:  # the program could not be written so: the test shows why
            result = {"told": [], "ended": ["", traceback.format_exc()], "values": {}}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
