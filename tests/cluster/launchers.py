#!/usr/bin/env python3
"""Servers started by a real launcher train a model: Kubernetes's pods (simulated), Open MPI, MPICH, Slurm.

    tests/cluster/launchers.py                  # what this machine can: the others are skipped, with the reason
    tests/cluster/launchers.py --only slurm     # the cases whose names match
    tests/cluster/launchers.py --install        # first installs Open MPI, MPICH and Slurm from Debian's packages (root)

The hosts of a case are network namespaces behind a bridge, each with a host name and an /etc/hosts of its own: it takes root. Slurm is
a munged, a slurmctld and a slurmd on each host, all from files in a temporary folder. Each case starts a ps and two workers, trains
with `weft submit` in step, must get one device's losses, and ends the servers as its launcher does. Wants nothing but Python.
"""

import argparse
import array
import contextlib
import json
import os
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

from faults import GRAPH, REPO, Hosts, write_npy

DEADLINE_S = 60
PACKAGES = ["openmpi-bin", "mpich", "slurm-wlm", "munge", "curl"]
STEPS = 6
IN_STEP = ["--strategy", "parameter_server:mode=sync,workers=2"]


class Skip(Exception):
    """The machine lacks something; the text says what."""


def check(is_so, what):
    if not is_so:
        raise AssertionError(what)


class Process:
    """A program whose output is read by a thread, so that lines can be waited for."""

    def __init__(self, command, env=None, name=None, cwd=None):
        self.name = name or command[0]
        self.text, self.changed = "", threading.Condition()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=env, cwd=cwd, start_new_session=True)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            with self.changed:
                self.text += line
                self.changed.notify_all()
        with self.changed:
            self.text += "\0"  # the end
            self.changed.notify_all()

    def wait_for(self, pattern, times=1):
        with self.changed:
            self.changed.wait_for(lambda: len(re.findall(pattern, self.text)) >= times or "\0" in self.text, DEADLINE_S)
            check(len(re.findall(pattern, self.text)) >= times, f"{self.name} does not say '{pattern}' {times} times: {self.text}")

    def wait(self):
        """The exit code, when it has ended by itself."""
        code = self.process.wait(DEADLINE_S)
        self.reader.join(DEADLINE_S)
        return code

    def terminate(self):
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Site:
    """Hosts with these names, where the programs of a case run; `more` are other names of them, by position."""

    def __init__(self, folder, names, more=None):
        self.folder, self.names, self.processes = folder, names, []
        self.net = Hosts(len(names))
        self.hosts = os.path.join(folder, "hosts")
        with open(self.hosts, "w", encoding="ascii") as f:
            f.write("127.0.0.1 localhost\n")
            for i, name in enumerate(names):
                f.write(f"{self.net.address(i)} {(more or {}).get(i, '')} {name}\n")

    def enter(self, i):
        """What a command line begins with, to run on host i."""
        script = f'hostname "$0" && mount --bind {self.hosts} /etc/hosts && exec "$@"'
        return ["ip", "netns", "exec", self.net.names[i], "unshare", "--uts", "--mount", "sh", "-c", script, self.names[i]]

    def start(self, i, *command, **variables):
        p = Process([*self.enter(i), *command], dict(clean_environment(), **variables), os.path.basename(command[0]), self.folder)
        self.processes.append(p)
        return p

    def run(self, i, *command, **variables):
        env = dict(clean_environment(), **variables)
        return subprocess.run([*self.enter(i), *command], capture_output=True, text=True, timeout=2 * DEADLINE_S, check=False, env=env, cwd=self.folder)

    def close(self):
        for p in reversed(self.processes):
            p.kill()
        self.net.close()


def clean_environment():
    return {k: v for k, v in os.environ.items() if not re.match("SLURM|OMPI|PMI|WEFT_|TF_CONFIG|HOSTNAME", k)}


class Bench:
    """The command, the data, and what one device makes of them."""

    def __init__(self, weft, folder):
        self.weft, self.folder = weft, folder
        rng = random.Random(1)
        write_npy(os.path.join(folder, "x.npy"), array.array("f", [rng.random() for _ in range(64 * 32)]), (64, 32), "<f4")
        write_npy(os.path.join(folder, "y.npy"), array.array("i", [rng.randrange(10) for _ in range(64)]), (64,), "<i4")
        self.expected = self.losses(subprocess.run(self.submit(), capture_output=True, text=True, timeout=DEADLINE_S, check=False))

    def submit(self, *options):
        """The command line of a short training."""
        feeds = [f"--feed={name}={os.path.join(self.folder, name)}.npy" for name in "xy"]
        return [self.weft, "submit", GRAPH, *feeds, "--init", "init", "--target", "train", "--fetch", "loss", "--batch", "8", "--steps", str(STEPS), "--json", *options]

    @staticmethod
    def losses(done):
        check(done.returncode == 0, f"weft submit ended with {done.returncode}: {done.stderr}")
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return [line["fetches"]["loss"] for line in lines if "fetches" in line and not line.get("done")]

    def check_losses(self, losses):
        check(len(losses) == STEPS, f"{len(losses)} steps")
        check(all(abs(a - b) <= 1e-5 for a, b in zip(losses, self.expected, strict=True)), f"{losses} beside one device's {self.expected}")

    def train(self, site, host, master):
        self.check_losses(self.losses(site.run(host, *self.submit("--master", f"grpc://{master}", *IN_STEP))))


def needs(*programs):
    missing = [p for p in programs if shutil.which(p) is None]
    if missing:
        raise Skip(f"{', '.join(missing)} not installed; --install does it")


# ---- Kubernetes ----

PODS = ["digits-ps-0", "digits-worker-0", "digits-worker-1"]


def start_pod(bench, site, i):
    command = [bench.weft, "server", "--kubernetes", "--http=9100", "--threads=1"]
    return site.start(i, *command, WEFT_JOBS="ps=1,worker=2", WEFT_SERVICE="digits", HOSTNAME=PODS[i])


def get(site, i, page):
    """As a kubelet does it: from outside of the pod, at its address."""
    with urllib.request.urlopen(f"http://{site.net.address(i)}:9100{page}", timeout=DEADLINE_S) as answer:
        return answer.status


def kubernetes(bench, folder):
    """Pods of two StatefulSets; one is deleted, in order and not, and comes back."""
    site = Site(folder, [*PODS, "client"], {i: f"{pod}.digits" for i, pod in enumerate(PODS)})
    try:
        pods = [start_pod(bench, site, i) for i, _ in enumerate(PODS)]
        for i, pod in enumerate(pods):
            pod.wait_for("weft: listening on grpc://0.0.0.0:2222")
            pod.wait_for("health and metrics")
            check([get(site, i, page) for page in ("/healthz", "/readyz", "/metrics")] == [200, 200, 200], "probes fail")
        bench.train(site, 3, "digits-worker-0.digits:2222")
        pods[2].terminate()
        check(pods[2].wait() == 0, f"a pod that gets SIGTERM ends with {pods[2].wait()}: {pods[2].text}")
        pods[1].kill()
        for i in (1, 2):
            start_pod(bench, site, i).wait_for("listening on grpc")
        bench.train(site, 3, "digits-worker-0.digits:2222")
    finally:
        site.close()


def pods_that_are_misnamed(bench, folder):
    """One line that says what to do, and an exit code."""
    site = Site(folder, ["digits-wroker-0"])
    try:
        done = site.run(0, bench.weft, "server", "--kubernetes", WEFT_JOBS="ps=1,worker=2", WEFT_SERVICE="digits", HOSTNAME="digits-wroker-0")
        check(done.returncode == 1 and len(done.stderr.splitlines()) == 1 and "end its name with one of WEFT_JOBS" in done.stderr, str(done))
    finally:
        site.close()


# ---- MPI ----

MPIRUN = ["mpirun.openmpi" if shutil.which("mpirun.openmpi") else "mpirun", "--allow-run-as-root", "--oversubscribe"]


def mpi_on_one_host(bench, folder):
    """All ranks on a host: they listen on its loopback alone, and the process manager is not asked."""
    needs(MPIRUN[0], "orted")
    site = Site(folder, ["a"])
    try:
        run = site.start(0, *MPIRUN, "-n", "3", bench.weft, "server", "--mpi", "--jobs", "worker=2,ps=1", "--http", "9100")
        for port in (2222, 2223, 2224):
            run.wait_for(rf"listening on grpc://127\.0\.0\.1:{port}")
        for port in (9100, 9101, 9102):
            run.wait_for(rf"http://127\.0\.0\.1:{port}/metrics")
        bench.train(site, 0, "127.0.0.1:2222")
        run.terminate()
        run.wait()
        check(run.text.count("stopping: Terminated") == 3, run.text)
    finally:
        site.close()


def mpi_that_is_killed(bench, folder):
    """The ranks of a killed mpirun, which cannot end them, end by themselves."""
    needs(MPIRUN[0], "orted")
    site = Site(folder, ["a"])
    try:
        run = site.start(0, *MPIRUN, "-n", "3", bench.weft, "server", "--mpi")
        run.wait_for("listening on", 3)
        with open(f"/proc/{run.process.pid}/task/{run.process.pid}/children", encoding="ascii") as f:
            ranks = [os.pidfd_open(int(pid)) for pid in f.read().split()]
        check(len(ranks) == 3, f"mpirun has {len(ranks)} children")
        run.process.kill()
        for rank in ranks:
            ended, _, _ = select.select([rank], [], [], DEADLINE_S)
            os.close(rank)
            check(ended, "a rank outlives mpirun")
    finally:
        site.close()


def write_agent(site):
    """A program in the place of ssh: agent [-OPTION...] HOST COMMAND..."""
    path = os.path.join(site.folder, "agent")
    with open(path, "w", encoding="ascii") as f:
        f.write('#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nhost=$1; shift\ncase $host in\n')
        for i, name in enumerate(site.names):
            words = " ".join("'" + w.replace("'", "'\\''") + "'" for w in site.enter(i))
            f.write(f'{name}) exec {words} sh -c "$*";;\n')
        f.write("esac\n")
    os.chmod(path, 0o755)
    return path


def run_on_two_hosts(bench, site, launcher, addresses):
    """`addresses`: of ranks 0 to 2."""
    server = [bench.weft, "server", "--mpi", "--jobs", "worker=2,ps=1"]
    shown = site.run(0, *launcher, *server, "--print-config")
    check(shown.returncode == 0, shown.stderr)
    configs = [json.loads(line) for line in shown.stdout.splitlines()]
    check(all(c["cluster"] == {"worker": addresses[:2], "ps": addresses[2:]} for c in configs), shown.stdout)
    check(sorted((c["task"]["type"], c["task"]["index"]) for c in configs) == [("ps", 0), ("worker", 0), ("worker", 1)], shown.stdout)
    run = site.start(0, *launcher, *server)
    run.wait_for("listening on grpc://0.0.0.0:", 3)
    bench.train(site, 1, addresses[0])
    run.terminate()
    run.wait()
    return run


def mpi_on_two_hosts(bench, folder):
    """Open MPI's ranks dealt in turn to two hosts: where the others are is PMIx's answer."""
    needs(MPIRUN[0], "orted")
    site = Site(folder, ["a", "b"])
    try:
        rsh = ["--mca", "plm_rsh_agent", write_agent(site), "--mca", "oob_tcp_if_exclude", "lo"]
        run = run_on_two_hosts(bench, site, [*MPIRUN, *rsh, "--host", "a:2,b:1", "--map-by", "node", "-n", "3"], ["a:2222", "b:2222", "a:2223"])
        check(run.text.count("stopping: Terminated") == 3, run.text)
    finally:
        site.close()


def mpich_on_one_host_and_two(bench, folder):
    """MPICH's ranks: by its variables, and where they are on two hosts, through its process manager."""
    needs("mpiexec.hydra")
    site = Site(folder, ["a", "b"])
    try:
        shown = site.run(0, "mpiexec.hydra", "-n", "2", bench.weft, "server", "--mpi", "--print-config")
        check(shown.returncode == 0 and shown.stdout.count('"worker":["127.0.0.1:2222","127.0.0.1:2223"]') == 2, shown.stdout + shown.stderr)
        rsh = ["-launcher", "rsh", "-launcher-exec", write_agent(site)]
        run_on_two_hosts(bench, site, ["mpiexec.hydra", *rsh, "-hosts", "a:1,b:2", "-n", "3"], ["a:2222", "b:2222", "b:2223"])
    finally:
        site.close()


# ---- Slurm ----

CONF = """ClusterName=weft
SlurmctldHost=n0
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
KillWait=5
NodeName=n[1-2] CPUs=8 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""


class Slurm:
    """A controller on host n0, nodes n1 and n2. Its hosts are a Site."""

    def __init__(self, folder):
        needs("srun", "slurmctld", "slurmd", "munged", "curl")
        self.folder, self.conf = folder, os.path.join(folder, "slurm.conf")
        self.site = Site(folder, ["n0", "n1", "n2"])
        with open(self.conf, "w", encoding="ascii") as f:
            f.write(CONF.format(folder=folder))
        with open(os.path.join(folder, "cgroup.conf"), "w", encoding="ascii") as f:
            f.write("CgroupPlugin=cgroup/v1\n")  # no controller of it is used; what is found by itself may not be there
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    def start(self):
        munge = os.path.join(self.folder, "munge")
        os.mkdir(munge, 0o755)
        for name in ("state", "spool.n1", "spool.n2"):
            os.mkdir(os.path.join(self.folder, name))
        with open(os.open(os.path.join(munge, "key"), os.O_WRONLY | os.O_CREAT, 0o600), "wb") as f:
            f.write(os.urandom(128))
        places = [f"--{what}={munge}/{what.partition('-')[0]}" for what in ("key-file", "socket", "pid-file", "log-file", "seed-file")]
        self.site.start(0, "munged", "--foreground", "--force", *places)
        until(lambda: os.path.exists(f"{munge}/socket"), "munged")
        self.site.start(0, "slurmctld", "-D", "-f", self.conf)
        for i in (1, 2):
            alone = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]  # what slurmd starts ends with it
            self.site.start(i, *alone, "slurmd", "-D", "-f", self.conf)
        until(lambda: self.run("sinfo", "--noheader", "--format=%T %D").stdout == "idle 2\n", "slurmctld", self.logs)

    def logs(self):
        return "\n".join(p.text for p in self.site.processes)

    def run(self, *command, **variables):
        return self.site.run(0, *command, SLURM_CONF=self.conf, **variables)

    def srun(self, *arguments):
        return self.site.start(0, "srun", *arguments, SLURM_CONF=self.conf)

    def close(self):
        self.site.close()


def until(is_so, what, logs=lambda: ""):
    end = time.monotonic() + DEADLINE_S
    while not is_so():
        check(time.monotonic() < end, f"{what} does not come up: {logs()}")
        time.sleep(0.02)  # asks a program


def slurm(bench, folder):
    """Steps whose tasks are dealt to nodes in blocks and in turn; scripts; what cannot be."""
    s = Slurm(folder)
    server = [bench.weft, "server", "--slurm", "--jobs", "worker=2,ps=1"]
    try:
        slurm_steps(bench, s, server)
        slurm_batch(bench, s)
        step = s.run("srun", "-n", "3", "-N", "2", "--distribution=plane=2", *server)
        check(step.returncode == 1 and "with srun --distribution=block or cyclic" in step.stderr, str(step))
        alone = s.run(*server)
        check(alone.returncode == 1 and "start the servers with srun" in alone.stderr, str(alone))
        fewer = s.run("srun", "-n", "2", *server)
        check(fewer.returncode == 1 and "--jobs names 3 tasks, but --slurm finds 2 processes" in fewer.stderr, str(fewer))
    finally:
        s.close()


def slurm_steps(bench, s, server):
    for distribution, nodes in (("block", ["n1", "n1", "n2"]), ("cyclic", ["n1", "n2", "n1"])):
        where = ["--job-name", "servers", "-N", "2", "-n", "3", "--distribution", distribution]
        addresses = [f"{n}:{2222 + nodes[:i].count(n)}" for i, n in enumerate(nodes)]
        shown = s.run("srun", *where, *server, "--print-config")
        check(shown.returncode == 0, shown.stderr)
        clusters = {json.dumps(json.loads(line)["cluster"], sort_keys=True) for line in shown.stdout.splitlines()}
        check(clusters == {json.dumps({"ps": addresses[2:], "worker": addresses[:2]}, sort_keys=True)}, shown.stdout)
        step = s.srun(*where, *server)
        step.wait_for("listening on grpc://0.0.0.0:", 3)
        bench.train(s.site, 0, addresses[0])
        check(s.run("scancel", "--name", "servers").returncode == 0, "scancel fails")
        step.wait()
        check(step.text.count("stopping: Terminated") == 3, step.text)


def slurm_batch(bench, s):
    """The script of docs/clusters.md, with this training in it."""
    with open(os.path.join(REPO, "docs", "clusters.md"), encoding="utf-8") as f:
        script = re.search(r"^```bash\n(.*?)^```$", f.read(), re.M | re.S)[1]
    options = bench.submit()
    script, n = re.subn(r"^weft submit model\.pb (--master \S+ --strategy \S+) .*$", rf"{' '.join(options[:3])} \1 {' '.join(options[3:])}", script, flags=re.M)
    check(n == 1, script)
    script = script.replace("weft server", bench.weft + " server").replace("parameter_server:mode=sync", IN_STEP[1])
    path = os.path.join(s.folder, "job.sh")
    with open(path, "w", encoding="utf-8") as f:
        f.write(script)
    done = s.run("sbatch", "--wait", "--output", os.path.join(s.folder, "job.out"), "--error", os.path.join(s.folder, "job.err"), path)
    with open(os.path.join(s.folder, "job.out"), encoding="utf-8") as out, open(os.path.join(s.folder, "job.err"), encoding="utf-8") as err:
        text = subprocess.CompletedProcess([], done.returncode, out.read(), err.read())
    bench.check_losses(bench.losses(text))


CASES = [kubernetes, pods_that_are_misnamed, mpi_on_one_host, mpi_that_is_killed, mpi_on_two_hosts, mpich_on_one_host_and_two, slurm]


def install():
    subprocess.run(["apt-get", "install", "-y", "-q", "--no-install-recommends", *PACKAGES], check=True, env=dict(os.environ, DEBIAN_FRONTEND="noninteractive"))


def can_have_hosts():
    commands = (["ip", "netns", "add", "weft-launchers"], ["ip", "netns", "del", "weft-launchers"], ["unshare", "--uts", "--mount", "true"])
    with contextlib.suppress(OSError):
        return all(subprocess.run(c, capture_output=True, check=False).returncode == 0 for c in commands)
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft", default=os.path.join(REPO, "bazel-bin", "tools", "weft"))
    parser.add_argument("--only", default="", help="cases whose names match")
    parser.add_argument("--install", action="store_true", help="install " + ", ".join(PACKAGES))
    o = parser.parse_args()
    if o.install:
        install()
    passed, failed = 0, 0
    reason = None if can_have_hosts() else "it takes root, and a system with network namespaces"
    for case in CASES:
        if not re.search(o.only, case.__name__):
            continue
        began = time.monotonic()
        try:
            if reason:
                raise Skip(reason)
            with tempfile.TemporaryDirectory(prefix="weft-launchers-") as folder:
                os.chmod(folder, 0o755)  # munged wants its folder to be found
                case(Bench(os.path.realpath(o.weft), folder), folder)
            passed += 1
            print(f"{case.__name__}: ok ({time.monotonic() - began:.1f} s)", flush=True)
        except Skip as why:
            print(f"{case.__name__}: skipped: {why}", flush=True)
        except (AssertionError, OSError, subprocess.SubprocessError, ValueError) as e:
            failed += 1
            print(f"{case.__name__}: failed: {e}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
