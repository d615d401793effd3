"""The machine as a value: what it has is read, what it does in a second is tried once."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest

import weft as wf
from runtime.scripts import run_script
from weft import machine
from weft.loops import Buffer
from weft.optimise.latency import pass_ns, waiting_ns


def test_this_machine_is_looked_at_once_and_not_when_weft_is_imported() -> None:
    assert wf.Machine.here() is wf.Machine.here()
    script = (
        "from weft import machine; print(machine._here.cache_info().misses, wf.config.machine == wf.Machine.here())"
    )
    assert run_script(script).stdout == "0 True\n"


def test_what_it_has_is_of_some_sense() -> None:
    here = wf.Machine.here()
    assert here.vector_bytes in (16, 32, 64)
    assert here.registers in (16, 32)
    assert here.cores >= 1
    assert here.line_bytes in (32, 64, 128, 256)
    assert list(here.caches) == sorted(here.caches)
    assert len(here.identity) == 16


@pytest.mark.parametrize(
    ("words", "vectors"),
    [
        ("flags : sse2 avx avx512f", (64, 32)),
        ("flags : sse2 avx", (32, 16)),
        ("Features : asimd", (16, 32)),
        ("", (16, 16)),
    ],
)
def test_vectors_are_told_by_the_processor_s_words(
    words: str, vectors: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "described", lambda: [words])
    made = machine._here.__wrapped__()
    assert (made.vector_bytes, made.registers) == vectors
    assert made.identity != wf.Machine.here().identity


@pytest.mark.parametrize(
    ("words", "narrow"),
    [
        ("flags : sse2 avx avx512f avx512_vnni avx512_bf16 avx_vnni", "bfloat16 int8"),
        ("flags : sse2 avx avx512f avx512_vnni", "int8"),
        ("flags : sse2 avx avx_vnni", "int8"),
        ("flags : sse2 avx avx512f", ""),
    ],
)
def test_so_are_products_of_narrow_types(words: str, narrow: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "described", lambda: [words])
    assert machine._here.__wrapped__().narrow == narrow


def test_speeds_are_measured_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    found = wf.Machine.here().measured()
    assert found.bytes_per_s < found.cached_bytes_per_s
    assert found.last_cached_bytes_per_s > 0
    assert replace(found, **{one: getattr(wf.Machine(), one) for one in SPEEDS}) == wf.Machine.here()
    monkeypatch.setattr(machine, "_speeds", lambda _: pytest.fail("it was measured again"))
    assert wf.Machine.here().measured() == found


SPEEDS = ("flops_per_s", "bytes_per_s", "cached_bytes_per_s", "last_cached_bytes_per_s")


def test_costs_are_those_of_the_machine_that_is_asked_about() -> None:
    common = wf.Machine()
    slow = replace(common, bytes_per_s=common.bytes_per_s / 10, call_ns=30.0, wait_ns=1.0, latency_ns=100.0)
    large, huge = (Buffer(0, "large", (size,), "float32") for size in (1 << 20, 1 << 24))
    assert pass_ns(slow, huge) == 30.0 + 10 * (pass_ns(common, huge) - 15.0)
    assert pass_ns(slow, large) == 15.0 + pass_ns(common, large)  # the last cache holds it
    assert pass_ns(replace(common, caches=(1 << 15, 1 << 23)), large) < pass_ns(common, large)
    assert waiting_ns(slow, 1, 1, 2) > waiting_ns(common, 1, 1, 2)


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"vector_bytes": 0}, "Machine.vector_bytes is a number above 0, not 0"),
        ({"caches": (1,)}, "Machine.caches is a tuple of sizes in bytes, two at least, not (1,)"),
        ({"isa": 3}, "Machine.isa is text, not 3"),
        ({"narrow": "int8 int4"}, "Machine.narrow is some of bfloat16, int8, not 'int8 int4'"),
        ({"call_ns": "fast"}, "Machine.call_ns is a number above 0, not 'fast'"),
    ],
)
def test_what_no_machine_is(wrong: dict[str, object], what: str) -> None:
    with pytest.raises(wf.WeftError) as caught:
        wf.Machine(**wrong)  # type: ignore[arg-type]
    assert caught.value.what == what
    assert "dataclasses.replace(wf.Machine.here(), …)" in str(caught.value)


def test_every_field_tells_machines_apart() -> None:
    one = wf.Machine()
    for field in fields(one):
        value = getattr(one, field.name)
        other = f"{value}!" if isinstance(value, str) else (*value, 1 << 30) if isinstance(value, tuple) else 2 * value
        changed = replace(one, **{field.name: "int8" if field.name == "narrow" else other})
        assert changed != one
        assert repr(changed) != repr(one)


@pytest.mark.parametrize(
    ("vendor", "family", "flags", "halves", "near"),
    [
        ("AuthenticAMD", "25", "sse2 avx avx512f", True, True),
        ("AuthenticAMD", "25", "sse2 avx avx2", False, False),  # of the same family, without such vectors
        ("AuthenticAMD", "26", "sse2 avx avx512f", False, True),
        ("GenuineIntel", "6", "sse2 avx avx512f", False, False),
    ],
)
def test_what_is_known_of_a_family_of_processors(
    vendor: str, family: str, flags: str, halves: bool, near: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which run wide vectors in two halves, and to which a line of the second cache comes meanwhile."""
    lines = ["Linux", f"vendor_id\t: {vendor}", f"cpu family\t: {family}", f"flags\t\t: {flags}"]
    monkeypatch.setattr(machine, "described", lambda: lines)
    made, common = machine._here.__wrapped__(), wf.Machine()
    assert (made.narrow_steps < common.narrow_steps) is halves
    assert (made.held_steps < common.held_steps) is near
