"""Graphs that are odd or wrong: refused where TensorFlow refuses them, by the importer, the server or the step.

Each graph is imported by stock TensorFlow and by Weft's C API, and made a session of a stock server and of Weft's,
in which its node "a" is run.
"""

import grpc
import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from support import local_session, session, v1
from weft_graph import Failure, WeftGraphs
from wire import Peer

X = "node{name:'x' op:'Placeholder' attr{key:'dtype' value{type:DT_FLOAT}}} "
T = "attr{key:'T' value{type:DT_FLOAT}} "
F = "attr{key:'dtype' value{type:DT_FLOAT}} "
ONE = "tensor{dtype:DT_FLOAT float_val:1 tensor_shape{}}"
ROUTE = (
    "attr{key:'tensor_name' value{s:'a'}} attr{key:'send_device' value{s:'/job:a'}} attr{key:'recv_device' value{s:'/job:a'}} "
    "attr{key:'send_device_incarnation' value{i:1}} "
)
VALUES = {
    "i": "i:2",
    "s": "s:'a'",
    "f": "f:1",
    "b": "b:true",
    "type": "type:DT_FLOAT",
    "shape": "shape{dim{size:2}}",
    "tensor": ONE,
    "func": "func{name:'f'}",
}


def internal_ops():
    yield "_Arg", f"node{{name:'a' op:'_Arg' {T} attr{{key:'index' value{{i:0}}}}}}"
    yield "_Recv", f"node{{name:'a' op:'_Recv' attr{{key:'tensor_type' value{{type:DT_FLOAT}}}} {ROUTE}}}"
    yield "_Send", X + f"node{{name:'a' op:'_Send' input:'x' {T} {ROUTE}}}"
    yield "_Retval", X + f"node{{name:'a' op:'_Retval' input:'x' {T} attr{{key:'index' value{{i:0}}}}}}"
    yield "_SwitchN", X + f"node{{name:'a' op:'_SwitchN' input:'x' input:'x' {T} attr{{key:'num_outs' value{{i:2}}}}}}"
    yield "_XlaRun", "node{name:'a' op:'_XlaRun'}"


def names():
    for name in ("_a", "", "a/_b", "a//b", "a b", "a>", "a>b", ".a", "-a", "a:0"):
        yield f"name {name}", f"node{{name:'{name}' op:'NoOp'}}"
    yield "op without a name", "node{name:'a' op:''}"
    yield "attribute of its own", "node{name:'a' op:'NoOp' attr{key:'zz' value{i:3}}}"
    yield "attribute without a name", "node{name:'a' op:'NoOp' attr{key:'' value{i:3}}}"
    yield "attribute without a value", "node{name:'a' op:'NoOp' attr{key:'_x' value{}}}"


def functions():
    def library(text, op="NoOp"):
        return f"node{{name:'a' op:'{op}'}} library{{function{{{text}}}}}"

    constant = f"node_def{{name:'c' op:'Const' {F} attr{{key:'value' value{{{ONE}}}}}}} ret{{key:'o' value:'c:output:0'}}"
    for name in ("", "name:'f'", "name:'f g'"):
        yield f"function {name}", library(f"signature{{{name}}}")
        yield f"function {name} with a body", library(f"signature{{{name} output_arg{{name:'o' type:DT_FLOAT}}}} {constant}")
    yield "function without a signature", library("node_def{name:'c' op:'NoOp'}")
    yield "function with a nameless node", library("signature{name:'f'} node_def{name:'' op:'NoOp'}")
    yield "function with a nameless argument", library("signature{name:'f' input_arg{type:DT_FLOAT}}")
    yield "function without a result", library("signature{name:'f' output_arg{name:'o' type:DT_FLOAT}}")
    yield "function with an unknown result", library("signature{name:'f' output_arg{name:'o' type:DT_FLOAT}} ret{key:'o' value:'zz:0'}")
    yield "function of an unknown op", library("signature{name:'f'} node_def{name:'n' op:'NoSuchOp'}")
    yield "two equal functions", "node{name:'a' op:'NoOp'} library{function{signature{name:'f'}} function{signature{name:'f'}}}"
    yield "gradient of an unknown function", "node{name:'a' op:'NoOp'} library{gradient{function_name:'f' gradient_func:'g'}}"


def attributes():
    for kind, text in VALUES.items():
        if kind != "i":
            yield f"own list of int and {kind}", f"node{{name:'a' op:'NoOp' attr{{key:'_x' value{{list{{i:2 {text}}}}}}}}}"
            yield f"list(int) of int and {kind}", X + (
                f"node{{name:'a' op:'Squeeze' input:'x' {T} attr{{key:'squeeze_dims' value{{list{{i:0 {text}}}}}}}}}"
            )
            yield f"{kind} for an int", X + (
                f"node{{name:'a' op:'Pack' input:'x' {T} attr{{key:'N' value{{i:1}}}} attr{{key:'axis' value{{{text}}}}}}}"
            )
        if kind != "type":
            yield f"list(type) of type and {kind}", X + (
                f"node{{name:'a' op:'IdentityN' input:'x' attr{{key:'T' value{{list{{type:DT_FLOAT {text}}}}}}}}}"
            )
        yield f"list of {kind} for an int", X + (
            f"node{{name:'a' op:'Pack' input:'x' {T} attr{{key:'N' value{{i:1}}}} attr{{key:'axis' value{{list{{{text}}}}}}}}}"
        )
    short = "tensor{dtype:DT_FLOAT tensor_shape{dim{size:3}} tensor_content:'abc'}"
    for name, text in {
        "short tensor": short,
        "tensor of no size": "tensor{dtype:DT_FLOAT tensor_shape{dim{size:-3}}}",
        "shape of no size": "shape{dim{size:-3}}",
        "type 99": "type:99",
    }.items():
        yield f"own {name}", f"node{{name:'a' op:'NoOp' attr{{key:'_x' value{{{text}}}}}}}"
    yield "dtype 99", "node{name:'a' op:'Placeholder' attr{key:'dtype' value{type:99}}}"
    yield "unknown colocation", "node{name:'a' op:'NoOp' attr{key:'_class' value{list{s:'loc:@zz'}}}}"
    yield "odd colocation", "node{name:'a' op:'NoOp' attr{key:'_class' value{list{s:'abc'}}}}"
    yield "removed op", X + (
        f"node{{name:'a' op:'BatchNormWithGlobalNormalization' input:'x' input:'x' input:'x' input:'x' input:'x' {T}"
        "attr{key:'variance_epsilon' value{f:1}} attr{key:'scale_after_normalization' value{b:true}}} versions{producer:2129}"
    )


def constants():
    def constant(text, dtype="DT_FLOAT"):
        return f"node{{name:'a' op:'Const' attr{{key:'dtype' value{{type:{dtype}}}}} attr{{key:'value' value{{tensor{{{text}}}}}}}}}"

    shape = {n: f"tensor_shape{{dim{{size:{n}}}}}" for n in (-1, 0, 1, 2, 3)}
    for name, text in {
        "whole": f"{shape[2]} float_val:1 float_val:2",
        "one value for three": f"{shape[3]} float_val:1",
        "two values for three": f"{shape[3]} float_val:1 float_val:2",
        "no value for three": shape[3],
        "two values for one": f"{shape[1]} float_val:1 float_val:2",
        "two values for a scalar": "tensor_shape{} float_val:1 float_val:2",
        "no shape": "float_val:1",
        "3 bytes for three": f"{shape[3]} tensor_content:'abc'",
        "4 bytes for three": f"{shape[3]} tensor_content:'abcd'",
        "8 bytes for one": f"{shape[1]} tensor_content:'abcdefgh'",
        "bytes and values": f"{shape[1]} tensor_content:'abcd' float_val:7",
        "no bytes for none": f"{shape[0]} tensor_content:''",
        "bytes for none": f"{shape[0]} tensor_content:'abcd'",
        "values of another type": f"{shape[1]} int_val:7",
        "unknown rank": "tensor_shape{unknown_rank:true} float_val:7",
        "negative size": f"{shape[-1]} float_val:7",
        "too many elements": "tensor_shape{dim{size:4611686018427387904} dim{size:4}} float_val:7",
        "300 dimensions": f"tensor_shape{{{'dim{size:1} ' * 300}}} float_val:1",
    }.items():
        yield f"constant: {name}", constant("dtype:DT_FLOAT " + text)
    yield "constant: another dtype", constant(f"dtype:DT_INT32 {shape[1]} int_val:7")
    yield "constant: no dtype", constant(f"{shape[1]} float_val:7")
    yield "constant: reference", constant(f"dtype:DT_FLOAT {shape[1]} float_val:7", "DT_FLOAT_REF")
    yield "constant: short strings", constant(f"dtype:DT_STRING {shape[2]} tensor_content:'\\\\001\\\\011ab'", "DT_STRING")
    yield "constant: one string for two", constant(f"dtype:DT_STRING {shape[2]} string_val:'a'", "DT_STRING")
    yield "constant: bool", constant(f"dtype:DT_BOOL {shape[2]} bool_val:true", "DT_BOOL")
    yield "constant: half", constant(f"dtype:DT_HALF {shape[3]} half_val:15360", "DT_HALF")
    yield "constant: int8 of 300", constant(f"dtype:DT_INT8 {shape[1]} int_val:300", "DT_INT8")
    yield "constant: odd complex", constant(f"dtype:DT_COMPLEX64 {shape[1]} scomplex_val:1", "DT_COMPLEX64")
    yield "constant: complex and a half", constant(f"dtype:DT_COMPLEX64 {shape[2]} scomplex_val:1 scomplex_val:2 scomplex_val:3", "DT_COMPLEX64")
    yield "constant: unknown variant", constant("dtype:DT_VARIANT tensor_shape{} variant_val{type_name:'a'}", "DT_VARIANT")


GRAPHS = dict(g for family in (internal_ops, names, functions, attributes, constants) for g in family())


def graph_def(text):
    graph = text_format.Parse(text, v1.GraphDef())
    if not graph.versions.producer:
        graph.versions.producer = 21
    return graph


def answer(peer, graph):
    """What a server says: the code of the refusal, or of the step; and the value of a constant."""
    try:
        handle = peer.call("CreateSession", graph_def=graph).session_handle
    except grpc.RpcError as e:
        return "refused: " + e.code().name, None
    node = next((n for n in graph.node if n.name == "a"), None)
    what = {} if node is None else {"fetch": ["a:0"]} if node.op == "Const" else {"target": ["a"]}
    value = None
    try:
        if what:
            out = peer.call("RunStep", session_handle=handle, **what)
            is_number = out.tensor and tf.as_dtype(out.tensor[0].tensor.dtype) not in (tf.string, tf.variant)
            value = tf.make_ndarray(out.tensor[0].tensor) if is_number else None
        said = "ran"
    except grpc.RpcError as e:
        said = "step: " + e.code().name
    peer.call("CloseSession", session_handle=handle)
    return said, value


@pytest.fixture(scope="module")
def stock():
    return v1.train.Server.create_local_server()


@pytest.mark.parametrize("name", GRAPHS)
def test_servers_agree(cluster, stock, name):
    graph = graph_def(GRAPHS[name])
    (got, got_value), (want, want_value) = answer(Peer(cluster.master), graph), answer(Peer(stock.target), graph)
    assert got == want
    np.testing.assert_array_equal(got_value, want_value)


@pytest.mark.weft_only
@pytest.mark.parametrize("name", GRAPHS)
def test_importers_agree(request, name):
    graph = graph_def(GRAPHS[name])
    try:
        with tf.Graph().as_default():
            tf.import_graph_def(graph, name="")
        is_refused = False
    except (ValueError, tf.errors.OpError):
        is_refused = True
    library = WeftGraphs(request.config.getoption("--weft"))
    try:
        library.shapes(graph.SerializeToString(), [])
        assert not is_refused
    except Failure as e:
        assert is_refused, e
    finally:
        library.stop()


# ---- ops that a step does not need ----


def graph_with(node):
    """x + 1 is y; the node hangs on y, and "b" on it."""
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, name="x")
        tf.add(x, 1.0, name="y")
    definition = graph.as_graph_def()
    definition.node.add().CopyFrom(text_format.Parse(node, v1.NodeDef()))
    definition.node.add().CopyFrom(text_format.Parse(f"name:'b' op:'Identity' input:'a' {T}", v1.NodeDef()))
    return definition


UNABLE = {
    "not registered": ("name:'a' op:'NoSuchOp' input:'y' attr{key:'q' value{i:1}}", grpc.StatusCode.NOT_FOUND),
    "without a kernel": (f"name:'a' op:'RiscAbs' input:'y' {T}", grpc.StatusCode.INVALID_ARGUMENT),
}


@pytest.mark.weft_only
@pytest.mark.parametrize("name", UNABLE)
@pytest.mark.parametrize("is_extended", [False, True])
def test_an_op_that_cannot_run_is_an_error_of_the_steps_that_need_it(cluster, name, is_extended):
    node, code = UNABLE[name]
    peer = Peer(cluster.master)
    graph = graph_with(node)
    if is_extended:
        handle = peer.call("CreateSession", graph_def=v1.GraphDef(versions=graph.versions)).session_handle
        peer.call("ExtendSession", session_handle=handle, graph_def=graph, current_graph_version=0)
    else:
        handle = peer.call("CreateSession", graph_def=graph).session_handle
    feed = [dict(name="x:0", tensor=tf.make_tensor_proto(np.float32(1)))]
    out = peer.call("RunStep", session_handle=handle, feed=feed, fetch=["y:0"])
    assert tf.make_ndarray(out.tensor[0].tensor) == 2
    for step in ({"fetch": ["a:0"]}, {"target": ["a"]}, {"fetch": ["b:0"]}, {"fetch": ["y:0"], "target": ["b"]}):
        with pytest.raises(grpc.RpcError) as caught:
            peer.call("RunStep", session_handle=handle, feed=feed, **step)
        assert caught.value.code() == code, caught.value.details()
        assert graph.node[-2].op in caught.value.details() and "{{node a}}" in caught.value.details()
    fed = [dict(name="a:0", tensor=tf.make_tensor_proto(np.float32(7)))]
    out = peer.call("RunStep", session_handle=handle, feed=fed, fetch=["b:0"])
    assert tf.make_ndarray(out.tensor[0].tensor) == 7


@pytest.mark.weft_only
def test_an_op_that_cannot_run_may_be_in_a_function(cluster):
    body = "node_def{name:'n' op:'NoSuchOp' input:'p'} node_def{name:'m' op:'Identity' input:'n:out:0' " + T + "} ret{key:'o' value:'m:output:0'}"
    graph = graph_with("name:'a' op:'f' input:'y'")
    graph.library.MergeFrom(
        text_format.Parse(
            "function{signature{name:'f' input_arg{name:'p' type:DT_FLOAT} output_arg{name:'o' type:DT_FLOAT}}" + body + "}",
            type(graph.library)(),
        )
    )
    peer = Peer(cluster.master)
    handle = peer.call("CreateSession", graph_def=graph).session_handle
    feed = [dict(name="x:0", tensor=tf.make_tensor_proto(np.float32(1)))]
    assert tf.make_ndarray(peer.call("RunStep", session_handle=handle, feed=feed, fetch=["y:0"]).tensor[0].tensor) == 2
    with pytest.raises(grpc.RpcError) as caught:
        peer.call("RunStep", session_handle=handle, feed=feed, fetch=["b:0"])
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND, caught.value.details()


# ---- gradients of functions ----


def polynomial():
    @tf.function(input_signature=[tf.TensorSpec(None, tf.float32), tf.TensorSpec(None, tf.float32)])
    def inner(x, w):
        return tf.reduce_sum(tf.tanh(x) * w + x * x), tf.exp(w)

    return inner.get_concrete_function()


def test_the_gradient_of_a_function(cluster):
    """SymbolicGradient of functions that call functions; of an op; with a gradient that does not reach an argument."""
    with tf.Graph().as_default() as graph:
        x, w = v1.placeholder(tf.float32, name="x"), v1.placeholder(tf.float32, name="w")
        f = polynomial()
        f.add_to_graph(graph)
        name = f.function_def.signature.name
        call = tf.raw_ops.SymbolicGradient(input=[x, w, tf.constant(2.0), tf.ones_like(w)], Tout=[tf.float32] * 2, f=attr_of(name))
        op = tf.raw_ops.SymbolicGradient(input=[x, w, tf.ones_like(w)], Tout=[tf.float32] * 2, f=attr_of("Mul", T=tf.float32))
        fetches = [call, op]
    feeds = {"x:0": np.float32([0.3, -1.2]), "w:0": np.float32([2.0, 0.5])}
    with local_session(graph) as sess:
        want = sess.run(fetches, feeds)
    with session(cluster.master, graph) as sess:
        got = sess.run(fetches, feeds)
    for g, w in zip(tf.nest.flatten(got), tf.nest.flatten(want)):
        np.testing.assert_allclose(g, w, rtol=1e-5)


def attr_of(name, **types):
    from tensorflow.core.framework import attr_value_pb2

    func = attr_value_pb2.NameAttrList(name=name)
    for key, dtype in types.items():
        func.attr[key].type = dtype.as_datatype_enum
    return func


# ---- shapes through calls ----


def call_graph(body, result, shape="dim{size:2} dim{size:3}", op="PartitionedCall", more="", argument="type:DT_FLOAT"):
    """x of a shape, and a call "a" of a function "f" of it."""
    types = "attr{key:'Tin' value{list{type:DT_FLOAT}}} attr{key:'Tout' value{list{type:DT_FLOAT}}} attr{key:'f' value{func{name:'f'}}}"
    return text_format.Parse(
        f"node{{name:'x' op:'Placeholder' {F} attr{{key:'shape' value{{shape{{{shape}}}}}}}}}"
        f"node{{name:'a' op:'{op}' input:'x' {types if op != 'f' else ''} {more}}}"
        f"library{{function{{signature{{name:'f' input_arg{{name:'p' {argument}}} output_arg{{name:'o' type:DT_FLOAT}}}} {body}"
        f" ret{{key:'o' value:'{result}'}}}} function{{signature{{name:'g' input_arg{{name:'p' type:DT_FLOAT}}"
        f" output_arg{{name:'o' type:DT_FLOAT}}}} node_def{{name:'t' op:'Transpose' input:'p' input:'c:output:0' {T}}}"
        f" node_def{{name:'c' op:'Const' attr{{key:'dtype' value{{type:DT_INT32}}}} attr{{key:'value' value{{tensor{{dtype:DT_INT32"
        f" tensor_shape{{dim{{size:2}}}} int_val:1 int_val:0}}}}}}}} ret{{key:'o' value:'t:y:0'}}}}}} versions{{producer:1882}}",
        v1.GraphDef(),
    )


RELU = f"node_def{{name:'n' op:'Relu' input:'p' {T}}}"
NESTED = f"node_def{{name:'n' op:'g' input:'p'}} node_def{{name:'m' op:'MatMul' input:'p' input:'n:o:0' {T}}}"
CALLS = {
    "of an op": call_graph(RELU, "n:activations:0"),
    "stateful": call_graph(RELU, "n:activations:0", op="StatefulPartitionedCall"),
    "by name": call_graph(RELU, "n:activations:0", op="f"),
    "of what goes in": call_graph("", "p"),
    "partly known": call_graph(RELU, "n:activations:0", shape="dim{size:-1} dim{size:3}"),
    "of unknown rank": call_graph(RELU, "n:activations:0", shape="unknown_rank:true"),
    "in calls": call_graph(NESTED, "m:product:0"),
    "in calls of unknown rows": call_graph(NESTED, "m:product:0", shape="dim{size:-1} dim{size:3}"),
    "declared closed": call_graph(RELU, "n:activations:0", more="attr{key:'_disable_call_shape_inference' value{b:true}}"),
    "of a body that does not fit": call_graph(f"node_def{{name:'n' op:'MatMul' input:'p' input:'p' {T}}}", "n:product:0"),
    "of an unknown op": call_graph(f"node_def{{name:'n' op:'NoSuchOp' input:'p' {T}}}", "n:o:0"),
    "with an unknown op beside": call_graph("node_def{name:'q' op:'NoSuchOp'} " + RELU, "n:activations:0"),
    "of an unknown node": call_graph(f"node_def{{name:'n' op:'Relu' input:'zz' {T}}}", "n:activations:0"),
    "of another type": call_graph(RELU, "n:activations:0", argument="type:DT_INT32"),
}


@pytest.mark.weft_only
@pytest.mark.parametrize("name", CALLS)
def test_shapes_pass_through_calls(request, name):
    try:
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(CALLS[name], name="")
            shape = graph.get_tensor_by_name("a:0").shape
        want = [None if shape.rank is None else shape.as_list()]
    except (ValueError, tf.errors.OpError):
        want = "refused"
    library = WeftGraphs(request.config.getoption("--weft"))
    try:
        got = library.shapes(CALLS[name].SerializeToString(), [("a", 0)])
    except Failure:
        got = "refused"
    finally:
        library.stop()
    assert got == want
