"""Route traces, read back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from moestream.errors import ConfigError
from moestream.telemetry import trace_reading
from moestream.telemetry.reading import RouteTraceFile, read_route_trace
from moestream.telemetry.trace_reading import LayerSize
from tests.telemetry.recordings import TRACE_HEADER, routing, trace_text


def read(tmp_path: Path, text: str | bytes) -> RouteTraceFile:
    path = tmp_path / "trace.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_route_trace(path)


def test_everything_comes_back(tmp_path: Path) -> None:
    rows = [
        routing(0, 0, 5, phase=0, residency=0, size=100),
        routing(1, 3, 6, slot=1, turn=2, residency=2, dropped=1),
    ]
    text = trace_text(rows, sizes={0: 100, 3: 200}, preamble={"model": "m", "n_expert": 8})
    trace = read(tmp_path, text)
    assert trace.n_rows == 2
    assert trace.preamble == {"model": "m", "n_expert": "8"}
    assert trace.layers == {0: LayerSize(100, 7), 3: LayerSize(200, 7)}
    assert trace.number("n_expert") == 8
    assert trace.number("n_layer") is None
    assert trace.turn.tolist() == [0, 2]
    assert trace.decode.tolist() == [False, True]
    assert trace.step.tolist() == [0, 1]
    assert trace.layer.tolist() == [0, 3]
    assert trace.slot.tolist() == [0, 1]
    assert trace.expert.tolist() == [5, 6]
    assert trace.weight.tolist() == [0.25, 0.25]
    assert trace.residency.tolist() == [0, 2]
    assert trace.expert_bytes.tolist() == [100, 0]
    assert trace.dropped.tolist() == [False, True]
    assert not trace.cut


def test_columns_go_by_name_and_may_be_missing_or_new(tmp_path: Path) -> None:
    text = (
        "# route_trace v1\n# model=m arch=x n_layer=2\n"
        "turn,expert,new,phase,step,layer,slot,residency,expert_bytes\n0,9,word,1,4,1,2,0,11\n"
    )
    trace = read(tmp_path, text)
    assert trace.preamble == {"model": "m", "arch": "x", "n_layer": "2"}
    assert (trace.expert[0], trace.step[0], trace.slot[0]) == (9, 4, 2)
    assert np.isnan(trace.weight).all()
    assert not trace.dropped.any()


def test_weights_that_were_not_seen(tmp_path: Path) -> None:
    trace = read(
        tmp_path, f"# route_trace v1\n{TRACE_HEADER}\n0,1,0,0,0,1,,1,0,0\n0,1,1,0,0,1,nan,1,0,0\n"
    )
    assert np.isnan(trace.weight).all()


def test_comments_after_the_rows(tmp_path: Path) -> None:
    trace = read(tmp_path, trace_text([routing(0, 0, 1)]) + "# lost=12\n")
    assert trace.n_rows == 1
    assert trace.number("lost") == 12


def test_a_killed_run(tmp_path: Path) -> None:
    text = trace_text([routing(i, 0, 1) for i in range(5)])
    trace = read(tmp_path, text[:-4])
    assert trace.n_rows == 4
    assert trace.cut


@pytest.mark.parametrize("tail", ["", "0,1", TRACE_HEADER[:4]])
def test_a_trace_without_rows(tmp_path: Path, tail: str) -> None:
    assert read(tmp_path, trace_text([]) + tail).n_rows == 0


def test_chunks_do_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [routing(i, i % 3, i % 7, residency=i % 2, size=i) for i in range(2000)]
    whole = read(tmp_path, trace_text(rows))
    monkeypatch.setattr(trace_reading, "_CHUNK", 1000)
    parts = read(tmp_path, trace_text(rows))
    for name in ("turn", "decode", "step", "layer", "expert", "weight", "residency", "dropped"):
        assert np.array_equal(getattr(whole, name), getattr(parts, name))
    with pytest.raises(ConfigError, match=r"line 1503 has 9 in phase \(0 to 1 is possible\)"):
        read(tmp_path, trace_text([*rows[:1500], routing(0, 0, 0, phase=9), *rows]))
    with pytest.raises(ConfigError, match=r"line 1503 is '0,1,0,x"):
        read(tmp_path, trace_text(rows[:1500]) + "0,1,0,x,0,0,0,0,0,0\n" + trace_text(rows)[80:])


V1 = f"# route_trace v1\n{TRACE_HEADER}\n"
GOOD = "0,1,0,0,0,1,0.5,1,0,0"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "no header row"),
        ("GGUF\x03\x00\n", "line 1 is"),
        (b"\xff\xfe" * 50_000, "line 1 is longer than"),
        (f"{TRACE_HEADER}\n{GOOD}\n", "line 1 must be '# route_trace v1'"),
        (V1.replace("v1", "v2"), "line 1 says 'route_trace v2'"),
        ("# route_trace v1\nturn,step\n0,0\n", "line 2 is a header without the column phase, "),
        (f"# route_trace v1\n# layer=x expert_bytes=1\n{TRACE_HEADER}\n", "line 2 is 'layer=x"),
        (f"# route_trace v1\n# n_expert=9999999\n{TRACE_HEADER}\n", "n_expert='9999999'"),
        (
            f"# route_trace v1\n# n_expert=4\n{TRACE_HEADER}\n0,1,0,0,0,4,0,1,0,0\n",
            "line 4 has 4 in expert (0 to 3 is possible)",
        ),
        (f"{V1}{GOOD}\n0,1,0\n", "line 4 is '0,1,0'"),
        (f"{V1}\n{GOOD}\n0,1,0,0,0,-1,0,1,0,0\n", "line 5 has -1 in expert"),
        (f"{V1}0,1,99999999999,0,0,1,0,1,0,0\n", "line 3 is '0,1,99999999999"),
        (f"{V1}0,1,nan,0,0,1,0,1,0,0\n", "line 3 is '0,1,nan"),
        (f"{V1}0,1,0,0,0,1,0,1,999999999999999,0\n", "in expert_bytes"),
        (V1.encode() + b"\xff\xfe,\x00\n", "line 3 is"),
        ("# model=x\nstep,steps,wall_ms\n0,1,2\n", "use moestream plot"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 40 else None,
)
def test_what_is_no_route_trace(tmp_path: Path, content: str | bytes, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, content)
    assert words in str(caught.value)
    assert "trace.csv" in str(caught.value)
    assert len(str(caught.value)) < 400
