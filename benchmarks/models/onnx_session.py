"""A model in ONNX Runtime; started as a program, with the number of threads, it serves one (../ops/serve.py). What is loaded:
{"onnx": PATH, "feeds": PATH of an .npz, in the order of the model's inputs}."""

import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "ops"))

import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
from serve import serve  # noqa: E402


class Model:
    def __init__(self, threads):
        self.threads = threads

    def load(self, command):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = self.threads, 1
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(command["onnx"], options, providers=["CPUExecutionProvider"])
        with np.load(command["feeds"]) as values:
            fed = [values[name] for name in values.files]
        fed = [np.ascontiguousarray(x.transpose(0, 3, 1, 2)) if x.ndim == 4 else x for x in fed]
        self.feeds = {i.name: x for i, x in zip(self.session.get_inputs(), fed)}
        self.step()

    def step(self):
        return self.session.run(None, self.feeds)[0]

    def answer(self):
        return self.step()


if __name__ == "__main__":
    serve(Model(int(sys.argv[1])))
