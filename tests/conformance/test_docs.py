"""README.md and docs/: every command and program in them is run as it stands, section by section, on a host of its own.

A fenced block `sh` is typed, a block `python` is run, and of a block `text` the lines that begin with "$ ". A section's blocks are
one session: servers stay, Python's names too. The host has no network but 10.0.0.1 to 10.0.0.3 and loopback, so that the
addresses in the texts hold; `weft server` is started beside what follows. scenes.py makes the files that a section finds.
"""

import json
import os
import re
import shlex
import subprocess
import sys

import pytest

from documents import REPO, documents, sections, text_of
from scenes import SCENES, digits

pytestmark = pytest.mark.weft_only
HOSTS = ("10.0.0.1", "10.0.0.2", "10.0.0.3")
PROGRAMS = ("weft", "make", "mpirun", "srun", "kubectl", "podman", "systemctl", "curl", "cc", "bazel", "git", "apt", "tensorboard", "python", "python3")

# What is not run here, and where it is: how such a command begins, the test that runs it, a word in that test's source.
ELSEWHERE = (
    ("make demo", "tests/newcomer/play", "make demo"),
    ("bazel-bin/examples/digits/make_graph", "examples/digits/demo", "make_graph"),
    ("make test", ".ci/run", "make test"),
    ("make install", "tests/install/run", "uninstall"),
    ("make uninstall", "tests/install/run", "uninstall"),
    ("cc sum.c", "tests/install/run", "sum.c"),
    ("bazel test", ".ci/run", "C tests"),
    ("tests/", ".ci/run", "conformance"),
    ('weft top --cluster "worker', "tests/conformance/test_top.py", "Terminal("),
    ("weft bench", "tests/conformance/test_benchmarks.py", "server_start"),
    ("weft server --slurm", "tests/cluster/launchers.py", "srun"),
    ("srun", "tests/cluster/launchers.py", "srun"),
    ("mpirun", "tests/cluster/launchers.py", "mpirun"),
    ("kubectl", "tests/deploy/check.py", "kubernetes"),
    ("git archive", "tests/deploy/check.py", "Containerfile"),
    ("cp deploy/systemd", "tests/deploy/check.py", "systemd"),
    ("systemctl", "tests/deploy/check.py", "systemd"),
    ("journalctl", "tests/deploy/check.py", "systemd"),
    ("TF_CONFIG=$(weft server --slurm", "tests/conformance/test_launchers.py", "print-config"),
)

WEFT = r"""
weft() {
  case " $* " in
    *" --print-config "* | *" --help "*) command weft "$@" ;;
    " server "*)
      local line out; out=$(mktemp -u) && mkfifo "$out"
      command weft "$@" >"$out" &
      read -r -t 60 line <"$out" ;;
    " top "*" --once "*) command weft "$@" ;;
    " top "*) command weft "$@" --once ;; # there is no terminal
    *) command weft "$@" ;;
  esac
}
"""


def commands(script):
    """The commands of a shell script, continued lines joined, comments dropped."""
    lines = re.sub(r"\\\n\s*", "", script).splitlines()
    joined, open_quote = [], ""
    for line in lines:  # a quoted text may have several lines
        open_quote += ("\n" if open_quote else "") + line
        try:
            words = shlex.split(open_quote, comments=True)
        except ValueError:
            continue
        if words:
            joined.append(open_quote)
        open_quote = ""
    assert not open_quote, open_quote
    return joined


def place(command):
    """The test that runs it, if that is another one."""
    return next((e for e in ELSEWHERE if command.startswith(e[0])), None)


def typed(language, text):
    """What a block has to be run: as (language, text), or None."""
    if language == "python":
        return language, text
    if language == "text":
        text = "\n".join(line[2:] for line in text.splitlines() if line.startswith("$ "))
        language = "sh"
    if language != "sh":
        return None
    here = [c for c in commands(text) if place(c) is None]
    return (language, "\n".join(here)) if here else None


def cases():
    for path in documents():
        for title, blocks in sections(path):
            steps = [s for s in (typed(*b) for b in blocks) if s is not None]
            if any(language == "sh" for language, _ in steps):
                yield path, title, steps


STANDING = {  # clusters that a text says stand: their servers are begun before
    "docs/from_tensorflow.md": "worker=10.0.0.1:2222,10.0.0.2:2222",
    "docs/observing.md": "ps=10.0.0.1:2220;worker=10.0.0.2:2221,10.0.0.3:2221",
    "weft profile": "ps=127.0.0.1:2220;worker=127.0.0.1:2221,127.0.0.1:2222",
    "weft submit": "worker=127.0.0.1:2221",
    "weft top": "worker=127.0.0.1:2221",
    "weft trace": "ps=127.0.0.1:2220;worker=127.0.0.1:2221,127.0.0.1:2222",
}
RUNNING = {"docs/observing.md", "weft profile", "weft trace"}  # a job runs on that cluster meanwhile


# ---- the play ----

PLAY = """
import json, os, subprocess, sys
play = json.load(open("play.json"))
names = {"__name__": "__main__"}
for hosts in play["hosts"]:
    subprocess.run(["ip", "addr", "add", hosts + "/24", "dev", "lo"], check=True)
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
for language, text in play["steps"]:
    if language == "python":
        exec(compile(text, "program", "exec"), names)
    else:
        subprocess.run(["bash", "-e", "-o", "pipefail", "-c", play["weft"] + text], check=True)
"""


def servers_of(cluster):
    """The commands that begin them."""
    for job in filter(None, cluster.split(";")):
        name, _, addresses = job.partition("=")
        for task, address in enumerate(addresses.split(",")):
            yield f'weft server --cluster "{cluster}" --job {name} --task {task} --host {address.partition(":")[0]}'


def job_on(cluster):
    """A job that goes on as long as the play."""
    master = re.search(r"worker=([^,;]+)", cluster)[1]
    job = f"command weft submit graph.pb --master grpc://{master} --strategy parameter_server:mode=sync --init init --target train --fetch loss"
    return job + " --feed images=images.npy --feed labels=labels.npy --batch 16 --steps 100000000 >job.log 2>&1 &"


@pytest.fixture(scope="module")
def weft(request):
    return os.path.abspath(request.config.getoption("--weft"))


@pytest.fixture(scope="module")
def can_be_alone():
    done = subprocess.run(["unshare", "--net", "--pid", "--fork", "--mount-proc", "ip", "link", "set", "lo", "up"], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip("a host of one's own cannot be made here: " + done.stderr.decode().strip())


def run_steps(weft, folder, text, steps):
    """Steps of a text, in a folder with the files and beside the servers that it assumes."""
    for language, script in steps:
        assert language != "sh" or " ..." not in script, "a command with an ellipsis cannot be typed"
    SCENES.get(text, digits)(folder)
    (folder / "bin").mkdir()
    (folder / "bin" / "weft").symlink_to(weft)
    before = [*servers_of(STANDING.get(text, "")), *([job_on(STANDING[text])] if text in RUNNING else [])]
    play = {"hosts": HOSTS, "weft": WEFT, "steps": [("sh", "\n".join(before)), *steps]}
    (folder / "play.json").write_text(json.dumps(play), encoding="utf-8")
    venv = os.path.dirname(sys.executable)
    env = {**os.environ, "PATH": f"{folder / 'bin'}:{venv}:{os.environ['PATH']}", "PYTHONPATH": os.path.join(REPO, "python"), "TERM": "dumb"}
    alone = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-c", PLAY]
    with open(folder / "output", "w+", encoding="utf-8") as output:  # a file: servers hold it until they are killed
        done = subprocess.run(alone, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=400, check=False)
        output.seek(0)
        assert done.returncode == 0, output.read()[-6000:]


@pytest.mark.parametrize("path,title,steps", [pytest.param(*c, id=f"{c[0]}-{c[1]}") for c in cases()])
def test_a_section_runs_as_it_stands(weft, can_be_alone, tmp_path, path, title, steps):
    run_steps(weft, tmp_path, path, steps)


NAMES = re.findall(r"^WEFT_COMMAND\((\w+)", text_of("tools/commands.def"), flags=re.M)


def examples_of(weft, name):
    told = subprocess.run([weft, name, "--help"], capture_output=True, text=True, timeout=60, check=True).stdout
    return re.sub(r"^  ", "", re.search(r"^Examples:\n((?:  .*\n)+)", told, flags=re.M)[1], flags=re.M)


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_of_help_work(weft, can_be_alone, tmp_path, name):
    run_steps(weft, tmp_path, f"weft {name}", [typed("sh", examples_of(weft, name)) or ("sh", "")])


# ---- what texts say in passing ----


def test_what_is_run_elsewhere_is(weft):
    told = [examples_of(weft, name) for name in NAMES]
    scripts = [t for path in documents() for _, blocks in sections(path) for lang, t in blocks if lang == "sh"]
    scripts.append("\n".join(line[2:] for path in documents() for line in text_of(path).splitlines() if line.startswith("$ ")))
    used = {place(c)[0] for t in [*scripts, *told] for c in commands(t) if place(c)}
    for begin, test, word in ELSEWHERE:
        assert begin in used, f"{begin}: no text has it"
        assert word in text_of(test), (begin, test, word)


@pytest.mark.parametrize("path", documents())
def test_commands_stand_in_blocks(path):
    """A command that is only indented would not be run."""
    inside, bad = False, []
    for number, line in enumerate(text_of(path).splitlines(), 1):
        inside ^= line.lstrip().startswith("```")
        if not inside and re.match(rf" {{4,}}(\$ )?({'|'.join(PROGRAMS)}) ", line):
            bad.append((number, line))
    assert not bad


@pytest.fixture(scope="module")
def options(weft):
    """The options of each command, as its help says."""

    def told(*command):
        done = subprocess.run([weft, *command, "--help"], capture_output=True, text=True, timeout=60, check=True)
        return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", done.stdout))

    names = re.findall(r"^  ([a-z]+)  ", subprocess.run([weft, "--help"], capture_output=True, text=True, timeout=60, check=True).stdout, flags=re.M)
    assert {"server", "run", "submit", "inspect"} <= set(names)
    return {name: told(name) | {"--help"} for name in names}


@pytest.mark.parametrize("path", documents())
def test_options_exist(options, path):
    """Of commands in the text, in blocks or in passing."""
    bad = []
    text = re.sub(r"\\\n\s*", " ", text_of(path))
    spans = re.findall(r"`(weft [^`]*)`", text) + re.findall(r"(?:^|\s|\()(weft [a-z]+ .*)$", text, flags=re.M)
    for span in spans:
        name = span.split()[1]
        if name not in options:
            continue
        command = re.split(r" [|;&#] |`", span)[0]
        bad += [(span, o) for o in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", command) if o not in options[name]]
    assert not bad


MADE_OR_PLANNED = {"include/weft/ops.h", "kernels/cuda/"}  # written by the build; where docs/architecture.md says a device will go


@pytest.mark.parametrize("path", documents())
def test_files_that_are_named_exist(path):
    names = re.findall(r"`((?:docs|tests|tools|examples|benchmarks|deploy|python|include|jobs|server|worker|master|strategies|kernels|executor)/[\w./-]+)`", text_of(path))
    names += [os.path.join(os.path.dirname(path), n) for n in re.findall(r"\]\(([\w./-]+)\)", text_of(path))]
    places = ("", "tests") if path == "docs/acceptance.md" else ("",)
    missing = [n for n in names if not any(os.path.exists(os.path.join(REPO, p, n + end)) for p in places for end in ("", ".c", ".h"))]
    assert set(missing) <= MADE_OR_PLANNED
