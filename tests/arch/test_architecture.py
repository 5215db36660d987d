"""The house rules, held against the code: layers import downwards, shared code names no device, tables tell the truth."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "tinygrad"

# lower layers first; a module may import its own layer and those above it in this list
LAYERS = [
    ("core", ("_core",)),
    ("base", ("common", "dtype", "helpers")),
    ("uop", ("uop", "mixin")),
    ("kernels", ("schedule", "codegen", "gradient")),
    ("renderer", ("renderer",)),
    ("device", ("device", "runtime")),
    ("engine", ("engine",)),
    ("tensor", ("tensor",)),
    ("user", ("nn", "apps", "viz", "")),
]
RANK = {name: rank for rank, (_, names) in enumerate(LAYERS) for name in names}

# upward imports inside functions that are there on purpose: (module, imported part) -> why
LATE_BINDINGS = {
    ("codegen.opt.search", "engine"): "BEAM times kernels",
    ("codegen.opt.search", "device"): "BEAM times kernels",
}


def part_of(module: str) -> str:
    """The first component below `tinygrad`."""
    pieces = module.split(".")
    return pieces[1] if len(pieces) > 1 else ""


def modules() -> list[tuple[str, Path]]:
    out = []
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        out.append((".".join(p for p in parts if p != "__init__"), path))
    return out


def imports_of(path: Path) -> list[tuple[str, bool]]:
    """(module, whether it is imported when the module loads) for every import of ours; type checking ones are left out."""
    found = []

    def visit(node, at_load):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, ast.ImportFrom) and child.module and child.level == 0:
                found.append((child.module, at_load))
                if child.module == "tinygrad":
                    found.extend((f"tinygrad.{a.name}", at_load) for a in child.names)
            elif isinstance(child, ast.Import):
                found.extend((a.name, at_load) for a in child.names)
            inside = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            visit(child, at_load and not inside)

    visit(ast.parse(path.read_text()), True)
    return [(m, at_load) for m, at_load in found if m == "tinygrad" or m.startswith("tinygrad.")]


def test_layers_import_downwards():
    upward = []
    for name, path in modules():
        own = RANK.get(part_of(f"tinygrad.{name}"), None)
        assert own is not None, f"{path} belongs to no layer"
        for imported, at_load in imports_of(path):
            part = part_of(imported)
            if part in RANK and RANK[part] > own and at_load and imported != "tinygrad":
                upward.append(f"{name} imports {imported}")
    assert not upward, "\n".join(upward)


DEVICE_NAMES = (
    "CPU",
    "CUDA",
    "AMD",
    "METAL",
    "WEBGPU",
    "QCOM",
    "DSP",
    "HIP",
    "NULL",
    "PYTHON",
    "DISK",
    "NPY",
    "CL",
    "NV",
)


@pytest.mark.parametrize(
    "part", ["uop", "mixin", "schedule", "codegen", "renderer", "engine", "tensor"]
)
def test_shared_code_tests_no_device_name(part):
    """What differs between devices is a capability, not a name."""
    pattern = re.compile(
        r"""(==|!=|\bin\b|startswith\()\s*[({{\[]*["']({})["':]""".format("|".join(DEVICE_NAMES))
    )
    root = SOURCE / part
    guilty = []
    for path in sorted(root.rglob("*.py")) if root.is_dir() else []:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if pattern.search(line.split("#")[0]):
                guilty.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not guilty, "\n".join(guilty)


def test_backends_are_loaded_by_name_only():
    """Nothing outside backends/ imports a backend, but the two-line modules at the import paths that users know."""
    guilty = []
    for name, path in modules():
        if name.startswith("runtime."):
            continue
        guilty += [
            f"{name} imports {m}" for m, _ in imports_of(path) if m.startswith("tinygrad.backends.")
        ]
    assert not guilty, "\n".join(guilty)


def test_architecture_table_names_real_places():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    homes = re.findall(r"`((?:src|backends|tests|benchmarks|examples)/[\w/.*-]*)`", text)
    assert len(homes) >= 9
    missing = [h for h in homes if not list(ROOT.glob(h.rstrip("/")))]
    assert not missing, f"ARCHITECTURE.md names places that do not exist: {missing}"


def test_import_stays_light():
    code = "import sys, tinygrad; print(*[m for m in ('numpy', 'llvmlite', 'z3', 'sqlite3', 'urllib.request', 'tqdm') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == []


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs the git checkout")
def test_no_file_of_the_package_is_ignored_by_git():
    """An ignored file is there for whoever made it and missing in every clone."""
    kinds = (
        "*.py",
        "*.pyx",
        "*.pxd",
        "*.pyi",
        "*.h",
        "*.html",
        "*.js",
        "*.css",
        "*.md",
        "py.typed",
    )
    files = [p for root in ("src", "backends") for kind in kinds for p in (ROOT / root).rglob(kind)]
    names = "\n".join(str(p.relative_to(ROOT)) for p in files)
    ignored = subprocess.run(
        ["git", "check-ignore", "--stdin"], cwd=ROOT, input=names, capture_output=True, text=True
    )
    assert ignored.stdout == ""
