from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from moestream.errors import AbiError
from moestream.llama.runtime import _load_core, runtime


def spin_settings(**extra: str) -> list[str]:
    """What libgomp has read and what is left in the environment, in a fresh interpreter."""
    code = (
        "import os\n"
        "from moestream.llama import runtime as r\n"
        "seen = []\n"
        "original = r.importlib.import_module\n"
        "def spy(name):\n"
        "    seen.append(os.environ.get('GOMP_SPINCOUNT'))\n"
        "    return original(name)\n"
        "r.importlib.import_module = spy\n"
        "r.runtime()\n"
        "print(seen[0], os.environ.get('GOMP_SPINCOUNT'), sep='|')\n"
    )
    env = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env | extra, capture_output=True, text=True, check=True
    )
    return done.stdout.strip().split("|")


def test_openmp_spins_briefly_unless_told_otherwise() -> None:
    assert spin_settings() == ["100", "None"]


def test_a_users_own_openmp_settings_stand() -> None:
    assert spin_settings(GOMP_SPINCOUNT="7") == ["7", "7"]
    assert spin_settings(OMP_WAIT_POLICY="active") == ["None", "None"]


def test_the_runtime_is_loaded_once() -> None:
    assert runtime() is runtime()


def test_another_version_of_llama_cpp_is_refused_with_the_way_out() -> None:
    with pytest.raises(AbiError, match=r"built for .* but 0\.0\.1 is installed; run `pip install"):
        _load_core("0.0.1", runtime().lib)


def test_only_the_seam_imports_llama_cpp() -> None:
    from pathlib import Path

    import moestream

    root = Path(moestream.__file__).parent
    imports = re.compile(r"(import|from) llama_cpp|import_module\(.llama_cpp")
    importers = {
        path.relative_to(root).parts[0]
        for path in root.rglob("*.py")
        if imports.search(path.read_text())
    }
    assert importers == {"llama"}
