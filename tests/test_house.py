"""House rules that no linter knows: a quiet import, a README in each room, short files, clean sources."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parent.parent / "src"
WEFT = SRC / "weft"
TESTS = Path(__file__).resolve().parent
HEAVY = ("torch", "jax", "numpy", "lark", "islpy", "rich", "ml_dtypes")
LONGEST_FILE = 500

# Places on somebody's own machine. System folders such as /proc or /usr may be named.
MACHINE_PATH = re.compile(r"(?<![\w.})/])/(?:home|root|Users|work|tmp)/|\b[A-Z]:\\+Users\b")
UNFINISHED = re.compile(r"\b(?:TODO|FIXME)\b")


def sources() -> list[Path]:
    found = (p for p in sorted(WEFT.rglob("*")) if p.is_file())
    return [p for p in found if "__pycache__" not in p.parts and p.suffix not in {".so", ".pyc"}]


def rooms() -> list[Path]:
    return sorted(p.parent for p in WEFT.glob("*/__init__.py"))


def matching_lines(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{path.relative_to(SRC)}:{number}: {line.strip()}"
        for path in sources()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]


def patched_constants() -> list[str]:
    pattern = re.compile(r"monkeypatch\.set(?:attr|item)\(([\w.]+), \"(_?[A-Z][A-Z_]*)\"")
    found = (pattern.findall(path.read_text(encoding="utf-8")) for path in sorted(TESTS.rglob("*.py")))
    return sorted(f"{module}.{name}" for each in found for module, name in each if not module.startswith("os."))


#: Numbers that passes hold and nobody chooses, each with the reason.
CONSTANTS = {
    "schedule/compile_options.py": {"_LEAST": "what options may be", "_MOST": "what options may be"},
    "schedule/options.py": {"RANGES": "what may be asked for", "_LARGEST_TILE": "what 64 bits hold"},
    "schedule/memory/memory_plan.py": {"ALIGNMENT": "what backends promise of memory", "_ORDERS": "a sign"},
    "schedule/fusion/min_cut.py": {"SINK": "the number of a node"},
    "schedule/relocatable.py": {"_KEY_BITS": "a format"},
    "schedule/tuning/tuned.py": {"_FORMAT": "a format"},
    "schedule/tuning/tuned_report.py": {"_SHOWN": "letters that are printed"},
    "schedule/fusion/strip_cost.py": {"_FEW": "roundings that docs/precisions.md promises"},
    "schedule/products/exact_floats.py": {"_EXACT": "what floats hold"},
    "schedule/products/tile.py": {"_HALVINGS": "a logarithm"},
    "schedule/tuning/knobs.py": {"_CHUNKS, _FEW_CHUNKS": "what a tuner tries"},
    "schedule/tuning/nest_knobs.py": {
        "_TILES": "what a tuner tries",
        "_CLAIMED": "what a tuner tries",
        "_DEEPEST": "what a tuner tries",
    },
    "schedule/tuning/gpu_knobs.py": {
        "_WARPS": "what a tuner tries",
        "_STAGES": "what a tuner tries",
        "_GROUPS": "what a tuner tries",
        "_PARTS": "what a tuner tries",
        "_SIDES, _SUMS": "what a tuner tries",
        "_FARTHEST": "what a tuner tries",
        "_MOST_LANES": "what a tuner tries",
    },
    "schedule/gpu_model.py": {"_THIRDS": "an algorithm"},
    "schedule/tuning/product_knobs.py": {"_ROWS, _VECTORS": "what a tuner tries"},
    "schedule/tuning/space.py": {
        "_LANES": "what a tuner tries",
        "_UNROLLED": "what a tuner tries",
        "_JAMMED": "what a tuner tries",
    },
    "schedule/tuning/search.py": {"_ELITE": "how a tuner searches", "_ENOUGH": "how a tuner searches"},
    "optimise/gather.py": {"_LONGEST": "how long a scalar may get"},
    "optimise/sorting_network.py": {"_STEPS": "an algorithm", "_NUMBER, _POSITION_BITS": "what a number in a lane is"},
    "optimise/radix_sort.py": {"_VALUES": "the values of a byte"},
    "optimise/split_scalars.py": {"_LARGE": "how long a scalar may get"},
    "optimise/inline_decision.py": {"_COPIES": "how far a proof goes"},
    "optimise/signed_zeros.py": {"_FAR": "how far a proof goes"},
    "optimise/rewrite.py": {"_MOST_ROUNDS": "how far a fixed point is searched"},
}


def numeric_constants(path: Path) -> list[str]:
    """The names of a module that stand for numbers, or for something with numbers in it."""
    found = []
    for one in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(one, ast.Assign | ast.AnnAssign) and one.value is not None:
            inside = [each.value for each in ast.walk(one.value) if isinstance(each, ast.Constant)]
            if any(type(value) in (int, float, complex) for value in inside):
                target = one.targets[0] if isinstance(one, ast.Assign) else one.target
                found.append(ast.unparse(target).strip("()"))
    return found


#: Where the values of a stage are defined, beside the `nodes.py` of rooms.
VALUES = (
    "assign/extents.py",
    "assign/iterations.py",
    "loops/annotations.py",
    "schedule/decisions.py",
    "shape/subscripts.py",
)


def loose_nodes() -> list[str]:
    """Nodes that can be written to, or hold functions: no plain values, which are printed, compared and hashed."""
    found = []
    for path in (*sorted(WEFT.glob("*/nodes.py")), *(WEFT / one for one in VALUES)):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                made = [one for one in map(ast.unparse, node.decorator_list) if one.startswith("dataclass")]
                fields = [ast.unparse(one.annotation) for one in node.body if isinstance(one, ast.AnnAssign)]
                if any("frozen=True" not in one for one in made) or any("Callable" in one for one in fields):
                    found.append(f"{path.relative_to(WEFT)} {node.name}")
    return found


def run_python(code: str, *path: Path) -> subprocess.CompletedProcess[str]:
    python_path = os.pathsep.join([*map(str, path), str(SRC)])
    env = {**os.environ, "PYTHONPATH": python_path}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)


def test_import_is_silent() -> None:
    done = run_python("import weft")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_import_leaves_heavy_packages_alone(tmp_path: Path) -> None:
    # Empty stand-ins come first on the path, so even a guarded `try: import torch` succeeds and is seen.
    for name in HEAVY:
        (tmp_path / f"{name}.py").touch()
    code = f"import sys, weft; print(*(name for name in {HEAVY} if name in sys.modules))"
    done = run_python(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def test_every_room_has_a_readme() -> None:
    assert [room.name for room in rooms() if not (room / "README.md").is_file()] == []


def test_every_module_is_in_the_readme_of_its_room() -> None:
    unsaid = []
    for room in rooms():
        said = "\n".join(one.read_text(encoding="utf-8") for one in room.rglob("README.md"))
        own = (path for path in sources() if room in path.parents and path.suffix in {".py", ".h", ".lark"})
        unsaid += [str(one) for one in own if one.name != "__init__.py" and not re.search(rf"\b{one.stem}\b", said)]
    assert unsaid == []


def test_no_source_file_is_too_long() -> None:
    assert sources(), "found no sources: is src/weft where this test looks?"
    lengths = {str(path.relative_to(SRC)): len(path.read_bytes().splitlines()) for path in sources()}
    assert {name: length for name, length in lengths.items() if length > LONGEST_FILE} == {}


def test_no_machine_paths_in_sources() -> None:
    assert matching_lines(MACHINE_PATH) == []


def test_no_unfinished_markers_in_sources() -> None:
    assert matching_lines(UNFINISHED) == []


def test_what_a_test_wants_otherwise_is_an_option() -> None:
    """But for the flags of the C compiler, which are part of a key, and what is not weft's."""
    assert patched_constants() == ["build.FLAGS", "build.ctypes.CDLL"]


def test_stages_are_plain_values() -> None:
    """But for the cell of a name, which may be said after a tensor is made."""
    assert loose_nodes() == ["assign/nodes.py NodeName"]


def test_passes_hold_no_numbers_but_those_that_nobody_chooses() -> None:
    """Thresholds are options (`wf.CompileOptions`, `wf.Thresholds`), facts about hardware the machine's."""
    files = [path for room in ("schedule", "optimise") for path in sorted((WEFT / room).rglob("*.py"))]
    found = {str(path.relative_to(WEFT)): numeric_constants(path) for path in files}
    assert {path: names for path, names in found.items() if names} == {path: [*one] for path, one in CONSTANTS.items()}


@pytest.mark.parametrize(
    ("line", "is_machine_path"),
    [
        ('cache = "{}/someone/cache"'.format("/home"), True),
        ("see {}/project/notes".format("/tmp"), True),
        (r'open("{}\\someone")'.format(r"C:\\Users"), True),
        ('open("/proc/cpuinfo")', False),
        ("read the work/home/tmp folders", False),
        ('f"{folder}/tmp/{name}"', False),
    ],
)
def test_machine_path_pattern(line: str, is_machine_path: bool) -> None:
    assert bool(MACHINE_PATH.search(line)) == is_machine_path
