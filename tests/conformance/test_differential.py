"""Training graphs under every strategy beside one device: losses, fetches and final variables, step by step.

Each graph of graphs_*.py is trained for thirty steps on one device, whose numbers are those of stock TensorFlow, and then
under each strategy: the numbers are equal, or the graph says that it is refused, and why. A second test trains for eight steps
with so few rows in the last batch that replicas get none. By default a seeded sample of the graphs is run; `--graphs=all` runs
them all, `--graphs=WORD+WORD` those whose names contain a word.
"""

import random

import pytest

import graphs
from differential import CONFIGS, Suite

SAMPLE = 80  # so many graphs by default: two minutes
FEW_ROWS = 15  # and with few rows so many, those of graphs_rows.py, and those that were wrong: forty seconds
WERE_WRONG = "barlow_twins", "ctc", "experts_dispatched", "hard_examples", "hsic"


def chosen(config, has_few_rows):
    wanted = config.getoption("--graphs")
    names = list(graphs.GRAPHS)
    if wanted == "sample":
        drawn = set(random.Random(config.getoption("--graph-seed")).sample(names, FEW_ROWS if has_few_rows else SAMPLE))
        if has_few_rows:
            drawn.update(WERE_WRONG, (n for n in names if n.startswith("rows_")))
        return [n for n in names if n in drawn]
    return [n for n in names if wanted == "all" or any(word in n for word in wanted.split("+"))]


def pytest_generate_tests(metafunc):
    if "name" in metafunc.fixturenames:
        metafunc.parametrize("name", chosen(metafunc.config, "suite_of_few_rows" in metafunc.fixturenames))


def made(maker, tmp_path_factory, size):
    if maker.name != "weft":
        pytest.skip("`weft submit` runs the graphs")
    suite = Suite(maker.weft_binary, str(tmp_path_factory.mktemp("graphs")), maker, size)
    yield suite
    suite.stop()


@pytest.fixture(scope="module")
def suite(maker, tmp_path_factory):
    yield from made(maker, tmp_path_factory, graphs.FULL)


@pytest.fixture(scope="module")
def suite_of_few_rows(maker, tmp_path_factory, request):
    yield from made(maker, tmp_path_factory, graphs.short(request.config.getoption("--last-rows")))


@pytest.mark.timeout(1800)
def test_trains_alike_under_every_strategy(name, suite):
    check(name, suite)


@pytest.mark.timeout(1800)
def test_trains_alike_where_replicas_have_no_rows(name, suite_of_few_rows):
    check(name, suite_of_few_rows)


def check(name, suite):
    local = suite.local(name)[2]
    assert local.kind == "equal", f"on one device, beside TensorFlow: {local}"
    told = []
    for config, (strategy, on_servers) in CONFIGS.items():
        outcome = suite.run(name, strategy, on_servers)
        reason = graphs.GRAPHS[name].refused
        fine = outcome.kind == "equal" if reason is None else outcome.kind == "refused" and reason in outcome.detail
        if not fine:
            told.append(f"{config}: {outcome}")
    assert not told, "\n".join(told)


def test_few_graphs_are_refused():
    refused = [name for name, g in graphs.GRAPHS.items() if g.refused is not None]
    assert len(graphs.GRAPHS) >= 110 and len(refused) <= len(graphs.GRAPHS) / 20, refused
