"""The tree keeps its own rules: layers import one way, one package knows Spark, and documents cite what exists."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "eddyline"

# From the ground up. Names in one row are one layer; a layer may import itself and the rows above it.
LAYERS = (
    ("errors", "types", "arrays"),
    ("aggregates",),
    ("sql",),
    ("plan",),
    ("index",),
    ("state",),
    ("routing",),
    ("operators",),
    ("engine",),
    ("session",),
    ("views",),
    ("delivery",),
    ("reference",),
    ("local",),
    ("spark",),
    ("server",),
    ("cli", "commands", "shell", "demo"),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
ROOT_MODULE = "__init__"  # what users import: it may import any layer, as may cli


def layer_of(path: Path) -> str:
    """The layer of a file in the package: its folder, or its own name when it stands at the top."""
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imported_modules(source: str, path: Path) -> Iterator[str]:
    """The full dotted name of everything a file imports, relative imports resolved; `from a import b` gives a.b."""
    package = path.relative_to(PACKAGE.parent).parent.parts
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *filter(None, [node.module])])
            yield from (f"{module}.{alias.name}" for alias in node.names)


def breaches(source: str, path: Path) -> list[str]:
    """What a file imports against the rules, one sentence each."""
    layer = layer_of(path)
    found = []
    for module in imported_modules(source, path):
        top, _, rest = module.partition(".")
        target = rest.partition(".")[0]
        if top == "pyspark" and layer != "spark":
            found.append(f"{path.name} imports {module}: only eddyline/spark/ may")
        if top != "eddyline":
            continue
        if target == "reference" and layer != "reference":
            found.append(f"{path.name} imports {module}: only tests may")
        elif layer == "doctor":
            found.append(f"{path.name} imports {module}: doctor stands alone")
        elif layer not in (ROOT_MODULE, "cli") and RANK.get(target, len(LAYERS)) > RANK.get(layer, -1):
            found.append(f"{path.name} imports {module}: {target or 'the package itself'} is not below {layer}")
    return found


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def test_every_module_belongs_to_a_layer() -> None:
    known = RANK.keys() | {ROOT_MODULE, "doctor"}
    assert [str(path.relative_to(ROOT)) for path in modules() if layer_of(path) not in known] == []


def test_layers_import_one_way_only_spark_knows_pyspark_and_only_tests_know_the_reference() -> None:
    assert [breach for path in modules() for breach in breaches(path.read_text(), path)] == []


def test_nothing_reaches_into_sparks_jvm_so_that_spark_connect_could_serve_it() -> None:
    inner = {"_jvm", "_jsparkSession", "_jsc", "rdd"}
    used = [
        f"{path.relative_to(ROOT)}: {node.attr}"
        for path in modules()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in inner
    ]
    assert used == []


@pytest.mark.parametrize(
    ("file", "source", "allowed"),
    [
        ("plan/nodes.py", "from eddyline.sql.catalog import Stream", True),
        ("plan/nodes.py", "from eddyline.plan.schema import Schema", True),
        ("plan/nodes.py", "from . import schema", True),
        ("plan/rules/push.py", "from ..nodes import Filter", True),
        ("types.py", "from eddyline.errors import Error", True),
        ("cli.py", "from eddyline.spark import Pipeline", True),
        ("__init__.py", "from eddyline.local import connect", True),
        ("spark/run/pipeline.py", "import pyspark.sql", True),
        ("sql/parser.py", "from eddyline.plan import nodes", False),
        ("sql/parser.py", "from eddyline import plan", False),
        ("sql/parser.py", "from ..plan import nodes", False),
        ("sql/parser.py", "import eddyline", False),
        ("sql/parser.py", "def f():\n    import eddyline.local.host", False),
        ("local/host.py", "from pyspark import sql", False),
        ("local/host.py", "from eddyline.reference import evaluate", False),
        ("cli.py", "from eddyline.reference import evaluate", False),
        ("doctor.py", "from eddyline.errors import Error", False),
    ],
)
def test_the_rule_tells_a_good_import_from_a_bad_one(file: str, source: str, allowed: bool) -> None:
    assert (breaches(source, PACKAGE / file) == []) is allowed


# --- what files may say ----------------------------------------------------------------------------------------------

MACHINE_PATH = re.compile(r"(?<![\w.])/(?:home|root|Users|work)(?:/|\b)")


def texts() -> Iterator[tuple[Path, str]]:
    """Every text file that belongs to the project, without what tools leave beside it."""
    hidden_but_ours = {".ci", ".gitignore"}
    for top in sorted(ROOT.iterdir()):
        if top.name == "uv.lock" or (top.name.startswith(".") and top.name not in hidden_but_ours):
            continue
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.is_file() and "__pycache__" not in path.parts:
                try:
                    yield path, path.read_text(encoding="utf-8")
                except UnicodeDecodeError:
                    continue


def test_no_file_names_a_path_of_the_machine_it_was_written_on() -> None:
    assert [str(path.relative_to(ROOT)) for path, text in texts() if MACHINE_PATH.search(text)] == []


def test_the_lock_pins_by_hash_and_names_no_host() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    pins = re.findall(r"^[a-z][\w.-]*==.*$", lock, re.MULTILINE)
    assert pins
    assert [pin for pin in pins if not pin.endswith("\\")] == [], "a pin without hashes"
    assert "://" not in lock


# --- what documents may cite -----------------------------------------------------------------------------------------

DOCUMENTS = [name for name in ("ARCHITECTURE.md", "README.md", "CONTRIBUTING.md") if (ROOT / name).exists()]
FOLDERS = {"eddyline", "tests", "benchmarks", "examples", "scripts", "docs", ".ci"}
TOP_MODULES = {f"{name}.py" for name in (*RANK, "doctor", ROOT_MODULE)}
OWN_FILES = re.compile(r"Makefile|LICENSE|[A-Z]+\.md|[\w.-]+\.(?:toml|lock)")


def cited_paths(text: str) -> Iterator[str]:
    """The words in backticks that are paths of this tree: from its root, or from the package for a layer's files."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for word in re.findall(r"`([^`\s]+)`", prose):
        path = re.split(r"::|:\d", word)[0]
        first, slash, _ = path.partition("/")
        if re.search(r"[^\w./*-]", path):
            continue
        if (first in FOLDERS and slash) or OWN_FILES.fullmatch(path):
            yield path
        elif (first in RANK and slash) or path in TOP_MODULES:
            yield f"eddyline/{path}"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_path_a_document_cites_exists(document: str) -> None:
    cited = cited_paths((ROOT / document).read_text())
    assert [path for path in cited if not any(ROOT.glob(path.rstrip("/")))] == []


def test_the_contributing_page_lists_the_layers_in_their_order() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    listed = re.search(r"those to its left:\n\n((?:    .*\n)+)", page)
    assert listed is not None
    rows = [tuple(name.strip() for name in row.split(",")) for row in listed[1].split("→")]
    assert rows == [row for row in LAYERS if row[0] != "cli"] + [("cli",)]


def test_cited_paths_are_told_from_other_words() -> None:
    text = (
        "`eddyline/sql/` `index/a.py` `cli.py` `Makefile` `tests/sql/*.slt` `tests/a.py::b` `data/x` `p.sql` `a <b>/c`"
    )
    expected = ["eddyline/sql/", "eddyline/index/a.py", "eddyline/cli.py", "Makefile", "tests/sql/*.slt", "tests/a.py"]
    assert list(cited_paths(text + "\n```\n`tests/none.py`\n```\n")) == expected
