"""What a person sees: TensorBoard's pages of two trainings of `weft submit`, in a headless Chromium."""

import json

import pytest

import board
import browser

pytestmark = [pytest.mark.weft_only, pytest.mark.skipif(browser.BINARY is None, reason="there is no Chromium: tools/setup chromium installs it")]


@pytest.fixture(scope="module")
def shown(maker, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    args = ["--steps", "30", "--profile-every", "15", "--hparam", "rate=0.1", "--log-norms"]
    board.write_inputs(folder)
    board.submit(maker, folder, "--logdir", str(folder / "logs" / "single"), *args)
    board.submit(maker, folder, "--logdir", str(folder / "logs" / "mirrored"), "--strategy", "mirrored:2", *args)
    with board.tensorboard(folder / "logs", folder / "said.txt") as b:
        b.wait_for(lambda b: b.has_steps(["single", "mirrored"], 30))
        yield b


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    b = browser.Browser(tmp_path_factory.mktemp("profile"))
    yield b
    b.close()


def test_charts_have_lines(shown, page):
    page.open(shown.url + "#timeseries")
    page.wait_for_texts("single", "mirrored", "gradient_norm", "learning_rate", "loss", "performance")
    page.wait_for("every('scalar-card line-chart').length > 0")
    page.wait_for_colours("scalar-card line-chart", 200)


def test_histograms_have_shapes(shown, page):
    page.open(shown.url + "#histograms")
    page.wait_for_texts("weights", "single", "mirrored")
    page.wait_for("every('vz-histogram-timeseries').length == 2")
    page.wait_for_colours("vz-histogram-timeseries", 500)


def test_images_are_loaded(shown, page):
    page.open(shown.url + "#images")
    page.wait_for_texts("picture/image/0")
    page.wait_for("every('img').length == 2 && every('img').every(i => i.complete && i.naturalWidth == 64)")


def test_texts_are_markdown(shown, page):
    page.open(shown.url + "#text")
    page.wait_for_texts("bold", "hyperparameter", "mirrored:2")
    page.wait_for("every('strong').some(e => e.textContent == 'bold') && every('table td').some(e => e.textContent == 'rate')")


CHOICE = "every('tf-graph-controls')[0]"


def choose(page, run, tag):
    """What a person chooses in the menus Run and Tag."""
    page.wait_for(f"{CHOICE} && {CHOICE}.datasets && {CHOICE}.datasets.some(d => d.name == {json.dumps(run)})")
    page.wait_for("every('g.node').length > 5")  # of what is chosen at first
    page.js(
        f"""(() => {{
      const c = {CHOICE}, run = c.datasets.findIndex(d => d.name == {json.dumps(run)});
      c._selectedRunIndex = run;
      c._selectedTagIndex = c.datasets[run].tags.findIndex(t => t.displayName == {json.dumps(tag)});
    }})()"""
    )


def nodes(*names):
    return f"{json.dumps(names)}.every(n => every('g.node text, g.nodegroup text').some(t => [n, n + n].includes(t.textContent)))"


def test_the_graph_is_the_program_s(shown, page):
    page.open(shown.url + "#graphs")
    choose(page, "single", "Default")
    page.wait_for(nodes("layer", "gradients", "loss", "x", "y"))
    assert not page.js(nodes("weft_log"))  # what the job adds is not the program's


def test_the_rewritten_graph_has_replicas_and_devices(shown, page):
    page.open(shown.url + "#graphs")
    choose(page, "mirrored", "rewritten")
    page.wait_for(nodes("replica_0", "replica_1", "layer"))
    page.js(f"{CHOICE}.colorBy = 'device'")
    page.wait_for_texts("unknown device")
    page.wait_for_colours("tf-graph-scene", 1000)


@pytest.mark.parametrize("run", ["single", "mirrored"])
@pytest.mark.parametrize("colour,unit", [("compute_time", "s"), ("memory", "B")])
def test_nodes_of_a_traced_step_have_times_and_memory(shown, page, run, colour, unit):
    page.open(shown.url + "#graphs")
    choose(page, run, "step_30")
    page.js(f"{CHOICE}._selectedGraphType = 'profile'")
    page.wait_for(f"{CHOICE}.stats")
    page.wait_for(f"{CHOICE}.selection.type == 'profile'")
    page.js(f"{CHOICE}.colorBy = '{colour}'")
    page.wait_for_texts("Devices included in stats")
    page.wait_for(f"texts().some(t => /^[0-9.]+ .?{unit}$/.test(t) && !t.startsWith('0'))")  # the scale's end
    page.wait_for_colours("tf-graph-scene", 500)


def test_hyperparameters_are_a_table_of_both(shown, page):
    page.open(shown.url + "#hparams")
    page.wait_for_texts("strategy", "none", "mirrored:2", "rate", "0.10000", "this process", "loss")
