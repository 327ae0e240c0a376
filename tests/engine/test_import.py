from __future__ import annotations

import subprocess
import sys

import pytest

import moestream


def test_importing_loads_nothing_heavy() -> None:
    code = (
        "import sys, moestream\n"
        "heavy = {'numpy', 'llama_cpp', 'jinja2', 'moestream._core'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "from moestream import EngineConfig, StreamingConfig, SamplingConfig, ConfigError\n"
        "heavy = {'numpy', 'llama_cpp', 'jinja2', 'moestream._core'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "from moestream import TokenEvent, Session\n"
        "assert 'llama_cpp' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_exported_name_is_there() -> None:
    for name in moestream.__all__:
        assert getattr(moestream, name) is not None
    assert set(dir(moestream)) >= set(moestream.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = moestream.nonsense


def test_every_error_of_the_tree_is_exported() -> None:
    from moestream import errors

    assert set(errors.__all__) <= set(moestream.__all__)
    assert all(issubclass(getattr(errors, name), errors.MoestreamError) for name in errors.__all__)


def test_the_version_is_known() -> None:
    assert moestream.__version__.startswith("0.")
