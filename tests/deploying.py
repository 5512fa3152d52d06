"""What deploys the dashboard, for tests: where the proxy is, which Python brings (package caddyserver)."""

import sys
from pathlib import Path

CADDY = str(Path(sys.executable).with_name("caddy"))
"""The executable of the proxy."""
