"""A small web application: it keeps orders in a database, and does jobs from a queue.

`python application.py CONFIG.json`. `/ready` says that it runs, `/health` that it works. It stops
cleanly on SIGTERM and removes its pid file then.
`behaviour.json` beside the configuration is what a bad release does: `delay_s`, `fails`,
`leak_mb` for each request, `workers` that empty the queue.
"""

from __future__ import annotations

import json
import os
import queue
import resource
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

JOBS_MAX = 200
JOB_EVERY_S = 0.05
TIMEOUT_S = 3.0
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Application:
    """Its configuration, its queue and what it has leaked."""

    def __init__(self, file: Path) -> None:
        self.folder = file.parent
        self.config: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        self.jobs: queue.Queue[int] = queue.Queue(JOBS_MAX)
        self.leaked: list[bytearray] = []

    def behaviour(self) -> Mapping[str, Any]:
        try:
            found: Mapping[str, Any] = json.loads((self.folder / "behaviour.json").read_text())
        except (OSError, ValueError):
            found = {}
        return found

    def receive_jobs(self) -> None:
        while True:
            time.sleep(JOB_EVERY_S)
            try:
                self.jobs.put_nowait(1)
            except queue.Full:
                log("ERROR the queue is full, a job is dropped")
                time.sleep(1.0)

    def do_jobs(self) -> None:
        while True:
            time.sleep(JOB_EVERY_S / 2)
            if self.behaviour().get("workers", 1):
                self.jobs.get()

    def check(self) -> dict[str, object]:
        """What the health page says; raises what its database or its cache raises."""
        behaviour = self.behaviour()
        time.sleep(float(behaviour.get("delay_s", 0)))
        if size_mb := int(behaviour.get("leak_mb", 0)):
            self.leaked.append(bytearray(b"x" * (size_mb << 20)))
        if behaviour.get("fails"):
            raise RuntimeError("'NoneType' object has no attribute 'price'")
        self.write_order()
        if "cache" in self.config:
            self.ask_cache()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return {
            "status": "ok",
            "queue": self.jobs.qsize(),
            "memory_mb": round(pages * PAGE_BYTES / 2**20, 1),
        }

    def write_order(self) -> None:
        database = self.config["database"]
        password = Path(database["password_file"]).read_text(encoding="utf-8").strip()
        statement = "INSERT INTO orders (made) VALUES (CURRENT_TIMESTAMP)"
        place = {"host": database["host"], "port": int(database["port"]), "user": database["user"]}
        if database["kind"] == "mysql":
            import pymysql

            with pymysql.connect(
                **place,
                password=password,
                database="shop",
                autocommit=True,
                connect_timeout=TIMEOUT_S,
                read_timeout=TIMEOUT_S,
            ) as connection:
                connection.cursor().execute(statement)
            return
        import psycopg

        with psycopg.connect(
            **place, password=password, dbname="postgres", connect_timeout=3, sslmode="disable"
        ) as session:
            session.execute(statement)

    def ask_cache(self) -> None:
        cache = self.config["cache"]
        password = Path(cache["password_file"]).read_text(encoding="utf-8").strip()
        with socket.create_connection((cache["host"], int(cache["port"])), TIMEOUT_S) as server:
            server.sendall(f"AUTH {password}\r\nSET shop:last {time.time()}\r\nQUIT\r\n".encode())
            answer = b""
            while part := server.recv(4096):
                answer += part
        for line in answer.decode().splitlines():
            if line.startswith("-"):
                raise RuntimeError(f"the cache answered: {line[1:]}")


def log(line: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {line}\n")
    sys.stdout.flush()


def serve(application: Application) -> None:
    class Page(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            status = 200
            body: dict[str, object] = {}
            try:
                body = {"status": "up"} if self.path == "/ready" else application.check()
            except Exception as error:  # noqa: BLE001  whatever its database raises
                status = 500
                body = {"status": "error", "error": f"{type(error).__name__}: {error}"[:300]}
                log(f"ERROR {traceback.format_exc()}")
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *words: object) -> None:
            """Requests are not logged."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, request: Any, client_address: Any) -> None:
            log(f"ERROR {sys.exc_info()[1]}")

        def get_request(self) -> Any:
            try:
                return super().get_request()
            except OSError as error:
                log(f"ERROR accept: {error}")
                time.sleep(0.2)
                raise

    server = Server(("127.0.0.1", int(application.config["port"])), Page)
    pid_file = application.folder / "app.pid"
    pid_file.write_text(f"{os.getpid()}\n")

    def stop(*_: object) -> None:
        log("stopping")
        pid_file.unlink(missing_ok=True)
        os._exit(0)

    signal.signal(signal.SIGTERM, stop)
    for work in (application.receive_jobs, application.do_jobs):
        threading.Thread(target=work, daemon=True).start()
    log(f"serving as pid {os.getpid()}, {resource.getrlimit(resource.RLIMIT_NOFILE)[0]} files")
    server.serve_forever(poll_interval=0.2)


if __name__ == "__main__":
    serve(Application(Path(sys.argv[1])))
