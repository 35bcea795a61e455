"""Finds the modules of one package where they must lie, and reads their byte code in three calls of the system.

Python's own way lists folders, tries endings and asks for each file several times: with the seventy modules of a short
run that is a tenth of it. What comes of it is the same: the same ``__spec__``, and byte code that was checked against
its source. Whatever is unusual (no byte code yet, a size or a mode that is rare, an archive) goes Python's own way.
"""

from __future__ import annotations

import os
import sys
from marshal import loads
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import BuiltinImporter, ModuleSpec, SourceFileLoader
    from types import CodeType, ModuleType

    MAGIC_NUMBER = b""

    def _fix_co_filename(code: CodeType, path: str) -> None: ...
else:  # what ``importlib`` gives its parts out by; to load it costs as much as ten modules
    from _frozen_importlib import BuiltinImporter, ModuleSpec
    from _frozen_importlib_external import MAGIC_NUMBER, SourceFileLoader
    from _imp import _fix_co_filename

_ENDING = f".{sys.implementation.cache_tag}.pyc"
_BY_TIME = MAGIC_NUMBER + bytes(4)
"""How byte code begins that is to be compared with the time and the size of its source."""
_HEAD = 16
_MOST = 1 << 16
"""Bytes of byte code from which it is read Python's own way."""


class _Loader(SourceFileLoader):
    """The loader of a module whose source was seen to be there."""

    about: os.stat_result
    cached: str

    def get_code(self, fullname: str) -> CodeType | None:
        try:
            descriptor = os.open(self.cached, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return super().get_code(fullname)
        try:
            data = os.read(descriptor, _MOST)
        finally:
            os.close(descriptor)
        if data[:_HEAD] != _head(self.about) or len(data) == _MOST:
            return super().get_code(fullname)
        code: CodeType = loads(memoryview(data)[_HEAD:])  # noqa: S302 (Python would load the same file)
        _fix_co_filename(code, self.path)  # the tree may lie elsewhere than where it was compiled
        return code


def _head(source: os.stat_result) -> bytes:
    time, size = int(source.st_mtime) & 0xFFFFFFFF, source.st_size & 0xFFFFFFFF
    return _BY_TIME + time.to_bytes(4, "little") + size.to_bytes(4, "little")


class Finder:
    """Finds what lies in the package ``name``; everything else is left to those who are asked after it."""

    def __init__(self, name: str) -> None:
        self._start = f"{name}."

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not name.startswith(self._start) or path is None or len(path) != 1:
            return None
        loader = _loader(name, path[0], name.rpartition(".")[2])
        if loader is None:
            return None
        spec = ModuleSpec(name, loader, origin=loader.path)
        spec.has_location = True
        spec.cached = loader.cached
        if loader.path.endswith("/__init__.py"):
            spec.submodule_search_locations = [loader.path[: -len("/__init__.py")]]
        return spec


def _loader(name: str, folder: str, last: str) -> _Loader | None:
    for inner, file in ((folder, last), (f"{folder}/{last}", "__init__")):
        path = f"{inner}/{file}.py"
        try:
            about = os.stat(path)
        except OSError:
            continue
        loader = _Loader(name, path)
        loader.about, loader.cached = about, f"{inner}/__pycache__/{file}{_ENDING}"
        return loader
    return None


def install(name: str) -> None:
    """From now on the modules of the package ``name`` are found so, where nothing about the interpreter is unusual."""
    unusual = sys.flags.optimize or sys.pycache_prefix or BuiltinImporter not in sys.meta_path
    if unusual or any(isinstance(one, Finder) for one in sys.meta_path):
        return
    at = sys.meta_path.index(BuiltinImporter)  # hooks that were put in front of Python's own stay in front
    sys.meta_path.insert(at, Finder(name))
