"""The text of a stub, laid out as ruff formats it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

HEADER = "# Made by tools/make_stubs.py from the imported package: run it again, do not edit.\n"
WIDTH = 100


def natural(name: str) -> tuple[object, ...]:
    """How ruff orders `__all__`: constants, classes, the rest; numbers by value."""
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2
    return (kind, *(int(p) if p.isdigit() else p for p in re.split(r"(\d+)", name)))


def import_order(name: str) -> tuple[object, ...]:
    """How ruff orders imported names: as `natural`, but upper and lower case are one."""
    kind, *parts = natural(name)
    return (kind, *(p.lower() if isinstance(p, str) else p for p in parts))


def wrapped(indent: str, head: str, items: list[str], tail: str) -> str:
    """``head items tail`` on one line, on three, or with one item a line."""
    flat = ", ".join(items)
    code = tail.partition("  #")[0]
    if len(indent + head + flat + code) <= WIDTH:
        return f"{indent}{head}{flat}{tail}\n"
    if len(indent) + 4 + len(flat) <= WIDTH:
        return f"{indent}{head}\n{indent}    {flat}\n{indent}{tail}\n"
    lines = "".join(f"{indent}    {item},\n" for item in items)
    return f"{indent}{head}\n{lines}{indent}{tail}\n"


@dataclass
class Function:
    """One signature. ``parameters`` are source text, `self`, `*` and `/` included."""

    name: str
    parameters: list[str]
    returns: str
    decorator: str = ""
    comment: str = ""

    def text(self, indent: str = "") -> str:
        """The function as a line (or several) of a stub."""
        above = f"{indent}@{self.decorator}\n" if self.decorator else ""
        tail = f") -> {self.returns}: ...{self.comment}"
        return above + wrapped(indent, f"def {self.name}(", self.parameters, tail)


@dataclass
class Stub:
    """A stub file: imports by module, then the body."""

    module: str
    imports: dict[str, set[str]] = field(default_factory=dict)
    body: list[str] = field(default_factory=list)

    def need(self, module: str, *names: str) -> None:
        """Adds ``from module import names``; without names ``import module``."""
        self.imports.setdefault(module, set()).update(names)

    def text(self) -> str:
        """The file."""
        return HEADER + "\n" + "\n".join(self._sections()) + "\n" + "".join(self.body)

    def _sections(self) -> Iterator[str]:
        for belongs in (_is_standard, _is_third_party, _is_own):
            modules = sorted(m for m in self.imports if belongs(m))
            plain = [f"import {m}\n" for m in modules if not self.imports[m]]
            named = [_import(m, self.imports[m]) for m in modules if self.imports[m]]
            if modules:
                yield "".join(plain + named)


def _is_own(module: str) -> bool:
    return module.partition(".")[0] == "tinyt"


def _is_standard(module: str) -> bool:
    return module.partition(".")[0] in sys.stdlib_module_names


def _is_third_party(module: str) -> bool:
    return not _is_own(module) and not _is_standard(module)


def _import(module: str, names: set[str]) -> str:
    """Plain names together, each renamed one on its own line, as isort has them."""
    plain = sorted((n for n in names if " as " not in n), key=import_order)
    groups = [[n] for n in names if " as " in n] + ([plain] if plain else [])
    text = ""
    for group in sorted(groups, key=lambda g: (import_order(g[0].partition(" ")[0]), g[0])):
        line = f"from {module} import {', '.join(group)}\n"
        if len(line) > WIDTH + 1:
            line = f"from {module} import (\n" + "".join(f"    {n},\n" for n in group) + ")\n"
        text += line
    return text


def exported(names: Iterable[str]) -> str:
    """``__all__``, sorted."""
    return "__all__ = [\n" + "".join(f'    "{n}",\n' for n in sorted(names, key=natural)) + "]\n"
