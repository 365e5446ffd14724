#!/usr/bin/python3
"""tests/cuda/run without a GPU: its checks on the emulated one, and programs that fail, hang and are cut off."""
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import time
import unittest

HERE = pathlib.Path.cwd()  # of the runfiles
PASSES = "echo '               tests      3      3      3      0        0'"
FAKES = HERE / "tests/cuda/fake"


def table(output):
    """The rows: name -> (state, note)."""
    rows = re.findall(r"^(passed|FAILED|not run) +(\w+) +(.*)$", output, re.M)
    return {name: (state, note) for state, name, note in rows}


class Run(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
        self.addCleanup(shutil.rmtree, self.folder)
        shutil.copy(HERE / "tests/cuda/run", self.folder / "run")
        (self.folder / "lib").mkdir()
        for program in ("tests/cuda/session_test", "benchmarks/gpu", "tools/weft"):
            at = self.folder / "bin" / program
            at.parent.mkdir(parents=True, exist_ok=True)
            at.symlink_to(HERE / program)

    def script(self, name, text):
        at = self.folder / "bin/tests/cuda" / name
        at.write_text("#!/bin/bash\n" + text + "\n")
        at.chmod(at.stat().st_mode | stat.S_IXUSR)

    def start(self, *arguments):
        env = dict(
            os.environ,
            WEFT_DEVICE_PATH=str(FAKES / "libweft_cuda_emulated.so"),
            WEFT_CUDA_DRIVER=str(FAKES / "libcuda_emulated.so"),
            WEFT_CUBLASLT=str(FAKES / "libcublasLt_fake.so"),
            WEFT_CUDNN=str(FAKES / "libcudnn_fake.so"),
            WEFT_CUFFT=str(FAKES / "libcufft_fake.so"),
            WEFT_FAKE_CUDA="late_us=20,seed=5",
            WEFT_GPU_SMALL="1",
        )
        return subprocess.Popen([self.folder / "run", *arguments], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run_checks(self, *arguments):
        p = self.start(*arguments)
        output, _ = p.communicate()
        return p.returncode, output

    def test_all_that_needs_no_card_passes_on_the_emulated_one(self):
        code, output = self.run_checks("machine", "devices", "session", "speed", "dispatch", "leak")
        self.assertEqual(code, 0, output)
        self.assertEqual({state for state, _ in table(output).values()}, {"passed"}, output)
        self.assertRegex(table(output)["session"][1], r"\d+ s, [1-9]\d* passed, 0 failed")
        for measure in ("copy", "elementwise", "update", "product_bf16", "product_tf32", "dispatch", "dispatch_graphs", "steps"):
            self.assertRegex(output, rf"(?m)^ +{measure} +-?[\d.]+ ", output)
        self.assertRegex(output, r"(?m)^\d+ passed, 0 failed$")

    def test_a_pack_needs_nothing_of_where_it_was_made(self):
        root = self.folder / "root"
        (root / "tests/cuda").mkdir(parents=True)
        shutil.copy(HERE / "tests/cuda/run", root / "tests/cuda/run")
        (self.folder / "bin").rename(root / "bazel-bin")
        library = root / "bazel-bin/kernels/cuda/libweft_cuda.so"
        library.parent.mkdir(parents=True)
        library.symlink_to(FAKES / "libweft_cuda_emulated.so")
        bazel = self.folder / "path/bazel"  # all is built
        bazel.parent.mkdir()
        bazel.symlink_to("/bin/true")
        env = dict(os.environ, PATH=f"{bazel.parent}:{os.environ['PATH']}")
        pack = self.folder / "pack"
        subprocess.run([root / "tests/cuda/run", "--pack", pack, "session", "dispatch"], env=env, check=True, stdout=subprocess.DEVNULL)
        shutil.rmtree(root)
        for name in ("run", "bin", "lib"):
            if (self.folder / name).is_dir():
                shutil.rmtree(self.folder / name)
            (pack / name).rename(self.folder / name)
        self.assertTrue(list((self.folder / "lib").glob("libgrpc.so*")))
        self.assertFalse(list((self.folder / "lib").glob("libc.so*")))
        code, output = self.run_checks("devices", "session", "dispatch")
        self.assertEqual(code, 0, output)

    def test_each_kind_of_failure_is_a_row(self):
        self.script("conv_test", "echo '  Test: sums ...FAILED'; echo '   tests  2  2  1  1  0'; exit 1")
        self.script("fused_test", "kill -SEGV $$")
        self.script("gru_test", PASSES)
        code, output = self.run_checks("conv", "fused", "gru", "lstm")
        rows = table(output)
        self.assertEqual(code, 1)
        self.assertEqual({name: state for name, (state, _) in rows.items()}, {"conv": "FAILED", "fused": "FAILED", "gru": "passed", "lstm": "FAILED"}, output)
        self.assertIn("1 passed, 1 failed", rows["conv"][1])
        self.assertIn("Test: sums ...FAILED", output)
        self.assertIn("4 passed, 3 failed", output)

    def test_what_hangs_ends_with_its_time_and_the_rest_is_said(self):
        self.script("conv_test", PASSES + "; sleep 1000")
        began = time.monotonic()
        code, output = self.run_checks("--limit", "20", "conv", "fused")
        self.assertLess(time.monotonic() - began, 90)
        self.assertEqual(code, 1)
        self.assertEqual(table(output)["conv"][0], "FAILED", output)
        self.assertRegex(table(output)["conv"][1], r"ended after 1?\d s|ended after 20 s")
        self.assertEqual(table(output)["fused"], ("not run", "no time is left"))
        self.assertIn("3 passed, 1 failed, 1 not run", output)

    def test_a_table_that_is_cut_off_has_its_sum(self):
        self.script("conv_test", PASSES)
        self.script("fused_test", f"touch {self.folder}/began; sleep 1000")
        p = self.start("conv", "fused", "gru")
        while not (self.folder / "began").exists():
            time.sleep(0.05)
        p.send_signal(signal.SIGTERM)
        output, _ = p.communicate()
        self.assertEqual(p.returncode, 1)
        self.assertEqual(table(output), {"conv": table(output)["conv"], "fused": ("FAILED", "cut off")}, output)
        self.assertIn("3 passed, 1 failed", output)

    def test_without_a_tool_a_check_is_not_run(self):
        if shutil.which("compute-sanitizer") or list(pathlib.Path("/usr/local").glob("cuda*/bin/compute-sanitizer")):
            self.skipTest("there is one")
        self.script("gru_test", PASSES)
        code, output = self.run_checks("gru", "memcheck")
        self.assertEqual(code, 0, output)
        self.assertEqual(table(output)["memcheck"], ("not run", "compute-sanitizer was not found"))

    def test_a_check_that_is_not_known_is_refused(self):
        code, output = self.run_checks("convolutions")
        self.assertEqual((code, output), (2, "no check 'convolutions'; see --list\n"))


if __name__ == "__main__":
    unittest.main()
