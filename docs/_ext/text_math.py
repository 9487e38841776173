"""Formulas that are written as text, such as `E f(x_t) − f* ≤ φ_0/A_t`, as LaTeX.

Pages and docstrings are read as text as well, in an editor and by `help`; here their formulas are
found and set.  A formula is a run of chunks between spaces that hold nothing but letters with
indices, numbers, signs and names of functions; a word ends it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

_GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "eta": "η", "theta": "θ", "iota": "ι",
    "kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "rho": "ρ", "sigma": "σ",
    "tau": "τ", "phi": "φ", "chi": "χ", "psi": "ψ", "omega": "ω",
}  # fmt: skip
_FUNCTIONS = {"sinh", "cosh", "tanh", "coth", "artanh", "sqrt", "grad"}
# These are words as well, and part of a formula only where something is attached to them.
_OPERATORS = {"exp", "log", "max", "min", "mean", "sum", "int", "argmin", "prox"}
_DIFFERENTIALS = {"ds", "dt", "dv"}
_LARGE = {"Σ": r"\sum", "∫": r"\int", "sum": r"\sum", "int": r"\int"}
_SIGNS = {
    "−": "-", "-": "-", "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ", "≈": r"\approx ", "→": r"\to ",
    "←": r"\gets ", "∈": r"\in ", "×": r"\times ", "·": r"\cdot ", "±": r"\pm ", "∞": r"\infty ",
    "∇": r"\nabla ", "∂": r"\partial ", "½": r"\tfrac12 ",
    "⅔": r"\tfrac23 ", "¼": r"\tfrac14 ", "¾": r"\tfrac34 ", "…": r"\dots ", "%": r"\%",
}  # fmt: skip
_PAIRS = {"->": r"\to ", "<-": r"\gets ", "<=": r"\le ", ">=": r"\ge "}
_RELATIONS = {"=", "<", ">", "≤", "≥", "<=", ">="}
_ACCENTS = {"\u0302": r"\hat", "\u0303": r"\tilde", "\u0304": r"\bar"}
_RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ᵀ", [*"0123456789+-", r"\top "], strict=True))
_OPENING, _CLOSING = "([⟨", ")]⟩"

_LATIN = r"[A-Za-z]"
_BRACES = r"\{(?:[^{}\s]|\{[^{}\s]*\})*\}"
_INDEX = rf"_(?:{_BRACES}|(?:max|min|[A-Za-z]{{1,2}}|\d{{1,2}})(?![A-Za-z0-9])|\+)"
_NUMBER = r"\d+(?:[.,]\d+)*(?:e[-+]?\d+)?"
_NAMES = "|".join((*_GREEK, *_FUNCTIONS))
_CHUNK = re.compile(
    rf"(?:(?:{_NAMES})(?![a-z])|(?:{'|'.join(_OPERATORS)})(?=[_(|²])|{_INDEX}|\^{_BRACES}"
    rf"|(?<![A-Za-z]){_LATIN}{{1,2}}(?![A-Za-z])|[α-ωΑ-Ωµℓ𝒢][\u0300-\u036f]*|[\u0300-\u036f]"
    rf"|{_NUMBER}|[=<>+/|‖⟨⟩()\[\],^'~*!Σ∫{''.join(_SIGNS)}{''.join(_RAISED)}√-])+"
)
_STRONG = re.compile(
    rf"[α-ωΑ-Ωµℓ𝒢{''.join(_RAISED)}√≤≥∇‖⟨∈∞∂Σ∫½⅔¼]|[A-Za-z'|)]{_INDEX}|\^|{_LATIN}\*(?!\w)"
    rf"|(?:{'|'.join(_GREEK)})['_]|\bgrad [A-Za-z]"
)
# Words of two letters, a letter's genitive, k-th, a product in code, and names in code.
_NO_FORMULA = re.compile(
    r"[A-Za-z]{2,}|.*[’']s|.*-th|.*(?<![A-Za-z])[a-z]{2}_.*|.*(?<!_)\w\*[A-Za-z(].*|.*\d_.*"
)
_EDGES = re.compile(r"^([“\"]*)(.*?)([.,;:”\"?]*)$", re.DOTALL)


def set_formulas(text: str, write: Callable[[str], str]) -> str:
    """Return the text with its formulas replaced by what `write` makes of their LaTeX."""
    parts = re.split(r"(\s+)", text)
    done: list[str] = []
    run: list[int] = []

    def finish() -> None:
        start, end = _trim(parts, run)
        done.extend(parts[run[0] : start] if run else [])
        if start < end:
            done.append(_write_run("".join(parts[start:end]), write))
        done.extend(parts[end : run[-1] + 1] if run else [])
        run.clear()

    for place, part in enumerate(parts):
        if place % 2:  # white space
            if run:
                run.append(place)
            else:
                done.append(part)
        elif is_formula(part):
            run.append(place)
            if part[-1] in ".;:" or (part[-1] == "," and _depth(parts, run) == 0):
                finish()
        else:
            finish()
            done.append(part)
    finish()
    return "".join(done)


def is_formula(chunk: str) -> bool:
    """Whether a chunk can be part of a formula."""
    core = _EDGES.match(_decompose(chunk))[2]  # type: ignore[index]
    inner = core.strip("()")
    if inner in {*_GREEK, *_FUNCTIONS, *_DIFFERENTIALS}:
        return True
    return bool(_CHUNK.fullmatch(core)) and not _NO_FORMULA.fullmatch(inner)


def _depth(parts: list[str], run: list[int]) -> int:
    """Return how many brackets are open at the end of a run."""
    text = "".join(parts[i] for i in run)
    pairs = ((r"[(\[⟨]", r"[)\]⟩]"), (r"<(?![\s=-])", r"(?<![\s-])>"))
    return sum(len(re.findall(o, text)) - len(re.findall(c, text)) for o, c in pairs)


def _trim(parts: list[str], run: list[int]) -> tuple[int, int]:
    """Return the ends of the formula in a run: without articles, numbers alone, and white space."""
    places = [i for i in run if i % 2 == 0]
    while len(places) > 1 and parts[places[0]] in ("a", "A", "I"):
        following = parts[places[1]]
        if following[0] in "=<>≤≥+−-/≠≈∈(":
            break
        places.pop(0)
    while places and re.fullmatch(r"\W|a|A", parts[places[-1]]) and len(places) > 1:
        places.pop()
    text = " ".join(parts[i] for i in places)
    normal = _decompose(text)
    related = len(places) > 2 and any(parts[i] in _RELATIONS for i in places)
    if not places or not (_STRONG.search(normal) or (related and re.search(_LATIN, text))):
        return (run[0], run[0]) if run else (0, 0)
    return places[0], places[-1] + 1


def _write_run(text: str, write: Callable[[str], str]) -> str:
    """Return a run as a formula between the punctuation that it begins and ends with."""
    before, core, after = _EDGES.match(text).groups()  # type: ignore[union-attr]
    for opening, closing in ("()", "[]"):
        while core.startswith(opening) and core.count(opening) > core.count(closing):
            before, core = before + opening, core[1:]
        while core.endswith(closing) and core.count(closing) > core.count(opening):
            core, after = core[:-1], closing + after
    try:
        return f"{before}{write(to_latex(core))}{after}" if core else text
    except ValueError:  # brackets with words in them: chunk by chunk
        chunks = re.split(r"(\s+)", text)
        if len(chunks) == 1:
            return text
        return "".join(_write_run(c, write) if _STRONG.search(_decompose(c)) else c for c in chunks)


def _decompose(text: str) -> str:
    """Return the text with accents as signs of their own."""
    return unicodedata.normalize("NFD", text).replace("=\u0338", "≠")


def to_latex(text: str) -> str:
    """Return a formula as LaTeX; ValueError where brackets do not match.

    >>> to_latex("E f(x_t) − f* ≤ φ_0/√(2L)")
    '\\\\mathbb{E} f(x_{t}) - f_{*} \\\\le  φ_{0}/\\\\sqrt{2L}'
    """
    return _Reader(_decompose(text).replace("µ", "μ")).read()


class _Reader:
    """Reads a formula from left to right; the brackets that are open are on a stack."""

    def __init__(self, text: str) -> None:
        self.text, self.place, self.open = text, 0, [""]
        self.operand = False  # whether the last thing read was one

    def read(self, closing: str = "") -> str:
        """Return what comes before the closing sign of a group, and step over it."""
        done = []
        while self.place < len(self.text):
            if closing and self.text[self.place] == closing and self.open[-1] == closing:
                self.place += 1
                return "".join(done)
            done.append(self._next())
        if closing or len(self.open) > 1:
            raise ValueError(f"brackets do not match in {self.text!r}")
        return "".join(done)

    def _next(self) -> str:
        rest = self.text[self.place :]
        sign = rest[0]
        if space := re.match(r"\s+", rest):
            self.place += space.end()
            return r" \qquad " if space.end() > 2 and "\n" not in space[0] else " "
        if name := re.match(rf"({_NAMES}|{'|'.join(_OPERATORS)})(?![a-z])", rest):
            return self._name(name[0])
        if differential := re.match(r"d([stv])(?!\w)", rest):
            self.place += 2
            gap = "" if self.text[self.place - 3 : self.place - 2] == "/" else r"\,"
            return rf"{gap}\mathrm d {differential[1]}"
        if sign in _LARGE:
            return self._name(sign)
        if sign == "√":
            self.place += 1
            return rf"\sqrt{{{self._argument()}}}"
        if number := re.match(_NUMBER, rest):
            self.place += number.end()
            return self._with_suffixes(number[0].replace(",", "{,}"))
        if sign.isalpha():
            return self._letter()
        if sign in "|‖":
            return self._norm(sign)
        if sign == "<" and re.match(r"<[^\s=-].*?\S>", rest):
            sign = "⟨"
        if sign == ">" and self.open[-1] == "⟩" and self.operand:
            sign = "⟩"
        if sign in _OPENING:
            return self._bracket(sign)
        if sign in _CLOSING:
            raise ValueError(f"brackets do not match in {self.text!r}")
        self.place += 1
        self.operand = False
        for pair, latex in _PAIRS.items():
            if rest.startswith(pair):
                self.place += 1
                return latex
        if sign in "{}^_\\'*~":
            raise ValueError(f"{sign} stands alone in {self.text!r}")
        return _SIGNS.get(sign, sign)

    def _name(self, name: str) -> str:
        self.place += len(name)
        if name == "sqrt":
            return rf"\sqrt{{{self._argument()}}}"
        if name in _GREEK:
            return self._with_suffixes(_GREEK[name])
        if name in ("mean", "argmin", "prox", "artanh"):
            latex = rf"\operatorname{{{name}}}"
        else:
            latex = r"\nabla " if name == "grad" else _LARGE.get(name, rf"\{name}")
        self.operand = False
        written = self._with_suffixes(latex, operand=False)
        is_before_name = re.match(r"\s*[^\s(|\[]", self.text[self.place :]) is not None
        return written + (r" \, " if name in _FUNCTIONS - {"grad"} and is_before_name else " ")

    def _letter(self) -> str:
        letter = self._take()
        if number := re.match(r"\d", self._peek()):  # the name of a variable in code
            self.place += 1
            name = rf"\mathtt{{{letter}{number[0]}}}"
            letter = rf"\ell_{number[0]}" if letter == "ℓ" else name
        elif self._peek() in _ACCENTS:
            letter = rf"{_ACCENTS[self._take()]}{{{letter}}}"
        elif self._peek() == "~":
            self.place += 1
            letter = rf"\tilde{{{letter}}}"
        elif re.match(r"\^(?![\w{(+−-])", self.text[self.place :]):
            self.place += 1
            letter = rf"\hat{{{letter}}}"
        elif letter == "E" and re.match(r"[ \[|(]", self.text[self.place :]):
            return r"\mathbb{E}"
        elif letter == "𝒢":
            letter = r"\mathcal{G}"
        elif letter == "ℓ":
            letter = r"\ell "
        return self._with_suffixes(letter)

    def _bracket(self, opening: str) -> str:
        closing = _CLOSING[_OPENING.index(opening)]
        close_at = ">" if self.text[self.place] == "<" else closing
        self.place += 1
        self.operand = False
        self.open.append(close_at)
        inner = self.read(close_at)
        self.open.pop()
        if opening == "⟨":
            return self._with_suffixes(rf"\left\langle {inner}\right\rangle ")
        return self._with_suffixes(f"{opening}{inner}{closing}")

    def _norm(self, sign: str) -> str:
        self.place += 1
        self.operand = False
        self.open.append(sign)
        inner = self.read(sign)
        self.open.pop()
        left, right = (r"\lvert ", r"\rvert ") if sign == "|" else (r"\lVert ", r"\rVert ")
        return self._with_suffixes(left + inner + right)

    def _with_suffixes(self, base: str, operand: bool = True) -> str:
        """Return what was read with its primes, stars, indices and powers."""
        primes, lower, upper = "", [], []
        while True:
            rest = self.text[self.place :]
            if rest.startswith("'"):
                self.place += 1
                primes += "'"
            elif index := re.match(_INDEX, rest):
                self.place += index.end()
                lower.append(_inside(index[0][1:]))
            elif re.match(r"\*(?![A-Za-z0-9(])", rest) or (lower and rest.startswith("*(")):
                self.place += 1
                (upper if lower else lower).append("*")
            elif raised := re.match(f"[{''.join(_RAISED)}]+", rest):
                self.place += raised.end()
                upper.append("".join(_RAISED[sign] for sign in raised[0]))
            elif power := re.match(rf"\^({_BRACES}|\([^()]*\)|T(?!\w)|[-−]?(?:\d+|\w)|\+)", rest):
                self.place += power.end()
                is_transposed = power[1] == "T" and base != r"\int"
                upper.append(r"\top " if is_transposed else _inside(power[1]))
            elif operand and re.match(r"\+(?=\s*[)=]|\s*$|\s[-−]\s)", rest) and base.isalpha():
                self.place += 1
                upper.append("+")
            else:
                break
        self.operand = operand
        below = f"_{{{','.join(lower)}}}" if lower else ""
        above = f"^{{{''.join(upper)}}}" if upper else ""
        return base + below + primes + above

    def _argument(self) -> str:
        """Return what stands under a root."""
        while self._peek() == " ":
            self.place += 1
        if self._peek() != "(":
            return self._next()
        self.place += 1
        self.open.append(")")
        inner = self.read(")")
        self.open.pop()
        return inner

    def _peek(self) -> str:
        return self.text[self.place : self.place + 1]

    def _take(self) -> str:
        self.place += 1
        return self.text[self.place - 1]


def _inside(group: str) -> str:
    """Return an index or a power without its braces, as LaTeX."""
    inner = group[1:-1] if group[0] in "{(" else group
    if inner in ("max", "min"):
        return rf"\{inner}"
    return inner if inner in ("+", "*") else to_latex(inner)
