"""Formulas of t, read by Python's grammar and made of the few kinds of terms that are here."""

import ast
import math
import operator
from collections.abc import Callable

import numpy as np

from fourierkernels.foundation.arrays import ComplexArray

_OPERATORS: dict[type[ast.AST], Callable[..., ComplexArray]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_FUNCTIONS: dict[str, Callable[[ComplexArray], ComplexArray]] = {
    "abs": lambda z: np.abs(z) + 0j,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "cos": np.cos,
    "sin": np.sin,
    "cosh": np.cosh,
    "sinh": np.sinh,
    "tanh": np.tanh,
}
_NAMES = {"i": 1j, "pi": math.pi}
_LONGEST = 500  # characters


def check_formula(formula: str) -> None:
    """Refuse what is not in the grammar."""
    if len(formula) > _LONGEST:
        raise ValueError(f"formula must have at most {_LONGEST} characters, got {len(formula)}")
    try:
        tree = ast.parse(formula, mode="eval").body
        _evaluated(tree, np.ones(1, complex))
    except (SyntaxError, RecursionError, MemoryError, TypeError, OverflowError, ZeroDivisionError):
        raise ValueError(f"formula must be one of t, got {formula!r}") from None


def formula_values(formula: str, t: ComplexArray) -> ComplexArray:
    """Return the values of a formula, not finite where it has none."""
    return _evaluated(ast.parse(formula, mode="eval").body, t)


def _evaluated(node: ast.expr, t: ComplexArray) -> ComplexArray:
    """Return the value of a node of the formula, the only kinds of which are here."""
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return np.asarray(complex(number))
        case ast.Name(id="t"):
            return t
        case ast.Name(id=name) if name in _NAMES:
            return np.asarray(complex(_NAMES[name]))
        case ast.BinOp() | ast.UnaryOp() if type(node.op) in _OPERATORS:
            parts = [node.operand] if isinstance(node, ast.UnaryOp) else [node.left, node.right]
            values = (_evaluated(part, t) for part in parts)
            return np.asarray(_OPERATORS[type(node.op)](*values))
        case ast.Call(func=ast.Name(id=name), args=[part], keywords=[]) if name in _FUNCTIONS:
            return np.asarray(_FUNCTIONS[name](_evaluated(part, t)))
    known = ", ".join((*_FUNCTIONS, *_NAMES))
    raise ValueError(f"formula must be of numbers, t and {known}, got {ast.unparse(node)!r}")
