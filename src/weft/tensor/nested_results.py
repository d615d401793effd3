"""What a layer's function returns: a tensor, or tuples, lists, dicts, named tuples and dataclasses of tensors, nested.

Each tensor is a part at a path, and is called by it:

    return h, c                          h, c              variables that stand in the `return`
    return {"out": y, "state": (h, c)}   out, state.h, state.c
    return y, [f(x) for f in fs]         y, 1.0, 1.1, …    where there is no name, the position
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeAlias

from weft.errors import Origin, WeftError, said_at
from weft.lazy import lazy_property
from weft.tensor.scope import is_array
from weft.tensor.tensor import Tensor, is_number

#: Where a part stands: positions in tuples and lists, keys, and names of fields.
Path: TypeAlias = tuple[object, ...]


def parts(value: object) -> Iterator[tuple[Path, object]]:
    """What tuples, lists, dicts, named tuples and dataclasses hold, each with its path; anything else is one part."""
    rest: list[tuple[Path, object, tuple[int, ...]]] = [((), value, ())]
    while rest:
        path, one, around = rest.pop()
        inner = _inner(one)
        if inner is None:
            yield path, one
            continue
        if id(one) in around:
            raise WeftError(f"a {type(one).__name__} contains itself, so its tensors have no end")
        rest += [((*path, key), part, (*around, id(one))) for key, part in reversed(inner)]


def _inner(value: object) -> list[tuple[object, object]] | None:
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, tuple | list):
        return list(zip(getattr(value, "_fields", range(len(value))), value, strict=True))
    own = type(value).__module__.partition(".")[0] == "weft"  # code, sizes: values of weft, not structures of tensors
    if is_dataclass(value) and not isinstance(value, type) and not own:
        return [(one.name, getattr(value, one.name)) for one in fields(value)]
    return None


def structured_as(value: Any, found: Iterator[object]) -> Any:
    """The same structure with other parts, in the order of `parts`."""
    inner = _inner(value)
    if inner is None:
        return next(found)
    made: list[Any] = [structured_as(part, found) for _, part in inner]
    match value:
        case Mapping():
            return dict(zip([key for key, _ in inner], made, strict=True))
        case list():
            return made
        case tuple():
            return type(value)(*made) if hasattr(value, "_fields") else tuple(made)
    return type(value)(**dict(zip([str(key) for key, _ in inner], made, strict=True)))


@dataclass(frozen=True)
class Returns:
    """What the `return` statements of a function say, as far as its source can be read."""

    function: Callable[..., Any]

    def tensors(self, result: object) -> dict[Path, Tensor]:
        """The tensors of a result by their paths; anything else is refused."""
        found: dict[Path, Tensor] = {}
        for path, part in parts(result):
            if not isinstance(part, Tensor):
                raise self._refused(path, part)
            if unnamed := [key for key in path if not isinstance(key, str | int)]:
                raise self._error(f"returned a dict with the key {unnamed[0]!r}", "name its tensors by text")
            found[path] = part
        if not found:
            raise self._error(f"returned an empty {type(result).__name__}", "return the tensors that it computes")
        return found

    def called(self, path: Path) -> str:
        """The name of a part: its keys, and variables that the `return` has; positions where nothing has a name."""
        words = []
        for end, key in enumerate(path, 1):
            if not isinstance(key, str) and path[:end] in self.variables:
                words.append(self.variables[path[:end]])
            elif isinstance(key, str) or path not in self.variables:
                words.append(str(key))
        return ".".join(words)

    @lazy_property
    def variables(self) -> dict[Path, str]:
        """The variables that are returned, by path; without those that two `return`s give one path."""
        found: dict[Path, set[str]] = {}
        for statement in self.statements:
            for path, name in _variables(statement.value):
                found.setdefault(path, set()).add(name)
        return {path: name for path, (name, *others) in found.items() if not others}

    @lazy_property
    def statements(self) -> tuple[ast.Return, ...]:
        """The `return` statements of the function itself, in the lines of its file; none if it cannot be read."""
        try:
            lines, first = inspect.getsourcelines(self.function)
            tree = ast.parse(textwrap.dedent("".join(lines)))
        except (OSError, TypeError, SyntaxError):
            return ()
        ast.increment_lineno(tree, first - 1)
        found: list[ast.Return] = []
        rest: list[ast.AST] = [inner for one in tree.body for inner in ast.iter_child_nodes(one)]
        while rest:
            one = rest.pop()
            if isinstance(one, ast.Return):
                found.append(one)
            elif not isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
                rest += ast.iter_child_nodes(one)
        return tuple(sorted(found, key=lambda one: one.lineno))

    def _refused(self, path: Path, part: object) -> WeftError:
        place = f" as `{self.called(path)}`" if path else ""
        return self._error(f"returned {_shown(part)}{place}, not a tensor", _instead(part))

    def _error(self, what: str, fix: str) -> WeftError:
        file = inspect.getsourcefile(self.function) or ""
        origins = [Origin(file, one.lineno) for one in self.statements[:3]]
        notes = said_at("it returns", *origins)
        return WeftError(f"`{self.function.__name__}` {what}", notes=notes, fix=fix)


def _variables(returned: ast.expr | None) -> Iterator[tuple[Path, str]]:
    """Variables in what is returned, where tuples, lists and dicts are written out."""
    rest: list[tuple[Path, ast.expr | None]] = [((), returned)]
    while rest:
        path, one = rest.pop()
        match one:
            case ast.Name(id=name) if path:
                yield path, name
            case ast.Tuple(elts=inner) | ast.List(elts=inner):
                if not any(isinstance(part, ast.Starred) for part in inner):
                    rest += [((*path, at), part) for at, part in enumerate(inner)]
            case ast.Dict(keys=keys, values=values):
                named = zip(keys, values, strict=True)
                rest += [((*path, key.value), part) for key, part in named if isinstance(key, ast.Constant)]


def _shown(part: object) -> str:
    if part is None or isinstance(part, int | float | str):
        return repr(part)
    return f"a {type(part).__name__}"


def _instead(part: object) -> str:
    """What to return in its stead."""
    if part is None:
        return "end every way through the function with a `return` of tensors; leave out of a result what there is not"
    if is_array(part):
        return "wrap it: wf.data(x, batch=1), where batch= counts the first axes that hold examples"
    if is_number(part):
        return "wf.constant(…) is a tensor of one number; what is known before a run need not be returned"
    if isinstance(part, str):
        return f"wf.param({part!r}) is a parameter"
    if isinstance(part, Iterator):
        return "a generator gives its parts once: return tuple(…) of it"
    if isinstance(part, Set):
        return "a set has no order: return a tuple or a dict"
    if callable(part) and not is_dataclass(part):  # code is one, and refuses to be called
        return "apply it to a tensor first"
    return "return tensors: one, or a tuple, list, dict, named tuple or dataclass of them"
