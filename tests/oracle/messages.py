"""tests/protos/testdata: messages as TensorFlow's protobuf prints and serializes them. The texts are the source: what people wrote, or a client's graph."""
from google.protobuf import text_format
from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import config_pb2, meta_graph_pb2, saved_model_pb2

HERE = "tests/protos/testdata"
TYPES = {"train_graph": graph_pb2.GraphDef, "function_graph": graph_pb2.GraphDef, "config": config_pb2.ConfigProto, "saved_model": saved_model_pb2.SavedModel,
         "run_metadata": config_pb2.RunMetadata, "any": meta_graph_pb2.MetaGraphDef}


def make(root, out):
    for name, kind in TYPES.items():
        message = text_format.Parse((root / HERE / (name + ".pbtxt")).read_text(), kind())
        (out / HERE / (name + ".pbtxt")).write_text(text_format.MessageToString(message))
        (out / HERE / (name + ".pb")).write_bytes(message.SerializeToString(deterministic=True))
