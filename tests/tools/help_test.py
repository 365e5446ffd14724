#!/usr/bin/python3
"""What commands say of themselves: help, manual pages, completion for bash and zsh, the line for a wrong command line.

All of it comes from one table for each command; here the shells and mandoc(1) read what was made of it.
"""
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

WEFT = os.path.abspath("tools/weft")  # tests start in the root of the repository
COMMANDS = ["server", "submit", "run", "trace", "profile", "top", "inspect", "ops", "bench", "devices"]
DEADLINE_S = 60

# sum = x + y
ADD = """node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "y" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "sum" op: "Add" input: "x" input: "y" attr { key: "T" value { type: DT_FLOAT } } }
"""


def weft(*args, **more):
    return subprocess.run([WEFT, *args], capture_output=True, text=True, timeout=DEADLINE_S, **more)


def said(*args):
    done = weft(*args)
    assert done.returncode == 0 and done.stderr == "", (args, done)
    return done.stdout


def examples(*command):
    """The lines of the examples; those that go on with a backslash are one."""
    text = said(*command, "--help").split("\nExamples:\n")[1]
    return [line.strip() for line in text.replace("\\\n", "").splitlines()]


def options(command):
    """What help lists: (name, value or None)."""
    lines = said(command, "--help").split("\nOptions:\n")[1].split("\n\n")[0].splitlines()
    names = [line if line[25:26].strip() else line[:25] for line in lines if line.startswith("  --")]
    return [tuple((name.strip()[2:].split(" ") + [None])[:2]) for name in names]


class Folder(unittest.TestCase):
    """Each test has an empty folder of its own."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def shell(self, script, *more):
        return subprocess.run(
            ["bash", "-c", script, *more], cwd=self.folder, capture_output=True, text=True, timeout=DEADLINE_S,
            env={"WEFT": WEFT, "PATH": "/usr/bin:/bin"},
        )  # fmt: skip


class Help(Folder):
    def test_every_example_is_a_command_line_that_is_read_to_its_end(self):
        for command in [[]] + [[c] for c in COMMANDS]:
            lines = examples(*command)
            self.assertGreater(len(lines), 1)
            for line in lines:
                # what stands before --help is read, and refused if it is wrong, before help is shown
                launchers = 'srun() { shift 2; "$@"; }; mpirun() { shift 2; "$@"; }; '
                done = self.shell('weft() { "$WEFT" "$@" --help >&3; }; exec 3>&1; set -e; ' + launchers + line)
                self.assertEqual((done.returncode, done.stderr), (0, ""), line)
                self.assertRegex(done.stdout, r"^Usage: weft [a-z]+ ", line)

    def test_every_example_is_taken_for_what_it_is(self):
        """Without the files it fails for want of them, in one line, and not for how it is written."""
        for command in ("submit", "run", "inspect", "ops"):
            for line in examples(command):
                done = self.shell('weft() { "$WEFT" "$@"; }; ' + line)
                self.assertIn(done.returncode, (0, 1), line + ": " + done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), done.returncode, line + ": " + done.stderr)

    def test_examples_work_on_files(self):
        for name in ("add.pbtxt", "graph.pbtxt"):
            self.write(name, ADD)
        self.write("model.pb", "")
        shown = {}
        for command in ("submit", "inspect", "ops"):
            for line in examples(command):
                if re.search(r" (add|graph)\.pbtxt| model\.pb$", line):
                    done = self.shell('weft() { "$WEFT" "$@"; }; ' + line)
                    self.assertEqual((done.returncode, done.stderr), (0, ""), line)
                    shown[line] = done.stdout
        self.assertIn("2.5", shown["weft submit add.pbtxt --feed x=3 --feed y=-0.5 --fetch sum"])
        self.assertIn("inputs (2)", shown["weft inspect graph.pbtxt"])
        self.assertEqual("all ops are supported\n", shown["weft ops --missing model.pb"])

    def test_help_documents_the_exit_codes(self):
        for command in COMMANDS:
            part = said(command, "--help").split("\nExit codes:\n")[1]
            self.assertRegex(part, r"(?s)^  0 .*\n  1 .*\n  2 ")
            codes = re.findall(r"^  (\S+)  ", part.split("\n\n")[0], re.M)
            self.assertEqual(len(codes), len(set(codes)), command)
        self.assertRegex(said("server", "--help"), r"\n  3 ")

    def test_the_version_names_tensorflows(self):
        self.assertRegex(said("--version"), r"^weft \d+\.\d+\.\d+, for TensorFlow 2\.19\.1\n$")


class WrongLines(Folder):
    def refused(self, *args):
        """The one line of standard error of a command line that is wrong."""
        done = weft(*args, cwd=self.folder)
        self.assertEqual((done.returncode, done.stdout), (2, ""), args)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return done.stderr

    def test_an_unknown_option_is_named_and_the_nearest_offered(self):
        for command in COMMANDS:
            self.assertIn(f"there is no option '--no-such'; see `weft {command} --help`", self.refused(command, "--no-such"))
            for name, _ in options(command):
                if len(name) > 4 and name != "help":
                    line = self.refused(command, "--" + name[:2] + name[3:])
                    self.assertIn(f"did you mean '--{name}'", line)

    def test_a_value_that_is_missing_or_too_many(self):
        for command in COMMANDS:
            for name, value in options(command):
                if name == "help":
                    continue
                if value:
                    self.assertIn(f"--{name} needs a value: --{name} {value}", self.refused(command, "--" + name))
                else:
                    self.assertIn(f"--{name} takes no value", self.refused(command, f"--{name}=1"))

    def test_a_number_that_is_none(self):
        seen = 0
        for command in COMMANDS:
            for name, value in options(command):
                for text in ("x", "", "1x", "99999999999999999999") if value in ("N", "SECONDS") else ():
                    self.assertIn(f"--{name} '{text}' is not a number from ", self.refused(command, f"--{name}={text}"))
                    seen += 1
        self.assertGreater(seen, 40)

    def test_an_empty_value_is_none(self):
        for command in COMMANDS:
            for name, value in options(command):
                if value and value not in ("N", "SECONDS"):
                    self.assertIn(f"--{name} needs a value: --{name} {value}", self.refused(command, f"--{name}="))

    def test_an_option_of_one_value_that_is_given_twice(self):
        good = {
            "cluster": "worker=127.0.0.1:1", "strategy": "mirrored:2", "passes": "none", "master": "grpc://127.0.0.1:1",
            "collective-leader": "/job:worker/task:0",
        }  # fmt: skip
        seen = 0
        may_be_repeated = ("data", "evaluate-data", "columns", "feed", "evaluate-feed", "init", "target", "fetch", "save-fetch", "hparam")
        for command in COMMANDS:
            for name, value in options(command):
                if value and name not in may_be_repeated:
                    text = good.get(name, "1" if value in ("N", "SECONDS") else "a")
                    if name in ("port-base", "nodes"):
                        text = "20000"
                    self.assertIn(f"--{name} is given twice", self.refused(command, f"--{name}", text, f"--{name}={text}"), name)
                    seen += 1
        self.assertGreater(seen, 40)

    def test_values_that_cannot_be(self):
        """Each of what the option names, beside the command line alone: exit code 2, and what to write."""
        self.write("add.pbtxt", ADD)
        inspect = "inspect add.pbtxt --strategy mirrored:2 "
        lines = [
            (inspect + "--cluster ps", "--cluster ps: 'ps' is no part of a cluster: give JOB=TASKS"),
            (inspect + "--cluster a=0", "--cluster a=0: 'a=0' is no part"),
            ("inspect add.pbtxt --strategy miror:2", "--strategy miror:2: no strategy 'miror'; there are mirrored, "),
            ("inspect add.pbtxt --optimized --passes no", "--passes no: no pass 'no'"),
            ("ops --missing add.pbtxt --absent", "--missing GRAPH goes with --json, or alone"),
            ("server --cluster worker=127.0.0.1:0 --job worker --collective-leader x", "--collective-leader x: give /job:NAME/task:INDEX"),
        ]
        for c in ("server", "trace", "profile", "top", "run m"):
            lines += [
                (c + " --cluster ps", "--cluster ps: 'ps' is not job=host:port"),
                (c + " --cluster ps=127.0.0.1", "--cluster ps=127.0.0.1: '127.0.0.1' (job 'ps', task 0) is not host:port"),
                (c + " --cluster ;", "--cluster ;: there are no tasks in it"),
                (c + " --cluster a=h:1;a=h:2", "task 0 of job 'a' is given twice"),
            ]
        lines += [(c, "which cluster? give --cluster") for c in ("server", "trace", "profile", "top")]
        for c in ("submit add.pbtxt ", "run add.pbtxt "):
            lines += [
                (c + "--strategy miror:2", "--strategy miror:2: no strategy 'miror'; there are mirrored, "),
                (c + "--strategy mirrored:x=1", "--strategy mirrored:x=1: mirrored: no option 'x'"),
                (c + "--strategy mirrored:-1", "option 'replicas' cannot be '-1'"),
                (c + "--strategy mirrored:fusion=ddp,bytes_per_pack=1", "option 'bytes_per_pack' is for fusion=pack"),
                (c + "--strategy parameter_server:mode=async,backup=1", "option 'backup' requires mode=sync"),
                (c + "--strategy data_parallel:2,2", "data_parallel: "),
                (c + "--passes fold,no", "--passes fold,no: no pass 'no'"),
                (c + "--feed x", "--feed x: give NAME=VALUE or NAME=FILE.npy"),
                (c + "--feed x=1 --feed y=y.npy --batch 2:x", "--batch 2:x: there is no --feed x=FILE.npy"),
                (c + "--feed y=y.npy --batch 2:y+x", "--batch 2:y+x: there is no --feed x=FILE.npy"),
                (c + "--feed =1", "--feed =1: give NAME=VALUE"),
                (c + "--feed x=1 --feed x=2", "--feed x is given twice"),
                (c + "--save-fetch sum", "--save-fetch sum: give NAME=FILE.npy"),
                (c + "--save-fetch sum=", "--save-fetch sum=: give NAME=FILE.npy"),
                (c + "--hparam a", "--hparam a: give NAME=VALUE"),
                (c + "--hparam a=1 --hparam a=2", "--hparam a is given twice"),
                (c + "--master nohost", "--master nohost: give grpc://HOST:PORT"),
                (c + "--master grpc://a:99999", "--master grpc://a:99999: give grpc://HOST:PORT"),
                (c + "--container a/!", "--container a/!: give letters, digits and dots"),
                (c + "--fetch sum --shuffle", "--shuffle needs --batch N"),
            ]
            for name in ("z:x", "sum:", ":0", "sum:1x", "sum:99999999999999999999", "a:b:c"):  # of a node, not a signature's
                for option in (f"--fetch {name}", f"--save-fetch {name}=a.npy", f"--fetch sum --feed {name}=1"):
                    named = f"{name}{'=a.npy' if 'save' in option else '=1' if 'feed' in option else ''}: give NODE or NODE:OUTPUT"
                    lines.append((c + "--target sum " + option, named))
        for time in ("0x10", "0x1p4s", "1e3", "1e3s", "-1s", "inf", "nan", "s", "5S", "1.2.3", "+5", "5 s"):
            for c in ("submit add.pbtxt", "run add.pbtxt"):
                self.assertIn(f"--wait {time}: give a time", self.refused(*c.split(), "--fetch", "sum", "--wait", time), time)
        for line, named in lines:
            self.assertIn(named, self.refused(*line.split()), line)

    def test_arguments(self):
        self.assertIn("the GRAPH is empty", self.refused("inspect", ""))
        self.assertIn("'extra' is not an option", self.refused("server", "extra"))
        for command in ("submit", "run", "inspect", "ops", "bench"):
            self.assertIn("not 'one' and 'two'", self.refused(command, "one", "two"))
        for command in ("submit", "run", "top", "inspect"):
            self.assertIn("which ", self.refused(command))

    def test_formats_of_help(self):
        for command in [[]] + [[c] for c in COMMANDS]:
            self.assertIn("'pdf'; give text, man, bash or zsh", self.refused(*command, "--help=pdf"))
            self.assertEqual(said(*command, "--help=text"), said(*command, "--help"))

    def test_options_of_the_command_itself(self):
        self.assertIn("did you mean '--version'", self.refused("--verson"))
        self.assertIn("did you mean 'inspect'", self.refused("inspct"))
        self.assertIn("did you mean 'inspect'", self.refused("help", "inspct"))

    def test_a_wrong_file_name_node_or_host_is_a_failure_in_one_line_that_names_it(self):
        self.write("add.pbtxt", ADD)
        self.write("bad.pb", "garbage")
        self.write("bad.pbtxt", "node {")
        self.write("x.npy", "x")
        os.mkdir(os.path.join(self.folder, "dir"))
        add = "submit add.pbtxt "
        for line, named in (
            (add + "--master grpc://127.0.0.1:1 --wait 0 --fetch sum", "no server listens at grpc://127.0.0.1:1; is `weft server`"),
            (add + "--fetch none", "--fetch none: the graph has no such node; `weft inspect` lists"),
            (add + "--feed z=1 --fetch sum", "--feed z: the graph has no such node"),
            (add + "--target sum:0", "--target sum:0: a node is wanted, not an output; give 'sum'"),
            (add + "--init sum:x --fetch sum", "--init sum:x: a node is wanted, not an output; give 'sum'"),
            *((c + " -", "-: No such file or directory; standard input is /dev/stdin") for c in ("inspect", "submit --fetch x", "run")),
            ("inspect add.pbtxt --strategy mirrored:2 --save none/g.pb", "none/g.pb; No such file or directory; --save none/g.pb"),
            ("inspect add.pbtxt --strategy mirrored:2 --save dir", "dir; Is a directory; --save dir"),
            (add + "--feed x=x.npy --feed y=1 --fetch sum", "x.npy: not a .npy file"),
            (add + "--feed x=none.npy --feed y=1 --fetch sum", "none.npy: No such file"),
            (add + "--feed x=1 --feed y=2 --save-fetch sum=none/x.npy", "--save-fetch sum=none/x.npy"),
            *((c + " --cluster a=nohost.invalid:1;b=127.0.0.1:1", "does not answer at ") for c in ("trace", "profile")),
            ("trace --cluster ps=127.0.0.1:1 --out none/t.json", "--out none/t.json; No such file or directory"),
            *((c + " none.pb", "none.pb: No such file") for c in ("inspect", "ops --missing", "submit --fetch x", "run")),
            *((c + " bad.pb", "bad.pb is not a graph file") for c in ("inspect", "ops --missing", "submit --fetch x")),
            *((c + " bad.pbtxt", "bad.pbtxt:1:") for c in ("inspect", "ops --missing", "submit --fetch x")),
            *((c + " dir", "/dir. Check that the directory") for c in ("inspect", "submit --fetch x", "run")),
        ):
            done = weft(*line.split(), cwd=self.folder)
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), (line, done))
            self.assertIn(named, done.stderr, line)


class Output(Folder):
    LINES = ("ops", "ops --json", "ops --markdown", "ops --absent", "inspect add.pbtxt", "--help", "submit --help=man",
             "submit add.pbtxt --feed x=1 --feed y=2 --fetch sum", "submit add.pbtxt --feed x=1 --feed y=2 --fetch sum --json")  # fmt: skip

    def test_a_reader_that_has_gone_ends_a_command_by_its_signal_and_without_a_word(self):
        self.write("add.pbtxt", ADD)
        for line in self.LINES:
            reader, writer = os.pipe()
            os.close(reader)
            done = subprocess.run([WEFT, *line.split()], stdout=writer, stderr=subprocess.PIPE, cwd=self.folder, timeout=DEADLINE_S)
            os.close(writer)
            self.assertEqual((done.returncode, done.stderr), (-signal.SIGPIPE, b""), line)
            self.assertEqual(self.shell(f'"$WEFT" {line} | head -1; exit ${{PIPESTATUS[1]}}').stderr, "", line)

    def test_other_losses_of_output_are_failures(self):
        self.write("add.pbtxt", ADD)
        for line in self.LINES:
            for to, why in (("/dev/full", "No space left on device"), ("&-", "Bad file descriptor")):
                done = self.shell(f'"$WEFT" {line} >{to}')
                self.assertEqual((done.returncode, done.stderr), (1, f"weft: cannot write to standard output: {why}\n"), line)

    def test_files_that_are_no_files_take_what_is_written_and_stay(self):
        """Links lead to the devices: what would replace one would replace the link."""
        self.write("add.pbtxt", ADD)
        os.symlink("/dev/full", os.path.join(self.folder, "full"))
        os.symlink("/dev/null", os.path.join(self.folder, "null"))
        add = "submit add.pbtxt --feed x=1 --feed y=2 --fetch sum"
        for line in (add + " --save-fetch sum={}", add + " --trace {}", "inspect add.pbtxt --strategy mirrored:2 --save {}"):
            done = self.shell(f'"$WEFT" {line.format("null")}')
            self.assertEqual((done.returncode, done.stderr), (0, ""), line)
            done = self.shell(f'"$WEFT" {line.format("full")} >out')
            self.assertEqual(done.returncode, 1, line)
            self.assertRegex(done.stderr, r"^weft: .*full; No space left on device.* \(RESOURCE_EXHAUSTED\)\n$")
            self.assertEqual(self.shell(f'"$WEFT" {line.format(">(cat >piped)")}; wait $!; test -s piped').returncode, 0, line)
            for name in ("full", "null"):
                self.assertTrue(os.path.islink(os.path.join(self.folder, name)), line)
        self.assertEqual([n for n in os.listdir(self.folder) if "temp" in n or "tmp" in n], [])


class Manuals(Folder):
    def setUp(self):
        super().setUp()
        self.write("man/man1/weft.1", said("--help=man"))
        for command in COMMANDS:
            self.write(f"man/man1/weft-{command}.1", said(command, "--help=man"))
        self.manuals = os.path.join(self.folder, "man")

    def mandoc(self, *args):
        return subprocess.run(
            ["mandoc", *args], cwd=os.path.join(self.manuals, "man1"), capture_output=True, text=True,
            timeout=DEADLINE_S, env={"MANPATH": self.manuals, "PATH": "/usr/bin:/bin"},
        )  # fmt: skip

    def test_mandoc_finds_nothing_to_say(self):
        done = self.mandoc("-Tlint", *sorted(os.listdir(os.path.join(self.manuals, "man1"))))
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_they_hold_what_help_says(self):
        for command in COMMANDS:
            page = self.mandoc("-Tutf8", "-Owidth=1000", f"weft-{command}.1").stdout
            page = re.sub(".\b", "", page)
            for name, value in options(command):
                self.assertRegex(page, rf"\n +--{name}{' ' + re.escape(value) if value else ''}(\n|  )", command)
            for line in said(command, "--help").split("\nExamples:\n")[1].splitlines():
                self.assertIn(line.strip(), page)
            self.assertIn("\nEXIT STATUS\n", page)


class Bash(Folder):
    """Completion as bash asks for it: the words of the line, cut at '=' and ':' as bash cuts them."""

    def setUp(self):
        super().setUp()
        self.script = self.write("weft.bash", said("--help=bash"))

    def complete(self, line):
        words = [w for w in re.split(r"(\s+|[=:]+)", line) if w.strip()] + ([""] if line.endswith(" ") else [])
        done = self.shell(
            'set -u; source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _weft; printf "%s\\n" "${COMPREPLY[@]-}"',
            self.script, *words,
        )  # fmt: skip
        self.assertEqual((done.returncode, done.stderr), (0, ""), line)
        return sorted(filter(None, done.stdout.split("\n")))

    def test_it_is_registered(self):
        done = self.shell('source "$0"; complete -p weft', self.script)
        self.assertEqual(done.stdout, "complete -F _weft weft\n")

    def test_commands(self):
        self.assertEqual(self.complete("weft "), sorted(COMMANDS + ["help", "--help", "--version"]))
        self.assertEqual(self.complete("weft s"), ["server", "submit"])
        self.assertEqual(self.complete("weft help in"), ["inspect"])
        self.assertEqual(self.complete("weft help inspect "), [])
        self.assertEqual(self.complete("weft nothing "), [])

    def test_options_of_each_command(self):
        for command in COMMANDS:
            self.assertEqual(self.complete(f"weft {command} -"), sorted("--" + name for name, _ in options(command)))
        self.assertEqual(self.complete("weft submit --save"), ["--save", "--save-every", "--save-fetch"])

    def test_names_of_strategies(self):
        for before in ("weft submit g.pb --strategy ", "weft inspect --strategy=", "weft submit --json --strategy "):
            self.assertIn("parameter_server", self.complete(before))
            self.assertEqual(self.complete(before + "mir"), ["mirrored"])
        self.assertEqual(self.complete("weft submit --strategy mirrored:"), [])

    def test_files_and_folders(self):
        self.write("graph.pb", "")
        self.write("my model/saved_model.pb", "")
        self.assertEqual(self.complete("weft submit gr"), ["graph.pb"])
        self.assertEqual(self.complete("weft inspect "), ["graph.pb", "my model", "weft.bash"])
        self.assertEqual(self.complete("weft run "), ["graph.pb", "my model", "weft.bash"])
        self.assertEqual(self.complete("weft ops --missing gr"), ["graph.pb"])
        self.assertEqual(self.complete("weft submit --trace=gr"), ["graph.pb"])
        for before in ("weft submit --feed x=", "weft submit --feed=x=", "weft run m --json --save-fetch y="):
            self.assertEqual(self.complete(before + "gr"), ["graph.pb"], before)
        self.assertEqual(self.complete("weft submit --feed gr"), [])
        self.assertEqual(self.complete("weft submit --shuffle gr"), ["graph.pb"])

    def test_nothing_where_nothing_is_known(self):
        for line in ("weft server --cluster ", "weft submit --batch ", "weft server ", "weft ops "):
            self.assertEqual(self.complete(line), [], line)
        self.assertEqual(self.complete("weft bench disp"), ["dispatch_chain", "dispatch_random", "dispatch_wide"])


class Zsh(Folder):
    """A zsh on a terminal, into which lines are typed."""

    def setUp(self):
        super().setUp()
        self.write("functions/_weft", said("--help=zsh"))
        self.write(".zshrc", "PROMPT='ready> '; LISTMAX=1000; fpath=($ZDOTDIR/functions $fpath)\n"
                   "autoload -U compinit; compinit -u -D; zstyle ':completion:*' list-colors ''\n"
                   # a key of the test's own writes the line to a file: what a terminal shows depends on more
                   "w() { print -r -- \"[$BUFFER]\" >line; print written; }; zle -N w; bindkey '^X' w\n")  # fmt: skip
        pid, self.terminal = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execve("/usr/bin/zsh", ["zsh", "-i"],
                      {"ZDOTDIR": self.folder, "PATH": "/usr/bin:/bin", "TERM": "dumb", "HOME": self.folder})
        self.addCleanup(os.waitpid, pid, 0)
        self.addCleanup(os.close, self.terminal)
        self.until("ready> ")

    def until(self, text):
        screen, end = "", time.monotonic() + DEADLINE_S
        while text not in screen:
            self.assertTrue(select.select([self.terminal], [], [], max(0, end - time.monotonic()))[0], f"no {text!r} in {screen!r}")
            screen += os.read(self.terminal, 65536).decode(errors="replace")
        return screen

    def test_lines_are_completed(self):
        self.write("graph.pb", "")
        self.write("model_dir/saved_model.pb", "")
        for typed, becomes in (
            ("weft insp", "weft inspect "),
            ("weft help ser", "weft help server "),
            ("weft submit --rest", "weft submit --restore"),
            ("weft submit --shu", "weft submit --shuffle "),
            ("weft submit --strategy mirr", "weft submit --strategy mirrored "),
            ("weft inspect --strategy=para", "weft inspect --strategy=parameter_server "),
            ("weft submit gr", "weft submit graph.pb "),
            ("weft submit --feed x=gr", "weft submit --feed x=graph.pb "),
            ("weft run mod", "weft run model_dir/"),
            ("weft bench dispatch_w", "weft bench dispatch_wide "),
        ):
            os.write(self.terminal, typed.encode() + b"\t\x18")
            self.until("written")
            with open(os.path.join(self.folder, "line"), encoding="utf-8") as f:
                self.assertEqual(f.read(), f"[{becomes}]\n", typed)
            os.write(self.terminal, b"\x15\n")
            self.until("ready> ")


if __name__ == "__main__":
    unittest.main(verbosity=2)
