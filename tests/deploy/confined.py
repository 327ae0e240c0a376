"""Opens the embedded model without ``userfaultfd``, as most containers do; run as a program.

Says, as JSON, what the engine made of it.
"""

from __future__ import annotations

import ctypes
import json
import platform
import struct
import sys

__all__ = ["UNKNOWN_MACHINE", "forbid", "main"]

#: Exit code where the number of the system call is not known.
UNKNOWN_MACHINE = 77

# Architecture as the kernel's audit calls it, number of userfaultfd.
_MACHINES = {"x86_64": (0xC000003E, 323), "aarch64": (0xC00000B7, 282)}
_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _SECCOMP_MODE_FILTER = 22, 38, 2
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _EPERM = 0x7FFF0000, 0x00050001


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def forbid(architecture: int, call: int) -> None:
    """Let one system call fail with EPERM in this process and its children from now on.

    Raises:
        OSError: the kernel does not take the filter.
    """
    instructions = [
        (_LOAD, 0, 0, 4),  # the architecture
        (_EQUAL, 0, 2, architecture),
        (_LOAD, 0, 0, 0),  # the number of the call
        (_EQUAL, 1, 0, call),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _EPERM),
    ]
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(instructions), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in (
        (_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0),
    ):
        if libc.prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


def main() -> int:
    """Forbid, open, generate, tell."""
    if platform.machine() not in _MACHINES:
        return UNKNOWN_MACHINE
    forbid(*_MACHINES[platform.machine()])

    from moestream.config import EngineConfig, StreamingConfig
    from moestream.engine.session import Session
    from moestream.errors import MoestreamError

    with Session(EngineConfig(threads=1, streaming=StreamingConfig(moe_stream=True))) as session:
        report = session.load_report
        text = "".join(event.text for event in session.generate("The old house", max_tokens=4))
    refusal = ""
    try:
        Session(
            EngineConfig(threads=1, streaming=StreamingConfig(moe_stream=True, overlap=True))
        ).close()
    except MoestreamError as error:
        refusal = str(error)
    print(
        json.dumps(
            {
                "streamed": report.streamed,
                "overlap": report.overlap,
                "mover": report.mover,
                "notes": list(report.notes),
                "text": text,
                "refusal": refusal,
            }
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
