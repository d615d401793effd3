"""The `weft` command, called in this process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import weft as wf
from weft.cli import main
from weft.schedule.decisions import read_decisions
from weft.schedule.tuning.tuned import Found, machine_key


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a run that succeeds prints."""
    assert main(list(arguments)) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def failure(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a run that fails says."""
    assert main(list(arguments)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    return err


def usage(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 2) -> tuple[str, str]:
    """What is printed when the arguments themselves end the run."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    assert ended.value.code == status
    out, err = capsys.readouterr()
    return out, err


def test_plan_prints_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    assert output(capsys, "plan", "ij;jk=>ik", "3,4", "4,5") == str(wf.plan("ij;jk=>ik", "3,4", "4,5")) + "\n"


def test_plan_with_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert "R: 2|5->4\n" in output(capsys, "plan", "...|j->i; ...|k->j => ...|k->i", "2|3->4", "2|5->3")


def test_plan_takes_sizes_and_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    assert output(capsys, "plan", "o<+k=>ok", "9", "--size", "k=3") == str(wf.plan("o<+k=>ok", 9, k=3)) + "\n"
    sized = output(capsys, "plan", "--size", "k=3", "--size=j = 2", "o<+k=>okj", "9")
    assert sized == str(wf.plan("o<+k=>okj", 9, k=3, j=2)) + "\n"
    assert output(capsys, "plan", "i=>ij", "3", "--result", "3,4") == str(wf.plan("i=>ij", 3, result="3,4")) + "\n"


def test_plan_of_a_scalar(capsys: pytest.CaptureFixture[str]) -> None:
    assert output(capsys, "plan", ";=>", "", "1") == ";=>   A: 1   B: 1   R: 1\nR[0] = A[0] * B[0]\n"


def test_demo_of_plans(capsys: pytest.CaptureFixture[str], golden: Callable[..., None]) -> None:
    shown = output(capsys, "demo", "--plans")
    assert sum(line.startswith("# ") for line in shown.splitlines()) == 5
    golden(shown)


@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("-h",), ("plan", "--help"), ("demo", "--help"), ("cache", "--help"), ("cache", "clear", "-h")],
)
def test_help(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    out, err = usage(capsys, *arguments, status=0)
    assert err == ""
    assert out.startswith("usage: weft")


def test_help_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = usage(capsys, "--help", status=0)
    assert all(word in out for word in ("plan", "demo", "--version", "shapes and loops infer themselves"))


def test_help_of_plan_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = usage(capsys, "plan", "--help", status=0)
    assert 'weft plan "ij;jk=>ik" 3,4 4,5' in out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert usage(capsys, "--version", status=0) == (f"weft {wf.__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ij;jk=>ik", "3,4", "5,6"), "`j` cannot be both 4 and 5"),
        (("ij;jk=>ik", "3,4"), "the spec has 2 operands and was given 1 shapes"),
        (("ij->ji", "3,4"), "the result comes after `=>`"),
        (("i=>j", "3"), "nothing says how big `j` is"),
        (("i=>i", "0"), "an axis cannot have size 0"),
        (("i=>i", "x"), "cannot read the shape: 'x' is not a size"),
        (("i=>i", "3", "--size", "z=3"), "the spec has no label `z`"),
        (("i=>i", "3", "--size", "=3"), "the spec has no label ``"),
        (("i=>i", "3", "--size", "i=0"), "an axis cannot have size 0"),
        (("i=>i", "3", "--result", "4"), "`i` cannot be both"),
        (("a;a^b=>a^b", "2", "5"), "could come from operand 1 or operand 2"),
        (("", "3"), "the specification is empty"),
        (("i=>i", "[red]3[/red]"), "cannot read the shape: '[red]3[/red]' is not a size"),
        (("\ud800=>i", "3"), "has no meaning in a specification"),
    ],
)
def test_errors_are_told_on_stderr(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    err = failure(capsys, "plan", *arguments)
    assert err.startswith("weft: ")
    assert message in err


def test_an_error_shows_the_spec_with_carets(capsys: pytest.CaptureFixture[str]) -> None:
    lines = failure(capsys, "plan", "ij;jk=>ik", "3,4", "5,6").splitlines()
    assert lines[lines.index("    ij;jk=>ik") + 1] == "     ^ ^"
    assert "  A is 3,4" in lines
    assert "  B is 5,6" in lines
    assert lines[-1].startswith("  fix: ")


def test_a_long_line_is_not_wrapped(capsys: pytest.CaptureFixture[str]) -> None:
    spec = ";".join("i" * 200) + "=>i"
    assert f"    {spec}\n" in failure(capsys, "plan", spec, "3")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "command"),
        (("bogus",), "invalid choice: 'bogus'"),
        (("plan",), "spec"),
        (("plan", "i=>i", "3", "--size", "k"), "'k' is not LABEL=N, such as k=3"),
        (("plan", "i=>i", "3", "--size", "k=x"), "'k=x' is not LABEL=N, such as k=3"),
        (("plan", "i=>i", "3", "--size", "k=-1"), "'k=-1' is not LABEL=N, such as k=3"),
        (("plan", "i=>i", "3", "--size", "k=²"), "'k=²' is not LABEL=N, such as k=3"),
        (("plan", "i=>i", "3", "--size"), "expected one argument"),
        (("plan", "i=>i", "3", "--bogus"), "unrecognized arguments: --bogus"),
    ],
)
def test_wrong_arguments(arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = usage(capsys, *arguments)
    assert out == ""
    assert err.startswith("usage: weft")
    assert message in err
    assert "Traceback" not in err


def test_the_module_runs_as_a_program() -> None:
    command = [sys.executable, "-m", "weft.cli", "plan", "ij=>ji", "2,3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == str(wf.plan("ij=>ji", "2,3")) + "\n"


def test_a_label_called_result(capsys: pytest.CaptureFixture[str]) -> None:
    shown = output(capsys, "plan", "i, => i, result", "3", "--size", "result=4")
    assert shown.startswith("i, => i, result   A: 3   R: 3,4\n")


def test_the_error_of_a_command_names_no_line_of_code(capsys: pytest.CaptureFixture[str]) -> None:
    main(["plan", "i=>j", "3"])
    assert capsys.readouterr().err.startswith("weft: nothing says how big `j` is\n    i=>j\n")


def test_a_size_given_twice_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert status("plan", "i=>ij", "3", "--size", "j=3", "--size", "j=4") == 2
    assert "`j`" in capsys.readouterr().err


def status(*arguments: str) -> object:
    try:
        return main(arguments)
    except SystemExit as ended:
        return ended.code


# Comprehensions

TC = """
def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }
def lut(float(V,D) L, int32(B) I) -> (O) { O(b,d) = L(I(b), d) }
def more(float(N) x) -> (y) { y(i) += x(i) * 2 }
"""


@pytest.fixture
def comprehensions(tmp_path: Path) -> str:
    path = tmp_path / "some.tc"
    path.write_text(TC, encoding="utf-8")
    return str(path)


def test_tc_check(comprehensions: str, capsys: pytest.CaptureFixture[str]) -> None:
    printed = output(capsys, "tc", "check", comprehensions)
    assert printed == "mm(A, B) -> (C)\nlut(L, I) -> (O)\nmore(x, y) -> (y)\n"


def test_tc_check_says_all_that_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "wrong.tc"
    path.write_text("def f(float(N) x) -> (y) { y(i) = z(i) + x(i, i) }", encoding="utf-8")
    said = failure(capsys, "tc", "check", str(path))
    assert "line 1, column 35: `z` is neither a tensor nor a builtin" in said
    assert "2 mistakes" in said


def test_tc_run(comprehensions: str, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--sizes", "M=2", "K=3", "N=4", "--times", "1", "--backend", "interp"]
    printed = output(capsys, "tc", "run", comprehensions, "--def", "mm", *sizes)
    assert re.fullmatch(r"C: float32\[2, 4\] = (\S+, ){6}…\n\S+ µs, the best of 1\n", printed)
    assert printed.splitlines()[0] in output(capsys, "tc", "run", comprehensions, "--def", "mm", *sizes)
    other = output(capsys, "tc", "run", comprehensions, "--def", "mm", *sizes, "--seed", "1")
    assert printed.splitlines()[0] not in other


def test_tc_run_indexes_with_numbers_that_fit(comprehensions: str, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--sizes", "V=5", "D=2", "B=3", "--backend", "interp"]
    assert output(capsys, "tc", "run", comprehensions, "--def", "lut", *sizes).startswith("O: float32[3, 2] = ")


def test_tc_show(comprehensions: str, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--sizes", "M=2", "K=3", "N=4", "--backend", "interp"]
    shown = output(capsys, "tc", "show", comprehensions, "--def", "mm", *sizes, "--stage", "ranges")
    assert shown.startswith("C(m, n) +=! A(m, k) * B(k, n) where m in 0:2, n in 0:4, k in 0:3\n")
    text = output(capsys, "tc", "show", comprehensions, "--def", "mm", "--stage", "text")
    assert text == "def mm(float(M, K) A, float(K, N) B) -> (C) {\n    C(m, n) +=! A(m, k) * B(k, n)\n}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "weft: the file has several definitions\n  fix: choose one with --def: mm, lut, more\n"),
        (["--def", "mm"], "weft: `mm` needs the sizes K, M, N\n  fix: give it: --sizes K=N M=N N=N\n"),
        (["--def", "lut", "--sizes", "V=2", "D=2", "B=2", "Q=2"], "weft: `lut` has no size Q\n"),
        (["--def", "more", "--sizes", "N=2"], "weft: `more` accumulates into `y`, which the command has no values for"),
        (["--def", "no"], "weft: there is no definition `no`\n  fix: there are: mm, lut, more\n"),
    ],
)
def test_tc_run_says_what_is_missing(
    arguments: list[str], said: str, comprehensions: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in failure(capsys, "tc", "run", comprehensions, *arguments)


def test_tc_of_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = failure(capsys, "tc", "check", str(tmp_path / "none.tc"))
    assert "none.tc cannot be read: No such file or directory" in said


def test_tc_tune(comprehensions: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    sizes = ("--sizes", "M=2", "K=3", "N=4")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEFT_CACHE", str(tmp_path))
        given = ("tc", "tune", comprehensions, "--def", "mm", *sizes, "--seconds", "0")
        assert main([*given, "--backend", "cc", "--wrt", "A"]) == 0
        printed, said = capsys.readouterr()
        assert "assignments" in printed.splitlines()[0]
        assert printed.endswith(said)
        assert said.startswith("0 schedules tried in ")
        assert "is not cut into kernels" in failure(capsys, *given, "--backend", "interp")


def test_tune_show_and_merge(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    here, there = machine_key(wf.Machine.here()), "elsewhere"
    vectors, written = read_decisions({"i0": "on vectors of 8"}), read_decisions({})
    some = [
        Found("a" * 64, here, vectors, 1e-5, 2e-5, "y =: relu(x)"),
        Found("a" * 64, here, written, 1.5e-5, 2e-5, "y =: relu(x)"),
        Found("b" * 64, there, vectors, 1e-5, 2e-5),
    ]
    others = [replace(some[0], seconds=1.2e-5), replace(some[2], kernel="c" * 64)]
    for name, lines in (("one", some), ("other", others)):
        (tmp_path / name).write_text("".join(f"{one.line}\n" for one in lines) + "damaged\n")
    both = tmp_path / "both.jsonl"
    files = [str(tmp_path / name) for name in ("one", "other")]
    lines = output(capsys, "tune", "merge", *files).splitlines()
    assert lines == [one.line for one in (others[0], *some[1:], others[1])]
    said = output(capsys, "tune", "merge", *files, "--into", str(both))
    assert said == f"{both}: 4 lines; 2 damaged and 1 that said nothing new are left out\n"
    assert both.read_text().splitlines() == lines
    assert output(capsys, "tune", "show", str(both)).splitlines() == [
        "kernel          µs  tuned  times as fast  assignments",
        "aaaaaaaaaaaa  20.0   12.0           1.67  y =: relu(x)",
        "aaaaaaaaaaaa: i0 on vectors of 8",
        "1 schedule in use, 2 of other machines, 1 not the best",
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEFT_CACHE", str(tmp_path))
        assert output(capsys, "tune", "show") == "0 schedules in use\n"
        (tmp_path / "tuned").mkdir()
        (tmp_path / "one").rename(tmp_path / "tuned" / "tuned.jsonl")
        assert ", 1 damaged\n" in output(capsys, "tune", "show")
    assert "cannot be read: No such file" in failure(capsys, "tune", "show", str(tmp_path / "none"))
    assert "cannot be written: " in failure(capsys, "tune", "merge", str(both), "--into", str(both / "below"))


def test_tune_help_says_where_files_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["tune", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "The usual file is tuned/tuned.jsonl in the cache" in said
    assert "weft tune merge a.jsonl b.jsonl --into both.jsonl" in said


# The cache


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with something of each kind, some of it used long ago."""
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    for kind, size in (("cc", 2048), ("routines", 100), ("grammars", 10)):
        (tmp_path / kind).mkdir()
        for days in (0, 40):
            path = tmp_path / kind / (f"{days:040x}" + (".so" if kind == "cc" else ""))
            path.write_bytes(b"x" * size)
            used = time.time() - days * 24 * 3600
            os.utime(path, (used, used))
    (tmp_path / "tuned").mkdir()
    (tmp_path / "tuned" / "tuned.jsonl").write_text("{}\n")
    (tmp_path / "cc" / "notes.txt").write_text("somebody's own")
    return tmp_path


def test_what_is_in_the_cache(kept: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE_LIMIT", "500M")
    lines = output(capsys, "cache", "info").splitlines()
    assert lines == [
        f"folder  {kept}",
        "limit   500 MiB of each kind",
        "compiled kernels: 2, 4 KiB, last used today",
        "kernels for GPUs: none",
        "how routines run: 2, 200 bytes, last used today",
        "parsers: 2, 20 bytes, last used today",
        "what tuning found: 3 bytes",
    ]


def test_clearing_the_cache(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert output(capsys, "cache", "clear", "--older-than", "30") == f"2.107 KiB removed from {kept}\n"
    assert "compiled kernels: 1, 2 KiB" in output(capsys, "cache", "info")
    output(capsys, "cache", "clear")
    left = output(capsys, "cache", "info")
    assert "compiled kernels: none\nkernels for GPUs: none\nhow routines run: none\nparsers: none" in left
    assert "what tuning found: 3 bytes" in left
    output(capsys, "cache", "clear", "--all")
    assert "what tuning found: nothing" in output(capsys, "cache", "info")
    assert [one.name for one in kept.rglob("*") if one.is_file()] == ["notes.txt"]


def test_a_cache_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "nowhere"))
    assert "compiled kernels: none" in output(capsys, "cache", "info")
    assert output(capsys, "cache", "clear").startswith("0 bytes removed")
    assert "'x' is not a whole number from 0 to 999999999" in usage(capsys, "cache", "clear", "--older-than", "x")[1]
    monkeypatch.setenv("WEFT_CACHE_LIMIT", "much")
    assert "WEFT_CACHE_LIMIT is no number of bytes: 'much'" in failure(capsys, "cache", "info")
    monkeypatch.setenv("WEFT_CACHE", "~nobody_here/x")
    assert "WEFT_CACHE names a home that is not there" in failure(capsys, "cache", "clear")
