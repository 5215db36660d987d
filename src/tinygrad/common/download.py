"""Files from the network, kept in the user's cache folder, and small uses of the operating system.

The standard library's network and process modules are imported where they are used: they are a third of the time that
`import tinygrad` would take, and most programs never need them.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
from typing import Any

from tinygrad.common.diskcache import cache_dir
from tinygrad.common.env import getenv
from tinygrad.common.progress import tqdm

_CHUNK = 1 << 16


def temp(x: str, append_user: bool = False) -> str:
    """A path in the temporary folder; with the user's name appended when several users may want the same."""
    import tempfile

    name = f"{x}.{getenv('USER', 'user')}" if append_user else x
    return (pathlib.Path(tempfile.gettempdir()) / name).as_posix()


def _ensure_downloads_dir() -> pathlib.Path:
    """The folder for downloads, made when it is missing. Raises FileNotFoundError where there is no home to put it."""
    if not cache_dir:
        raise FileNotFoundError("no folder for downloads is known; set HOME or XDG_CACHE_HOME")
    folder = pathlib.Path(cache_dir) / "tinygrad" / "downloads"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def fetch(
    url: str,
    name: pathlib.Path | str | None = None,
    subdir: str | None = None,
    gunzip: bool = False,
    allow_caching: bool = True,
    headers: dict[str, str] = {},  # noqa: B006  never written to
) -> pathlib.Path:
    """The local path of a file at `url`, downloaded once. A local path is returned as it is.

    The download is written beside its place and renamed when it is complete. Raises urllib.error.URLError or
    gzip.BadGzipFile.
    """
    if url.startswith(("/", "./", "../", ".\\")):
        return pathlib.Path(url)
    if isinstance(name, pathlib.Path) or (name is not None and "/" in str(name)):
        target = pathlib.Path(name)
    else:
        identity = url + "".join(f"\n{k}:{v}" for k, v in sorted(headers.items()))
        file_name = str(name) if name else hashlib.sha256(identity.encode()).hexdigest()
        if gunzip:
            file_name += ".gunzip"
        target = _ensure_downloads_dir() / (subdir or "") / file_name
    if target.is_file() and allow_caching and not getenv("DISABLE_HTTP_CACHE"):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    _download(url, target, gunzip, headers)
    return target


def _opened(request: Any, url: str) -> Any:
    """The response; errors say which address they are about."""
    import urllib.error
    import urllib.request

    try:
        return urllib.request.urlopen(request, timeout=30)
    except urllib.error.HTTPError as error:
        error.msg = f"{error.msg} for {url}"
        raise
    except urllib.error.URLError as error:
        raise urllib.error.URLError(f"{url} cannot be reached: {error.reason}") from error


def _download(url: str, target: pathlib.Path, gunzip: bool, headers: dict[str, str]) -> None:
    import gzip
    import tempfile
    import urllib.request
    import zlib

    request = urllib.request.Request(url, headers={"User-Agent": "tinygrad-cython", **headers})
    with _opened(request, url) as response:
        length = int(response.headers.get("content-length") or 0)
        bar: tqdm = tqdm(total=length, unit="B", unit_scale=True, desc=url)
        source = gzip.GzipFile(fileobj=response) if gunzip else response
        with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as part:
            try:
                while chunk := source.read(_CHUNK):
                    bar.update(len(chunk))
                    part.write(chunk)
                part.close()
                if length and not gunzip and os.path.getsize(part.name) != length:
                    raise OSError(
                        f"{url} ended after {os.path.getsize(part.name)} of {length} bytes"
                    )
                os.replace(part.name, target)
            except BaseException as error:
                os.unlink(part.name)
                if gunzip and isinstance(error, (EOFError, zlib.error)):
                    raise gzip.BadGzipFile(f"{url} is damaged: {error}") from error
                raise
            finally:
                bar.update(close=True)


def system(cmd: str, **kwargs: Any) -> str:
    """The output of a command given as one line. Raises subprocess.CalledProcessError when it fails."""
    import shlex
    import subprocess

    return subprocess.check_output(shlex.split(cmd), **kwargs).decode().strip()


def cpu_objdump(lib: bytes, objdump_tool: str = "objdump") -> None:
    """Prints the disassembly of an object file with the system's objdump."""
    import shutil
    import tempfile

    if shutil.which(objdump_tool) is None:
        print(f"{objdump_tool} is not installed, cannot disassemble {len(lib)} bytes")
        return
    with tempfile.NamedTemporaryFile(suffix=".o") as f:
        f.write(lib)
        f.flush()
        print(system(f"{objdump_tool} -d {f.name}"))
