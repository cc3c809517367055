"""The reader of exported programs, natively: every test model, evaluated with the reference kernels before any
rewrite, gives what torch gave. DOWNHAUL_BUILD as in test_pte_writer.py.
"""

import os
import pathlib
import subprocess

import pytest
from conftest import MODELS, ROOT

BUILD = pathlib.Path(os.environ.get("DOWNHAUL_BUILD", ROOT / "build" / "dev"))


@pytest.mark.parametrize("model", MODELS)
def test_import_gives_the_stored_outputs(model, models, tmp_path):
    (tmp_path / model).symlink_to(models[model])
    done = subprocess.run(
        [BUILD / "src/dialects/dialects_test", "--gtest_filter=Models.*"],
        env={**os.environ, "DOWNHAUL_MODELS": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "SKIPPED" not in done.stdout, done.stdout[-2000:]
