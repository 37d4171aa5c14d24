"""The studies on one page: what each trains, on which data, and which tables it reproduces."""

import re
from collections.abc import Iterator

from fourierkernels.studies.engine.reproduce_command import COMMITTED, tables_of
from fourierkernels.studies.registry import STUDIES

_ADDRESS = re.compile(r"(https?://[^\s,;)]*[^\s,;).])")
_SIGN = re.compile(r"([*_`<>\[\]])")  # of Markdown
_OPTION = re.compile(r"(--\w+)")


def study_list() -> str:
    """Return all studies as MyST, in the order of their registry."""
    return "\n".join(line for name in STUDIES.rows for line in _study(name))


def _study(name: str) -> Iterator[str]:
    study = STUDIES[name]
    yield from (f"(study-{name})=", f":::{{rubric}} {name}", ":::", "")
    yield from (_plain(f"{STUDIES.rows[name].title}."), "")
    presets = [f"`{key}`: {_plain(preset.summary)}" for key, preset in study.presets.items()]
    yield from _listed(f"Presets, of which `{study.default}` is the default", presets)
    data = [
        f"`{key}`: {_plain(f'{row.title}. Source: {row.source}. Layout: {row.layout}.')}"
        for key, row in study.data_sets().items()
    ]
    yield from _listed("Data", data)
    yield from (f"Mixers: {', '.join(f'`{mixer}`' for mixer in study.mixers())}.", "")
    tables = [_table(key, table.title, table.names[1]) for key, table in tables_of(name).items()]
    yield from _listed("Tables, by `fourierkernels reproduce`", tables)


def _listed(title: str, rows: list[str]) -> Iterator[str]:
    yield from (f"{title}:", "", *(f"- {row}" for row in rows), "")


def _table(name: str, title: str, file: str) -> str:
    committed = f" Committed: `{file}.csv`." if (COMMITTED / f"{file}.csv").is_file() else ""
    return f"`{name}`: {_plain(title)}.{committed}"


def _plain(text: str) -> str:
    """Return a text whose signs mean nothing in Markdown, with links where it has addresses."""
    parts = _ADDRESS.split(text)
    return "".join(
        f"<{part}>" if _ADDRESS.fullmatch(part) else _OPTION.sub(r"`\1`", _SIGN.sub(r"\\\1", part))
        for part in parts
    )
