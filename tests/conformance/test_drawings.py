"""`weft inspect --svg` and `--html`: pictures of what a step runs, of models as people write them, under strategies.

What is drawn is read back from the files, and from the page in a headless Chromium, and held against what `weft inspect --json`
says, what the graph holds, and what servers count.
"""

import collections
import contextlib
import json
import os
import re
import subprocess
import urllib.request
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import tensorflow as tf

import browser
import saved_models
import test_export
from cluster import hold_ports
from support import v1
from test_export import MODELS, by_name, feeds, fresh, weft_export
from test_metrics import samples

pytestmark = pytest.mark.weft_only
REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SVG = "{http://www.w3.org/2000/svg}"
PAGE = (1600, 1000)
STRATEGIES = {
    "none": [],
    "mirrored": ["--strategy", "mirrored:4"],
    "central_storage": ["--strategy", "central_storage:2"],
    "multi_worker_mirrored": ["--strategy", "multi_worker_mirrored", "--cluster", "worker=8"],
    "parameter_server_sync": ["--strategy", "parameter_server:mode=sync", "--cluster", "ps=1,worker=2"],
    "parameter_server": ["--strategy", "parameter_server", "--cluster", "ps=2,worker=3"],
}


@pytest.fixture(autouse=True)
def eager():
    with tf.__internal__.eager_context.eager_mode():
        yield


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Training files of the models of test_export, each written once."""
    folder, written = tmp_path_factory.mktemp("models"), {}

    def path_of(name):
        if name not in written:
            m, data = fresh(MODELS[name])
            written[name] = str(folder / f"{name}.pb")
            weft_export.export(m, written[name], data=data)
        return written[name]

    return path_of


class Picture:
    """An SVG, read back."""

    def __init__(self, text):
        self.root = ElementTree.fromstring(text)
        self.size = int(self.root.get("width")), int(self.root.get("height"))
        of = collections.defaultdict(list)
        for g in self.root.iter(SVG + "g"):
            of[g.get("class")].append(g)
        self.boxes, self.links, self.frames = of["box"], of["link"], of["frame"]
        self.texts = [t.text for t in self.root.iter(SVG + "text")]

    def rectangles(self, groups):
        return [tuple(int(r.get(k)) for k in ("x", "y", "width", "height")) for r in (g.find(SVG + "rect") for g in groups)]

    def sum(self, groups, name):
        return sum(float(g.get("data-" + name)) for g in groups)


def overlap(a, b):
    return a[0] < b[0] + b[2] and b[0] < a[0] + a[2] and a[1] < b[1] + b[3] and b[1] < a[1] + a[3]


def check_layout(p):
    assert p.size[0] <= PAGE[0] and p.size[1] <= PAGE[1]
    boxes, frames = p.rectangles(p.boxes), p.rectangles(p.frames)
    assert boxes and frames
    for i, b in enumerate(boxes):
        assert any(f[0] <= b[0] and f[1] <= b[1] and b[0] + b[2] <= f[0] + f[2] and b[1] + b[3] <= f[1] + f[3] for f in frames)
        assert not any(overlap(b, other) for other in boxes[:i])
    style = p.root.find(SVG + "style").text
    assert min(map(int, re.findall(r"font-size:(\d+)px", style))) >= 11


def check_figures(p, told):
    """The lines between frames are what the text sums up, task by task."""
    drawn = collections.Counter()
    for link in p.links:
        for end, way in (("from", "out"), ("to", "in")):
            for what in ("bytes", "row-bytes", "messages", "unknown"):
                drawn[link.get("data-" + end), way, what] += float(link.get("data-" + what))
    places = told.get("tasks") or told.get("devices")
    names = {f.get("data-name") for f in p.frames}
    for place in places:
        if len(places) > len(names) and place["name"] != places[0]["name"]:
            continue  # several are drawn as one
        for way in ("in", "out"):
            flow = place[way]
            got = [drawn[place["name"], way, w] for w in ("bytes", "row-bytes", "messages", "unknown")]
            assert got == pytest.approx([flow["bytes"], flow["bytes_per_row"], flow["messages"], flow["unknown"]]), place["name"]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", MODELS)
def test_pictures_say_what_the_text_says(files, weft_command, name, strategy):
    options = STRATEGIES[strategy]
    try:
        told = json.loads(weft_command("inspect", files(name), *options, "--json")) if options else None
    except AssertionError:
        pytest.skip("the strategy refuses this model")
    p = Picture(weft_command("inspect", files(name), *options, "--svg"))
    check_layout(p)
    nodes = int(re.search(r"a step runs (\d+) nodes", "\n".join(p.texts)).group(1))
    assert p.sum(p.boxes, "nodes") == nodes
    if options:
        check_figures(p, told)
    else:
        assert len(p.frames) == 1 and not p.links


def step_of(path):
    """The nodes that a step of a training file runs, by a walk of our own."""
    meta = v1.MetaGraphDef.FromString(open(path, "rb").read())
    nodes, found = {n.name: n for n in meta.graph_def.node}, set()
    todo = [t.name.split(":")[0] for t in meta.signature_def["train"].outputs.values()]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += [i.lstrip("^").split(":")[0] for i in nodes[name].input]
    return [nodes[n] for n in found], bool(meta.graph_def.library.function)


@pytest.mark.parametrize("name", MODELS)
def test_a_picture_holds_the_nodes_of_a_step(files, weft_command, name):
    nodes, has_functions = step_of(files(name))
    p = Picture(weft_command("inspect", files(name), "--svg"))
    variables = sum(n.op == "VarHandleOp" for n in nodes)
    assert p.sum(p.boxes, "variables") == variables
    if not has_functions:  # they are lowered for a step
        assert p.sum(p.boxes, "nodes") == len(nodes)
    whole = Picture(weft_command("inspect", files(name), "--svg", "--all"))
    check_layout(whole)
    assert whole.sum(whole.boxes, "nodes") > p.sum(p.boxes, "nodes")


def test_layers_are_named_as_in_keras(files, weft_command):
    p = Picture(weft_command("inspect", files("convolution_with_state"), "--svg"))
    titles = [re.sub(r"_\d+$", "", b.findall(SVG + "text")[0].text) for b in p.boxes]  # Keras numbers the layers of a process
    layers = ["conv2d", "batch_normalization", "max_pooling2d", "flatten", "dropout", "dense"]
    assert [t for t in titles if t in layers] == layers  # in reading order
    assert titles[0] == "inputs" and titles[-1] == "optimizer"
    for b in p.boxes:
        if re.sub(r"_\d+$", "", b.findall(SVG + "text")[0].text) in ("conv2d", "dense"):  # with its gradient and its update, and the slots of Adam
            assert re.search(r"\d+ forward\n\d+ gradient\n\d+ update", b.find(SVG + "title").text)
            assert b.get("data-variables") == "6"


@pytest.mark.parametrize("name", saved_models.MODELS)
def test_saved_models_are_drawn(weft_command, tmp_path, name):
    folder = str(tmp_path / "model")
    saved_models.MODELS[name](folder)
    p = Picture(weft_command("inspect", folder, "--svg"))
    check_layout(p)
    assert "</html>" in weft_command("inspect", folder, "--html")


def test_functions_are_drawn_layer_by_layer(weft_command, tmp_path):
    """A SavedModel has its model in a function of a function."""
    import keras

    keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3, name="first"), keras.layers.Dense(2, name="second")]).export(str(tmp_path / "m"), verbose=False)
    p = Picture(weft_command("inspect", str(tmp_path / "m"), "--svg"))
    titles = "\n".join(p.texts)
    assert "first" in titles and "second" in titles


def test_names_of_all_kinds_are_escaped(weft_command, tmp_path):
    """Names of nodes may hold '>', attributes and devices anything."""
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [None, 2], name="a.b>c")
        tf.identity(tf.nn.relu(x, name="x>y/z"), name="end")
    definition = graph.as_graph_def()
    for n in definition.node:
        if n.op == "Relu":
            n.attr["_note"].s = b"</script><script>alert(1)</script>\"'&\xff\x01<!--"
    (tmp_path / "g.pb").write_bytes(definition.SerializeToString())
    (tmp_path / "a<b>&\"c\".pb").write_bytes(definition.SerializeToString())
    for file in ("g.pb", "a<b>&\"c\".pb"):
        check_layout(Picture(weft_command("inspect", file, "--svg")))
        page = weft_command("inspect", file, "--html")
        assert page.count("</script>") == 2
        data = json.loads(page.split('id="data">')[1].split("</script>")[0])
        assert data["title"] == file and len(data["levels"]) >= 1


# ---- the page ----


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    if browser.BINARY is None:
        pytest.skip("there is no Chromium: tools/setup chromium installs it")
    b = browser.Browser(tmp_path_factory.mktemp("profile"))
    b.call(
        "Page.addScriptToEvaluateOnNewDocument",
        source="window.wrongs = []; addEventListener('error', e => wrongs.push(e.message)); addEventListener('securitypolicyviolation', e => wrongs.push(e.blockedURI));"
        "const say = console.error; console.error = (...a) => { wrongs.push(a.join(' ')); say(...a); };",
    )
    yield b
    b.close()


def key(page, name, text=None):
    for kind in ("keyDown", "keyUp"):
        page.call("Input.dispatchKeyEvent", type=kind, key=name, **({"text": text} if text and kind == "keyDown" else {}))


def titles(page):
    return page.js("every('g.box text.t').map(t => t.textContent)")


def open_box(page, title):
    """A click on the box."""
    where = page.js(f"(r => [r.left + r.width / 2, r.top + 8])(every('g.box').find(g => g.querySelector('.t').textContent.startsWith({json.dumps(title)})).getBoundingClientRect())")
    for kind in ("mousePressed", "mouseReleased"):
        page.call("Input.dispatchMouseEvent", type=kind, x=where[0], y=where[1], button="left", clickCount=1)


def check_page(page):
    assert page.js("wrongs") == []
    assert page.js("performance.getEntriesByType('resource').length") == 0
    # every label of a box is inside of it, in the browser's own measure
    assert page.js("every('g.box').flatMap(g => { const r = g.querySelector('rect.edge').getBBox(); return [...g.querySelectorAll('text')].filter(t => { const b = t.getBBox(); return b.x < r.x || b.x + b.width > r.x + r.width || b.y + b.height > r.y + r.height + 2; }).map(t => t.textContent); })") == []


@pytest.fixture
def shown(page, files, weft_command, tmp_path):
    def show(name, *options):
        path = tmp_path / "page.html"
        path.write_text(weft_command("inspect", files(name), *options, "--html"))
        page.open(path.as_uri())
        page.wait_for("every('g.box').length > 0")
        return page

    return show


@pytest.mark.parametrize("options", [[], STRATEGIES["mirrored"], STRATEGIES["parameter_server_sync"], STRATEGIES["multi_worker_mirrored"]], ids=lambda o: o[1].split(":")[0] if o else "none")
@pytest.mark.parametrize("name", ["convolution_with_state", "transformer", "two_inputs_two_outputs"])
def test_every_level_of_a_page_opens(shown, name, options):
    page = shown(name, *options)
    check_page(page)
    page.wait_for_colours("main > svg", 200)
    levels = page.js("levels.length")
    assert levels > 10
    for i in range(0, levels, max(1, levels // 40)):
        page.js(f"go({i})")
        page.wait_for(f"at == {i} && every('g.box').length == levels[{i}].B.length")
        check_page(page)
    # the nodes of an opened box are those of the box
    sums = page.js("levels.flatMap(l => l.B.filter(b => b.o !== undefined).map(b => [b.n, levels[b.o].B.reduce((s, c) => s + c.n.reduce((x, y) => x + y, 0), 0), levels[b.o].B.length])).filter(([n, s]) => s < n.reduce((x, y) => x + y, 0)).length")
    assert sums == 0


def test_a_person_opens_searches_and_goes_back(shown):
    page = shown("convolution_with_state")
    top = titles(page)
    assert any(t.startswith("conv2d") for t in top)
    open_box(page, "conv2d")
    page.wait_for("every('nav button').length == 2")
    assert page.js("every('g.frame text.f').map(t => t.textContent)") == ["forward", "gradient", "update"]
    assert page.js("every('nav button')[1].textContent").startswith("conv2d")
    key(page, "Escape")
    page.wait_for("every('nav button').length == 1")
    assert titles(page) == top
    page.js("history.back()")
    page.wait_for("every('nav button').length == 2")
    page.js("history.back()")
    page.wait_for("every('nav button').length == 1")
    key(page, "/")
    page.wait_for("document.activeElement.id == 'search'")
    page.call("Input.insertText", text="Conv2DBackpropFilter")
    page.wait_for("every('#hits button').length > 0")
    assert all("Conv2DBackpropFilter" in t for t in page.js("every('#hits button').map(b => b.textContent)"))
    key(page, "Enter", "\r")
    page.wait_for("every('g.found').length == 1")
    assert "Conv2DBackpropFilter" in page.js("every('g.found .t')[0].textContent")
    page.js("every('g.found')[0].dispatchEvent(new MouseEvent('mousemove', {clientX: 50, clientY: 50}))")
    page.wait_for("!document.getElementById('tip').hidden")
    assert "gradient_tape" in page.js("document.getElementById('tip').textContent")
    page.call("Input.insertText", text="")
    page.js("document.getElementById('search').value = 'no such node'; document.getElementById('search').dispatchEvent(new Event('input'))")
    page.wait_for_texts("no node of the step has that in its name")
    check_page(page)


def test_keys_alone_open_a_box(shown):
    page = shown("convolution_with_state")
    page.js("every('g.box.open')[1].focus()")
    page.wait_for("!document.getElementById('tip').hidden")
    key(page, "Enter", "\r")
    page.wait_for("every('nav button').length == 2")
    key(page, "Backspace")
    page.wait_for("every('nav button').length == 1")
    check_page(page)


def test_a_node_of_a_folded_layer_is_found(page, weft_command, tmp_path):
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [None, 8], name="x")
        for i in range(14):
            with v1.variable_scope(f"layer_{i}"):
                w = v1.get_variable("w", [8, 8], use_resource=True)
                x = tf.nn.relu(tf.matmul(x, w, name="product"), name="out")
        tf.identity(x, name="end")
    (tmp_path / "g.pb").write_bytes(graph.as_graph_def().SerializeToString())
    (tmp_path / "page.html").write_text(weft_command("inspect", "g.pb", "--fetch", "end", "--html"))
    page.open((tmp_path / "page.html").as_uri())
    page.wait_for("every('g.box').length > 0")
    assert any("\u00d714" in t for t in page.js("texts()"))
    found = page.js("search('layer_9/product').map(([, [, l, b]]) => pathOf(levels[l], levels[l].B[b]))")
    assert "layer_0/product" in found
    check_page(page)


def test_large_graphs_stay_small(weft_command, page, tmp_path):
    """100,000 nodes that nothing folds: names drawn at random."""
    rng = np.random.default_rng(5)
    definition = v1.GraphDef()
    definition.node.add(name="x", op="Placeholder").attr["dtype"].type = 1
    definition.node[0].attr["shape"].shape.dim.add().size = 16
    last = "x"
    for i in range(100000):
        words = ["".join(rng.choice(list("abcdefghij"), 4)) for _ in range(3)]
        n = definition.node.add(name="/".join(words) + f"_{i}", op=str(rng.choice(["Relu", "Neg", "Abs", "Tanh"])), input=[last])
        n.attr["T"].type = 1
        last = n.name
    (tmp_path / "g.pb").write_bytes(definition.SerializeToString())
    p = Picture(weft_command("inspect", "g.pb", "--svg"))
    check_layout(p)
    assert p.sum(p.boxes, "nodes") == 100001
    text = weft_command("inspect", "g.pb", "--html")
    assert len(text) < 13e6
    (tmp_path / "page.html").write_text(text)
    page.open((tmp_path / "page.html").as_uri())
    page.wait_for("every('g.box').length > 0")
    check_page(page)


# ---- what servers count ----


@contextlib.contextmanager
def servers(program, cluster):
    """Tasks with --http: their addresses by name, and the urls of their metrics."""
    held = [(job, t, hold_ports(1)[0]) for job, n in cluster.items() for t in range(n)]
    text = ";".join(f"{job}=" + ",".join(f"127.0.0.1:{s.getsockname()[1]}" for j, _, s in held if j == job) for job in cluster)
    running, urls = [], {}
    try:
        for job, task, socket in held:
            command = [program, "server", "--cluster", text, "--job", job, "--task", str(task), "--http", "0"]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            running.append(process)
            process.target = re.search(r"grpc://\S+", process.stdout.readline()).group(0)
            urls[job, task] = re.search(r"(http://\S+/metrics)", process.stderr.readline()).group(1)
            socket.close()
        yield {f"/job:{job}/replica:0/task:{task}": process.target for (job, task, _), process in zip(held, running)}, urls
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.communicate(timeout=20)


def counted(urls):
    """Bytes from task to task so far."""
    links = collections.Counter()
    for url in urls.values():
        for name, labels, value in samples(urllib.request.urlopen(url, timeout=10).read().decode()):
            if name == "weft_link_bytes_total" and labels["from"] != labels["to"]:
                links[labels["from"], labels["to"]] += value
    return links


@pytest.mark.parametrize(
    "strategy, cluster",
    [("parameter_server:mode=sync", {"ps": 1, "worker": 2}), ("multi_worker_mirrored", {"worker": 2}), ("parameter_server:mode=sync", {"ps": 2, "worker": 1})],
    ids=["ps", "mirrored", "two_ps"],
)
def test_links_carry_what_servers_count(request, weft_command, tmp_path, strategy, cluster):
    keras = test_export.keras
    m = keras.Sequential([keras.layers.Input((60,)), keras.layers.Dense(200, "relu"), keras.layers.Dense(1)])
    m.compile("sgd", "mse")
    data = test_export.numbers(48, 60), test_export.numbers(48, 1)
    path = str(tmp_path / "wide.pb")
    weft_export.export(m, path, data=data)
    args = feeds(tmp_path, by_name(m, data))
    batch, few, many = 8, 2, 6
    sizes = ",".join(f"{job}={n}" for job, n in cluster.items())
    p = Picture(weft_command("inspect", path, "--strategy", strategy, "--cluster", sizes, "--batch", str(batch), "--svg"))
    check_layout(p)
    told = json.loads(weft_command("inspect", path, "--strategy", strategy, "--cluster", sizes, "--json"))
    seen = []
    with servers(request.config.getoption("--weft"), cluster) as (targets, urls):
        target = targets.get(told["worker_loops"][0]["task"]) or next(iter(targets.values()))  # where the client is thought to be
        for steps in (few, many):  # what runs once is in both
            before = counted(urls)
            weft_command("submit", path, "--master", target, *args, "--batch", str(batch), "--steps", str(steps), "--strategy", strategy)
            after = counted(urls)
            seen.append({k: after[k] - before[k] for k in after})
    for link in p.links:
        ends = link.get("data-from"), link.get("data-to")
        a_step = (seen[1].get(ends, 0) - seen[0].get(ends, 0)) / (many - few)
        told = float(link.get("data-bytes"))
        rows = batch * 61 * 4 if int(link.get("data-unknown")) else 0  # a part of the batch, of a size that the graph does not say
        assert 0.99 * told <= a_step <= 1.01 * told + rows, ends


# ---- what documents show ----


def test_the_picture_of_the_demo_is_what_the_command_makes(weft_command, tmp_path):
    make = os.path.join(REPO, "bazel-bin", "examples", "digits", "make_graph")
    if not os.path.exists(make):
        pytest.skip("make build makes the program of the demo")
    subprocess.run([make, str(tmp_path / "digits.pb")], check=True)
    text = open(os.path.join(REPO, "docs", "drawings.md"), encoding="utf-8").read()
    arguments = re.search(r"^ *weft (inspect digits\.pb .*?) >demo_graph\.svg$", text, re.MULTILINE).group(1)
    shown = weft_command(*arguments.split())
    assert shown == open(os.path.join(REPO, "docs", "pictures", "demo_graph.svg"), encoding="utf-8").read()
