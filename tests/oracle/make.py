"""Makes test data with TensorFlow, or checks that it is what its makers make; tests/oracle/run says how to call it.

A maker is a module with HERE, its folder, and make(root, out), which reads its sources below `root` and writes all its files below `out`. Each runs in a process of
its own, because TensorFlow numbers functions through a process.
"""
import argparse
import importlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MAKERS = ["golden", "optimizer", "shapes", "registry", "loops", "loops_over_tasks", "graph_files", "bundles", "messages", "tensors", "strategy_graphs",
          "data_axis_graphs", "keras_graphs"]
# Plain kernels and one order of everything: oneDNN's choices differ from one CPU to another, and a set's order with the seed of hashes.
ENVIRONMENT = {"TF_ENABLE_ONEDNN_OPTS": "0", "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONHASHSEED": "0", "CUDA_VISIBLE_DEVICES": ""}


def made_by(name, out):
    """Runs a maker; None, or what it wrote to stderr when it failed."""
    done = subprocess.run([sys.executable, __file__, "--into", out, name], env=os.environ | ENVIRONMENT, capture_output=True, text=True)
    return None if done.returncode == 0 else done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", choices=[[], *MAKERS], metavar="MAKER", help=", ".join(MAKERS))
    parser.add_argument("--check", action="store_true", help="change nothing, fail where a file differs")
    parser.add_argument("--into", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.into:
        maker, out = importlib.import_module(options.names[0]), pathlib.Path(options.into)
        (out / maker.HERE).mkdir(parents=True, exist_ok=True)
        maker.make(ROOT, out)
        return 0
    passed = failed = 0
    for name in options.names or MAKERS:
        with tempfile.TemporaryDirectory() as out:
            error = made_by(name, out)
            files = [] if error else sorted(p.relative_to(out) for p in pathlib.Path(out).rglob("*") if p.is_file())
            differ = [str(f) for f in files if not (ROOT / f).exists() or (ROOT / f).read_bytes() != (pathlib.Path(out) / f).read_bytes()]
            for f in [] if options.check else files:
                shutil.copyfile(pathlib.Path(out) / f, ROOT / f)
        is_good = error is None and files and not (differ and options.check)
        passed, failed = passed + bool(is_good), failed + (not is_good)
        print("%s: %d files, %d %s%s" % (name, len(files), len(differ), "differ" if options.check else "changed", "\n" + error if error else ""), flush=True)
        for f in differ:
            print("  " + f)
    print("%d passed, %d failed" % (passed, failed))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
