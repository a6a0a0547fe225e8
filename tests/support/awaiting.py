"""What is awaited while a transaction or a lock is held, read from the code.

A region is the body of a function that takes a `Unit`, or of an `async with` over a unit, a transaction or a lock. From
there calls are followed as far as annotations tell whose method is meant: parameters, and attributes that a class sets
from a parameter or by calling a class. What cannot be told is not followed, so that a finding is never a guess.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOMS: Final = ("chassis", "submission", "policy", "scheduler", "telemetry")
SLOW_CLASSES: Final = frozenset(
    {
        "Expressions",
        "ExpressionLanes",
        "CelProcess",
        "Owner",
        "AIOKafkaProducer",
        "AIOKafkaConsumer",
        "AIOKafkaAdminClient",
        "AsyncClient",
        "Probe",
    }
)
"""Whose methods evaluate what tenants wrote, or ask over the network."""
SLOW_CALLS: Final = frozenset(
    f"asyncio.{name}" for name in ("sleep", "to_thread", "open_connection", "create_subprocess_exec")
)
_OPENERS: Final = frozenset({"unit", "_unit", "units", "_units", "apart", "transaction", "reading"})
_LOCKS: Final = frozenset({"lock", "_lock", "_turn", "_asking"})
_Function = ast.AsyncFunctionDef | ast.FunctionDef


@dataclass
class _Class:
    methods: dict[str, _Function] = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finding:
    """`path`: from the region to what is slow, as `file:function`, then names."""

    path: tuple[str, ...]

    def __str__(self) -> str:
        return " -> ".join(self.path)


@dataclass
class Code:
    """All classes and functions of some files, by name."""

    classes: dict[str, _Class] = field(default_factory=dict)
    functions: dict[str, _Function] = field(default_factory=dict)
    trees: dict[str, ast.Module] = field(default_factory=dict)

    def add(self, name: str, text: str) -> None:
        """Read one file."""
        tree = ast.parse(text)
        self.trees[name] = tree
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                self.classes[node.name] = _class(node)
            elif isinstance(node, _Function):
                self.functions[node.name] = node

    def findings(self) -> list[Finding]:
        """What is slow and awaited, or without an end, inside a region."""
        return [
            Finding((f"{name}:{title}", *path))
            for name, tree in self.trees.items()
            for title, owner, node in _functions(tree)
            for path in self._of(owner, node)
        ]

    def _of(self, owner: str, function: _Function) -> Iterator[tuple[str, ...]]:
        known = _annotated(function)
        bodies: list[ast.stmt] = []
        if isinstance(function, ast.AsyncFunctionDef) and "Unit" in known.values():
            bodies = function.body
        else:
            for node in _own(function.body):
                if isinstance(node, ast.AsyncWith) and any(_holds(item.context_expr) for item in node.items):
                    bodies.extend(node.body)
        yield from self._inside(owner, known, bodies, frozenset())

    def _inside(
        self, owner: str, known: Mapping[str, str], body: list[ast.stmt], seen: frozenset[str]
    ) -> Iterator[tuple[str, ...]]:
        for node in _own(body):
            if isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and node.test.value:
                yield (f"line {node.lineno}: a loop without an end",)
            if isinstance(node, ast.Await) and isinstance(node.value, ast.Call):
                yield from self._awaited(owner, known, node.value, seen)

    def _awaited(
        self, owner: str, known: Mapping[str, str], call: ast.Call, seen: frozenset[str]
    ) -> Iterator[tuple[str, ...]]:
        text = ast.unparse(call.func)
        if text in SLOW_CALLS:
            yield (text,)
            return
        target, name = self._whose(owner, known, call.func), text.rpartition(".")[2]
        title = f"{target}.{name}" if target else name
        if target in SLOW_CLASSES:
            yield (title,)
            return
        found = self.classes[target].methods.get(name) if target in self.classes else None
        if found is None and isinstance(call.func, ast.Name):
            found = self.functions.get(name)
        if found is None or title in seen:
            return
        for path in self._inside(target, _annotated(found), found.body, seen | {title}):
            yield (title, *path)

    def _whose(self, owner: str, known: Mapping[str, str], func: ast.expr) -> str:
        """The class whose method is called; '' where nothing tells."""
        if not isinstance(func, ast.Attribute):
            return ""
        return self._type(owner, known, func.value)

    def _type(self, owner: str, known: Mapping[str, str], node: ast.expr) -> str:
        if isinstance(node, ast.Name):
            return owner if node.id == "self" else known.get(node.id, "")
        if isinstance(node, ast.Attribute):
            holder = self._type(owner, known, node.value)
            return self.classes[holder].attributes.get(node.attr, "") if holder in self.classes else ""
        if isinstance(node, ast.Subscript):
            return self._type(owner, known, node.value)
        return ""


def of_services(services: Path) -> Code:
    """The code of the services and of the chassis."""
    code = Code()
    for room in ROOMS:
        for file in sorted((services / room).rglob("*.py")):
            code.add(str(file.relative_to(services)), file.read_text(encoding="utf-8"))
    return code


def _class(node: ast.ClassDef) -> _Class:
    made = _Class()
    for item in node.body:
        if isinstance(item, _Function):
            made.methods[item.name] = item
            known = _annotated(item)
            for stored in ast.walk(item):
                if isinstance(stored, ast.Assign) and len(stored.targets) == 1:
                    attribute, value = stored.targets[0], stored.value
                    if isinstance(attribute, ast.Attribute) and ast.unparse(attribute.value) == "self":
                        made.attributes.setdefault(attribute.attr, _value_type(value, known))
        elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            made.attributes[item.target.id] = _name(item.annotation)
    return made


def _value_type(value: ast.expr, known: Mapping[str, str]) -> str:
    if isinstance(value, ast.Name):
        return known.get(value.id, "")
    return ast.unparse(value.func).rpartition(".")[2] if isinstance(value, ast.Call) else ""


def _annotated(function: _Function) -> dict[str, str]:
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return {one.arg: _name(one.annotation) for one in arguments if one.annotation is not None}


def _name(annotation: ast.expr) -> str:
    """The class that an annotation names first: `Owner | None` and `Mapping[str, Owner]` name Owner."""
    names = [node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)]
    return next((name for name in names if name not in {"Mapping", "Sequence", "dict", "list", "str", "int"}), "")


def _functions(tree: ast.Module) -> Iterator[tuple[str, str, _Function]]:
    """Every function with its title and its class, those inside functions too."""

    def walk(node: ast.AST, title: str, owner: str) -> Iterator[tuple[str, str, _Function]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                yield from walk(child, f"{title}{child.name}.", child.name)
            elif isinstance(child, _Function):
                yield f"{title}{child.name}", owner, child
                yield from walk(child, f"{title}{child.name}.", owner)
            else:
                yield from walk(child, title, owner)

    yield from walk(tree, "", "")


def _own(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """The nodes of a body without those of functions inside it, which run at another time."""
    for node in body:
        if isinstance(node, _Function):
            continue
        todo: list[ast.AST] = [node]
        while todo:
            one = todo.pop()
            yield one
            todo.extend(child for child in ast.iter_child_nodes(one) if not isinstance(child, _Function | ast.Lambda))


def _holds(opened: ast.expr) -> bool:
    if isinstance(opened, ast.Call):
        return ast.unparse(opened.func).rpartition(".")[2] in _OPENERS
    return ast.unparse(opened).rpartition(".")[2] in _LOCKS
