"""The `weft` command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

import weft
from weft import demo
from weft.backends.doctor import doctor
from weft.cache.report import clear, report
from weft.errors import WeftError
from weft.project.plan import plan_einsum
from weft.schedule.tuning import tuned_report
from weft.tc import cli as comprehensions
from weft.tc.show import STAGES


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    arguments = _parser().parse_args(argv)
    try:
        shown = arguments.run(arguments)
        if shown is not None:
            print(shown)
    except WeftError as error:
        Console(stderr=True, highlight=False, soft_wrap=True).print(Text(f"weft: {error}"))
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="weft", description="A tensor compiler in which shapes and loops infer themselves."
    )
    parser.add_argument("--version", action="version", version=f"weft {weft.__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")
    _add_plan(commands)
    _add_demo(commands)
    _add_tc(commands)
    _add_tune(commands)
    _add_cache(commands)
    _add_doctor(commands)
    return parser


def _add_plan(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "plan",
        help="infer the shapes and loops of one einsum",
        description="Infer the shapes and loops of one einsum and print the loop nest.",
        epilog='example: weft plan "ij;jk=>ik" 3,4 4,5     weft plan "o<+k=>ok" 9 --size k=3',
    )
    parser.add_argument("spec", help='the einsum, such as "ij;jk=>ik"')
    parser.add_argument("shapes", nargs="*", help='one shape for each operand, such as 3,4 or "3,4|2->5"')
    parser.add_argument("--result", help="the result's shape, where the operands do not determine it")
    parser.add_argument(
        "--size", action="append", default=[], metavar="LABEL=N", type=_size, help="the size of a label"
    )
    parser.set_defaults(run=_plan)


def _size(text: str) -> tuple[str, int]:
    label, equals, number = text.partition("=")
    if not equals or not number.strip().isdecimal() or len(number) > 20:
        raise argparse.ArgumentTypeError(f"{text!r} is not LABEL=N, such as k=3")
    return label.strip(), int(number)


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 999999999")
    return int(text)


def _plan(arguments: argparse.Namespace) -> str:
    sizes: dict[str, int] = {}
    for label, size in arguments.size:
        if sizes.setdefault(label, size) != size:
            raise WeftError(f"label `{label}` is given two sizes, {sizes[label]} and {size}", fix="give it one")
    return str(plan_einsum(arguments.spec, arguments.shapes, arguments.result, sizes))


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "demo",
        help="list the examples, or run one",
        description="List the examples, or run one: a whole program that trains a model and says what it shows.",
        epilog="example: weft demo two_moons     weft demo gpt --steps 50     weft demo gpt --help",
    )
    parser.add_argument("--plans", action="store_true", help="show five einsums and their loops instead")
    parser.add_argument("name", nargs="?", help="the example to run (default: list them)")
    parser.add_argument("options", nargs=argparse.REMAINDER, help="its options: weft demo NAME --help lists them")
    parser.set_defaults(run=_demo)


def _demo(arguments: argparse.Namespace) -> str | None:
    if arguments.name is None:
        return demo.plans() if arguments.plans else demo.listing()
    demo.run(arguments.name, arguments.options)
    return None


def _add_tc(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "tc",
        help="check, run, tune or show a file of tensor comprehensions",
        description="Check, run, tune or show the definitions of a file in the Tensor Comprehensions language.",
        epilog="example: weft tc run matmul.tc --def mm --sizes M=64 K=32 N=16",
    )
    actions = parser.add_subparsers(required=True, metavar="action")
    checking = actions.add_parser("check", help="say what is wrong with a file, or what it defines")
    running = actions.add_parser("run", help="run a definition on random numbers and time it")
    tuning = actions.add_parser("tune", help="look for better schedule options, and keep them for later processes")
    showing = actions.add_parser("show", help="print a stage of a definition")
    for one in (checking, running, tuning, showing):
        one.add_argument("file", type=Path, help="the file, such as matmul.tc")
    for one in (running, tuning, showing):
        one.add_argument("--def", dest="name", metavar="NAME", help="the definition, where the file has several")
        one.add_argument(
            "--sizes", nargs="+", default=[], metavar="NAME=N", type=_size, help="the values of the size variables"
        )
        one.add_argument("--backend", help='"cc", "cuda" or "interp" (default: the best that works)')
    running.add_argument("--times", type=_whole, default=10, help="how often to run it (default: %(default)s)")
    running.add_argument("--seed", type=_whole, default=0, help="of the random numbers (default: %(default)s)")
    tuning.add_argument("--seconds", type=float, default=10.0, help="how long to look (default: %(default)s)")
    tuning.add_argument("--wrt", nargs="+", metavar="NAME", help="tune the gradients by these parameters")
    showing.add_argument(
        "--stage", default="kernels", choices=["text", *STAGES], help="what to print (default: %(default)s)"
    )
    checking.set_defaults(run=lambda given: comprehensions.check(given.file))
    running.set_defaults(run=_tc_run)
    tuning.set_defaults(run=_tc_tune)
    showing.set_defaults(
        run=lambda given: comprehensions.show(given.file, given.name, given.stage, dict(given.sizes), given.backend)
    )


def _tc_run(given: argparse.Namespace) -> str:
    sizes = dict(given.sizes)
    return comprehensions.run(given.file, given.name, sizes, backend=given.backend, seed=given.seed, times=given.times)


def _add_tune(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "tune",
        help="show or merge what tuning found",
        description="What routine.tune(), a comprehension's autotune() and `weft tc tune` find is kept in files of "
        "JSON lines, one for each schedule of a kernel on a kind of machine. Every process uses the best of them. "
        "Files merge by concatenation, so what was found elsewhere can simply be appended.",
        epilog="The usual file is tuned/tuned.jsonl in the cache (`weft cache info` says where that is, WEFT_CACHE "
        "sets it); wf.config.tuned names another, or none. Example: weft tune merge a.jsonl b.jsonl --into both.jsonl",
    )
    actions = parser.add_subparsers(required=True, metavar="action")
    showing = actions.add_parser(
        "show",
        help="print the schedules in use on this machine, and what each gained",
        description="Print the schedules in use on this machine, what each kernel took without and with them, and how "
        "many lines are of other machines, are not the best, or are damaged.",
    )
    merging = actions.add_parser(
        "merge",
        help="make one file of several, without what is damaged or said twice",
        description="Print the lines of some files, each schedule once and none that is damaged; or write them to a "
        "file, as a whole: `weft tune merge --into` the usual file itself tidies it up.",
    )
    for one in (showing, merging):
        one.add_argument("files", nargs="*", type=Path, metavar="file", help="the files (default: the usual one)")
    merging.add_argument("--into", type=Path, metavar="FILE", help="write them there, in place of what it holds")
    showing.set_defaults(run=lambda given: tuned_report.show(given.files))
    merging.set_defaults(run=lambda given: tuned_report.merge(given.files, given.into))


def _add_cache(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "cache",
        help="show or clear what weft keeps from one process to the next",
        description="Compiled kernels, how routines run, and parsers are kept in a folder, so that the next process "
        "need not make them again. All of it may be removed at any time.",
        epilog="WEFT_CACHE is the folder; WEFT_CACHE_LIMIT is how many bytes each kind may take, such as 500M, 2G or "
        "none (default 1G). What was used longest ago goes first, and what was not used for 90 days.",
    )
    actions = parser.add_subparsers(required=True, metavar="action")
    info = actions.add_parser("info", help="print where it is, how much there is, and the limit")
    clearing = actions.add_parser(
        "clear",
        help="remove it",
        description="Remove compiled kernels, routines and parsers. What tuning found stays, unless --all is given.",
    )
    clearing.add_argument(
        "--older-than", type=_whole, default=0, metavar="DAYS", help="only what was not used for so many days"
    )
    clearing.add_argument("--all", action="store_true", help="what tuning found too")
    info.set_defaults(run=lambda given: report())
    clearing.set_defaults(run=lambda given: clear(given.older_than, given.all))


def _add_doctor(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "doctor",
        help="say which backends work here, and what the others lack",
        description="Say which backends work here, what they compile with and run on, and what the others lack.",
    )
    parser.set_defaults(run=lambda given: f"weft {weft.__version__}, {doctor()}")


def _tc_tune(given: argparse.Namespace) -> str:
    sizes = dict(given.sizes)
    return comprehensions.tune(
        given.file, given.name, sizes, backend=given.backend, seconds=given.seconds, wrt=given.wrt
    )


if __name__ == "__main__":
    sys.exit(main())
