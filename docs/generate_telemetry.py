"""Writes docs/telemetry.md from the schema: ``python docs/generate_telemetry.py``.

A test fails where the file and the schema differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from moestream.telemetry.schema import DONE_KEYS, PREAMBLE_KEYS, TOKEN_COLUMNS, Column

TARGET = Path(__file__).parent / "telemetry.md"

HEAD = """\
# Telemetry

<!-- Written by docs/generate_telemetry.py; change the tables in src/moestream/telemetry. -->

One record per token feeds three forms of the same numbers:

- **The summary** that `run` prints after an answer, for people.
- **CSV**, `--csv FILE`: a `#` preamble with the resolved settings (`# key=value`), a header that
  begins with `step,`, a row per token, a `# turn key=value ...` comment after each turn, and a
  `# summary key=value ...` trailer over the whole session. Every line is written at once and
  whole: a process that dies leaves a file that can be read up to its last token, without trailer.
- **JSON lines**, `--progress`, to stderr: `BMOE_LOAD {...}` once (the keys of the preamble),
  `BMOE_PROGRESS {...}` per token (the columns of a row), `BMOE_DONE {...}` at the end of each turn
  (the keys of the trailer).

Read by name: columns and keys are only ever added, and past the first seven columns their order
means nothing. **No value is not zero**: empty in CSV and `null` in JSON say that something was not
measured or does not apply. Truth values are `1` and `0` in CSV. Where a name ends in `/tok` it ends
in `_tok` in JSON (any other slash becomes an underscore, too). The values are rounded in the same
way in both.

**Speculation.** A verify decode confirms a group of tokens. The group's first row carries the whole
cost, the others carry zeros, and `mtp_batch` on the first row says how many tokens the decode
confirmed. So a single row of a speculated run is no token's cost: sum over rows, then divide. The
names keep `mtp_` whichever source drafts.

**Rates.** `tok_s` is the effective rate, tokens over time as the caller saw them. `decode_tok_s`
leaves out drafting, choosing and text; it is there because other programs report it.

A failing disk does not end a session: it is warned about once, and the recording ends there.
"""


def render() -> str:
    """The page."""
    parts = [HEAD]
    parts += _table("Rows", "Columns of a row, and keys of `BMOE_PROGRESS`.", TOKEN_COLUMNS)
    parts += _table("Preamble", "Keys of the preamble, and of `BMOE_LOAD`.", PREAMBLE_KEYS)
    parts += _table(
        "Trailer",
        "Keys of `# turn`, `# summary` and `BMOE_DONE`. Times and counts are of the decodes after "
        "the prefill, unless they say otherwise.",
        DONE_KEYS,
    )
    return "\n".join(parts)


def _table(title: str, about: str, columns: Sequence[Column]) -> list[str]:
    lines = [f"## {title}", "", about, "", "| name | unit | meaning | no value if |"]
    lines.append("|---|---|---|---|")
    lines += [
        f"| `{c.name}` | {c.unit} | {c.meaning} | {c.unmeasured} |".replace("  ", " ")
        for c in columns
    ]
    return [*lines, ""]


if __name__ == "__main__":
    TARGET.write_text(render(), encoding="utf-8")
