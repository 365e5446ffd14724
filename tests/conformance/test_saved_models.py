"""SavedModels loaded through the C API: TF_LoadSessionFromSavedModel of Weft and of TensorFlow, outputs and errors equal."""

import glob
import json
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.protobuf import saved_model_pb2

from model_session import ModelSessions, tensorflow_library
from saved_models import MODELS, SERVE
from support import ATOL, RTOL
from weft_graph import Failure, weft_library

pytestmark = pytest.mark.weft_only


@pytest.fixture(scope="module")
def weft(request):
    library = ModelSessions(weft_library(request.config.getoption("--weft")))
    yield library
    library.stop()


@pytest.fixture(scope="module")
def oracle():
    library = ModelSessions(tensorflow_library())
    yield library
    library.stop()


def names(info):
    """The tensors of a TensorInfo, in the order of a value's parts."""
    if info.WhichOneof("encoding") == "coo_sparse":
        sparse = info.coo_sparse
        return [sparse.indices_tensor_name, sparse.values_tensor_name, sparse.dense_shape_tensor_name]
    return [info.name]


def feeds_of(signature, values):
    feeds = {}
    for key, value in values.items():
        info = signature.inputs[sorted(signature.inputs)[key] if isinstance(key, int) else key]
        parts = value if isinstance(value, tuple) else (value,)
        feeds.update(zip(names(info), parts, strict=True))
    return feeds


def check_equal(name, ours, theirs):
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape, name
    if ours.dtype == object or ours.dtype == bool or ours.dtype.kind in "iu":
        np.testing.assert_array_equal(ours, theirs, err_msg=name)
    else:
        kind = ours.dtype.name
        np.testing.assert_allclose(ours, theirs, rtol=4 * RTOL[kind], atol=4 * ATOL[kind], err_msg=name)


@pytest.mark.parametrize("name", MODELS)
def test_model(name, tmp_path, weft, oracle):
    folder = str(tmp_path / "model")
    for tags, calls in MODELS[name](folder).items():
        ours, our_meta = weft.load(folder, tags)
        theirs, their_meta = oracle.load(folder, tags)
        meta = tf.compat.v1.MetaGraphDef.FromString(our_meta)
        assert meta == tf.compat.v1.MetaGraphDef.FromString(their_meta)
        for key, values in calls:
            signature = meta.signature_def[key]
            feeds = feeds_of(signature, values)
            fetches = [n for output in sorted(signature.outputs) for n in names(signature.outputs[output])]
            got, wanted = weft.run(ours, feeds, fetches), oracle.run(theirs, feeds, fetches)
            for fetch, a, b in zip(fetches, got, wanted, strict=True):
                check_equal(fetch, a, b)
        weft.close(ours)
        oracle.close(theirs)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["v1_several_tags", "v1_vocabulary_main_op", "module_two_signatures_with_state", "module_plain", "keras_lstm"])
def test_model_on_a_cluster(name, tmp_path, weft, oracle, own_cluster):
    """The session is one of a cluster's master, whose workers read the model's files."""
    folder = str(tmp_path / "model")
    for tags, calls in MODELS[name](folder).items():
        ours, our_meta = weft.load(folder, tags, target=own_cluster.master)
        theirs, _ = oracle.load(folder, tags)
        meta = tf.compat.v1.MetaGraphDef.FromString(our_meta)
        for key, values in calls:
            signature = meta.signature_def[key]
            fetches = [n for output in sorted(signature.outputs) for n in names(signature.outputs[output])]
            feeds = feeds_of(signature, values)
            for fetch, a, b in zip(fetches, weft.run(ours, feeds, fetches), oracle.run(theirs, feeds, fetches), strict=True):
                check_equal(fetch, a, b)
        weft.close(ours)
        oracle.close(theirs)


# ---- the command ----


def feed_options(values, folder):
    options = []
    for key, value in values.items():
        path = os.path.join(folder, f"{key}.npy")
        np.save(path, value)
        options += ["--feed", f"{key}={path}"]
    return options


NUMERIC = ("module_plain", "module_control_flow", "v1_resource_variables", "v1_partitioned_variables", "keras_functional")


@pytest.mark.parametrize("name", NUMERIC)
def test_run_command(name, tmp_path, oracle, weft_command):
    folder = str(tmp_path / "model")
    ((tags, calls),) = MODELS[name](folder).items()
    key, values = calls[0]
    handle, meta = oracle.load(folder, tags)
    signature = tf.compat.v1.MetaGraphDef.FromString(meta).signature_def[key]
    outputs = sorted(signature.outputs)
    wanted = oracle.run(handle, feeds_of(signature, values), [signature.outputs[o].name for o in outputs])
    oracle.close(handle)
    saves = [o for output in outputs for o in ("--save-fetch", f"{output}={tmp_path}/out_{output}.npy")]
    weft_command("run", folder, "--signature", key, *feed_options(values, str(tmp_path)), *saves)
    for output, value in zip(outputs, wanted, strict=True):
        check_equal(output, np.load(f"{tmp_path}/out_{output}.npy"), value)


@pytest.mark.parametrize("name", MODELS)
def test_inspect_command(name, tmp_path, weft_command):
    folder = str(tmp_path / "model")
    MODELS[name](folder)
    shown = json.loads(weft_command("inspect", folder, "--json"))
    with open(glob.glob(folder + "/saved_model.pb*")[0], "rb") as f:
        data = f.read()
    model = saved_model_pb2.SavedModel()
    if os.path.exists(folder + "/saved_model.pb"):
        model.ParseFromString(data)
    else:
        text_format.Parse(data, model)
    assert [g["tags"] for g in shown["graphs"]] == [list(m.meta_info_def.tags) for m in model.meta_graphs]
    for graph, meta in zip(shown["graphs"], model.meta_graphs, strict=True):
        assert not graph["unsupported"]
        assert sorted(graph["signatures"]) == sorted(meta.signature_def)
        assert {k: c["size"] for k, c in graph["collections"].items()} == {
            k: len(getattr(c, c.WhichOneof("kind")).value) for k, c in meta.collection_def.items()
        }
        for key, signature in meta.signature_def.items():
            for info in (signature.inputs, signature.outputs):
                their = {k: t.name for k, t in info.items() if t.WhichOneof("encoding") == "name"}
                ours = {k: t["tensor"] for k, t in graph["signatures"][key]["inputs" if info is signature.inputs else "outputs"].items()}
                if info is signature.outputs:
                    ops = graph["signatures"][key]["ops"]  # outputs that are no tensors: such an op is run
                    assert ops == {k: t for k, t in their.items() if ":" not in t} and not ops.keys() & ours.keys()
                    ours.update(ops)
                assert {k: ours[k] for k in their} == their
    if glob.glob(folder + "/variables/*.index"):
        reader = tf.train.load_checkpoint(folder + "/variables/variables")
        shapes = {k: s for k, s in reader.get_variable_to_shape_map().items() if k != "_CHECKPOINTABLE_OBJECT_GRAPH"}
        assert {v["name"]: v["shape"] for v in shown["variables"]} == shapes
    weft_command("inspect", folder)


def test_inspect_strategy(tmp_path, weft_command):
    """What a strategy makes of a signature: its gradients are reduced, its variables copied, its inputs are the batch."""
    folder = str(tmp_path / "model")
    MODELS["module_training_step"](folder)
    shown = json.loads(weft_command("inspect", folder, "--strategy", "mirrored:2", "--signature", "train", "--json"))
    assert shown["variables"]["copied"] and shown["variables"]["count"] >= 3
    assert len(shown["batch"]) == 2 and [c["members"] for c in shown["collectives"]] == [2]


STRATEGIES = [None, "mirrored:2", "central_storage:2", "data_parallel:2", "parameter_server:mode=sync", "multi_worker_mirrored"]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
@pytest.mark.parametrize("name", ["module_training_step", "keras_trained", "keras_train_function", "v1_several_tags"])
def test_training(name, strategy, tmp_path, oracle, weft_command):
    check_training(name, strategy, tmp_path, oracle, weft_command)


@pytest.mark.parametrize("strategy", ["multi_worker_mirrored", "parameter_server:mode=sync"])
@pytest.mark.parametrize("name", ["module_training_step", "keras_trained"])
def test_training_on_a_cluster(name, strategy, tmp_path, oracle, weft_command, cluster, unique):
    check_training(name, strategy, tmp_path, oracle, weft_command, "--master", cluster.master, "--container", unique)


def test_run_on_a_cluster(tmp_path, weft_command, cluster):
    """Models whose variables have equal names share nothing; files are found from the servers' directories."""
    for name, text in (("module_vocabulary_asset", "fox"), ("v1_vocabulary_main_op", "fox"), ("module_vocabulary_asset", "the")):
        folder = tmp_path / name
        if not folder.exists():
            MODELS[name](str(folder))
        got = json.loads(weft_command("run", name, "--feed", f"text={text}", "--fetch", "ids", "--master", cluster.master, "--json"))
        assert got == {"ids": [{"fox": 3, "the": 0}[text]]}


@pytest.mark.parametrize("strategy", [None, "mirrored:2", "parameter_server:mode=sync"], ids=str)
@pytest.mark.parametrize("name", ["module_training_step", "keras_trained"])
def test_trained_variables_go_back(name, strategy, tmp_path, oracle, weft_command):
    """The checkpoint of a trained model takes the place of the model's own variables: TensorFlow serves the result."""
    folder, trained = str(tmp_path / "model"), str(tmp_path / "trained")
    ((tags, calls),) = MODELS[name](folder).items()
    (key, values), (serving, served) = calls[0], calls[-1]
    handle, meta = oracle.load(folder, tags)
    signatures = tf.compat.v1.MetaGraphDef.FromString(meta).signature_def
    for _ in range(3):
        oracle.run(handle, feeds_of(signatures[key], values), [signatures[key].outputs["loss"].name])
    output = [signatures[serving].outputs["y"].name]
    wanted = oracle.run(handle, feeds_of(signatures[serving], served), output)[0]
    oracle.close(handle)
    options = ["--strategy", strategy] if strategy else []
    fed = feed_options(values, str(tmp_path))
    weft_command("submit", folder, "--signature", key, *fed, "--batch", "4", "--steps", "3", "--save", str(tmp_path / "saved"), *options)
    shutil.copytree(folder, trained)
    for part in ("index", "data-00000-of-00001"):
        shutil.copy(f"{tmp_path}/saved-3.{part}", f"{trained}/variables/variables.{part}")
    handle, _ = oracle.load(trained, tags)
    np.testing.assert_allclose(oracle.run(handle, feeds_of(signatures[serving], served), output)[0], wanted, rtol=1e-4, atol=1e-6)
    oracle.close(handle)
    loaded = tf.saved_model.load(trained).signatures[serving](**{k: tf.constant(v) for k, v in served.items()})
    np.testing.assert_allclose(loaded["y"], wanted, rtol=1e-4, atol=1e-6)


def check_training(name, strategy, tmp_path, oracle, weft_command, *options):
    """A training step of a model under a strategy: the losses of TensorFlow's session on one device; it is saved and goes on."""
    folder = str(tmp_path / "model")
    tags, values = next((t, v) for t, calls in MODELS[name](folder).items() for s, v in calls if s == "train")
    values = {k: np.concatenate([v] * 2)[:4] for k, v in values.items()}
    handle, meta = oracle.load(folder, tags)
    signature = tf.compat.v1.MetaGraphDef.FromString(meta).signature_def["train"]
    losses = [oracle.run(handle, feeds_of(signature, values), [signature.outputs["loss"].name])[0] for _ in range(6)]
    oracle.close(handle)
    step = ["submit", folder, "--tags", ",".join(tags), "--signature", "train", *feed_options(values, str(tmp_path)), "--batch", "4", "--json"]
    (tmp_path / "run").mkdir()
    step += ["--save", str(tmp_path / "run" / "model"), *options] + (["--strategy", strategy] if strategy else [])

    def losses_of(output):
        lines = [json.loads(line) for line in output.splitlines()]
        return [line["fetches"]["loss"] for line in lines if line.get("fetches") and not line["done"]]

    got = losses_of(weft_command(*step, "--steps", "3")) + losses_of(weft_command(*step, "--steps", "6", "--resume"))
    np.testing.assert_allclose(got, losses, rtol=2e-4)
    assert os.path.exists(tmp_path / "run" / "model-6.index")


# ---- what is wrong with a model ----


def rewrite(folder, change):
    path = os.path.join(folder, "saved_model.pb")
    with open(path, "rb") as f:
        model = saved_model_pb2.SavedModel.FromString(f.read())
    change(model)
    with open(path, "wb") as f:
        f.write(model.SerializeToString())


def cut(path, size):
    with open(path, "r+b") as f:
        f.truncate(size)


def overwrite(path, data):
    with open(path, "wb") as f:
        f.write(data)


def of_first(change):
    return lambda folder: rewrite(folder, lambda m: change(m.meta_graphs[0]))


def in_variables(suffix, change):
    def apply(folder):
        for path in glob.glob(os.path.join(folder, "variables", "variables" + suffix)):
            change(path)

    return apply


def drop_init_output(m):
    m.signature_def["__saved_model_init_op"].outputs.clear()


def two_init_ops(m):
    del m.signature_def["__saved_model_init_op"]
    m.collection_def["saved_model_main_op"].node_list.value.extend(["a", "b"])


def foreign_any(m):
    del m.asset_file_def[:]
    m.collection_def["saved_model_assets"].any_list.value.add(type_url="type.googleapis.com/tensorflow.TensorInfo", value=b"")


def broken_any(m):
    del m.asset_file_def[:]
    m.collection_def["saved_model_assets"].any_list.value.add(type_url="type.googleapis.com/tensorflow.AssetFileDef", value=b"\xff\xff")


def no_value(m):
    node = next(n for n in m.graph_def.node if n.op == "Const")
    del node.attr["value"]


def huge_constant(m):
    node = next(n for n in m.graph_def.node if n.op == "Const")
    node.attr["value"].tensor.tensor_shape.Clear()
    for _ in range(3):
        node.attr["value"].tensor.tensor_shape.dim.add(size=1 << 40)


def unknown_op(m):
    m.graph_def.node.add(name="odd", op="NoSuchOpAtAll")


def dangling(m):
    m.graph_def.node.add(name="odd", op="Identity", input=["nothing"]).attr["T"].type = 1


def unknown_function(m):
    node = m.graph_def.node.add(name="odd", op="StatefulPartitionedCall")
    node.attr["f"].func.name = "nowhere"
    node.attr["Tin"].list.SetInParent()
    node.attr["Tout"].list.SetInParent()


def set_saver(field, value):
    def change(m):
        setattr(m.saver_def, field, value)

    return of_first(change)


def foreign(**tensors):
    """The variables are those of another model."""

    def apply(folder):
        shutil.rmtree(folder + "/variables")
        os.mkdir(folder + "/variables")
        names, values = list(tensors), [tf.constant(v) for v in tensors.values()]
        names = [n.replace("__", "/.ATTRIBUTES/VARIABLE_VALUE") for n in names]
        tf.raw_ops.SaveV2(prefix=folder + "/variables/variables", tensor_names=names, shape_and_slices=[""] * len(names), tensors=values)

    return apply


def renamed_shard(folder):
    (path,) = glob.glob(folder + "/variables/*.data*")
    os.rename(path, path.replace("00000-of-00001", "00000-of-00002"))


def set_node_device(device):
    def change(m):
        for node in m.graph_def.node:
            if node.op == "VarHandleOp":
                node.device = device

    return of_first(change)


def drop_function(m):
    del m.graph_def.library.function[:]


def twice(m):
    m.graph_def.node.add().CopyFrom(m.graph_def.node[0])


def cycle(m):
    for name, other in (("c1", "c2"), ("c2", "c1")):
        m.graph_def.node.add(name=name, op="Identity", input=[other]).attr["T"].type = 1


BAD = {
    "variables of other names": foreign(other=[1.0]),
    "variables of another type": foreign(rows__=[[1, 2]] * 4, _CHECKPOINTABLE_OBJECT_GRAPH=b""),
    "variables of another shape": foreign(rows__=[1.0, 2.0], _CHECKPOINTABLE_OBJECT_GRAPH=b""),
    "variables without an object graph": foreign(rows__=[[1.0, 2.0]] * 4),
    "a shard of another name": renamed_shard,
    "a device that is not there": set_node_device("/device:GPU:7"),
    "a device that is none": set_node_device("nonsense"),
    "no functions": of_first(drop_function),
    "a node twice": of_first(twice),
    "a cycle": of_first(cycle),
    "a newer consumer": of_first(lambda m: setattr(m.graph_def.versions, "min_consumer", 1 << 30)),
    "an older producer": of_first(lambda m: setattr(m.graph_def.versions, "producer", 0)),
    "no folder": shutil.rmtree,
    "no file": lambda d: os.remove(d + "/saved_model.pb"),
    "an empty file": lambda d: overwrite(d + "/saved_model.pb", b""),
    "cut in the middle": lambda d: cut(d + "/saved_model.pb", os.path.getsize(d + "/saved_model.pb") // 2),
    "one byte short": lambda d: cut(d + "/saved_model.pb", os.path.getsize(d + "/saved_model.pb") - 1),
    "garbage": lambda d: overwrite(d + "/saved_model.pb", b"\xff" * 1000),
    "a huge length": lambda d: overwrite(d + "/saved_model.pb", b"\x12\xff\xff\xff\xff\x0f"),
    "a negative length": lambda d: overwrite(d + "/saved_model.pb", b"\x12" + b"\xff" * 9 + b"\x01"),
    "text for bytes": lambda d: overwrite(d + "/saved_model.pb", b"meta_graphs { }"),
    "bad text": lambda d: (os.remove(d + "/saved_model.pb"), overwrite(d + "/saved_model.pbtxt", b"meta_graphs { nothing: 3 }")),
    "empty text": lambda d: (os.remove(d + "/saved_model.pb"), overwrite(d + "/saved_model.pbtxt", b"")),
    "no meta graph": lambda d: rewrite(d, lambda m: m.ClearField("meta_graphs")),
    "another tag": of_first(lambda m: m.meta_info_def.tags.append("more")),
    "no variables": lambda d: shutil.rmtree(d + "/variables"),
    "no index": in_variables(".index", os.remove),
    "no data": in_variables(".data*", os.remove),
    "a short index": in_variables(".index", lambda p: cut(p, os.path.getsize(p) // 2)),
    "an empty index": in_variables(".index", lambda p: cut(p, 0)),
    "garbage in the index": in_variables(".index", lambda p: overwrite(p, b"\xff" * os.path.getsize(p))),
    "short data": in_variables(".data*", lambda p: cut(p, 3)),
    "other data": in_variables(".data*", lambda p: overwrite(p, b"\x01" * os.path.getsize(p))),
    "no assets": lambda d: shutil.rmtree(d + "/assets"),
    "another saver's op": set_saver("restore_op_name", "nowhere"),
    "no saver's op": set_saver("restore_op_name", ""),
    "another file name tensor": set_saver("filename_tensor_name", "nowhere:0"),
    "no file name tensor": set_saver("filename_tensor_name", ""),
    "an init signature without output": of_first(drop_init_output),
    "two init ops": of_first(two_init_ops),
    "an asset of another type": of_first(foreign_any),
    "an asset that is none": of_first(broken_any),
    "an asset for no tensor": of_first(lambda m: setattr(m.asset_file_def[0].tensor_info, "name", "nowhere:0")),
    "an asset twice": of_first(lambda m: m.asset_file_def.add().CopyFrom(m.asset_file_def[0])),
    "an asset elsewhere": of_first(lambda m: setattr(m.asset_file_def[0], "filename", "other.txt")),
    "a constant without value": of_first(no_value),
    "a dangling input": of_first(dangling),
    "no graph": of_first(lambda m: m.ClearField("graph_def")),
}


# Where TensorFlow's own answer would not do: the code of Weft's, and a word of it.
OWN = {
    "a folder for a file": (9, "Is a directory", lambda d: (os.remove(d + "/saved_model.pb"), os.mkdir(d + "/saved_model.pb"))),
    "open text": (15, "saved_model.pbtxt:1:15", lambda d: (os.remove(d + "/saved_model.pb"), overwrite(d + "/saved_model.pbtxt", b"meta_graphs { "))),
    "a huge constant": (9, "Const", of_first(huge_constant)),  # TensorFlow ends the process
    "an unknown op": (0, "", of_first(unknown_op)),  # only steps that need it fail
    "an unknown function": (0, "", of_first(unknown_function)),
}


def failure(library, *arguments, **more):
    try:
        handle, _ = library.load(*arguments, **more)
    except Failure as e:
        return e.args
    library.close(handle)
    return 0, ""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("whole") / "model")
    MODELS["module_vocabulary_asset"](folder)
    return folder


@pytest.mark.parametrize("name", BAD)
def test_bad_model(name, whole, tmp_path, weft, oracle):
    folder = str(tmp_path / "model")
    shutil.copytree(whole, folder)
    BAD[name](folder)
    ours, theirs = failure(weft, folder, SERVE), failure(oracle, folder, SERVE)
    assert ours[0] == theirs[0], f"{ours}\n{theirs}"


def set_collection(key, *names):
    def change(m):
        del m.collection_def[key].node_list.value[:]
        m.collection_def[key].node_list.value.extend(names)

    return of_first(change)


def drop_assets(m):
    del m.collection_def["saved_model_assets"]


BAD_V1 = {
    "two main ops": set_collection("saved_model_main_op", "a", "b"),
    "no main op in the list": set_collection("saved_model_main_op"),
    "a main op that is not there": set_collection("saved_model_main_op", "nowhere"),
    "a main op of numbers": of_first(lambda m: m.collection_def["saved_model_main_op"].int64_list.value.append(1)),
    "no assets in the collection": of_first(drop_assets),
    "assets that are nodes": of_first(lambda m: m.collection_def["saved_model_assets"].node_list.value.append("x")),
    "an asset that is gone": lambda d: os.remove(d + "/assets/words.txt"),
    "an asset that is a folder": lambda d: (os.remove(d + "/assets/words.txt"), os.mkdir(d + "/assets/words.txt")),
    "an asset that is empty": lambda d: overwrite(d + "/assets/words.txt", b""),
    "an asset with a word twice": lambda d: overwrite(d + "/assets/words.txt", b"a\na\n"),
    "a saver of version 1": of_first(lambda m: setattr(m.saver_def, "version", 1)),
    "no saver": of_first(lambda m: m.ClearField("saver_def")),
}


@pytest.fixture(scope="module")
def whole_v1(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("whole_v1") / "model")
    MODELS["v1_vocabulary_main_op"](folder)
    return folder


@pytest.mark.parametrize("name", BAD_V1)
def test_bad_model_v1(name, whole_v1, tmp_path, weft, oracle):
    folder = str(tmp_path / "model")
    shutil.copytree(whole_v1, folder)
    BAD_V1[name](folder)
    ours, theirs = failure(weft, folder, SERVE), failure(oracle, folder, SERVE)
    assert ours[0] == theirs[0], f"{ours}\n{theirs}"


@pytest.mark.parametrize("name", OWN)
def test_bad_model_of_ours(name, whole, tmp_path, weft):
    folder = str(tmp_path / "model")
    shutil.copytree(whole, folder)
    code, word, change = OWN[name]
    change(folder)
    got, message = failure(weft, folder, SERVE)
    assert got == code and word in message, message


@pytest.mark.parametrize("tags", [(), ("train",), ("serve", "gpu"), ("serve", "serve"), ("Serve",)], ids=str)
def test_tags(tags, whole, weft, oracle):
    ours, theirs = failure(weft, whole, tags), failure(oracle, whole, tags)
    assert ours[0] == theirs[0], f"{ours}\n{theirs}"
    if theirs[0]:
        assert ours[1].split(": {")[0] == theirs[1].split(": {")[0]


def test_run_options(whole, weft, oracle):
    for options in (b"\xff", tf.compat.v1.RunOptions(timeout_in_ms=60000).SerializeToString()):
        ours, theirs = failure(weft, whole, SERVE, options), failure(oracle, whole, SERVE, options)
        assert ours[0] == theirs[0], f"{ours}\n{theirs}"


def test_graph_is_not_empty(whole, weft, oracle):
    with tf.Graph().as_default() as graph:
        tf.constant(1)
    more = {"preloaded": graph.as_graph_def().SerializeToString()}
    assert failure(weft, whole, SERVE, **more) == failure(oracle, whole, SERVE, **more)


def test_asset_outside(whole, tmp_path, weft):
    """TensorFlow reads whatever file the model names; Weft only those of the model's folder."""
    for filename in ("../saved_model.pb", "a/../../b", ".."):
        folder = str(tmp_path / ("model" + filename.replace("/", "_")))
        shutil.copytree(whole, folder)
        of_first(lambda m: setattr(m.asset_file_def[0], "filename", filename))(folder)
        code, message = failure(weft, folder, SERVE)
        assert code == 3 and "outside of its assets folder" in message and folder in message
