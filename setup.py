"""Builds the extension modules: every .pyx under src/_core and backends becomes one module beside its source."""

from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup

ROOT = Path(__file__).parent
PACKAGE_DIRS = {
    "tinygrad": "src/tinygrad",
    "tinygrad._core": "src/_core",
    "tinygrad.backends": "backends",
}


def extensions() -> list[Extension]:
    found = []
    for package, folder in (("tinygrad._core", "src/_core"), ("tinygrad.backends", "backends")):
        for source in sorted((ROOT / folder).rglob("*.pyx")):
            parts = source.relative_to(ROOT / folder).with_suffix("").parts
            name = ".".join((package, *parts))
            found.append(
                Extension(name, [source.relative_to(ROOT).as_posix()], extra_compile_args=["-O3"])
            )
    return found


def include_tree() -> Path:
    """Stages tinygrad/_core as the name under which Cython resolves cimports."""
    tree = ROOT / "build" / "cython_include"
    (tree / "tinygrad").mkdir(parents=True, exist_ok=True)
    link = tree / "tinygrad" / "_core"
    if not link.exists():
        link.symlink_to(ROOT / "src" / "_core", target_is_directory=True)
    for folder in (tree / "tinygrad",):
        (folder / "__init__.pxd").touch()
    return tree


def packages() -> list[str]:
    return (
        ["tinygrad"]
        + [f"tinygrad.{p}" for p in find_packages("src/tinygrad")]
        + ["tinygrad._core"]
        + ["tinygrad.backends"]
        + [f"tinygrad.backends.{p}" for p in find_packages("backends")]
    )


setup(
    packages=packages(),
    package_dir=PACKAGE_DIRS,
    ext_modules=cythonize(
        extensions(),
        include_path=[str(include_tree())],
        language_level=3,
        # bounds are checked: nodes are built by users too, and may have too few sources
        compiler_directives={"boundscheck": True, "wraparound": False, "initializedcheck": False},
    ),
)
