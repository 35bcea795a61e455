"""Modules beside this file, such as ``files_desk``, hold what several tests share."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
