"""Checks of deploy/: manifests, unit, container, dashboard, and the text of /metrics. Run by tests/deploy/run."""

import array
import contextlib
import glob
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse
import urllib.request

import yaml

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(REPO, "tests", "cluster"))

from faults import write_npy  # noqa: E402

DEPLOY = os.path.join(REPO, "deploy")
WEFT = os.environ.get("WEFT_BIN", os.path.join(REPO, "bazel-bin", "tools", "weft"))
PROMTOOL = os.environ.get("PROMTOOL", "promtool")
MANIFESTS = sorted(glob.glob(os.path.join(DEPLOY, "kubernetes", "*.yaml")))
VERSIONS = ["1.28", "1.31", "1.37"]  # of Kubernetes
PROMETHEUS = os.path.join(os.path.dirname(PROMTOOL), "prometheus") if os.path.dirname(PROMTOOL) else "prometheus"
NO_PROMTOOL = "promtool could not be installed: see apt.log in the virtual environment"
DEADLINE_S = 60
GRAPH = os.path.join(REPO, "tests", "strategies", "testdata", "mlp_sgd.pb")


def run(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False, **more)


def read(*path):
    with open(os.path.join(DEPLOY, *path), encoding="utf-8") as f:
        return f.read()


def objects(kind):
    """All objects of that kind in the manifests."""
    found = []
    for path in MANIFESTS:
        with open(path, encoding="utf-8") as f:
            found += [o for o in yaml.safe_load_all(f) if o["kind"] == kind]
    return found


def matches(selector, labels):
    return selector.items() <= labels.items()


class Kubernetes(unittest.TestCase):
    """The manifests against the schemas, and against each other and the command."""

    def setUp(self):
        self.sets = objects("StatefulSet")
        (self.config,) = objects("ConfigMap")
        (self.service,) = objects("Service")

    def test_schemas(self):
        validate = os.path.join(os.path.dirname(sys.executable), "kubernetes-validate")
        for version in VERSIONS:
            done = run(validate, "--strict", "-k", version, *MANIFESTS)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(len(re.findall(" passed for resource ", done.stdout)), sum(len(objects(k)) for k in self.kinds()), done.stdout)

    @staticmethod
    def kinds():
        return ["ConfigMap", "Service", "NetworkPolicy", "StatefulSet", "PodDisruptionBudget", "Job"]

    def test_a_broken_manifest_is_found(self):
        """That the schemas are looked at: a field in the wrong place, one of the wrong type, one that is missing."""
        validate = os.path.join(os.path.dirname(sys.executable), "kubernetes-validate")
        good = read("kubernetes", "worker.yaml")
        for old, new in [("replicas: 2", "replica: 2"), ("replicas: 2", "replicas: two"), ("serviceName: digits", ""), ("periodSeconds", "period")]:
            with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
                f.write(good.replace(old, new))
                f.flush()
                self.assertNotEqual(run(validate, "--strict", "-k", VERSIONS[0], f.name).returncode, 0, (old, new))

    def environment(self, pod):
        data = self.config["data"]
        self.assertLessEqual({"WEFT_JOBS", "WEFT_SERVICE"}, set(data))
        return {**data, "WEFT_POD_NAME": pod}

    def test_every_pod_finds_the_same_cluster_and_its_task(self):
        clusters, tasks = set(), []
        for s in self.sets:
            (container,) = s["spec"]["template"]["spec"]["containers"]
            self.assertEqual([list(e.values()) for e in container["envFrom"]], [[{"name": self.config["metadata"]["name"]}]])
            self.assertIn("WEFT_POD_NAME", [e["name"] for e in container["env"]])
            for i in range(s["spec"]["replicas"]):
                done = run(WEFT, *container["args"], "--print-config", env=self.environment(f"{s['metadata']['name']}-{i}"))
                self.assertEqual(done.returncode, 0, done.stderr)
                config = json.loads(done.stdout)
                clusters.add(json.dumps(config["cluster"], sort_keys=True))
                tasks.append((config["task"]["type"], config["task"]["index"]))
                own = config["cluster"][config["task"]["type"]][config["task"]["index"]]
                self.assertEqual(own, f"{s['metadata']['name']}-{i}.{s['spec']['serviceName']}:2222")
        (cluster,) = clusters
        self.assertEqual(sorted(tasks), sorted((job, i) for job, addresses in json.loads(cluster).items() for i in range(len(addresses))))

    def test_names_and_labels_agree(self):
        names = {s["metadata"]["name"] for s in self.sets}
        self.assertEqual(len(names), len(self.sets))
        self.assertEqual(self.service["spec"]["clusterIP"], "None")
        self.assertTrue(self.service["spec"]["publishNotReadyAddresses"])
        budgets = objects("PodDisruptionBudget")
        (policy,) = objects("NetworkPolicy")
        for s in self.sets:
            spec, labels = s["spec"], s["spec"]["template"]["metadata"]["labels"]
            self.assertTrue(matches(spec["selector"]["matchLabels"], labels))
            self.assertEqual(spec["serviceName"], self.service["metadata"]["name"])
            self.assertTrue(matches(self.service["spec"]["selector"], labels))
            self.assertTrue(matches(policy["spec"]["podSelector"]["matchLabels"], labels))
            self.assertEqual(len([b for b in budgets if matches(b["spec"]["selector"]["matchLabels"], labels)]), 1)
            others = [o for o in self.sets if o is not s]
            for o in others:
                self.assertFalse(matches(spec["selector"]["matchLabels"], o["spec"]["template"]["metadata"]["labels"]))

    def test_probes_ask_for_pages_that_there_are(self):
        for s in self.sets:
            pod = s["spec"]["template"]["spec"]
            (container,) = pod["containers"]
            ports = {p["name"]: p["containerPort"] for p in container["ports"]}
            self.assertIn(f"--http={ports['http']}", container["args"])
            self.assertEqual(container["livenessProbe"]["httpGet"], {"path": "/healthz", "port": "http"})
            self.assertEqual(container["readinessProbe"]["httpGet"], {"path": "/readyz", "port": "http"})
            self.assertGreaterEqual(pod["terminationGracePeriodSeconds"], 10)
            self.assertEqual({p["port"] for p in self.service["spec"]["ports"]}, set(ports.values()))
            self.assertEqual(s["spec"]["template"]["metadata"]["annotations"]["prometheus.io/port"], str(ports["http"]))
            self.assertIn("memory", container["resources"]["limits"])

    def test_the_job_is_a_command_line(self):
        (job,) = objects("Job")
        (container,) = job["spec"]["template"]["spec"]["containers"]
        done = run(WEFT, *container["args"], "--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        master = next(a for a in container["args"] if a.startswith("--master="))
        self.assertIn(master.removeprefix("--master=grpc://").partition(".")[0], [f"{s['metadata']['name']}-0" for s in self.sets])


class Systemd(unittest.TestCase):
    """The unit, read by systemd."""

    @unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not installed")
    def test_the_unit_is_read_without_a_complaint(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "weft@.service")
            with open(path, "w", encoding="utf-8") as f:
                f.write(read("systemd", "weft@.service").replace("/usr/bin/weft", WEFT))
            done = run("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", path)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            with open(path, "a", encoding="utf-8") as f:
                f.write("[Service]\nRestartSecs=2\n")
            self.assertIn("RestartSecs", run("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", path).stderr)

    def test_its_command_is_a_command_line(self):
        """The files that the unit's comment shows, with systemd's splitting: ${NAME} is one word, $NAME is words."""
        unit = read("systemd", "weft@.service")
        values = dict(re.findall(r"^#\s+(?:/etc/weft/\S+\s+)?(WEFT_[A-Z]+)=(.*)$", unit, re.M))
        self.assertEqual(sorted(values), ["WEFT_CLUSTER", "WEFT_JOB", "WEFT_OPTIONS", "WEFT_TASK"])
        (command,) = re.findall(r"^ExecStart=/usr/bin/weft (.*)$", unit, re.M)
        words = []
        for word in command.split():
            whole, parts = re.fullmatch(r"\$\{(\w+)\}", word), re.fullmatch(r"\$(\w+)", word)
            words += [values[whole[1]]] if whole else values[parts[1]].split() if parts else [word]
        done = run(WEFT, *words, "--print-config")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["task"], {"type": "worker", "index": 0})


class Container(unittest.TestCase):
    """The recipe."""

    @unittest.skipUnless(shutil.which("dpkg-query") and os.path.exists("/etc/debian_version"), "not Debian, whose packages the recipe names")
    def test_its_packages_have_the_libraries(self):
        packages = set(re.findall(r"^    ([a-z0-9][a-z0-9.+-]+) \\$", read("container", "Containerfile"), re.M))
        self.assertGreater(len(packages), 10)
        needed = re.findall(r"NEEDED\s+(\S+)", run("objdump", "-p", WEFT).stdout)
        paths = dict(re.findall(r"^\s*(\S+) => (/\S+)", run("ldd", WEFT).stdout, re.M))
        needed = [name for name in needed if name in paths]  # without the loader, which ldd lists by its path, and libc6 has
        owners = set()
        for name in needed:
            path = os.path.realpath(paths[name])
            found = next((done.stdout for p in (path, path.removeprefix("/usr"), paths[name]) if (done := run("dpkg-query", "-S", p)).returncode == 0), "")
            owners.update(re.findall(r"^([a-z0-9.+-]+?)(?::\w+)?: ", found, re.M))
        self.assertEqual(owners - {"libc6"}, packages)


class Grafana(unittest.TestCase):
    """The dashboard beside docs/metrics.md."""

    def setUp(self):
        self.dashboard = json.loads(read("grafana", "weft.json"))
        self.queries = [t["expr"] for p in self.dashboard["panels"] for t in p["targets"]]

    def test_every_documented_metric_is_shown(self):
        with open(os.path.join(REPO, "docs", "metrics.md"), encoding="utf-8") as f:
            rows = [line.split("|")[1] for line in f if line.startswith("| `") and "/" not in line.split("|")[1]]
        documented = set(re.findall(r"`(\w+)`", "".join(rows)))
        self.assertGreater(len(documented), 10)
        shown = set(re.findall(r"\b(?:weft|process)_[a-z_]+", " ".join(self.queries)))
        self.assertEqual({re.sub("_bucket$", "", name) for name in shown}, documented)

    def test_panels_are_beside_each_other(self):
        taken = set()
        for p in self.dashboard["panels"]:
            at = p["gridPos"]
            cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
            self.assertFalse(cells & taken, p["title"])
            self.assertLessEqual(at["x"] + at["w"], 24, p["title"])
            taken |= cells
            self.assertTrue(p["title"] and p["description"])
        ids = [p["id"] for p in self.dashboard["panels"]]
        self.assertEqual(len(ids), len(set(ids)))

    def test_variables_are_defined(self):
        defined = {v["name"] for v in self.dashboard["templating"]["list"]} | {"__rate_interval", "__range"}
        used = set(re.findall(r"\$\{?(\w+)", json.dumps(self.dashboard["panels"])))
        self.assertLessEqual(used, defined)

    def filled_in(self):
        """The queries as Grafana sends them when all is shown."""
        text = json.dumps(self.queries).replace("$__rate_interval", "1m").replace("$__range", "1h").replace("$job", ".*").replace("$instance", ".*")
        return json.loads(text)

    @unittest.skipUnless(shutil.which(PROMTOOL), NO_PROMTOOL)
    def test_every_query_is_promql(self):
        rules = [{"record": f"query:{i}", "expr": e} for i, e in enumerate(self.filled_in())]
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
            json.dump({"groups": [{"name": "dashboard", "rules": rules}]}, f)
            f.flush()
            done = run(PROMTOOL, "check", "rules", f.name)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(f"{len(rules)} rules found", done.stdout)

    @unittest.skipUnless(shutil.which(PROMETHEUS), NO_PROMTOOL)
    def test_prometheus_answers_every_query(self):
        """Of servers that train: a query finds samples if its metric has any on their pages."""
        with cluster(2) as (urls, master), prometheus(urls) as ask, tempfile.TemporaryDirectory() as folder:
            write_npy(f"{folder}/x.npy", array.array("f", [i % 7 / 7 for i in range(64 * 32)]), (64, 32), "<f4")
            write_npy(f"{folder}/y.npy", array.array("i", [i % 10 for i in range(64)]), (64,), "<i4")
            training = [GRAPH, "--feed", f"x={folder}/x.npy", "--feed", f"y={folder}/y.npy", "--init", "init", "--target", "train", "--batch", "8", "--steps", "8"]
            done = run(WEFT, "submit", *training, "--master", master, "--strategy", "multi_worker_mirrored:workers=2")
            self.assertEqual(done.returncode, 0, done.stderr)
            seen = "max(weft_graph_runs_total) > 0 and min(count_over_time(weft_graph_runs_total[1h])) >= 2"
            end = time.monotonic() + DEADLINE_S
            while not ask(seen):
                self.assertLess(time.monotonic(), end, "Prometheus does not see the steps")
            pages = "".join(page(url + "/metrics") for url in urls)
            have = set(re.findall(r"^(\w+)[{ ]", re.sub("(?m)^#.*$", "", pages), re.M))
            for query in self.filled_in():
                names = set(re.findall(r"\b(?:weft|process)_[a-z_]+", query))
                self.assertEqual(bool(ask(query)), names <= have, query)
            self.assertLessEqual({"weft_link_bytes_total", "weft_memory_bytes", "weft_task_up"}, have)


@contextlib.contextmanager
def server(*options):
    """The URL of a server's pages, and its target."""
    command = [WEFT, "server", "--job", "worker", *([] if "--cluster" in options else ["--cluster", "worker=127.0.0.1:0"]), "--http", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            target = re.search(r"grpc://\S+", process.stdout.readline()).group(0)
            yield re.search(r"(http://\S+)/metrics", process.stderr.readline()).group(1), target
        finally:
            process.terminate()


def page(url, **fields):
    with urllib.request.urlopen(url + ("?" + urllib.parse.urlencode(fields) if fields else ""), timeout=DEADLINE_S) as answer:
        return answer.read().decode()


def free_ports(n):
    """Of loopback. They are free again: another process may be faster."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in sockets]


@contextlib.contextmanager
def cluster(n):
    """The URLs of n workers' pages, and the target of the first."""
    ports = free_ports(n)
    spec = "worker=" + ",".join(f"127.0.0.1:{port}" for port in ports)
    with contextlib.ExitStack() as stack:
        urls = [stack.enter_context(server("--cluster", spec, "--task", str(i)))[0] for i in range(n)]
        yield urls, f"grpc://127.0.0.1:{ports[0]}"


@contextlib.contextmanager
def prometheus(urls):
    """A Prometheus that scrapes these; gives a function that asks it a query, for the samples now."""
    (port,) = free_ports(1)
    jobs = [{"job_name": "weft", "scrape_interval": "200ms", "scrape_timeout": "200ms", "static_configs": [{"targets": [u.partition("//")[2] for u in urls]}]}]
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "prometheus.yml"), "w", encoding="utf-8") as f:
            json.dump({"scrape_configs": jobs}, f)
        command = [PROMETHEUS, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            drain = threading.Thread(target=process.stderr.read, daemon=True)
            try:
                while "ready to receive" not in (line := process.stderr.readline()):
                    assert line, "Prometheus ends"
                drain.start()
                yield lambda query: json.loads(page(f"http://127.0.0.1:{port}/api/v1/query", query=query))["data"]["result"]
            finally:
                process.terminate()
                process.wait()


class Metrics(unittest.TestCase):
    """The page that Prometheus reads."""

    @unittest.skipUnless(shutil.which(PROMTOOL), NO_PROMTOOL)
    def test_promtool_has_no_complaint(self):
        """Of a fresh server, and of one that has run steps, with and without failures."""
        with server("--cpus", "2") as (url, target):
            for _ in range(2):
                done = run(PROMTOOL, "check", "metrics", input=page(url + "/metrics"))
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
                self.assertEqual(run(WEFT, "submit", GRAPH, "--master", target, "--init", "init").returncode, 0)
                self.assertNotEqual(run(WEFT, "submit", GRAPH, "--master", target, "--fetch", "loss").returncode, 0)


class Result(unittest.TextTestResult):
    """Counts, and says why a test was skipped."""

    passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        print(f"skipped: {test.id().removeprefix('__main__.')}: {reason}")


def main():
    if not os.access(WEFT, os.X_OK):
        print(f"no weft command at {WEFT}: make build\n0 passed, 1 failed")
        return 1
    program = unittest.main(exit=False, testRunner=unittest.TextTestRunner(resultclass=Result, stream=sys.stdout))
    failed = len(program.result.failures) + len(program.result.errors)
    print(f"{program.result.passed} passed, {failed} failed")
    return 1 if failed or program.result.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
