"""What machine code does: the instructions of a cubin, as Triton's disassembler names them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?([A-Z][\w.]*)")


def instructions(cubin: bytes, folder: Path) -> list[str]:
    """The instructions of all functions of machine code, in order."""
    import triton

    file = folder / "code.cubin"
    file.write_bytes(cubin)
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "nvdisasm"
    done = subprocess.run([tool, "-c", file], capture_output=True, text=True, check=True)
    return _INSTRUCTION.findall(done.stdout)
