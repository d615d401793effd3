"""What machine code does: the instructions of a cubin, as Triton's disassembler names them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?([A-Z][\w.]*)")
#: What waits for the launches that one depends on.
WAIT = "ACQBULK"
_MEMORY = re.compile(r"LD\b|LDG|LDE|ST\b|STG|ATOM|RED\b|UTMALDG|UBLKCP|BLK")


def instructions(cubin: bytes, folder: Path) -> list[str]:
    """The instructions of all functions of machine code, in order."""
    import triton

    file = folder / "code.cubin"
    file.write_bytes(cubin)
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "nvdisasm"
    done = subprocess.run([tool, "-c", file], capture_output=True, text=True, check=True)
    return _INSTRUCTION.findall(done.stdout)


def waits_first(found: list[str]) -> bool:
    """Does a function wait for others before it touches memory?"""
    return WAIT in found and not any(_MEMORY.match(one) for one in found[: found.index(WAIT)])
