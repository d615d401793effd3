"""Programs run in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

SRC = Path(__file__).resolve().parent.parent.parent / "src"
TIME_LIMIT_S = 60


def run_script(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python code; a process that hangs is killed and fails the test."""
    return subprocess.run(
        [sys.executable, "-c", "import numpy as np\nimport weft as wf\n" + textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": str(SRC), **environment},
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
    )
