"""A model in PyTorch; started as a program, with the number of threads, it serves one (../ops/serve.py). What is loaded:
  {"model": NAME, "training": BOOL, "state": PATH of what torch.save() wrote, "feeds": PATH of an .npz}
Before, in a process of its own, whose memory and time are not counted:
  {"prepare": NAME, "weights": PATH of an .npz, "state": PATH to write}, and maybe "onnx": {PATH to write: PATH of feeds}
"""

import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "ops"))

import layers_torch  # noqa: E402
import networks  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from serve import serve  # noqa: E402


def arrays(path):
    with np.load(path) as values:
        return {name: values[name] for name in values.files}


class Model:
    def load(self, command):
        if "prepare" in command:
            self.prepare(command)
            return
        self.is_training, fed = command["training"], arrays(command["feeds"])
        self.labels = torch.from_numpy(fed.pop("labels")) if self.is_training else None
        self.inputs = layers_torch.fed(fed.values())
        weights = torch.load(command["state"], mmap=not self.is_training, weights_only=True)
        self.loss_kind = networks.MODELS[command["model"]].loss
        self.net = layers_torch.made(command["model"], weights, self.is_training)
        self.optimizer = torch.optim.SGD(self.net.parameters(), 0.01) if self.is_training else None
        self.step()

    def prepare(self, command):
        weights = {key.partition(" ")[2]: (key.partition(" ")[0], value) for key, value in arrays(command["weights"]).items()}
        weights = layers_torch.transposed(weights)
        torch.save(weights, command["state"])
        net = layers_torch.made(command["prepare"], weights, False)
        for path, feeds in command.get("onnx", {}).items():
            fed = layers_torch.fed(arrays(feeds).values())
            with torch.inference_mode(False), torch.no_grad():
                torch.onnx.export(net, tuple(x.contiguous() for x in fed), path, dynamo=True, verbose=False, external_data=False)

    def step(self):
        if not self.is_training:
            with torch.inference_mode():
                return self.net(*self.inputs)
        self.optimizer.zero_grad(set_to_none=True)
        loss = layers_torch.loss(self.loss_kind, self.net(*self.inputs), self.labels)
        loss.backward()
        self.optimizer.step()
        return loss

    def answer(self):
        return self.step().detach().numpy()


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[1]))
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # exporting prints; answers alone go to standard output
    sys.stdout = out
    serve(Model())
