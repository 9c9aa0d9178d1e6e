"""What may be broken in a source file: small changes of its syntax tree, each of which some test should notice.

A change replaces one expression or statement by a text, so the rest of the file stays as it is. Its id names the
function and what is changed there, not the line: it is the same after an edit elsewhere, and in another commit.
"""

import ast
import hashlib
from collections import Counter
from dataclasses import dataclass

_COMPARED: dict[type[ast.cmpop], str] = {
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
_CALCULATED: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "//",
    ast.Div: "*",
    ast.FloorDiv: "*",
    ast.Mod: "+",
    ast.BitOr: "&",
    ast.BitAnd: "|",
    ast.Pow: "*",
}
_SWAPPED = {"min": "max", "max": "min", "any": "all", "all": "any"}
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_BUILT_IN_TYPES = {"bool", "bytes", "dict", "float", "int", "list", "set", "str", "tuple", "type"}
_NOT_BEHAVIOUR = {"__all__", "TYPE_CHECKING", "assert_never"}


@dataclass(frozen=True)
class Site:
    """One change: `before`, at these offsets of the file in bytes, becomes `after`."""

    id: str
    path: str
    line: int
    last_line: int
    function: str
    operator: str
    before: str
    after: str
    start: int
    end: int
    at_import: bool


def mutated(source: str, site: Site) -> str:
    """Return the file with the change made."""
    data = source.encode()
    return (data[: site.start] + site.after.encode() + data[site.end :]).decode()


def sites(path: str, source: str) -> list[Site]:
    """Return every change of a file, in the order of its text."""
    walker = _Walker(source)
    walker.visit(ast.parse(source))
    seen, found = Counter[str](), list[Site]()
    for each in sorted(walker.changes, key=lambda change: (change.start, change.end, change.operator)):
        what = f"{path} {each.function} {each.operator} {each.before} -> {each.after}"
        seen[what] += 1
        name = hashlib.sha256(f"{what} {seen[what]}".encode()).hexdigest()[:8]
        found.append(Site(id=name, path=path, **vars(each)))
    return found


def is_alive(source: str, site: Site) -> bool:
    """Return whether the changed file compiles, and to something else."""
    try:
        return compile(mutated(source, site), site.path, "exec") != compile(source, site.path, "exec")
    except SyntaxError:
        return False


@dataclass(frozen=True)
class _Change:
    function: str
    operator: str
    before: str
    after: str
    start: int
    end: int
    line: int
    last_line: int
    at_import: bool


class _Walker(ast.NodeVisitor):
    """Collect what may be changed. Annotations, decorators, texts, `raise` messages and `__all__` are left alone."""

    def __init__(self, source: str) -> None:
        self.changes: list[_Change] = []
        self._data = source.encode()
        self._lines = [0]
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line.encode()))
        self._inside: list[str] = []
        self._bodies = 0

    def _span(self, node: ast.expr | ast.stmt | ast.keyword) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._lines[node.lineno - 1] + node.col_offset
        return start, self._lines[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr | ast.stmt | ast.keyword) -> str:
        start, end = self._span(node)
        return self._data[start:end].decode()

    def _change(self, operator: str, node: ast.expr | ast.stmt | ast.keyword, after: str) -> None:
        start, end = self._span(node)
        self._change_between(operator, start, end, after, node)

    def _change_between(
        self, operator: str, start: int, end: int, after: str, node: ast.expr | ast.stmt | ast.keyword
    ) -> None:
        before = self._data[start:end].decode()
        function = ".".join(self._inside) or "(module)"
        last = node.end_lineno or node.lineno
        self.changes.append(_Change(function, operator, before, after, start, end, node.lineno, last, not self._bodies))

    def _within(self, name: str, body: list[ast.stmt]) -> None:
        self._inside.append(name)
        for statement in body:
            self.visit(statement)
        self._inside.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if any("overload" in ast.unparse(each) for each in node.decorator_list):
            return
        self._inside.append(node.name)
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(default)
        self._inside.pop()
        self._bodies += 1
        self._within(node.name, node.body)
        self._bodies -= 1

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._within(node.name, node.body)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        if any(isinstance(target, ast.Name) and target.id in _NOT_BEHAVIOUR for target in node.targets):
            return
        if all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets):
            self._change("leave out", node, "pass")
        self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._change("leave out", node, "pass")
        self.visit(node.value)

    def visit_Delete(self, node: ast.Delete) -> None:
        self._change("leave out", node, "pass")

    def visit_Raise(self, node: ast.Raise) -> None:
        self._change("do not raise", node, "pass")

    def visit_Assert(self, node: ast.Assert) -> None:
        """Leave assertions alone: they tell the type checkers what is so."""

    def visit_Expr(self, node: ast.Expr) -> None:
        call = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(call, ast.Constant):
            return
        if isinstance(call, ast.Call) and not (isinstance(call.func, ast.Name) and call.func.id in _NOT_BEHAVIOUR):
            self._change("leave out", node, "pass")
        self.visit(node.value)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            return
        if not (isinstance(node.value, ast.Constant) and node.value.value is None):
            self._change("return None", node.value, "None")
        self.visit(node.value)

    def visit_Break(self, node: ast.Break) -> None:
        self._change("go on", node, "continue")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._change("break off", node, "break")

    def visit_If(self, node: ast.If) -> None:
        if isinstance(node.test, ast.Name) and node.test.id in _NOT_BEHAVIOUR:
            return
        self._negate(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._negate(test)
        self.generic_visit(node)

    def visit_match_case(self, node: ast.match_case) -> None:
        if node.guard is not None:
            self._negate(node.guard)
            self.visit(node.guard)
        for statement in node.body:
            self.visit(statement)

    def _negate(self, test: ast.expr) -> None:
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return
        if isinstance(test, ast.Compare) and not any(isinstance(each, _ORDERS) for each in test.ops):
            return
        self._change("turn around", test, f"not ({self._text(test)})")

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._change("turn around", node, f"bool({self._text(node.operand)})")
        elif isinstance(node.op, ast.USub):
            self._change("arithmetic", node, self._text(node.operand))
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        left = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            start, end = self._span(left)[1], self._span(right)[0]
            between = self._data[start:end].decode()
            # A bracket of either side stands between them, too.
            if between.strip("() \n") and "\n" not in between:
                word = between.strip("() ")
                self._change_between("compare", start, end, between.replace(word, _COMPARED[type(operator)]), node)
            left = right
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for each in node.values:
            others = [value for value in node.values if value is not each]
            word = " and " if isinstance(node.op, ast.And) else " or "
            joined = word.join(f"({self._text(other)})" for other in others)
            self._change("leave out of a condition", node, f"({joined})")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        after = _CALCULATED.get(type(node.op))
        texts = any(isinstance(side, ast.JoinedStr) or _is_text(side) for side in (node.left, node.right))
        types = isinstance(node.op, ast.BitOr) and any(_is_type(side) for side in (node.left, node.right))
        if after is not None and not texts and not types:
            self._change("arithmetic", node, f"({self._text(node.left)}) {after} ({self._text(node.right)})")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._change("constant", node, str(not node.value))
        elif isinstance(node.value, int | float):
            self._change("constant", node, str(node.value + 1))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave texts alone, with what is put into them."""

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.visit(node.value)
        if not _is_type(node.value):
            self.visit(node.slice)

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in _NOT_BEHAVIOUR or name == "cast":
            return
        if name in _SWAPPED:
            self._change("other function", node.func, _SWAPPED[name])
        for keyword in node.keywords:
            if keyword.arg is not None and not _is_text(keyword.value):
                self._leave_out(keyword)
        self.generic_visit(node)

    def _leave_out(self, keyword: ast.keyword) -> None:
        start, end = self._span(keyword)
        rest = self._data[end:].decode()
        if rest.lstrip().startswith(","):
            end += rest.index(",") + 1
        self._change_between("leave out an argument", start, end, "", keyword)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _is_type(node: ast.expr) -> bool:
    named = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return named[:1].isupper() or named in _BUILT_IN_TYPES
