"""A small MCP server for tests, over stdio or streamable HTTP. Needs nothing but Python's standard library.

Options: --http [--port N] [--json] [--token T] [--tls DIR], --modern, --mode NAME, --extra N, --page N, --log FILE.
Modes: normal, banner (text on stdout, then normal), garbage (text only), silent (never answers), exit (ends at once),
brittle (ends when it is asked for its revisions).
"""
import argparse
import itertools
import json
import os
import queue
import ssl
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

options = argparse.ArgumentParser()
options.add_argument("--http", action="store_true")
options.add_argument("--port", type=int, default=0)
options.add_argument("--json", action="store_true")
options.add_argument("--token")
options.add_argument("--tls", help="a directory with server.pem and server.key")
options.add_argument("--modern", action="store_true")
options.add_argument("--mode", default="normal")
options.add_argument("--extra", type=int, default=0)
options.add_argument("--page", type=int, default=10_000)
options.add_argument("--log")
options = options.parse_args()

LONG_NAME = "tool_with_a_very_long_name_" + "x" * 60
NEWEST = "2026-07-28"
grown = threading.Event()
reshaped = threading.Event()
forgotten = threading.Event()
refusing = threading.Event()
subscriptions = []


def log(line):
    if options.log:
        with open(options.log, "a", encoding="utf-8") as file:
            file.write(line + "\n")


def tool(name, description, properties=(), **annotations):
    schema = {"type": "object", "properties": {name: {"type": kind} for name, kind in properties}}
    described = {"name": name, "description": description, "inputSchema": schema}
    return described | ({"annotations": annotations} if annotations else {})


def tools():
    own = [
        tool("echo", "Repeats a text", [("text", "string")] + [("loud", "boolean")] * reshaped.is_set()),
        tool("add", "Adds two numbers", [("a", "number"), ("b", "number")]),
        tool("read_note", "Reads the note", readOnlyHint=True),
        tool("slow", "Sleeps", [("seconds", "number")]),
        tool("crash", "Ends the server during the call"),
        tool("flood", "Answers with many megabytes", [("megabytes", "number")]),
        tool("image", "Answers with an image"),
        tool("structured", "Answers with structured content only"),
        tool("broken", "Answers with an error"),
        tool("count", "Adds a line to a file"),
        tool("environment", "Reads a variable", [("name", "string")]),
        tool("ask", "Asks the client for roots, sampling and elicitation"),
        tool("grow", "Adds the tool `grown`"),
        tool("reshape", "Changes the arguments of `echo`"),
        tool("babble", "Answers with something that is no JSON"),
        tool("misshape", "Answers with a result of another form"),
        tool("forget", "Forgets all HTTP sessions"),
        tool("refuse_next", "Has the next HTTP request refused with status 400"),
        tool("notes.search.deep", "Has dots in its name"),
        tool(LONG_NAME, "Has a long name"),
    ]
    if grown.is_set():
        own.append(tool("grown", "Was added later"))
    return own + [tool(f"extra_{at:04}", "One of many") for at in range(options.extra)]


class Raw(str):
    """A message that is sent as it is."""


def dumped(message):
    return message if isinstance(message, Raw) else json.dumps(message)


def text(value):
    return {"content": [{"type": "text", "text": value}]}


class Connection:
    """One client: how messages reach it, and what it was asked."""

    def __init__(self, send):
        self.send = send
        self.ids = itertools.count(1)
        self.waiting = {}

    def ask(self, method, params):
        """Sends a request to the client and waits for the answer."""
        id = f"server-{next(self.ids)}"
        self.waiting[id] = queue.Queue()
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        answer = self.waiting[id].get(timeout=20)
        return str(answer["error"]["code"]) if "error" in answer else json.dumps(answer["result"])

    def tools_changed(self):
        changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        if not options.modern:
            self.send(changed)
        for send, id in subscriptions:
            send(changed | {"params": {"_meta": {"io.modelcontextprotocol/subscriptionId": id}}})

    def call(self, name, given):
        log(f"call {name}")
        if name == "echo":
            return text(given["text"])
        if name == "add":
            return text(str(given["a"] + given["b"]))
        if name == "read_note":
            return text("the note")
        if name == "slow":
            time.sleep(given["seconds"])
            log("slow ended")
            return text("awake")
        if name == "crash":
            print("crashing as asked", file=sys.stderr, flush=True)
            os._exit(3)
        if name == "flood":
            return text("x" * int(given["megabytes"] * 1024 * 1024))
        if name == "image":
            image = {"type": "image", "mimeType": "image/png", "data": "AAAAAAAA"}
            return {"content": [{"type": "text", "text": "a picture"}, image]}
        if name == "structured":
            return {"content": [], "structuredContent": {"answer": 42}}
        if name == "broken":
            return text("it does not work") | {"isError": True}
        if name == "count":
            with open(os.environ["COUNT_FILE"], "a", encoding="utf-8") as file:
                file.write(given.get("mark", "counted") + "\n")
            return text("counted")
        if name == "environment":
            return text(os.environ.get(given["name"], "unset"))
        if name == "ask":
            asked = [
                ("roots/list", {}),
                ("sampling/createMessage", {"messages": [], "maxTokens": 1}),
                ("elicitation/create", {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}),
            ]
            return text(" ".join(self.ask(method, params) for method, params in asked))
        if name == "grow":
            grown.set()
            self.tools_changed()
            return text("grown")
        if name == "reshape":
            reshaped.set()
            self.tools_changed()
            return text("reshaped")
        if name == "forget":
            forgotten.set()
            return text("forgotten")
        if name == "refuse_next":
            refusing.set()
        if name in (known["name"] for known in tools()):
            return text(f"{name} was called")
        raise LookupError(f"Unknown tool: {name}")

    def answer(self, message):
        """The answer to a request; nothing for notifications and answers."""
        method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
        if method is None:
            self.waiting[id].put(message)
            return None
        if method == "notifications/cancelled":
            log("cancelled")
        if id is None:
            return None
        if method == "tools/call" and params["name"] == "babble":
            return Raw("{ this is no JSON")
        if method == "tools/call" and params["name"] == "misshape":
            return {"jsonrpc": "2.0", "id": id, "result": {"content": "of another form"}}
        try:
            return {"jsonrpc": "2.0", "id": id, "result": self.result(method, id, params)}
        except NotImplementedError:
            return {"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "Method not found"}}
        except (LookupError, TypeError) as error:
            return {"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": str(error)}}

    def result(self, method, id, params):
        capabilities = {"tools": {"listChanged": True}}
        cached = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if options.modern else {}
        if method == "initialize" and not options.modern:
            log("initialize")
            information = {"name": "test", "version": "1"}
            return {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": information}
        if method == "server/discover" and options.mode == "brittle":
            os._exit(5)
        if method == "server/discover" and options.modern:
            return {"supportedVersions": [NEWEST], "capabilities": capabilities} | cached
        if method == "subscriptions/listen" and options.modern:
            subscriptions.append((self.send, id))
            accepted = {"notifications": params["notifications"]}
            accepted["_meta"] = {"io.modelcontextprotocol/subscriptionId": id}
            acknowledged = "notifications/subscriptions/acknowledged"
            self.send({"jsonrpc": "2.0", "method": acknowledged, "params": accepted})
            log("subscribed")
            threading.Event().wait()
        if method == "ping":
            return {}
        if method == "tools/list":
            start = int(params.get("cursor") or 0)
            listed, end = tools(), start + options.page
            return {"tools": listed[start:end]} | cached | ({"nextCursor": str(end)} if end < len(listed) else {})
        if method == "tools/call":
            if parent := params.get("_meta", {}).get("traceparent"):
                log(f"traceparent {parent}")
            result = self.call(params["name"], params.get("arguments") or {})
            return result | ({"resultType": "complete"} if options.modern else {})
        raise NotImplementedError


def stdio():
    lock = threading.Lock()

    def send(message):
        with lock:
            sys.stdout.write(dumped(message) + "\n")
            sys.stdout.flush()

    connection = Connection(send)

    def work(message):
        answer = connection.answer(message)
        if answer is not None:
            send(answer)

    for line in sys.stdin:
        threading.Thread(target=work, args=(json.loads(line),), daemon=True).start()


class Http(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    sessions = {}

    def log_message(self, *_):
        pass

    def setup(self):
        super().setup()
        self.lock = threading.Lock()

    def refuse(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def begin_stream(self, session=None):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        if session:
            self.send_header("Mcp-Session-Id", session)
        self.end_headers()
        self.close_connection = True

    def event(self, message):
        with self.lock:
            self.wfile.write(f"data: {dumped(message)}\n\n".encode())
            self.wfile.flush()

    def connection_of(self):
        """The client's connection; refuses the request and returns nothing if there is none."""
        if options.token and self.headers.get("Authorization") != f"Bearer {options.token}":
            return self.refuse(401)
        if refusing.is_set():
            refusing.clear()
            return self.refuse(400)
        if forgotten.is_set():
            forgotten.clear()
            Http.sessions.clear()
        session = self.headers.get("Mcp-Session-Id")
        if options.modern or session is None:
            return Connection(self.event)
        return Http.sessions.get(session) or self.refuse(404)

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/moved":
            self.send_response(307)
            self.send_header("Location", "/mcp")
            self.send_header("Content-Length", "0")
            return self.end_headers()
        connection = self.connection_of()
        if connection is None:
            return
        method, session = message.get("method"), None
        if method == "initialize" and not options.modern:
            session = f"session-{time.time_ns()}"
            connection.outbox = queue.Queue()
            connection.send = connection.outbox.put
            Http.sessions[session] = connection
        if message.get("id") is None or method is None:
            connection.answer(message)
            return self.refuse(202)
        if options.json:
            body = dumped(connection.answer(message)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            if session:
                self.send_header("Mcp-Session-Id", session)
            self.end_headers()
            return self.wfile.write(body)
        self.begin_stream(session)
        self.event(connection.answer(message))

    def do_GET(self):
        connection = self.connection_of()
        if connection is None:
            return
        if options.modern:
            return self.refuse(405)
        self.begin_stream()
        log("subscribed")
        while True:
            self.event(connection.outbox.get())


def main():
    log("start")
    log(f"pid {os.getpid()}")
    print("the test server starts", file=sys.stderr, flush=True)
    if options.mode == "exit":
        secret = os.environ.get("MCP_SECRET", "nothing")
        print(f"fatal: cannot use {secret}", file=sys.stderr, flush=True)
        sys.exit(4)
    if options.mode in ("banner", "garbage"):
        print("Welcome to the test server!", flush=True)
        log("printed")
    if options.mode in ("silent", "garbage"):
        sys.stdin.read()
        return
    if options.http:
        server = ThreadingHTTPServer(("127.0.0.1", options.port), Http)
        if options.tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(f"{options.tls}/server.pem", f"{options.tls}/server.key")
            # The handshake happens in the thread of the connection, so that a client that refuses stops nothing.
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        print(f"listening {server.server_port}", flush=True)
        server.serve_forever()
    stdio()


main()
