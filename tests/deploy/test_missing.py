"""Without Ray: the module can be imported, and says what it needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from moestream.deploy.ray_serve import app
from moestream.errors import PlatformError


@pytest.mark.parametrize("missing", ["ray", "ray.serve", "fastapi"])
def test_what_is_missing_is_named(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in {"ray", missing}:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(PlatformError, match=r"pip install 'moestream\[ray\]'"):
        app({})


def test_importing_it_imports_nothing_large() -> None:
    code = (
        "import sys; import moestream.deploy.ray_serve; "
        "print(sorted({'ray', 'fastapi', 'llama_cpp'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
