"""Loop programs written as they print, which is Python's own syntax."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from textwrap import dedent

from weft.affine import Affine
from weft.loops import (
    Buffer,
    Cast,
    Fill,
    For,
    If,
    Inside,
    Let,
    Local,
    Program,
    Read,
    Set,
    Stmt,
    Store,
    Update,
    check,
    show,
    typed,
)
from weft.loops.nests import moved_place
from weft.ops import Call, Num, Scalar
from weft.ops.dtypes import ELEMENT_TYPES

X, Y, Z = (Buffer(at, name, (4, 3), "float32") for at, name in enumerate("XYZ"))
V, W = (Buffer(3 + at, name, (4,), "float32") for at, name in enumerate("VW"))
H = Buffer(5, "H", (4,), "float16")
K = Buffer(6, "K", (4,), "int64")
#: Long enough for vectors.
A, B = (Buffer(7 + at, name, (24, 40), "float32") for at, name in enumerate("AB"))
C, D = Buffer(9, "C", (40,), "float32"), Buffer(10, "D", (1,), "float32")
BUFFERS = {one.name: one for one in (X, Y, Z, V, W, H, K, A, B, C, D)}
#: The range of the static index.
GIVEN = {"s": 4}

_OPERATORS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Lt: "lt", ast.LtE: "le"}


def program(text: str) -> Program:
    """A typed program from its text."""
    body = _Reader().block(ast.parse(dedent(text)).body, {name: Affine(((1, name),)) for name in GIVEN})
    return check(typed(Program(body)), GIVEN)


def text(body: tuple[Stmt, ...]) -> str:
    """How a block that must be well formed prints."""
    return "\n" + show(check(Program(body), GIVEN)) + "\n"


class _Reader:
    def block(self, nodes: Sequence[ast.stmt], known: dict[str, Scalar]) -> tuple[Stmt, ...]:
        done = []
        for node in nodes:
            done.append(self.stmt(node, known))
            if isinstance(node, ast.AnnAssign):
                assert isinstance(done[-1], Let)
                known = {**known, done[-1].local.name: done[-1].local}
        return tuple(done)

    def stmt(self, node: ast.stmt, known: dict[str, Scalar]) -> Stmt:
        match node:
            case ast.For(target=ast.Name(id=loop), iter=ast.Call(args=[ast.Constant(value=int(size))]), body=body):
                return For(loop, size, self.block(body, {**known, loop: Affine(((1, loop),))}))
            case ast.If(test=test, body=body):
                tests = test.values if isinstance(test, ast.BoolOp) else [test]
                return If(tuple(self.test(one, known) for one in tests), self.block(body, known))
            case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id=dtype), value=ast.expr() as value):
                return Let(Local(name, dtype), self.scalar(value, known))
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                local = known[name]
                assert isinstance(local, Local)
                return Set(local, self.scalar(value, known))
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=places))]) if (
                places is ...
            ):
                assert isinstance(node.value, ast.Constant)
                return Fill(BUFFERS[name], node.value.value)
            case ast.Assign(targets=[ast.Subscript() as cell], value=value):
                target = self.read(cell, known)
                return Store(target.buffer, target.at, self.scalar(value, known))
            case ast.AugAssign(target=ast.Subscript() as cell, op=op, value=value):
                target = self.read(cell, known)
                return Update(target.buffer, target.at, _OPERATORS[type(op)], self.scalar(value, known))  # type: ignore[index]
        raise AssertionError(ast.unparse(node))

    def test(self, node: ast.expr, known: dict[str, Scalar]) -> Inside:
        match node:
            case ast.Compare(
                left=ast.Constant(value=0),
                ops=[ast.LtE(), ast.Lt()],
                comparators=[place, ast.Constant(value=int(size))],
            ):
                return Inside(self.place(place, known), size)
        raise AssertionError(ast.unparse(node))

    def read(self, node: ast.Subscript, known: dict[str, Scalar]) -> Read:
        assert isinstance(node.value, ast.Name)
        places = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return Read(BUFFERS[node.value.id], tuple(self.place(one, known) for one in places))

    def place(self, node: ast.expr, known: dict[str, Scalar]) -> Scalar:
        """A subscript: affine where it can be."""
        found = self.affine(node, known)
        return self.scalar(node, known) if found is None else found

    def affine(self, node: ast.expr, known: dict[str, Scalar]) -> Affine | None:
        match node:
            case ast.Constant(value=int(value)):
                return Affine((), value)
            case ast.Name(id=name):
                found = known[name]
                return found if isinstance(found, Affine) else None
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                inner = self.affine(operand, known)
                return None if inner is None else moved_place(Affine(((-1, "x"),)), {"x": inner})
            case ast.BinOp(left=ast.Constant(value=int(factor)), op=ast.Mult(), right=right):
                inner = self.affine(right, known)
                return None if inner is None else moved_place(Affine(((factor, "x"),)), {"x": inner})
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
                one, other = self.affine(left, known), self.affine(right, known)
                if one is None or other is None:
                    return None
                sign = 1 if isinstance(op, ast.Add) else -1
                return moved_place(Affine(((1, "x"), (sign, "y"))), {"x": one, "y": other})
        return None

    def scalar(self, node: ast.expr, known: dict[str, Scalar]) -> Scalar:
        match node:
            case ast.Constant(value=bool() | int() | float() as value):
                return Num(value)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
                return Num(-value)
            case ast.Name(id=name):
                return known[name]
            case ast.Subscript():
                return self.read(node, known)
            case ast.BinOp(left=left, op=op, right=right):
                return Call(_OPERATORS[type(op)], (self.scalar(left, known), self.scalar(right, known)))  # type: ignore[index]
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return Call(_OPERATORS[type(op)], (self.scalar(left, known), self.scalar(right, known)))  # type: ignore[index]
            case ast.Call(func=ast.Name(id=name), args=args):
                inner = tuple(self.scalar(one, known) for one in args)
                return Cast(name, inner[0]) if name in ELEMENT_TYPES else Call(name.rstrip("_"), inner)
        raise AssertionError(ast.unparse(node))
