"""Every stock kernel that we write, and 200 random graphs, in the stock runtime.

The graphs of tests/edge/*.dh are lowered by the test program `lower_text`, which lies beside the
binary's folder in the build tree and also computes the expected outputs with the reference kernels.
"""

import pathlib
import subprocess

import pytest
from stock_run import MODES, run_file, sets_of

ROOT = pathlib.Path(__file__).parent.parent.parent


@pytest.fixture(scope="session")
def lower_text(downhaul, tmp_path_factory):
    """Arguments of the tool -> the folders it wrote."""
    tool = pathlib.Path(downhaul.path).parent.parent / "targets" / "lower_text"
    assert tool.exists(), f"{tool} is missing: build with -DDOWNHAUL_TESTS=ON"

    def lower(*args):
        out = tmp_path_factory.mktemp("lower_text")
        where = {"--random": [*args, out]}.get(args[0], [args[0], out, *args[1:]])
        done = subprocess.run([tool, *where], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return sorted(p for p in out.iterdir() if p.is_dir())
    return lower


def check(folder, tolerance):
    results = list(run_file(folder / "model.pte", sets_of(folder)))
    assert {r["verification"] for r in results} == set(MODES)
    bad = [r for r in results if "error" in r or not r["max_abs_diff"] <= tolerance]
    assert not bad, f"{folder.name}: {bad[0]}"


def test_every_spelling_computes_what_the_operator_means(lower_text):
    folders = lower_text(ROOT / "tests/edge/kernels.dh")
    assert len(folders) > 20
    for folder in folders:
        check(folder, 1e-5)


def test_legalized_operators_compute_the_same(lower_text):
    folders = lower_text(ROOT / "tests/edge/legalized.dh", "--portable")
    assert len(folders) > 5
    for folder in folders:
        check(folder, 1e-5)


def test_random_graphs_share_memory_safely(lower_text):
    folders = lower_text("--random", "200")
    assert len(folders) == 200
    for folder in folders:
        check(folder, 1e-5)
