#!/usr/bin/python3
"""What `make` shows: tools/setup, tools/quietly and tools/run_tests, run as the Makefile runs them."""
import importlib.machinery
import io
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

TOOLS = os.path.abspath("tools")  # tests start in the root of the repository
DEADLINE_S = 60
sys.dont_write_bytecode = True
quietly = importlib.machinery.SourceFileLoader("quietly", os.path.join(TOOLS, "quietly")).load_module()


class Repository(unittest.TestCase):
    """Each test has a folder of its own with the scripts."""

    def setUp(self):
        self.root = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(shutil.rmtree, self.root)
        os.mkdir(os.path.join(self.root, "tools"))
        for name in ("quietly", "run_tests", "setup"):
            shutil.copy(os.path.join(TOOLS, name), os.path.join(self.root, "tools", name))

    def command(self, script, options=()):
        return [os.path.join(self.root, "tools", "quietly"), *options, "job", "bash", "-c", script]

    def environment(self, **more):
        return {"PATH": os.path.join(self.root, "bin") + ":/usr/bin:/bin", "TERM": "xterm", **more}

    def stand_in(self, name, script):
        """Puts a program of the test's own before those of the machine."""
        os.makedirs(os.path.join(self.root, "bin"), exist_ok=True)
        path = os.path.join(self.root, "bin", name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(f"#!/bin/sh\n{script}\n")
        os.chmod(path, 0o755)

    def run_plain(self, script, options=(), **more):
        done = subprocess.run(
            self.command(script, options), cwd=self.root, env=self.environment(**more), stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=DEADLINE_S,
        )  # fmt: skip
        return done.returncode, done.stdout

    def run_on_terminal(self, script, at=None, act=None, **more):
        """Runs it on a terminal; when the screen shows `at`, calls act(terminal). Returns exit status and screen."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.root)
            command = self.command(script)
            os.execve(command[0], command, self.environment(**more))
        screen = b""
        while True:
            try:
                piece = os.read(terminal, 4096)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            screen += piece
            if at is not None and at in screen:
                act(terminal)
                at = None
        os.close(terminal)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), screen.decode()

    def log(self):
        with open(os.path.join(self.root, "logs", "job.log"), encoding="utf-8") as f:
            return f.read()


class Quietly(Repository):
    def test_success_is_one_line_and_the_log_is_whole(self):
        code, shown = self.run_plain("for i in $(seq 1000); do echo line $i; done; echo to stderr >&2")
        self.assertEqual(code, 0)
        self.assertRegex(shown, r"\Ajob: done after \d+ s; the whole log: logs/job\.log\n\Z")
        self.assertEqual(self.log(), "".join(f"line {i}\n" for i in range(1, 1001)) + "to stderr\n")

    def test_failure_shows_the_last_lines_and_keeps_the_exit_status(self):
        code, shown = self.run_plain("for i in $(seq 100); do echo line $i; done; exit 7", ["--tail=3"])
        self.assertEqual(code, 7)
        self.assertRegex(shown, r"\Aline 98\nline 99\nline 100\njob: failed with exit status 7 .*: logs/job\.log\n\Z")

    def test_progress_is_not_shown_as_last_lines(self):
        _, shown = self.run_plain("echo the error; for i in $(seq 50); do echo \"[$i / 50] compiling\"; done; exit 1")
        self.assertNotIn("compiling", shown)
        self.assertIn("the error\n", shown)

    def test_a_line_without_an_end_is_not_lost(self):
        _, shown = self.run_plain("printf 'no newline'; exit 1")
        self.assertIn("no newline\njob: failed", shown)
        self.assertEqual(self.log(), "no newline")

    def test_a_command_killed_by_a_signal_has_failed(self):
        code, shown = self.run_plain("kill -KILL $$")
        self.assertEqual(code, 128 + signal.SIGKILL)
        self.assertIn("ended by SIGKILL", shown)

    def test_the_count_is_the_last_line(self):
        for end in (0, 1):
            for verbose in ("", "1"):
                code, shown = self.run_plain(f"echo a; echo '12 passed, {end} failed'; exit {end}", VERBOSE=verbose)
                self.assertEqual(code, end)
                self.assertTrue(shown.endswith(f"logs/job.log\n12 passed, {end} failed\n"), shown)

    def test_lines_for_the_reader_are_shown(self):
        _, shown = self.run_plain("echo noise; echo 'weft: installing'; echo noise")
        self.assertTrue(shown.startswith("weft: installing\njob: done"), shown)

    def test_verbose_shows_everything(self):
        code, shown = self.run_plain("echo a; echo '[1 / 2] b'; echo c; exit 3", VERBOSE="1")
        self.assertEqual(code, 3)
        self.assertTrue(shown.startswith("a\n[1 / 2] b\nc\njob: failed"), shown)
        self.assertEqual(self.log(), "a\n[1 / 2] b\nc\n")

    def test_a_command_that_does_not_exist(self):
        done = subprocess.run(
            [os.path.join(self.root, "tools", "quietly"), "job", "no-such-command"], cwd=self.root, text=True,
            stderr=subprocess.PIPE, timeout=DEADLINE_S,
        )  # fmt: skip
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("cannot run no-such-command", done.stderr)

    def test_a_process_left_behind_does_not_hold_it(self):
        code, shown = self.run_plain("sleep 1000 & echo $! >left; echo said; exit 1")
        with open(os.path.join(self.root, "left"), encoding="utf-8") as f:
            os.kill(int(f.read()), signal.SIGKILL)
        self.assertEqual(code, 1)
        self.assertIn("said\n", shown)

    def test_the_log_of_the_last_run_is_replaced(self):
        self.run_plain("echo first")
        self.run_plain("echo second")
        self.assertEqual(self.log(), "second\n")


class OnATerminal(Repository):
    def test_progress_is_one_line_updated_in_place(self):
        os.mkfifo(os.path.join(self.root, "go"))

        def go(_):
            with open(os.path.join(self.root, "go"), "w", encoding="utf-8") as f:
                f.write("on\n")

        wanted = "\rjob: 1,203 of 2,345 actions, 30 of 150 tests, "
        script = "echo '[1,203 / 2,345] 30 / 150 tests; compiling'; read -r word <go; echo go $word"
        code, screen = self.run_on_terminal(script, at=wanted.encode(), act=go)
        self.assertEqual(code, 0)
        self.assertIn(wanted, screen)
        self.assertEqual(screen.count("\n"), 1)
        self.assertRegex(screen.split("\r\x1b[K")[-1], r"^job: done after")

    def test_no_colour_ever(self):
        for more in ({}, {"NO_COLOR": "1"}):
            _, screen = self.run_on_terminal(r"printf '\033[32m[3 / 4]\033[0m x\n\033[31mred\033[0m\n'; exit 1", **more)
            self.assertIn("red", screen)
            self.assertIsNone(re.search(r"\x1b\[[0-9;]*m", screen), screen)

    def test_a_dumb_terminal_gets_plain_lines(self):
        _, screen = self.run_on_terminal("echo '[3 / 4] x'", TERM="dumb")
        self.assertRegex(screen, r"\Ajob: done after [^\r]*\r\n\Z")

    def test_ctrl_c_reaches_the_command_once_and_it_may_clean_up(self):
        script = """exec /usr/bin/python3 -c "
import signal
def hear(*_):
    open('heard', 'a').write('heard\\n')
    raise SystemExit(9)
signal.signal(signal.SIGINT, hear)
print('weft: ready', flush=True)
signal.pause()
" """
        code, screen = self.run_on_terminal(script, at=b"weft: ready", act=lambda terminal: os.write(terminal, b"\x03"))
        self.assertEqual(code, 128 + signal.SIGINT)
        self.assertIn("job: interrupted after", screen)
        with open(os.path.join(self.root, "heard"), encoding="utf-8") as f:
            self.assertEqual(f.read(), "heard\n")

    def test_other_signals_reach_the_command(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            process = subprocess.Popen(
                self.command("echo weft: ready; exec sleep 1000"), cwd=self.root, env=self.environment(),
                stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            self.assertEqual(process.stdout.readline(), "weft: ready\n")
            process.send_signal(number)
            shown, _ = process.communicate(timeout=DEADLINE_S)
            self.assertEqual(process.returncode, 128 + number)
            self.assertIn("job: interrupted after", shown)


class Reports(unittest.TestCase):
    """When lines appear, with a clock of the test's own."""

    def screen(self, is_terminal, seconds):
        out = io.StringIO()
        real = quietly.time.monotonic
        self.addCleanup(setattr, quietly.time, "monotonic", real)
        now = 0.0
        quietly.time.monotonic = lambda: now
        screen = quietly.Screen("build", out, is_terminal)
        for i in range(10 * seconds):
            now = i / 10
            screen.seen(f"[{i} / {10 * seconds}] compiling")
            screen.tick()
        quietly.time.monotonic = real
        return out.getvalue()

    def test_an_hour_is_a_screen_of_plain_lines(self):
        lines = self.screen(False, 3600).splitlines()
        self.assertEqual(lines[0], "build: 150 of 36000 actions, 15 s")
        self.assertLess(len(lines), 24)
        self.assertGreater(len(lines), 10)

    def test_half_a_minute_is_two_lines_at_the_most(self):
        self.assertLessEqual(len(self.screen(False, 30).splitlines()), 2)

    def test_a_terminal_is_not_flooded(self):
        self.assertLessEqual(self.screen(True, 30).count("\r"), 61)

    def test_what_is_progress(self):
        screen = quietly.Screen("x", io.StringIO(), False)
        for line, state in {
            "[0 / 1] [Prepa] BazelWorkspaceStatusAction": "0 of 1 actions",
            "[1,203 / 2,345] 7 / 9 tests, 1 failed; last test: //x": "1,203 of 2,345 actions, 7 of 9 tests",
            "......s.. [ 12%]": "12 %",
            "[100%]": "100 %",
        }.items():
            self.assertTrue(screen.seen(line), line)
            self.assertEqual(screen.state, state)
        for line in ("ERROR: x.c:1:2", "x[1 / 2]", "[12%] of all", "", "INFO: [1 of 2]"):
            self.assertFalse(screen.seen(line), line)


class RunTests(Repository):
    """tools/run_tests with a Bazel of the test's own."""

    CUNIT = "  Test: one ...passed\n  Test: two ...FAILED\n    1. x.c:7  - want == got\n               tests  3  3  2  1  0\n"

    def bazel(self, says, code, logs=None):
        self.stand_in("bazel", f"cat <<'END'\n{says}END\nexit {code}")
        for name, text in (logs or {}).items():
            folder = os.path.join(self.root, "bazel-testlogs", name)
            os.makedirs(folder)
            with open(os.path.join(folder, "test.log"), "w", encoding="utf-8") as f:
                f.write(text)
        done = subprocess.run(
            [os.path.join(self.root, "tools", "run_tests")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=DEADLINE_S, env=self.environment(),
        )  # fmt: skip
        return done.returncode, done.stdout

    def test_counts_tests_and_programs(self):
        code, shown = self.bazel(
            "//tests/a:a_test   (cached) PASSED in 0.1s\n//tests/layering:x   PASSED in 0.1s\n", 0,
            {"tests/a/a_test": "   tests  5  5  5  0  0\n"},
        )  # fmt: skip
        self.assertEqual(code, 0)
        self.assertTrue(shown.endswith("\n6 passed, 0 failed\n"), shown)

    def test_says_again_what_failed(self):
        says = "".join(f"//tests/a:p{i}  PASSED in 0.1s\n" for i in range(90)) + "//tests/b:b_test  FAILED in 1s\n"
        says += "//tests/c:c_test  TIMEOUT in 60s\n"
        code, shown = self.bazel(says, 3, {"tests/b/b_test": self.CUNIT, "tests/c/c_test": "  Test: hangs ..."})
        self.assertEqual(code, 1)
        last = shown[shown.index("-- ") :]
        self.assertIn("-- //tests/b:b_test: FAILED, bazel-testlogs/tests/b/b_test/test.log\n", last)
        self.assertIn("1. x.c:7  - want == got\n", last)
        self.assertIn("-- //tests/c:c_test: TIMEOUT, ", last)
        self.assertIn("Test: hangs ...", last)
        self.assertNotIn("Test: one", last)
        self.assertTrue(last.endswith("\n92 passed, 2 failed\n"), last)

    def test_what_does_not_build_has_failed(self):
        for says in ("ERROR: base/x.c: Compiling failed\nx.c:3: error: no\n", "Loading:\nERROR: no such target\n"):
            with self.subTest(says):
                code, shown = self.bazel("INFO: Build\n" + says + "//tests/a:a_test FAILED TO BUILD\n", 1)
                self.assertEqual(code, 1)
                self.assertTrue(shown.endswith("//tests/a:a_test FAILED TO BUILD\n0 passed, 1 failed\n"), shown)
                self.assertEqual(shown.count(says[says.index("ERROR") :]), 2)

    def test_an_empty_run_has_failed(self):
        code, shown = self.bazel("ERROR: the server crashed\n", 37)
        self.assertEqual(code, 1)
        self.assertEqual(shown, 2 * "ERROR: the server crashed\n" + "0 passed, 1 failed\n")


class Setup(Repository):
    """tools/setup with Debian programs of the test's own."""

    def setup(self, apt_get, **more):
        self.stand_in("sudo", 'exec "$@"')
        self.stand_in("apt-get", apt_get)
        done = subprocess.run(
            [os.path.join(self.root, "tools", "setup")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=DEADLINE_S, env=self.environment(**more),
        )  # fmt: skip
        return done.returncode, done.stdout

    def log(self):
        with open(os.path.join(self.root, "logs", "setup.log"), encoding="utf-8") as f:
            return f.read()

    def test_a_fresh_machine_is_told_what_happens(self):
        self.stand_in("dpkg-query", "exit 1")
        code, shown = self.setup("for i in $(seq 500); do echo apt-get $1 $i; done")
        self.assertEqual(code, 0)
        first, build = shown.splitlines()
        self.assertRegex(first, r"^setup: installing \d+ Debian packages, .* minutes; log: logs/setup\.log$")
        self.assertRegex(build, r"^setup: the first build .* minutes")
        self.assertIn("apt-get update 500\napt-get install 1\n", self.log())

    def test_a_package_that_cannot_be_installed(self):
        self.stand_in("dpkg-query", 'case "$3" in libgif-dev) exit 1;; *) printf installed;; esac')
        code, shown = self.setup('[ "$1" = update ] || { seq 500; echo E: Unable to locate package libgif-dev; exit 100; }')
        self.assertEqual(code, 1)
        self.assertIn("setup: installing 1 Debian packages", shown)
        self.assertIn("\n500\nE: Unable to locate package libgif-dev\n", shown)
        self.assertTrue(shown.endswith("could not install libgif-dev; the whole log: logs/setup.log\n"), shown)
        self.assertLess(len(shown.splitlines()), 24)

    def test_nothing_is_said_where_all_is_there(self):
        self.stand_in("dpkg-query", "printf installed")
        os.mkdir(os.path.join(self.root, "bazel-out"))
        self.assertEqual(self.setup("echo must not run; exit 1"), (0, ""))

    def test_verbose_shows_apt_get(self):
        self.stand_in("dpkg-query", "exit 1")
        _, shown = self.setup("echo apt-get $1", VERBOSE="1")
        self.assertIn("\napt-get install\n", shown)


if __name__ == "__main__":
    unittest.main(verbosity=2)
