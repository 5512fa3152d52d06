"""What `deploy/` and `docs/deploy.md` say fits the app: files, ports, commands, settings."""

import configparser
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import yaml
from streamlit import config

from tests.deploying import CADDY
from ui.store import log, machine, settings, user_folder

ROOT = Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"
FILES = sorted(DEPLOY.iterdir())
DOC = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
OURS = {
    *settings.MEGABYTES,
    settings.DEVICE,
    settings.DTYPE,
    log.LEVEL,
    log.TEXTS,
    user_folder.VARIABLE,
    "HEEDMAP_PATCHES",
}
OF_THE_PROXY = {"HEEDMAP_SITE", "HEEDMAP_SERVERS"}
PORTS = ["8501", "8502"]


def text(name: str) -> str:
    return (DEPLOY / name).read_text(encoding="utf-8")


def streamlit_variables() -> set[str]:
    """Every variable that Streamlit reads a setting from."""
    names = config.get_config_options()
    return {"STREAMLIT_" + re.sub("([A-Z])", r"_\1", name).replace(".", "_").upper() for name in names}


def test_every_setting_is_explained_and_every_one_that_is_named_exists() -> None:
    everything = DOC + "".join(map(text, (file.name for file in FILES)))
    named = set(re.findall(r"\b(?:HEEDMAP|STREAMLIT)_[A-Z_]+\b", everything))
    assert named <= OURS | OF_THE_PROXY | streamlit_variables()
    assert named >= OURS | OF_THE_PROXY
    for name, size in settings.MEGABYTES.items():
        assert re.search(rf"\| `{name}` \|[^|]*\| {size} \|", DOC), name


def test_the_unit_runs_the_app_and_may_take_what_the_settings_allow() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(text("heedmap@.service"))
    service = unit["Service"]
    python, *command = shlex.split(service["ExecStart"])
    assert python.removeprefix(service["WorkingDirectory"]) == "/.venv/bin/python"
    assert command == ["-m", "streamlit", "run", "app.py"]
    assert "Environment=STREAMLIT_SERVER_PORT=%i" in text("heedmap@.service")
    together = ("HEEDMAP_CACHE_MB", "HEEDMAP_MODELS_MB", "HEEDMAP_SERVER_MB")
    needed = 512 + sum(settings.MEGABYTES[name] for name in together)
    assert int(service["MemoryMax"].removesuffix("G")) * 1024 >= needed


def test_the_compose_file_and_the_container_file_name_what_is_there() -> None:
    compose: dict[str, Any] = yaml.safe_load(text("compose.yaml"))
    servers = {name: one for name, one in compose["services"].items() if "build" in one}
    assert len(servers) == 2
    for one in servers.values():
        assert ((DEPLOY / one["build"]["context"]).resolve(), ROOT / one["build"]["dockerfile"]) == (
            ROOT,
            DEPLOY / "Containerfile",
        )
    proxy = compose["services"]["proxy"]
    assert proxy["environment"]["HEEDMAP_SERVERS"].split() == [f"{name}:{PORTS[0]}" for name in servers]
    assert (DEPLOY / proxy["volumes"][0].partition(":")[0]).is_file()
    container = text("Containerfile")
    copied = re.findall(r"^COPY (\S+)", container, re.MULTILINE)
    assert [name for name in copied if not (ROOT / name).exists()] == []
    parts = {"app.py", "pages", "ui", "transformer", "checkpoints", ".streamlit"}
    assert parts | {"deploy/requirements.lock"} == set(copied)
    assert f"EXPOSE {PORTS[0]}" in container
    assert 'CMD ["python", "-m", "streamlit", "run", "app.py"]' in container


def test_what_the_container_copies_starts_and_passes_its_health_check(tmp_path: Path) -> None:
    """The steps of the Containerfile after its base image and its packages, taken in an empty folder."""
    steps = dict[str, list[str]]()
    for kind, rest in re.findall(r"^([A-Z]+) (.*)$", text("Containerfile"), re.MULTILINE):
        steps.setdefault(kind, []).append(rest)
    for source, target in (step.split() for step in steps["COPY"]):
        (tmp_path / target).symlink_to(ROOT / source) if target != "." else shutil.copy(ROOT / source, tmp_path)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    said = [step.replace(PORTS[0], port) for step in (*steps["ENV"], *steps["HEALTHCHECK"], *steps["CMD"])]
    environment = os.environ | dict(pair.split("=") for pair in said[0].split())
    check, command = ([sys.executable, *json.loads(step[step.index("[") :])[1:]] for step in said[1:])
    with (
        (tmp_path / "log").open("wb") as log_file,
        subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log_file, stderr=log_file) as server,
    ):
        try:
            until = time.monotonic() + 60
            while subprocess.run(check, capture_output=True, check=False, timeout=60).returncode:
                assert server.poll() is None, (tmp_path / "log").read_text()
                assert time.monotonic() < until, (tmp_path / "log").read_text()
                time.sleep(0.1)
        finally:
            server.terminate()


def test_the_image_is_built_and_answers_where_an_engine_is_there(record_property: Any) -> None:
    """Where none is, the summary of the tests says so."""
    (base,) = re.findall(r"^FROM (\S+)", text("Containerfile"), re.MULTILINE)
    there = [name for name in ("docker", "podman") if shutil.which(name)]
    pulled = [
        one for one in there if not subprocess.run([one, "pull", base], check=False, capture_output=True).returncode
    ]
    if not pulled:
        record_property("could not run", f"the container's image: no engine that answers here has {base}")
        return
    engine = pulled[0]
    subprocess.run([engine, "build", "--file", DEPLOY / "Containerfile", "--tag", "heedmap-test", ROOT], check=True)
    run = [engine, "run", "--detach", "--rm", "--publish", f"127.0.0.1::{PORTS[0]}", "heedmap-test"]
    container = subprocess.run(run, check=True, capture_output=True, text=True).stdout.strip()
    try:
        asked = subprocess.run([engine, "port", container, PORTS[0]], check=True, capture_output=True, text=True)
        until = time.monotonic() + 120
        while True:
            try:
                urllib.request.urlopen(f"http://{asked.stdout.split()[0]}/_stcore/health", timeout=5).close()
                break
            except OSError:
                assert time.monotonic() < until, "the container does not answer"
                time.sleep(0.5)
    finally:
        subprocess.run([engine, "stop", container], check=True)


def test_caddy_takes_its_file() -> None:
    command = [CADDY, "validate", "--config", str(DEPLOY / "Caddyfile"), "--adapter", "caddyfile"]
    checked = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert checked.returncode == 0, checked.stderr


def test_a_server_may_open_what_it_asks_for_and_keep_in_memory_what_uploads_may_hold() -> None:
    files = str(machine.MOST_FILES)
    assert f"\nLimitNOFILE={files}\n" in text("heedmap@.service")
    assert re.search(r"\nLogRateLimitBurst=\d+\n", text("heedmap@.service"))
    compose: dict[str, Any] = yaml.safe_load(text("compose.yaml"))
    for one in compose["services"].values():
        assert one["ulimits"]["nofile"] == {"soft": machine.MOST_FILES, "hard": machine.MOST_FILES}
        assert set(one["logging"]["options"]) == {"max-size", "max-file"}
    uploads = settings.MEGABYTES["HEEDMAP_SERVER_MB"]
    for server in (one for one in compose["services"].values() if "build" in one):
        assert int(server["shm_size"].removesuffix("g")) * 1024 >= uploads
        assert int(server["mem_limit"].removesuffix("g")) > int(server["shm_size"].removesuffix("g"))
    container = text("Containerfile")
    assert f"--ulimit nofile={files}" in container
    assert f"--shm-size {compose['services']['one']['shm_size']}" in container


def test_caddys_log_holds_neither_a_session_nor_what_was_typed() -> None:
    """No server is behind it, so each request is an error that it writes down."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        site = f"127.0.0.1:{probe.getsockname()[1]}"
    environment = os.environ | {"HEEDMAP_SITE": f"http://{site}", "HEEDMAP_SERVERS": "127.0.0.1:1"}
    command = [CADDY, "run", "--config", str(DEPLOY / "Caddyfile"), "--adapter", "caddyfile"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as caddy:
        try:
            until = time.monotonic() + 60
            status = 0
            while status != 503 and time.monotonic() < until:
                try:
                    asked = f"http://{site}/_stcore/upload_file/secret-session/file?text=secret+words"
                    with urllib.request.urlopen(urllib.request.Request(asked, method="PUT", data=b"x"), timeout=30):
                        pass
                except urllib.error.HTTPError as error:
                    status = error.code
                except urllib.error.URLError:
                    time.sleep(0.1)
        finally:
            caddy.terminate()
            _, said = caddy.communicate(timeout=60)
    assert status == 503
    assert '"status":503' in said
    assert "secret" not in said
