#!/bin/sh
# Runs the tests of the core on a debug build under AddressSanitizer: table checks on, every block freed for real.
# Usage: tests/core/asan.sh [pytest arguments]. Needs gcc with libasan. Everything it makes is in build/asan.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
python=${PYTHON:-python3}
stage="$root/build/asan"
mkdir -p "$stage"
for item in src backends setup.py pyproject.toml README.md LICENSE; do
    [ -e "$root/$item" ] && rm -rf "${stage:?}/$item" && cp -R "$root/$item" "$stage/"
done
find "$stage" -name '*.so' -delete
cd "$stage"
CC=gcc CFLAGS="-O1 -g -fsanitize=address -fno-omit-frame-pointer -DCORE_DEBUG" LDFLAGS="-fsanitize=address" \
    "$python" setup.py -q build_ext --inplace
rm -rf lib && mkdir -p lib && ln -s "$stage/src/tinygrad" lib/tinygrad
rm -rf src/tinygrad/_core src/tinygrad/backends
ln -s "$stage/src/_core" src/tinygrad/_core
ln -s "$stage/backends" src/tinygrad/backends
cd "$root"
# leaks are judged by the live-node counter of the tests: the interpreter itself never frees everything
LD_PRELOAD=$(gcc -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0:halt_on_error=1 PYTHONMALLOC=malloc \
    PYTHONPATH="$stage/lib" CORE_CHAIN="${CORE_CHAIN:-200000}" \
    "$python" -m pytest -q -p no:cacheprovider -o addopts=--import-mode=importlib tests/core "$@"
