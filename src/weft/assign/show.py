"""Prints code in the assignment notation: `p =- learning_rate *. sgd_delta`."""

from __future__ import annotations

from weft.assign.nodes import (
    Accum,
    Arg,
    Cells,
    Code,
    Comment,
    Data,
    Extent,
    Fetch,
    File,
    Keep,
    Node,
    Noop,
    Offset,
    Operand,
    Record,
    Seq,
    Symbol,
)
from weft.ops import OPS, Call, Num, Scalar
from weft.shape.logic import Compose, Einsum, Logic, Pointwise, Slice, Transpose


def show(code: Code) -> str:
    """The notation of one piece of code; several statements go on several lines."""
    match code:
        case Noop() | Keep():
            return ""
        case Seq(codes=codes):
            return ";\n".join(text for one in codes if (text := show(one)))
        case Comment(text=text, body=body):
            return f'~~("{text}";\n' + "\n".join("  " + line for line in show(body).splitlines()) + ")"
        case Accum():
            return _accum(code)
        case Fetch(node=node, source=source):
            return f"{node.label} =: {_source(source)}"


def _accum(code: Accum) -> str:
    sign = "=" + (":" if code.reset else "") + ("" if code.accum == "arg2" else OPS[code.accum].text)
    logic = _logic(code)
    value = _value(code.value, code.operands, top=True, pointwise=logic == "")
    return f"{code.lhs.label} {sign} {value}{logic}"


def _logic(code: Accum) -> str:
    """How the assignment's loops are found, where that is not pointwise."""
    record = code.record
    text = logic_text(record.operation.logic)
    if not record.direct and not isinstance(record.operation.logic, Pointwise):
        return f' ~logic:"{text}" ~slots:"{_slots(record)}"'
    return "" if text == "." else f' ~logic:"{text}"'


def _slots(record: Record) -> str:
    return f"{','.join(map(str, record.operands))}=>{record.lhs}"


def logic_text(logic: Logic) -> str:
    match logic:
        case Pointwise():
            return "."
        case Compose():
            return "@"
        case Transpose():
            return "T"
        case Einsum(spec=spec):
            return spec.text
        case Slice(at=at):
            return f"@|{at}"
    return str(logic)


def show_operand(operand: Operand) -> str:
    """An operand by its name, or by its definition where it was written inline."""
    if isinstance(operand, Node) and operand.inline and isinstance(operand.definition, Accum):
        inner = operand.definition
        return f"({_value(inner.value, inner.operands, top=True, pointwise=True)}{_logic(inner)})"
    if isinstance(operand, Node) and operand.inline and isinstance(operand.definition, Fetch):
        return _source(operand.definition.source)
    return str(operand)


def _value(value: Scalar, operands: tuple[Operand, ...], top: bool, pointwise: bool) -> str:
    match value:
        case Arg(number=number):
            return show_operand(operands[number])
        case Num(value=number):
            return repr(number)
        case Symbol(name=name):
            return name
        case Extent(label=label):
            return f"dim {label}"
        case Offset():
            return "range"
        case Call(op=op, args=args):
            shown = [_value(arg, operands, False, pointwise) for arg in args]
            if OPS[op].infix:
                sign = "*." if op == "mul" and pointwise else OPS[op].text
                text = f"{shown[0]} {sign} {shown[1]}"
            else:
                text = f"{op}({', '.join(shown)})"
            return text if top or not OPS[op].infix else f"({text})"
    raise AssertionError(f"not a scalar of an assignment: {value!r}")


def _source(source: Cells | Data | File) -> str:
    match source:
        case Cells(value=value):
            return _value(value, (), True, True)
        case Data(array=array):
            return f"data {array.dtype}{list(array.shape)}"
        case File(path=path):
            return f"file {path!r}"
