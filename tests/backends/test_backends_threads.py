"""Threads that share loops: what is computed does not depend on them, whatever happens to them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

import weft as wf
from backends.compilers import real
from weft.backends.cc import Cc, threads
from weft.backends.cc.loader import _prelude, _text
from weft.schedule import CompileOptions

RNG = np.random.default_rng(0)

#: A machine so slow that every loop is worth sharing.
SLOW = wf.Machine(cores=2, flops_per_s=1e6, cached_bytes_per_s=1e6)


def options(**changes: object) -> CompileOptions:
    return CompileOptions(machine=SLOW, chunk_ns=100, verify=True).but(**changes)


def numbers(*shape: int, batch: int = 0) -> wf.Tensor:
    return wf.data(RNG.standard_normal(shape).astype("float32"), batch=batch)


def programs() -> dict[str, wf.Tensor]:
    """One of each kind of code that threads share."""
    x, rows, table = numbers(70, 37), numbers(45, 130, batch=1), numbers(50, 8)
    ids = wf.data(RNG.integers(0, 50, 64), batch=1)
    return {
        "pointwise": wf.tanh(x * 2.0) + x,
        "a sum": wf.einsum("...|... => 0", x * x),
        "columns": wf.einsum("b|d => d", rows),
        "softmax": wf.softmax(rows),
        "argmax": wf.argmax(rows),
        "variance": wf.var(rows),
        "the largest": wf.einsum("ij => 0", x, accum="max"),
        "a product": wf.einsum("ij; jk => ik", numbers(33, 65), numbers(65, 100)),
        "few columns": wf.einsum("ij; jk => ik", numbers(300, 64), numbers(64, 10)),
        "a sum beside a product": wf.einsum(
            "ij => j", wf.einsum("ij; jk => ik", numbers(64, 40), numbers(40, 64)) * 2.0
        ),
        "batches": wf.einsum("bij; bjk => bik", numbers(5, 24, 30), numbers(5, 30, 40)),
        "looked up": wf.einsum("v, d; ...|@v => ...|d", table, ids),
        "scattered": wf.einsum("b|d; b|@v => v, d", numbers(64, 8, batch=1), ids, v=50),
        "running totals": wf.cumsum(rows),
    }


def test_what_is_computed_does_not_depend_on_threads() -> None:
    made = programs()
    found, names = {}, {}
    for count in (1, 2, 3, 8):
        ctx = wf.Context("cc")
        code = wf.seq(*(one.forward for one in made.values()))
        routine = ctx.compile(code, keep=made.values(), options=options(threads=count))
        for _ in range(3):
            routine()
        found[count] = {name: ctx[one] for name, one in made.items()}
        names[count] = routine.show("source")
    shown = routine.show("kernels")
    assert shown.count(" on threads by ") > len(made)
    assert "columns on threads" in shown
    assert "rows on threads" in shown
    assert len(set(names.values())) == 1
    oracle = wf.Context("interp")
    for name, tensor in made.items():
        for count in (2, 3, 8):
            np.testing.assert_array_equal(found[count][name], found[1][name], err_msg=f"{name} on {count} threads")
        np.testing.assert_allclose(found[1][name], oracle[tensor], rtol=2e-5, atol=2e-5, err_msg=name)


#: Runs a product, a sum and rows; prints what they are and how many threads there are then.
SCRIPT = """
import hashlib, json, os, sys
import numpy as np
import weft as wf
FIRST
rng = np.random.default_rng(0)
ctx, made = wf.Context("cc"), []
a, b = (wf.data(rng.standard_normal((200, 300)).astype("float32"), batch=1) for _ in range(2))
made = [wf.einsum("i|j; k|j => i|k", a, b), wf.einsum("...|... => 0", a), wf.softmax(a)]
step = ctx.compile(wf.seq(*(one.forward for one in made)), keep=made)

def told():
    step()
    found = hashlib.sha256(b"".join(ctx[one].tobytes() for one in made)).hexdigest()
    return found, len(os.listdir("/proc/self/task"))

before = len(os.listdir("/proc/self/task"))
print(json.dumps([*told(), before, "on threads" in step.show("kernels")]))
REST
"""
#: As if no thread could be started.
REFUSING = """
#include <errno.h>
#include <pthread.h>
int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *x) { return EAGAIN; }
"""
#: As in a container, whose control group is in a folder.
CONTAINED = """
from pathlib import Path
from weft.backends.cc import threads
quotas = threads.quotas
threads.quotas = lambda *_: quotas(Path("FOLDER/membership"), Path("FOLDER"))
"""
#: A child that is forked after a run, and one of that one, run again.
FORKS = """
def again(depth):
    child = os.fork()
    if child:
        return not os.waitpid(child, 0)[1]
    right = told() == told() == (found, before + 1)
    os._exit(0 if right and (not depth or again(depth - 1)) else 1)

found = told()[0]
print(json.dumps([*told(), before, again(1)]))
"""


def ran(cache: Path, first: str = "", rest: str = "", **environment: str) -> list[list[object]]:
    script = SCRIPT.replace("FIRST", first).replace("REST", rest)
    here = {**os.environ, "WEFT_CACHE": str(cache), "OPENBLAS_NUM_THREADS": "1", **environment}
    done = subprocess.run([sys.executable, "-c", script], env=here, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_whatever_threads_there_are_the_numbers_are_the_same(tmp_path: Path) -> None:
    """One core, half a one, one thread allowed, none to be had, two of them, and a process that forks."""
    refusing = tmp_path / "refusing.so"
    (tmp_path / "refusing.c").write_text(REFUSING)
    command = [*Cc().compiler.command, "-shared", "-fPIC", str(tmp_path / "refusing.c"), "-o", str(refusing)]
    subprocess.run(command, check=True)
    (tmp_path / "membership").write_text("0::/limited\n")
    (tmp_path / "limited").mkdir()
    (tmp_path / "limited" / "cpu.max").write_text("50000 100000\n")
    two = "wf.config.threads = 2"
    alone = [
        ran(tmp_path, "os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])"),
        ran(tmp_path, CONTAINED.replace("FOLDER", str(tmp_path))),
        ran(tmp_path, OMP_NUM_THREADS="1"),
        ran(tmp_path, two, LD_PRELOAD=str(refusing)),
    ]
    shared, forked = ran(tmp_path, two, FORKS)
    if wf.Machine.here().cores > 1:
        assert shared[1:] == [2, 1, True]
        assert forked == shared
    for ((found, there, before, _),) in alone:
        assert (found, there) == (shared[0], before)


def test_two_threads_run_routines_at_once() -> None:
    """One of them has the team, the other works alone; a thousand runs each."""
    made = [(numbers(64, 80), numbers(80, 90)) for _ in range(2)]
    runs, results = [], []
    for a, b in made:
        ctx = wf.Context("cc")
        result = wf.softmax(wf.einsum("ij; jk => ik", a, b))
        run = ctx.compile(result.forward, keep=[result], options=options(threads=3))
        run()
        runs.append(run)
        results.append((ctx, result, ctx[result]))
    workers = [Thread(target=lambda run=run: [run() for _ in range(1000)]) for run in runs]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    for ctx, result, before in results:
        np.testing.assert_array_equal(ctx[result], before)


#: Callers that come at once, with all numbers of threads, of a team whose threads look for work long, briefly or never.
RACES = """
static int64_t cells[2][1 << 12], took;
static void part(const void *of, int64_t first, int64_t end, char *scratch)
{
    for (int64_t at = first; at < end; at++) ((int64_t *)of)[at]++;
    scratch[0]++;
}
static void *caller(void *mine)
{
    static char scratch[2][16 * 64];
    char *const own = scratch[mine == cells[1]];
    for (int run = 0; run < 300; run++) {
        const weft_work work = {part, mine, 1 << 12, 16 + run % 100, own, 64, &took};
        weft_share(&work, 1 + run % 8, run % 3 * 5000);
    }
    return 0;
}
int main(void)
{
    pthread_t other;
    if (pthread_create(&other, 0, caller, cells[1])) return 1;
    caller(cells[0]);
    pthread_join(other, 0);
    for (int64_t at = 0; at < 1 << 13; at++)
        if (cells[0][at] != 300) return 2;
    return 0;
}
"""


def test_the_team_has_no_races(tmp_path: Path) -> None:
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("there is no gcc")
    source, program = tmp_path / "races.c", tmp_path / "races"
    source.write_text(f"{_prelude()}\n{_text('team.h')}\n{RACES}")
    command = [gcc, "-std=c11", "-O1", "-w", "-fsanitize=thread", str(source), "-o", str(program), "-lm", "-lpthread"]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("this gcc has no thread sanitizer")
    done = subprocess.run(["setarch", "-R", str(program)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


#: Two chunks that take long, again and again, each time after the team has fallen asleep.
SLEEPERS = """
static pthread_t who[2];
static void wait_ms(int64_t ms) { nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, 0); }
static void part(const void *of, int64_t first, int64_t end, char *scratch)
{
    for (int64_t at = first; at < end; at++) who[at / 3] = pthread_self();
    wait_ms(20);
}
int main(void)
{
    static char scratch[2 * 64];
    int64_t took = 0, together = 0;
    for (int run = 0; run < 8; run++) {
        weft_share(&(weft_work){part, 0, 5, 3, scratch, 64, &took}, 2, 1000);
        together += who[0] != who[1];
        wait_ms(5);
    }
    return together < 4;
}
"""


def test_sleepers_are_woken_for_what_took_long(tmp_path: Path) -> None:
    """Also where there are but two chunks, and the second is shorter."""
    assert run_team(SLEEPERS, tmp_path).returncode == 0


#: Seven chunks, the last shorter, of which each takes a millisecond: whose they are, and how often each was done.
ENDS = """
static pthread_t caller;
static char who[8];
static void part(const void *of, int64_t first, int64_t end, char *scratch)
{
    who[first / 3] = who[first / 3] ? '2' : pthread_equal(pthread_self(), caller) ? 'c' : 'w';
    for (int64_t end = weft_now() + 1000000; weft_now() < end;) {}
}
int main(void)
{
    static char scratch[2 * 64];
    int64_t took = 0;
    caller = pthread_self();
    for (int run = 0; run < 20; run++) {
        for (int at = 0; at < 7; at++) who[at] = 0;
        weft_share(&(weft_work){part, 0, 20, 3, scratch, 64, &took}, 2, 1000000000);
        puts(who);
    }
    return 0;
}
"""


def test_the_caller_works_from_the_front_and_others_from_the_back(tmp_path: Path) -> None:
    """Whoever is slower, each has the same end in every round, and each chunk is done once."""
    found = run_team(ENDS, tmp_path).stdout.split()
    assert all(re.fullmatch("c*w*", one) and len(one) == 7 for one in found)
    assert wf.Machine.here().cores < 2 or any("w" in one for one in found)


def run_team(main: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """What a program prints and returns that has the team's code."""
    source, program = folder / "team.c", folder / "team"
    source.write_text(f"#define _GNU_SOURCE\n#include <stdio.h>\n{_prelude()}\n{_text('team.h')}\n{main}")
    command = [*real().command, "-std=gnu11", "-w", str(source), "-o", str(program), "-lm", "-lpthread"]
    subprocess.run(command, check=True, capture_output=True)
    return subprocess.run([str(program)], capture_output=True, text=True)


#: A thread that goes to the caller's processor at the end of every round, and may run anywhere again.
TOGETHER = """
static pthread_t caller;
static cpu_set_t all, one;
static _Atomic int joined, apart, confined;
static void part(const void *of, int64_t first, int64_t end, char *scratch)
{
    if (!pthread_equal(pthread_self(), caller)) {
        cpu_set_t may;
        joined++;
        sched_getaffinity(0, sizeof may, &may);
        confined += !CPU_EQUAL(&may, &all);
        apart += !CPU_ISSET(sched_getcpu(), &one);
        sched_setaffinity(0, sizeof one, &one);
        sched_setaffinity(0, sizeof all, &all);
    }
    for (int64_t end = weft_now() + 1000000; weft_now() < end;) {}
}
int main(void)
{
    static char scratch[2 * 64];
    int64_t took = 0;
    caller = pthread_self();
    sched_getaffinity(0, sizeof all, &all);
    if (CPU_COUNT(&all) < 2) return 77;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    for (int run = 0; run < 100; run++) {
        weft_share(&(weft_work){part, 0, 2, 1, scratch, 64, &took}, 2, 1000000000);
        sched_setaffinity(0, sizeof one, &one); /* once there is a second thread, which may run anywhere */
    }
    printf("%d joined, %d apart, %d confined", joined, apart, confined);
    return 0;
}
"""


def test_threads_of_a_round_run_on_processors_of_their_own(tmp_path: Path) -> None:
    """Wherever the system put them before; and none is kept from any processor by that."""
    done = run_team(TOGETHER, tmp_path)
    if done.returncode == 77:
        pytest.skip("there is but one processor")
    joined, apart, confined = (int(word) for word in done.stdout.split() if word.isdecimal())
    assert confined == 0
    assert 2 * apart >= joined > 0


# How many threads there may be


@pytest.mark.parametrize(
    ("membership", "files", "limits"),
    [
        ("0::/\n", {"cpu.max": "50000 100000\n"}, [0.5]),
        (
            "0::/a/b\n",
            {"cpu.max": "max 100000\n", "a/cpu.max": "300000 100000\n", "a/b/cpu.max": "150000 100000\n"},
            [3.0, 1.5],
        ),
        (
            "4:memory:/m\n3:cpu,cpuacct:/c\n",
            {"cpu/c/cpu.cfs_quota_us": "25000\n", "cpu/c/cpu.cfs_period_us": "10000\n"},
            [2.5],
        ),
        ("1:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "10000\n"}, []),
        ("no such line\n", {}, []),
        ("", {}, []),
    ],
)
def test_the_quota_of_control_groups(
    membership: str, files: dict[str, str], limits: list[float], tmp_path: Path
) -> None:
    (tmp_path / "membership").write_text(membership)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert list(threads.quotas(tmp_path / "membership", tmp_path)) == limits


def test_half_a_processor_is_worth_a_thread_beside_another() -> None:
    assert [threads.whole(one) for one in (0.1, 0.5, 1.0, 1.4, 1.5, 2.4, 3.9)] == [1, 1, 1, 1, 2, 2, 4]


@pytest.mark.parametrize(("told", "most"), [("", 5), ("3", 3), ("2,1", 2), ("0", 5), ("-1", 5), ("many", 5), ("9", 5)])
def test_as_many_threads_as_one_is_told(told: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", told)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(5)))
    monkeypatch.setattr(threads, "_quota", lambda: 8)
    assert threads.usable_threads() == most
    monkeypatch.setattr(threads, "_quota", lambda: 1)
    assert threads.usable_threads() == 1


def test_how_many_threads_is_a_setting() -> None:
    with wf.config.using(threads=3):
        assert wf.config.threads == 3
    for wrong in (-1, 257, "2", True):
        with pytest.raises(wf.WeftError, match=r"config\.threads is a whole number from 0 to 256, not"):
            wf.CompileOptions(threads=wrong)
