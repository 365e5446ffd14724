"""One graph, one device and every strategy: the same numbers, or a refusal before the first step.

    python differential.py --table table.md [--graphs REGEX] [--configs REGEX]

runs the graphs of graphs_*.py with `weft submit` and writes what came of each. test_differential.py is made of the same
functions.
"""

import argparse
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import numpy as np  # noqa: E402

import graphs  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
for _file in sorted(os.listdir(HERE)):
    if _file.startswith("graphs_") and _file.endswith(".py"):
        importlib.import_module(_file[:-3])

# name -> strategy, on servers?
CONFIGS = {
    "mirrored2": ("mirrored:2", False),
    "mirrored3": ("mirrored:3", False),
    "parallel2": ("data_parallel:2", False),
    "central2": ("central_storage:2", False),
    "workers2": ("multi_worker_mirrored:2", True),
    "workers3": ("multi_worker_mirrored:3", True),
    "servers2": ("parameter_server:mode=sync,workers=2", True),
}
IN_PROCESS = {  # the same without servers, to be quick
    "workers3-in-process": ("multi_worker_mirrored:3", False),
    "servers2-in-process": ("parameter_server:mode=sync,ps=2,workers=2", False),
}
TOLERANCE = 1e-5  # of a strategy beside one device
LEAST = 3e-3  # what is smaller is measured as if it were that: 3e-8, a quarter of float32's epsilon, is no difference
STOCK_TOLERANCE = 1e-4  # of one device beside stock TensorFlow: other sums, other functions' last digits, thirty steps
TIMEOUT_S = 180  # on a busy machine, too: a run takes a second or two on an idle one


class Outcome:
    """kind: "equal", "off", "refused" (before the first step), "failed" (later, or a crash), "hang". `after` is None where a step
    failed that fails on one device, too."""

    def __init__(self, kind, detail="", fetches=None, after=None):
        self.kind, self.detail, self.fetches, self.after = kind, detail, fetches, after

    def __str__(self):
        return self.kind if not self.detail else f"{self.kind}: {self.detail}"


def submit(weft, t, folder, strategy=None, master=None, timeout_s=TIMEOUT_S):
    """Trains the graph in `folder` as a user does."""
    args = [weft, "submit", "graph.pb", *graphs.arguments(t)]
    args += ["--strategy", strategy] if strategy else []
    args += ["--master", master] if master else []
    for name in t.after:
        if os.path.exists(os.path.join(folder, name + ".npy")):
            os.remove(os.path.join(folder, name + ".npy"))
    try:
        done = subprocess.run(args, capture_output=True, timeout=timeout_s, check=False, cwd=folder)
    except subprocess.TimeoutExpired:
        return Outcome("hang", f"after {timeout_s} s")
    lines = [json.loads(line) for line in done.stdout.decode().splitlines() if line.startswith("{")]
    steps = [line for line in lines if not line.get("done")]
    fetches = {f: [as_array(step["fetches"][f]) for step in steps] for f in t.fetches}
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        refused = done.returncode == 1 and not steps and said.count("\n") == 0 and "cannot be" in said
        return Outcome("refused" if refused else "failed", said[-600:] or f"exit {done.returncode}", fetches)
    if len(steps) != t.size.steps:
        return Outcome("failed", f"{len(steps)} steps instead of {t.size.steps}")
    after = {a: np.load(os.path.join(folder, a + ".npy")) for a in t.after}
    return Outcome("equal", fetches=fetches, after=after)


def as_array(fetched):
    """What --json says; what is no number is null there."""
    array = np.array(fetched)
    return array if array.dtype != object else np.array(fetched, "d")


def size(value):
    """The root of the mean square of what is a number."""
    value = np.asarray(value)
    value = np.abs(value[np.isfinite(value)]) if value.dtype.kind in "fcdiub" else value[:0]
    return float(np.sqrt(np.mean(np.square(value.astype("d"))))) if value.size else 0.0


def distance(got, want, least=LEAST):
    """How far apart, relative to what is wanted, which counts as `least` at least; an element beside its tensor's size."""
    got, want = np.asarray(got), np.asarray(want)
    if want.dtype.kind == "O":  # strings: TensorFlow gives bytes
        got, want = got.astype("U"), np.char.decode(want.astype("S"))
    if got.shape != want.shape:
        return np.inf
    if want.size == 0 or want.dtype.kind not in "fcdiub":
        return 0.0 if np.array_equal(got, want) else np.inf
    got, want = got.astype("d"), want.astype("d")
    if not np.array_equal(np.isfinite(got), np.isfinite(want)):
        return np.inf
    got, want = np.nan_to_num(got), np.nan_to_num(want)
    scale = np.maximum(np.maximum(np.abs(want), np.sqrt(np.mean(want * want))), least)
    return float(np.max(np.abs(got - want) / scale))


def compare(got, want_fetches, want_after, tolerance):
    """`got` with its kind set to "off" if any loss, fetch or final variable differs. `want_after` is None if a step must fail, and
    then it is "equal" to fail in that step."""
    if want_after is None:
        kind = "equal" if got.kind == "failed" and "INVALID_ARGUMENT" in got.detail else "off"
        got = Outcome(kind, "" if kind == "equal" else f"a step should fail: {got}", got.fetches)
    if got.kind != "equal":
        return got
    worst, where = 0.0, ""
    for name, steps in want_fetches.items():
        if len(got.fetches[name]) != len(steps):
            return Outcome("off", f"{len(got.fetches[name])} steps instead of {len(steps)}", got.fetches, got.after)
        least = max([LEAST] + [1e-2 * size(w) for w in steps])  # a loss of one row may be all rounding
        for i, (g, w) in enumerate(zip(got.fetches[name], steps)):
            d = distance(g, w, least)
            if d > tolerance and worst == 0.0 or d > 100 * worst and d > tolerance:
                worst, where = d, f"{name} of step {i + 1} is {np.ravel(g)[:3]} for {np.ravel(w)[:3]}"
    for name, w in (want_after or {}).items():
        d = distance(got.after[name], w)
        if d > tolerance and worst == 0.0:
            worst, where = d, f"{name} is {np.ravel(got.after[name])[:3]} for {np.ravel(w)[:3]}"
    if worst > tolerance:
        return Outcome("off", f"{worst:.1e}: {where}", got.fetches, got.after)
    return got


class Suite:
    """Graphs made once, trained on one device once, and then under each strategy."""

    def __init__(self, weft, folder, maker=None, size=graphs.FULL):
        self.weft, self.folder, self.made, self.maker, self.cluster, self.size = weft, folder, {}, maker, None, size

    def local(self, name):
        """(Training, folder, outcome on one device beside stock TensorFlow)"""
        if name not in self.made:
            folder = os.path.join(self.folder, name)
            g, t = graphs.make(name, self.size)
            graphs.write(g, t, folder)
            want = graphs.run_on_tensorflow(g, t)
            got = submit(self.weft, t, folder)
            self.made[name] = t, folder, compare(got, *want, STOCK_TOLERANCE)
        return self.made[name]

    def servers(self):
        from cluster import Cluster  # noqa: PLC0415

        if self.cluster is not None and self.cluster.dead():
            self.stop()
        if self.cluster is None:
            self.cluster = Cluster(self.maker, self.folder, ps=2, workers=3).start()
        return self.cluster.master

    def stop(self):
        if self.cluster is not None:
            self.cluster.stop()
            self.cluster = None

    def run(self, name, strategy, on_servers):
        t, folder, local = self.local(name)
        if local.kind in ("failed", "hang", "refused"):
            return Outcome("unknown", "it does not run on one device")
        if t.options:
            strategy += ("," if ":" in strategy else ":") + t.options
        got = submit(self.weft, t, folder, strategy, self.servers() if on_servers else None)
        if on_servers and got.kind in ("hang", "failed"):
            self.stop()  # what was left behind shall not fail the next one
        return compare(got, local.fetches, local.after, TOLERANCE)


def write_table(path, rows, configs):
    with open(path + ".new", "w", encoding="utf-8") as f:
        f.write("| graph | local | " + " | ".join(configs) + " |\n" + "|---" * (len(configs) + 2) + "|\n")
        for name, row in rows.items():
            f.write("| " + " | ".join([name] + [row.get(c, ("", ""))[0] for c in ("local", *configs)]) + " |\n")
        f.write("\nTotals:\n\n")
        for c in ("local", *configs):
            kinds = [row[c][0] for row in rows.values() if c in row]
            f.write(f"- {c}: " + ", ".join(f"{kinds.count(k)} {k}" for k in sorted(set(kinds))) + "\n")
        f.write("\nDetails:\n\n")
        for name, row in rows.items():
            for c, (kind, detail) in row.items():
                if kind != "equal":
                    f.write(f"- {name} {c}: {kind}: {' '.join(detail.split())}\n")
    os.rename(path + ".new", path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--table", required=True)
    parser.add_argument("--graphs", default="")
    parser.add_argument("--configs", default="")
    parser.add_argument("--last-rows", type=int, help="rows of the last batch of two epochs, instead of thirty steps with seven")
    parser.add_argument("--keep", action="store_true", help="rows of an older table that are not run again stay")
    parser.add_argument("--weft", default=os.path.join(HERE, "..", "..", "bazel-bin", "tools", "weft"))
    options = parser.parse_args()
    from cluster import Maker  # noqa: PLC0415

    weft = os.path.realpath(options.weft)
    configs = {c: v for c, v in {**CONFIGS, **IN_PROCESS}.items() if re.search(options.configs, c)}
    if not options.configs:
        configs = CONFIGS
    size = graphs.FULL if options.last_rows is None else graphs.short(options.last_rows)
    rows, saved = {}, options.table + ".json"
    if options.keep and os.path.exists(saved):
        with open(saved, encoding="utf-8") as f:
            rows = {name: {c: tuple(o) for c, o in row.items()} for name, row in json.load(f).items()}
    columns = [c for c in {**CONFIGS, **IN_PROCESS} if c in configs or any(c in row for row in rows.values())]
    with tempfile.TemporaryDirectory() as folder:
        suite = Suite(weft, folder, Maker("weft", weft), size)
        try:
            for name in graphs.GRAPHS:
                if not re.search(options.graphs, name):
                    continue
                began = time.monotonic()
                row = rows.setdefault(name, {})
                try:
                    local = suite.local(name)[2]
                    row["local"] = (local.kind, local.detail)
                except Exception as e:  # the graph itself is wrong
                    row["local"] = ("bad graph", repr(e)[:800])
                    print(name, row["local"], flush=True)
                    continue
                for c, (strategy, on_servers) in configs.items():
                    o = suite.run(name, strategy, on_servers)
                    row[c] = (o.kind, o.detail)
                print(f"{name} ({time.monotonic() - began:.1f} s)", *(f"{c}={k}" for c, (k, _) in row.items() if k != "equal"), flush=True)
                for c, (kind, detail) in row.items():
                    if kind not in ("equal", "unknown"):
                        print("   ", c, kind, " ".join(detail.split()), flush=True)
                write_table(options.table, rows, columns)
                with open(saved, "w", encoding="utf-8") as f:
                    json.dump(rows, f)
        finally:
            suite.stop()


if __name__ == "__main__":
    sys.exit(main())
