"""Prints the loop language."""

from __future__ import annotations

from collections.abc import Iterator

from weft.affine import Affine
from weft.loops.nodes import (
    Cast,
    Fill,
    For,
    If,
    Let,
    Local,
    Program,
    Read,
    Remark,
    Set,
    Staged,
    Stmt,
    Store,
    Update,
)
from weft.ops import OPS, Call, Num, Scalar


def show(program: Program) -> str:
    return "\n".join(line for stmt in program.body for line in _lines(stmt, ""))


def show_scalar(scalar: Scalar) -> str:
    match scalar:
        case Num(value=value):
            return repr(value)
        case Cast(value=Num() | Affine() as value):
            return show_scalar(value)
        case Cast(dtype=dtype, value=value):
            return f"{dtype}({_top(value)})"
        case Affine(terms=terms, offset=offset):
            signs = {1: "", -1: "-"}
            names = [f"{signs.get(coefficient, f'{coefficient}*')}{name}" for coefficient, name in terms]
            return " + ".join(names + ([str(offset)] if offset or not names else [])).replace("+ -", "- ")
        case Local(name=name):
            return name
        case Read(buffer=buffer, at=at):
            return f"{buffer.name}[{', '.join(map(show_scalar, at))}]"
        case Call(op=op, args=args):
            shown = list(map(show_scalar, args))
            if op in ("add", "sub", "mul", "div", "lt", "le"):
                sums = [isinstance(arg, Affine) and " " in text for arg, text in zip(args, shown, strict=True)]
                left, right = (f"({text})" if is_sum else text for text, is_sum in zip(shown, sums, strict=True))
                return f"({left} {OPS[op].text} {right})"
            return f"{op}({', '.join(shown)})"
    raise AssertionError(f"not a scalar of the loop language: {scalar!r}")


def _lines(stmt: Stmt, indent: str) -> Iterator[str]:
    match stmt:
        case For(loop=loop, size=size, body=body, how=how):
            yield f"{indent}for {loop} in range({size}){' ' if how else ''}{', '.join(map(str, how))}:"
            yield from _body(body, indent)
        case If(tests=tests, body=body):
            yield f"{indent}if " + " and ".join(f"0 <= {show_scalar(test.place)} < {test.size}" for test in tests) + ":"
            yield from _body(body, indent)
        case Store(buffer=buffer, at=at, value=value):
            yield f"{indent}{show_scalar(Read(buffer, at))} = {_top(value)}"
        case Update(buffer=buffer, at=at, op=op, value=value):
            target = show_scalar(Read(buffer, at))
            if op in ("add", "sub", "mul", "div"):
                yield f"{indent}{target} {OPS[op].text}= {_top(value)}"
            else:
                yield f"{indent}{target} = {op}({target}, {_top(value)})"
        case Fill(buffer=buffer, value=number):
            yield f"{indent}{buffer.name}[...] = {number!r}"
        case Let(local=local, value=value):
            yield f"{indent}{local.name}: {local.dtype} = {_top(value)}"
        case Set(local=local, value=value):
            yield f"{indent}{local.name} = {_top(value)}"
        case Remark(text=text, body=body):
            yield f"{indent}# {text}"
            for one in body:
                yield from _lines(one, indent)
        case Staged(what=what, body=body):
            groups = {"left": what.left, "right": what.right, "sums": what.sums}
            told = "; ".join(f"{name} {', '.join(loops)}" for name, loops in groups.items() if loops)
            yield f"{indent}product of {told}{f' {what.tile}' if what.tile else ''}:"
            yield from _body(body, indent)


def _body(body: tuple[Stmt, ...], indent: str) -> Iterator[str]:
    for stmt in body:
        yield from _lines(stmt, indent + "    ")


def _top(value: Scalar) -> str:
    """A scalar without the parentheses that only nesting needs."""
    text = show_scalar(value)
    return text[1:-1] if isinstance(value, Call) and text.startswith("(") else text
