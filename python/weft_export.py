"""weft_export - models of TensorFlow as training files of Weft, and trained weights back.

    import weft_export

    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    weft_export.export(model, "model.pb", data=(x, y))       # an example of a batch: shapes and types are taken from it

    $ weft submit model.pb --feed x=x.npy --feed y=y.npy --batch 64 --steps 1000 --strategy mirrored:2 --save run/model

    weft_export.load("model.pb", "run/model", model)         # the newest checkpoint of that name

A training file is a MetaGraphDef of TensorFlow: one graph, and signatures that name its entries.

    __saved_model_init_op   what runs before the first step: values of variables, tables, iterators
    train                   one step of training: inputs, losses and metrics of the batch, the op that updates
    evaluate                loss and metrics of all batches since __evaluate_begin
    predict                 inputs and outputs of the model

An output of a signature without ":0" is an op that is run. The saver of the file saves and restores all variables. The
collection weft_variables says which variable of the model each of the graph's is.

Needs TensorFlow 2.12 or later, and nothing else.
"""

import contextlib
import json
import os
import re
import sys

import tensorflow as tf

v1 = tf.compat.v1
__all__ = ["export", "load"]

IN_GRAPH_BYTES = 1 << 30  # larger values do not fit into a file, which TensorFlow limits to 2 GiB
VARIABLES = "weft_variables"
_eagerly = tf.__internal__.eager_context.eager_mode


def export(what, path, *, data=None, evaluate_data=None, model=None, optimizer=None, train=None, evaluate=None, predict=None, init=None):
    """Writes `what` as a training file.

    what            a Keras model that was compiled with an optimizer and a loss; or a tf.function, one step of training,
                    which returns its losses (a tensor, or a dict of them); or a tf.Graph (see below)
    path            of the file
    data            where batches come from. Arrays, tensors or tf.TensorSpecs (x, y) or (x, y, sample_weight), an example
                    whose rows may be any number: the file has inputs that are fed. A tf.data.Dataset of batches: its
                    pipeline becomes a part of the graph, and nothing is fed. None: what the model's inputs and its loss
                    or the function's input_signature say
    evaluate_data   a tf.data.Dataset for the entry evaluate; None: it is fed
    model, optimizer   of a tf.function's file: the owners of the variables that it uses (a Keras model, a tf.Module, a list; an optimizer of
                    Keras), so that load finds them again. Without them variables are known by their names
    evaluate, predict  of a tf.function's file: more functions, which become the entries of these names
    train, init     of a tf.Graph's file: `train` the op of a step and what it shows, {"train": op, "loss": tensor};
                    `evaluate` and `predict` are dicts of tensors or names, too; `init` an op (default: all initialisers
                    of its collections). All placeholders that an entry needs are its inputs

    Returns the entries: {"train": (names of inputs, names of outputs), ...}.
    """
    if isinstance(what, tf.Graph):
        if train is None:
            raise ValueError('export of a tf.Graph: give train={"train": op, "loss": tensor}')
        return _write(_GraphFile(what, dict(train=train, evaluate=evaluate, predict=predict), init), path)
    if hasattr(what, "train_step") and hasattr(what, "compute_loss"):
        functions = _of_keras(what, data, evaluate_data)
    elif hasattr(what, "get_concrete_function"):
        functions = _of_functions({"train": what, "evaluate": evaluate, "predict": predict}, data, evaluate_data)
    else:
        raise TypeError(f"export: a compiled Keras model, a tf.function or a tf.Graph is wanted, not {type(what).__name__}")
    owner = model if model is not None else what
    return _write(_FunctionFile(functions, _groups_of(owner, optimizer)), path)


def load(path, checkpoint, model, optimizer=None):
    """Sets the variables of `model`, and of its optimizer, to those of a checkpoint of Weft.

    path        the training file that was trained
    checkpoint  its prefix with the step ("run/model-1000") or without (the newest), or a folder (its newest)
    model       the Keras model that was exported, or another of the same layers; or a tf.Module, or a list of variables
    optimizer   of Keras; None: the model's own, if it has one

    Returns the step of the checkpoint, or None if its name has none.
    """
    meta = v1.MetaGraphDef.FromString(tf.io.read_file(os.fspath(path)).numpy())
    records = [json.loads(b) for b in meta.collection_def[VARIABLES].bytes_list.value]
    if not records:
        raise ValueError(f"{path} was not written by weft_export from a model: it does not say which variable is which")
    prefix = _newest(os.fspath(checkpoint))
    reader = tf.train.load_checkpoint(prefix)
    for group, variables in _groups_of(model, optimizer).items():
        wanted = [r for r in records if r["of"] == group]
        if not wanted:
            continue
        pairs = _pairs(variables, wanted)
        if pairs is None:
            raise ValueError(f"{path} has {wanted[0]['among']} variables of the {group}, but this one has {len(variables)}")
        for v, r in pairs:
            if tuple(v.shape) != tuple(r["shape"]):
                raise ValueError(f"{r['path']} has shape {r['shape']} in {path}, but {list(v.shape)} in this {group}")
        for v, r in pairs:
            v.assign(reader.get_tensor(r["name"]))
    step = re.search(r"-(\d+)$", prefix)
    return int(step.group(1)) if step else None


# ---- checkpoints and variables ----


def _newest(checkpoint):
    if os.path.isdir(checkpoint):
        found = tf.train.latest_checkpoint(checkpoint)
        if found is None:
            raise FileNotFoundError(f"there is no checkpoint in {checkpoint}")
        return found
    if os.path.exists(checkpoint + ".index"):
        return checkpoint
    steps = [re.fullmatch(re.escape(os.path.basename(checkpoint)) + r"-(\d+)\.index", name) for name in os.listdir(os.path.dirname(checkpoint) or ".")]
    steps = [int(m.group(1)) for m in steps if m]
    if not steps:
        raise FileNotFoundError(f"there is no checkpoint {checkpoint} and no {checkpoint}-STEP")
    return f"{checkpoint}-{max(steps)}"


def _tf_variable(v):
    """Of a Keras variable what it wraps."""
    return v if isinstance(v, tf.Variable) else v.value


def _path_of(v):
    return getattr(v, "path", None) or v.name.split(":")[0]


def _groups_of(model, optimizer=None):
    """The variables by their owners: {"model": variables, "optimizer": variables}; nothing of a function."""
    if hasattr(model, "get_concrete_function"):
        return {}
    groups = {"model": list(model) if isinstance(model, (list, tuple)) else list(model.variables)}
    if hasattr(model, "train_step"):
        optimizer = optimizer if optimizer is not None else getattr(model, "optimizer", None)
        owned = {id(_tf_variable(v)) for m in model.metrics for v in m.variables}
        owned |= {id(_tf_variable(v)) for v in getattr(getattr(model, "optimizer", None), "variables", [])}
        groups["model"] = [v for v in model.variables if id(_tf_variable(v)) not in owned]
        if optimizer is not None and not optimizer.built and model.built:
            optimizer.build(model.trainable_variables)
    if optimizer is not None:
        groups["optimizer"] = list(optimizer.variables)
    return groups


def _pairs(variables, records):
    """Variables and their records: of the same names, if each has one of its own, or at the same place."""
    by_path, by_name = {_path_of(v): v for v in variables}, {r["path"]: r for r in records}
    if len(by_path) == len(variables) and len(by_name) == len(records):
        if all(name in by_path for name in by_name):
            return [(by_path[name], r) for name, r in by_name.items()]
        if all(path in by_name for path in by_path):
            return [(v, by_name[path]) for path, v in by_path.items()]
    return [(variables[r["index"]], r) for r in records] if len(variables) == records[0]["among"] else None


# ---- what is exported of a model, and of functions ----


class _Function:
    """An entry: `call` takes the structures of `specs` one by one and returns a dict of outputs by name, or anything.

    names: of the tensors of all specs. dataset: what is fed instead, or None. is_step: it runs for its effect, too.
    """

    def __init__(self, call, specs, names, dataset=None, is_step=False):
        self.call, self.specs, self.names, self.dataset, self.is_step = call, specs, names, dataset, is_step
        self.resets = []  # variables that begin anew before a series of calls


def _any_rows(spec):
    """The same for batches of any number of rows."""
    if isinstance(spec, tf.TensorSpec):
        return tf.TensorSpec([None, *spec.shape[1:]] if spec.shape.rank else spec.shape, spec.dtype)
    return spec


def _specs_of(data):
    """Of an example, element by element."""
    return [tf.nest.map_structure(lambda v: _any_rows(tf.type_spec_from_value(v) if not isinstance(v, tf.TypeSpec) else v), _as_tensors(d)) for d in data]


def _as_tensors(data):
    return tf.nest.map_structure(lambda v: v if isinstance(v, (tf.TypeSpec, tf.Tensor, tf.RaggedTensor, tf.SparseTensor)) else tf.convert_to_tensor(v), data)


def _names_of(spec, name):
    """A name for each tensor in a structure: `name` if it is one, else the keys that lead to it."""
    if isinstance(spec, dict):
        return [n for k in sorted(spec) for n in _names_of(spec[k], str(k))]
    if isinstance(spec, (list, tuple)):
        return [n for i, s in enumerate(spec) for n in _names_of(s, f"{name}_{i}")]
    if isinstance(spec, (tf.RaggedTensorSpec, tf.SparseTensorSpec)):
        return [f"{name}.{i}" for i in range(len(tf.nest.flatten(spec, expand_composites=True)))]
    return [name]


def _given_name(name, kind):
    """The name of an input layer, unless it is one that Keras has made up."""
    return kind if re.fullmatch(r"(keras_tensor|input|input_layer)(_\d+)?", name) else name


def _keras_inputs(model):
    if not getattr(model, "inputs", None):
        raise ValueError("export: this model does not say what its inputs are; give data=(x, y), an example of a batch")
    structure = getattr(model, "_inputs_struct", None)
    structure = structure if structure is not None else model.inputs
    structure = structure[0] if isinstance(structure, (list, tuple)) and len(structure) == 1 else structure
    return tf.nest.map_structure(lambda t: tf.TensorSpec([None, *t.shape[1:]], t.dtype), structure)


def _keras_labels(model):
    """What its loss compares its outputs with."""
    outputs = getattr(model, "outputs", None) or []
    if len(outputs) != 1:
        raise ValueError("export: give data=(x, y), an example of a batch: the labels of several outputs cannot be known")
    loss = model.loss if isinstance(model.loss, str) else type(model.loss).__name__ if not callable(model.loss) or isinstance(model.loss, object) and hasattr(model.loss, "call") else getattr(model.loss, "__name__", "")
    shape = [None, *outputs[0].shape[1:]]
    if "sparse" in str(loss).lower():
        return tf.TensorSpec(shape[:-1], tf.int64)
    return tf.TensorSpec(shape, outputs[0].dtype)


def _keras_x_name(model, spec):
    inputs = getattr(model, "inputs", None)
    if isinstance(spec, dict):
        return [str(k) for k in sorted(spec)]
    if inputs and len(inputs) > 1 and isinstance(spec, (list, tuple)):
        return [t.name for t in inputs]
    return _names_of(spec, _given_name(inputs[0].name, "x") if inputs else "x")


def _of_keras(model, data, evaluate_data):
    import keras

    if getattr(model, "optimizer", None) is None or not getattr(model, "compiled", True):
        raise ValueError("export: compile the model with an optimizer and a loss before")
    if isinstance(data, tf.data.Dataset):
        element = data.element_spec
        element = element if isinstance(element, tuple) else (element,)
        specs = [_dataset_spec(s) for s in element]
    elif data is not None:
        specs = _specs_of(data if isinstance(data, (list, tuple)) else (data,))
    else:
        specs = [_keras_inputs(model)] + ([_keras_labels(model)] if model.loss is not None else [])
    if len(specs) > 3:
        raise ValueError(f"export: data has {len(specs)} parts; (x, y) or (x, y, sample_weight) is wanted")
    names = [_keras_x_name(model, specs[0])] + [_names_of(s, n) for s, n in zip(specs[1:], ["y", "sample_weight"])]
    own_step = type(model).train_step is not keras.Model.train_step
    is_alone = len(specs) == 1 and not isinstance(specs[0] if not isinstance(data, tf.data.Dataset) else data.element_spec, (list, tuple))

    def as_fit_gives(parts):
        return parts[0] if is_alone else parts

    def evaluate(*parts):
        return model.test_step(as_fit_gives(parts))

    _build(model, specs[0])
    # A model whose own train_step computes the loss need not have one that Keras's test_step finds: model.evaluate fails, too.
    may_lack = own_step and type(model).test_step is keras.Model.test_step and evaluate_data is None
    can_evaluate = _makes_metrics(evaluate, specs, may_lack)
    model.reset_metrics()

    def step(*parts):
        x, y, weight = (*parts, None, None)[:3]
        if own_step:
            return model.train_step(as_fit_gives(parts))
        with tf.GradientTape() as tape:
            predictions = model(x, training=True)
            read = [(v, tf.convert_to_tensor(v.value)) for v in model.trainable_variables if v.regularizer is not None]
            fresh = [(v, tf.constant(initial[id(v)])) for v in model.metrics_variables]
            called = model.losses
            called = called[: len(called) - len(read)]  # those that the call has added; the scope hides them
            is_added = called and not read and model.loss is None and type(model).compute_loss is keras.Model.compute_loss
            with keras.StatelessScope(state_mapping=read + fresh):  # metrics of this batch alone
                loss = tf.zeros([], called[0].dtype) if is_added else model.compute_loss(x=x, y=y, y_pred=predictions, sample_weight=weight)
                told = model.compute_metrics(x, y, predictions, weight)
            loss = tf.add_n([loss, *(tf.reduce_sum(tf.cast(l, loss.dtype)) for l in called)])
            scaled = model.optimizer.scale_loss(loss)
        weights = model.trainable_weights
        model.optimizer.apply_gradients(zip(tape.gradient(scaled, weights), weights))
        return {**told, "loss": loss}

    initial = {id(v): v.numpy() for v in model.metrics_variables}
    def called(x):
        return _named_outputs(model, model(x, training=False))

    functions = {
        "train": _Function(step, specs, sum(names, []), data if isinstance(data, tf.data.Dataset) else None, True),
        "evaluate": _Function(evaluate, specs, sum(names, []), evaluate_data, True),
        "predict": _Function(called, specs[:1], names[0]),
    }
    functions["evaluate"].resets = [_tf_variable(v) for v in model.metrics_variables]
    if not can_evaluate:
        del functions["evaluate"]
    return functions


def _makes_metrics(evaluate, specs, may_fail):
    """Traces it once, which makes the variables of metrics. False: it cannot be traced."""
    try:
        tf.function(lambda *parts: evaluate(*parts)).get_concrete_function(*specs)
    except Exception:
        if not may_fail:
            raise
        return False
    return True


def _dataset_spec(spec):
    """Batches of any number of rows, as the last one of a data set has fewer."""
    return tf.nest.map_structure(_any_rows, spec)


def _build(model, spec):
    """Makes variables that only a first call makes."""
    if not model.built:
        example = tf.nest.map_structure(lambda s: tf.zeros([d or 1 for d in s.shape], s.dtype) if s.dtype != tf.string else tf.fill([d or 1 for d in s.shape], ""), spec)
        model(example)
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)


def _named_outputs(model, outputs):
    names = list(getattr(model, "output_names", []) or [])
    if isinstance(outputs, dict):
        return {str(k): v for k, v in outputs.items()}
    flat = tf.nest.flatten(outputs)
    if len(flat) == 1:
        return {"predictions": flat[0]}
    return dict(zip(names if len(names) == len(flat) else [f"predictions_{i}" for i in range(len(flat))], flat))


def _of_functions(given, data, evaluate_data):
    functions = {}
    for name, function in given.items():
        if function is None:
            continue
        dataset = data if name == "train" else evaluate_data if name == "evaluate" else None
        dataset = dataset if isinstance(dataset, tf.data.Dataset) else None
        example = None if data is None or isinstance(data, tf.data.Dataset) else _specs_of(data if isinstance(data, (list, tuple)) else (data,))
        signature = function.input_signature
        if dataset is not None:
            element = dataset.element_spec
            specs = [_dataset_spec(s) for s in (element if isinstance(element, tuple) else (element,))]
        elif signature is not None:
            specs = list(signature)
        elif example is not None:
            specs = example
        else:
            raise ValueError(f"export: which inputs has {name}? Give the tf.function an input_signature, or data=(x, y), an example")
        arguments = list(function.function_spec.arg_names) if hasattr(function, "function_spec") else []
        names = [n for i, s in enumerate(specs) for n in _names_of(s, _argument_name(function, arguments, i, s))]
        functions[name] = _Function(function, specs, names, dataset, name == "train")
    return functions


def _argument_name(function, arguments, i, spec):
    if isinstance(spec, tf.TensorSpec) and spec.name:
        return spec.name
    arguments = [a for a in arguments if a != "self"]
    return arguments[i] if i < len(arguments) else f"input_{i}"


# ---- the graph ----


class _FunctionFile:
    """Functions lifted into one graph, with the variables and tables that they capture."""

    def __init__(self, functions, groups):
        self.graph = tf.Graph()
        self.handles, self.records, self.names = {}, [], set()
        self.tables, self.inits, self.late_values = {}, [], {}
        self.entries, self.extra = {}, {}
        self.total_bytes = 0
        self.groups = {id(_tf_variable(v)): (g, i, _path_of(v), len(all)) for g, all in groups.items() for i, v in enumerate(all)}
        with _what_optimizers_apply() as self.applied:
            concrete = {name: self.trace(f) for name, f in functions.items()}
        self.total_bytes = sum(v.dtype.size * int(v.shape.num_elements()) for v in {id(v): v for c in concrete.values() for v in c.graph.variables}.values())
        with self.graph.as_default():
            for name, f in functions.items():
                self.lift(name, f, concrete[name])
            for r in self.records:
                r["among"] = r["among"] or sum(o["of"] == r["of"] for o in self.records)
            self.saver = self.make_saver()
            with tf.control_dependencies(self.inits):
                self.init = tf.no_op("init")

    @staticmethod
    def trace(f):
        def flat(*tensors):
            at, parts = 0, []
            for spec in f.specs:
                n = len(tf.nest.flatten(spec, expand_composites=True))
                parts.append(tf.nest.pack_sequence_as(spec, tensors[at : at + n], expand_composites=True))
                at += n
            return f.call(*parts)

        specs = [tf.TensorSpec(s.shape, s.dtype) for s in tf.nest.flatten(f.specs, expand_composites=True)]
        return tf.function(flat).get_concrete_function(*specs)

    def unique(self, name):
        name = re.sub(r"[^A-Za-z0-9_.\-/]", "_", name)
        name = name if re.match(r"[A-Za-z0-9.]", name) else "v" + name
        chosen, n = name, 0
        while chosen.lower() in self.names:
            n += 1
            chosen = f"{name}_{n}"
        self.names.add(chosen.lower())
        return chosen

    # ---- variables and tables ----

    def handle_of(self, v):
        if id(v) not in self.handles:
            other = ("metrics" if self.groups else "model", len(self.records), v.name.split(":")[0], 0)
            group, index, path, among = self.groups.get(id(v), other)
            name = self.unique(path)
            handle = tf.raw_ops.VarHandleOp(dtype=v.dtype, shape=v.shape, shared_name=name, name=name)
            if group == "optimizer":
                handle.op._set_attr("_weft_memory", v1.AttrValue(s=b"opt_state"))  # how it is counted
            with _eagerly():
                value = v.numpy()
            if self.total_bytes > IN_GRAPH_BYTES:
                self.late_values[name] = value
                first = tf.zeros(v.shape, v.dtype)
            else:
                first = tf.constant(value, v.dtype, name=name + "/first")
            self.inits.append(tf.raw_ops.AssignVariableOp(resource=handle, value=first, name=name + "/Assign"))
            self.records.append(dict(name=name, of=group, index=index, among=among, path=path, shape=v.shape.as_list(), dtype=v.dtype, handle=handle, trains=bool(v.trainable)))
            self.handles[id(v)] = handle
        return self.handles[id(v)]

    def table_of(self, external, use):
        """A table with the entries of one that a function has captured; `use` is the LookupTableFindV2 of it."""
        if use is None:
            raise ValueError("export: a function uses a resource that is neither a variable nor a table that it looks keys up in")
        key = id(external)
        if key not in self.tables:
            keys_type, values_type = use.get_attr("Tin"), use.get_attr("Tout")
            with _eagerly():
                keys, values = tf.raw_ops.LookupTableExportV2(table_handle=external, Tkeys=keys_type, Tvalues=values_type)
                keys, values = keys.numpy(), values.numpy()
            name = self.unique("table")
            table = tf.raw_ops.HashTableV2(key_dtype=keys_type, value_dtype=values_type, shared_name=name, name=name)
            self.inits.append(tf.raw_ops.InitializeTableV2(table_handle=table, keys=tf.constant(keys, keys_type), values=tf.constant(values, values_type)))
            self.tables[key] = table
        return self.tables[key]

    # ---- entries ----

    def batch_of(self, name, f):
        """Tensors that are fed, or read from the data set."""
        specs = tf.nest.flatten(f.specs, expand_composites=True)
        if f.dataset is None:
            return [v1.placeholder(s.dtype, s.shape, name=f"{name}/{n}") for s, n in zip(specs, f.names)]
        with _eagerly():
            text = tf.raw_ops.DatasetToGraphV2(input_dataset=f.dataset._variant_tensor, external_state_policy=1).numpy()
        definition = v1.GraphDef.FromString(text)
        _refuse_what_stays_here(definition, f"the data set of {name}")
        result = next(n for n in definition.node if n.op == "_Retval")
        source = result.input[0]
        definition.node.remove(result)
        (dataset,) = tf.import_graph_def(definition, return_elements=[source if ":" in source else source + ":0"], name=f"{name}/data")
        element = tf.nest.flatten(f.dataset.element_spec)
        packed = [s._flat_tensor_specs for s in element]  # a ragged or a sparse tensor is one variant here
        types, shapes = [s.dtype for p in packed for s in p], [s.shape for p in packed for s in p]
        iterator = tf.raw_ops.IteratorV2(shared_name=f"{name}/iterator", container="", output_types=types, output_shapes=shapes, name=f"{name}/iterator")
        self.inits.append(tf.raw_ops.MakeIterator(dataset=dataset, iterator=iterator))
        parts = iter(tf.raw_ops.IteratorGetNext(iterator=iterator, output_types=types, output_shapes=shapes, name=f"{name}/batch"))
        batch = [s._from_compatible_tensor_list([next(parts) for _ in p]) for s, p in zip(element, packed)]
        return tf.nest.flatten(batch, expand_composites=True)

    def lift(self, name, f, concrete):
        inner = concrete.graph
        definition = inner.as_graph_def()
        _refuse_what_stays_here(definition, name)
        captured = {internal.name: external for external, internal in inner.captures}
        variables = {id(v.handle): v for v in inner.variables}
        batch = self.batch_of(name, f)
        ports = [p for p in inner.inputs if p.name not in captured]
        mapped = {p.name: t for p, t in zip(ports, batch)}
        for port in inner.inputs:
            external = captured.get(port.name)
            if external is None:
                continue
            if id(external) in variables:
                mapped[port.name] = self.handle_of(variables[id(external)])
            elif external.dtype == tf.resource:
                use = next((op for op in inner.get_operations() if op.type == "LookupTableFindV2" and op.inputs[0].name == port.name), None)
                mapped[port.name] = self.table_of(external, use)
            else:
                with _eagerly():
                    value = external.numpy()
                mapped[port.name] = tf.constant(value, external.dtype)
        outputs = self.outputs_of(f, concrete)
        names = [t.name for t in outputs.values() if t.name not in mapped] + [o.name for o in inner.control_outputs]
        ports = {p.op.name for p in inner.inputs}
        body = [n for n in definition.node if n.name not in ports]
        used = {i.split(":")[0] for n in body for i in n.input} | {n.split(":")[0] for n in names}
        del definition.node[:]
        definition.node.extend(body)
        fed, mapped = mapped, {port: t for port, t in mapped.items() if port.split(":")[0] in used}
        applied = [(kind, t, v) for kind, t, v in self.applied if t.graph is inner and t.name not in mapped and id(v) in self.handles]
        found = list(tf.import_graph_def(definition, input_map=mapped, return_elements=names + [t.name for _, t, _ in applied], name=name))
        self.mark(applied, found[len(names):])
        made = {**fed, **dict(zip(names, found))}
        results = {k: tf.identity(made[t.name], name=f"{name}/{_node_name(k)}") for k, t in outputs.items()}
        if f.is_step:
            with tf.control_dependencies([made[o.name] for o in inner.control_outputs]):
                results[name] = tf.no_op(name=f"{name}/step")
        inputs = {} if f.dataset is not None else dict(zip(f.names, batch))
        self.entries[name] = (inputs, results)
        if f.resets:
            with _eagerly():
                values = {id(v): v.numpy() for v in f.resets}
            resets = [tf.raw_ops.AssignVariableOp(resource=self.handles[id(v)], value=tf.constant(values[id(v)], v.dtype)) for v in f.resets if id(v) in self.handles]
            with tf.control_dependencies(resets):
                self.extra[f"__{name}_begin"] = tf.no_op(name=f"{name}/begin")

    def mark(self, applied, found):
        """Says at nodes of the graph what they make, for `--logdir` of Weft."""
        told = {}
        for (kind, _, v), t in zip(applied, found):
            told.setdefault((kind, t.op), {}).setdefault(t.value_index, self.handles[id(v)].op.name)
        for (kind, op), variables in told.items():
            text = ",".join(variables.get(i, "") for i in range(len(op.outputs)))
            op._set_attr(kind, v1.AttrValue(s=text.rstrip(",").encode()))

    @staticmethod
    def outputs_of(f, concrete):
        structured = concrete.structured_outputs
        if isinstance(structured, dict):
            found = {str(k): v for k, v in structured.items()}
        else:
            flat = [t for t in tf.nest.flatten(structured) if t is not None]
            found = {"loss" if f.is_step else "output": flat[0]} if len(flat) == 1 else {f"output_{i}": t for i, t in enumerate(flat)}
        flat = {}
        for key, value in found.items():
            tensors = tf.nest.flatten(value, expand_composites=True)
            flat.update({key if len(tensors) == 1 else f"{key}.{i}": t for i, t in enumerate(tensors)})
        by_tensor = dict(zip([id(t) for t in tf.nest.flatten(concrete.structured_outputs, expand_composites=True)], concrete.outputs))
        return {k: by_tensor.get(id(t), t) for k, t in flat.items() if isinstance(t, tf.Tensor) or id(t) in by_tensor}

    # ---- saving ----

    def make_saver(self):
        """What tf.compat.v1.train.Saver would make for these variables."""
        kept = [r for r in self.records if r["of"] != "metrics"]
        if not kept:
            return None
        prefix = v1.placeholder_with_default("model", [], name="save/Const")
        names = [r["name"] for r in kept]
        values = [tf.raw_ops.ReadVariableOp(resource=r["handle"], dtype=r["dtype"]) for r in kept]
        written = tf.raw_ops.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(kept), tensors=values, name="save/SaveV2")
        with tf.control_dependencies([written]):
            saved = tf.identity(prefix, name="save/control_dependency")
        read = tf.raw_ops.RestoreV2(prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(kept), dtypes=[r["dtype"] for r in kept], name="save/RestoreV2")
        assigned = [tf.raw_ops.AssignVariableOp(resource=r["handle"], value=tf.ensure_shape(t, r["shape"])) for r, t in zip(kept, read)]
        with tf.control_dependencies(assigned):
            restored = tf.no_op(name="save/restore_all")
        return dict(filename_tensor_name=prefix.name, save_tensor_name=saved.name, restore_op_name=restored.name)



class _GraphFile:
    """A tf.Graph as it is, with an initialiser and a saver."""

    def __init__(self, graph, entries, init):
        self.graph, self.records, self.late_values = tf.Graph(), [], {}
        self.extra = {}
        with self.graph.as_default():
            v1.train.import_meta_graph(v1.train.export_meta_graph(graph=graph, clear_extraneous_savers=True))
            self.init = self.find(init).name if init is not None else None
            if init is None:
                with tf.control_dependencies([v1.global_variables_initializer(), v1.local_variables_initializer()]):
                    self.init = tf.group(v1.tables_initializer(), *v1.get_collection("iterator_initializers"), name="weft_init").name
            self.init = self.graph.as_graph_element(self.init)
            self.entries = {name: self.entry(name, given) for name, given in entries.items() if given is not None}
            saver = v1.train.Saver().as_saver_def() if v1.global_variables() else None
            self.saver = None if saver is None else {f: getattr(saver, f) for f in ("filename_tensor_name", "save_tensor_name", "restore_op_name")}

    def find(self, what):
        return self.graph.as_graph_element(what if isinstance(what, str) else what.name)

    def entry(self, name, given):
        given = given if isinstance(given, dict) else {name: given}
        outputs = {k: self.find(v) for k, v in given.items()}
        return self.inputs_of(outputs.values()), outputs

    def inputs_of(self, outputs):
        todo, seen, found = [o if isinstance(o, tf.Operation) else o.op for o in outputs], set(), {}
        while todo:
            op = todo.pop()
            if op in seen:
                continue
            seen.add(op)
            if op.type == "Placeholder":
                found[op.name] = op.outputs[0]
            todo += [t.op for t in op.inputs] + list(op.control_inputs)
        return dict(sorted(found.items()))


@contextlib.contextmanager
def _what_optimizers_apply():
    """While functions are traced: [(attribute, tensor, variable)] of the rates and gradients that optimizers of Keras 3 apply, which are made
    of plain assignments, so that the graph does not tell."""
    found = []
    optimizer = getattr(getattr(sys.modules.get("keras"), "optimizers", None), "Optimizer", None)
    plain = getattr(optimizer, "_backend_update_step", None)
    if plain is None:  # no Keras, or another
        yield found
        return

    def noted(self, grads, trainable_variables, learning_rate):
        learning_rate = tf.identity(tf.convert_to_tensor(learning_rate), name="learning_rate")
        variables = [_tf_variable(v) for v in trainable_variables]
        found.append(("_weft_rate_of", learning_rate, variables[0]))
        found.extend(("_weft_gradient_of", g.values if isinstance(g, tf.IndexedSlices) else g, v) for g, v in zip(grads, variables))
        return plain(self, grads, trainable_variables, learning_rate)

    own = "_backend_update_step" in vars(optimizer)
    optimizer._backend_update_step = noted
    try:
        yield found
    finally:
        if own:
            optimizer._backend_update_step = plain
        else:
            del optimizer._backend_update_step


def _refuse_what_stays_here(definition, what):
    nodes = [*definition.node, *(n for f in definition.library.function for n in f.node_def)]
    if any(n.op in ("PyFunc", "PyFuncStateless", "EagerPyFunc") for n in nodes):
        raise ValueError(f"export: {what} calls Python (tf.py_function, tf.numpy_function, Dataset.from_generator), which is not there when Weft runs it")
    if any(re.fullmatch("Write[A-Za-z]*Summary", n.op) for n in nodes):
        raise ValueError(f"export: {what} writes tf.summary, to a file of this program; return the values instead, as `--logdir` of Weft shows what a step returns")


def _node_name(key):
    return re.sub(r"[^A-Za-z0-9_.\-]", "_", key)


# ---- the file ----


def _write(made, path):
    meta = v1.MetaGraphDef()
    meta.graph_def.CopyFrom(made.graph.as_graph_def())
    meta.meta_info_def.tensorflow_version = tf.__version__
    meta.meta_info_def.tags.append("train")
    if made.saver is not None:
        for field, value in made.saver.items():
            setattr(meta.saver_def, field, value)
        meta.saver_def.version = 2
        meta.saver_def.max_to_keep = 5
    _add_signature(meta, "__saved_model_init_op", {}, {"__saved_model_init_op": made.init}, "")
    for name, op in made.extra.items():
        _add_signature(meta, name, {}, {name: op}, "")
    for name, (inputs, outputs) in made.entries.items():
        _add_signature(meta, name, inputs, outputs, f"weft/{name}")
    for r in made.records:
        told = {k: r[k] for k in ("name", "of", "index", "among", "path", "shape", "trains")}
        meta.collection_def[VARIABLES].bytes_list.value.append(json.dumps(told).encode())
    path = os.fspath(path)
    if meta.ByteSize() >= 1 << 31:
        raise ValueError(f"{path} would have {meta.ByteSize() / 2**30:.1f} GiB; a graph can have 2: does the data set or a constant hold the data themselves?")
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path + ".part", "wb") as f:
        f.write(meta.SerializeToString(deterministic=True))
    os.replace(path + ".part", path)
    if made.late_values:
        values = path + ".values"
        names = list(made.late_values)
        tf.raw_ops.SaveV2(prefix=values, tensor_names=names, shape_and_slices=[""] * len(names), tensors=[made.late_values[n] for n in names])
        print(f"{path}: the values of its variables are too large for it and are in {values}: begin with --restore {values}")
    return {name: (list(inputs), list(outputs)) for name, (inputs, outputs) in made.entries.items()}


def _add_signature(meta, name, inputs, outputs, method):
    signature = meta.signature_def[name]
    signature.method_name = method
    for side, tensors in ((signature.inputs, inputs), (signature.outputs, outputs)):
        for key, t in tensors.items():
            side[key].name = t.name
            if isinstance(t, tf.Operation):
                continue
            side[key].dtype = t.dtype.as_datatype_enum
            side[key].tensor_shape.CopyFrom(t.shape.as_proto())
