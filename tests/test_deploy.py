"""What `deploy/` and `docs/deploy.md` say fits the app: files, ports, commands, limits."""

import base64
import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from streamlit import config

from tests.deploying import ROOT, free_port, launched, proxy_before, status_of
from tests.waiting import PATIENCE, until
from ui.store import limits, log, user_folder

DEPLOY = ROOT / "deploy"
DOC = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
OURS = {
    *(*limits.MEGABYTES, limits.DEVICE, limits.DTYPE, log.LEVEL, log.TEXTS, user_folder.VARIABLE, "HEEDMAP_PATCHES"),
    *("HEEDMAP_SITE", "HEEDMAP_SERVERS"),
}
"""Every variable of the app's and, the last two, of the proxy's."""

PORTS = ["8501", "8502"]


def text(name: str) -> str:
    return (DEPLOY / name).read_text(encoding="utf-8")


def test_every_setting_is_explained_and_every_one_that_is_named_exists() -> None:
    everything = DOC + "".join(text(file.name) for file in DEPLOY.iterdir())
    named = set(re.findall(r"\b(?:HEEDMAP|STREAMLIT)_[A-Z_]+\b", everything))
    options = [re.sub("([A-Z])", r"_\1", name) for name in config.get_config_options()]
    assert OURS <= named <= OURS | {f"STREAMLIT_{name.replace('.', '_').upper()}" for name in options}
    for name, size in limits.MEGABYTES.items():
        assert re.search(rf"\| `{name}` \|[^|]*\| {size} \|", DOC), name


def test_the_unit_runs_the_app_and_may_take_and_open_what_the_settings_allow(tmp_path: Path) -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(text("heedmap@.service"))
    service = unit["Service"]
    python, *command = shlex.split(service["ExecStart"])
    assert python.removeprefix(service["WorkingDirectory"]) == "/.venv/bin/python"
    assert command == ["-m", "streamlit", "run", "app.py"]
    assert "Environment=STREAMLIT_SERVER_PORT=%i" in text("heedmap@.service")
    together = ("HEEDMAP_CACHE_MB", "HEEDMAP_MODELS_MB", "HEEDMAP_SERVER_MB")
    needed = 512 + sum(limits.MEGABYTES[name] for name in together)
    assert int(service["MemoryMax"].removesuffix("G")) * 1024 >= needed
    assert int(service["LimitNOFILE"]) == limits.MOST_FILES
    assert int(service["LogRateLimitBurst"]) > 0
    calls = set(service["SystemCallFilter"].split())
    assert calls == {"@system-service"}, "workers bound themselves by setpriority, prlimit and prctl, which it holds"
    assert {"AF_UNIX", "AF_INET", "AF_INET6"} == set(service["RestrictAddressFamilies"].split())
    if shutil.which("systemd-analyze"):
        here = tmp_path / "heedmap@8501.service"
        here.write_text(re.sub("(?m)^ExecStart=.*", "ExecStart=/bin/true", text("heedmap@.service")))
        told = subprocess.run(["systemd-analyze", "verify", here], capture_output=True, text=True, check=False).stderr
        assert "heedmap" not in told


def test_the_compose_file_and_the_container_file_name_what_is_there_and_give_what_it_needs() -> None:
    compose: dict[str, Any] = yaml.safe_load(text("compose.yaml"))
    for one in compose["services"].values():
        assert one["ulimits"]["nofile"] == {"soft": limits.MOST_FILES, "hard": limits.MOST_FILES}
        assert set(one["logging"]["options"]) == {"max-size", "max-file"}
        assert (one["read_only"], one["cap_drop"], one["pids_limit"]) == (True, ["ALL"], 4096)
        assert one["security_opt"] == ["no-new-privileges:true"]
    servers = {name: one for name, one in compose["services"].items() if "build" in one}
    assert len(servers) == 2
    for one in servers.values():
        assert (DEPLOY / one["build"]["context"]).resolve() == ROOT
        assert ROOT / one["build"]["dockerfile"] == DEPLOY / "Containerfile"
        assert int(one["shm_size"].removesuffix("g")) * 1024 >= limits.MEGABYTES["HEEDMAP_SERVER_MB"]
        assert int(one["mem_limit"].removesuffix("g")) > int(one["shm_size"].removesuffix("g"))
    proxy = compose["services"]["proxy"]
    assert proxy["environment"]["HEEDMAP_SERVERS"].split() == [f"{name}:{PORTS[0]}" for name in servers]
    assert (DEPLOY / proxy["volumes"][0].partition(":")[0]).is_file()
    container = text("Containerfile")
    copied = re.findall(r"^COPY (\S+)", container, re.MULTILINE)
    assert [name for name in copied if not (ROOT / name).exists()] == []
    parts = {"app.py", "pyproject.toml", "pages", "ui", "heedmap", "transformer", "checkpoints", ".streamlit"}
    assert parts | {"deploy/requirements.lock"} == set(copied)
    for line in (
        f"EXPOSE {PORTS[0]}", 'CMD ["python", "-m", "streamlit", "run", "app.py"]',
        f"--ulimit nofile={limits.MOST_FILES}", f"--shm-size {servers['one']['shm_size']}",
    ):  # fmt: skip
        assert line in container


def passes(check: list[str]) -> bool:
    """Whether a health check finds its server well."""
    return subprocess.run(check, capture_output=True, check=False, timeout=PATIENCE).returncode == 0


def test_what_the_container_copies_starts_and_passes_its_health_check(tmp_path: Path) -> None:
    """The steps of the Containerfile after its base image and its packages, taken in an empty folder."""
    steps = dict[str, list[str]]()
    for kind, rest in re.findall(r"^([A-Z]+) (.*)$", text("Containerfile"), re.MULTILINE):
        steps.setdefault(kind, []).append(rest)
    for source, target in (step.split() for step in steps["COPY"]):
        (tmp_path / target).symlink_to(ROOT / source) if target != "." else shutil.copy(ROOT / source, tmp_path)
    port = str(free_port())
    said = [step.replace(PORTS[0], port) for step in (*steps["ENV"], *steps["HEALTHCHECK"], *steps["CMD"])]
    environment = os.environ | dict(pair.split("=") for pair in said[0].split())
    check, command = ([sys.executable, *json.loads(step[step.index("[") :])[1:]] for step in said[1:])
    with launched(command, tmp_path / "log", cwd=tmp_path, env=environment) as server:
        try:
            until(lambda: passes(check) or server.poll() is not None)
            assert server.poll() is None, (tmp_path / "log").read_text()
        finally:
            server.terminate()


def test_the_image_is_built_and_answers_where_an_engine_is_there(record_property: Any) -> None:
    """Where none is, the summary of the tests says so."""
    (base,) = re.findall(r"^FROM (\S+)", text("Containerfile"), re.MULTILINE)
    there = [name for name in ("docker", "podman") if shutil.which(name)]
    pulled = [one for one in there if not subprocess.run([one, "pull", base], check=False).returncode]
    if not pulled:
        record_property("could not run", f"the container's image: no engine that answers here has {base}")
        return

    def engine(*command: str | Path) -> str:
        return subprocess.run([pulled[0], *command], check=True, capture_output=True, text=True).stdout.strip()

    engine("build", "--file", DEPLOY / "Containerfile", "--tag", "heedmap-test", ROOT)
    container = engine("run", "--detach", "--rm", "--publish", f"127.0.0.1::{PORTS[0]}", "heedmap-test")
    try:
        address = engine("port", container, PORTS[0]).split()[0]
        until(lambda: status_of(f"http://{address}/_stcore/health") == 200)
    finally:
        engine("stop", container)


def test_the_log_in_of_the_documentation_lets_in_who_knows_the_password_alone(tmp_path: Path) -> None:
    """In the file that ships, before a server that is not there: who is let in hears 503, and who is not 401."""
    (lines,) = re.findall(r"```caddyfile\n(.*?)```", DOC, re.DOTALL)
    file, known = tmp_path / "Caddyfile", base64.b64encode(b"class:hiccup").decode()
    file.write_text(text("Caddyfile").replace("\tencode gzip\n", f"{lines}\n\tencode gzip\n"))
    with proxy_before(["127.0.0.1:1"], tmp_path / "log", "/", 401, file) as site:
        assert status_of(site, Authorization=f"Basic {known}") == 503


def test_caddys_log_holds_neither_a_session_nor_what_was_typed(tmp_path: Path) -> None:
    """No server is behind it, so each request is an error that it writes down."""
    log = tmp_path / "log"
    with proxy_before(["127.0.0.1:1"], log, "/_stcore/upload_file/secret-session/file?text=secret+words", 503):
        pass
    assert '"status":503' in log.read_text()
    assert "secret" not in log.read_text()
