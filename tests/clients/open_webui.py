"""Open WebUI as its page uses it: signs up, sends messages, regenerates and edits, and waits for the helpers."""

import copy
import json
import urllib.request
import uuid

from programs import Server, eventually, free_port, program

ADA = {"name": "Ada", "email": "ada@example.com", "password": "correct horse battery"}
BOB = {"name": "Bob", "email": "bob@example.com", "password": "correct horse battery", "role": "user"}


class OpenWebUi:
    """A server of its own with one person signed up. `settings` are environment variables of Open WebUI."""

    def __init__(self, home, base_url, key, **settings):
        port = free_port()
        self._origin = f"http://127.0.0.1:{port}"
        self._token = None
        # The slim variant of Open WebUI does without local models, and so without torch.
        environment = {"DATA_DIR": str(home), "USE_SLIM_DOCKER": "true", "WEBUI_SECRET_KEY": "secret",
                       "ENABLE_OLLAMA_API": "false", "BYPASS_MODEL_ACCESS_CONTROL": "true",
                       "OPENAI_API_BASE_URL": base_url, "OPENAI_API_KEY": key, **settings}
        command = [program("open-webui/bin", "open-webui"), "serve", "--host", "127.0.0.1", "--port", str(port)]
        self._server = Server(command, home, environment, f"{self._origin}/health")
        self.close = self._server.close
        self.log = self._server.log
        self._token = self._post("/api/v1/auths/signup", ADA)["token"]
        self._get("/api/models")

    def second_person(self):
        """The same server as another person uses it."""
        other = copy.copy(self)
        other._token = self._post("/api/v1/auths/add", BOB)["token"]
        return other

    def chat(self, prompt):
        """Starts a chat and waits for its answer, its title and its tags."""
        chat = Chat(self)
        chat.say(prompt)
        eventually("a title", lambda: chat.state()["title"] != "New Chat")
        eventually("tags", lambda: chat.state()["meta"].get("tags"))
        return chat

    def _get(self, path):
        return self._request(urllib.request.Request(self._origin + path))

    def _post(self, path, body):
        headers = {"Content-Type": "application/json"}
        return self._request(urllib.request.Request(self._origin + path, json.dumps(body).encode(), headers))

    def _request(self, request):
        if self._token:
            request.add_header("Authorization", f"Bearer {self._token}")
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)


class Chat:
    """One chat. Messages form a tree; `say` goes on at its newest answer."""

    def __init__(self, server):
        self._server = server
        self.id = None
        self._newest = None

    def state(self):
        return self._server._get(f"/api/v1/chats/{self.id}")

    def say(self, prompt):
        return self._ask({"id": str(uuid.uuid4()), "parentId": self._newest, "role": "user", "content": prompt})

    def regenerate(self):
        """Asks for another answer to the newest answer's question."""
        return self._ask(self._message(self._message(self._newest)["parentId"]))

    def edit(self, prompt):
        """Says something else in place of the question of the newest answer."""
        edited = self._message(self._message(self._newest)["parentId"])
        return self._ask({"id": str(uuid.uuid4()), "parentId": edited["parentId"], "role": "user", "content": prompt})

    def _ask(self, question):
        answer = str(uuid.uuid4())
        # The page asks for a title and tags with a chat's first message, and for follow-ups with each.
        first = {"title_generation": True, "tags_generation": True} if self.id is None else {}
        body = {"model": "m", "stream": True, "session_id": "page", "chat_id": self.id, "id": answer,
                "user_message": question, "parent_id": question["parentId"],
                "params": {}, "features": {}, "variables": {},
                "background_tasks": {**first, "follow_up_generation": True}}
        if self.id is None:
            body["messages"] = [{"role": "user", "content": question["content"]}]
        self.id = self._server._post("/api/chat/completions", body)["chat_id"]
        self._newest = answer
        done = eventually("an answer with follow-ups", lambda: self._finished(answer))
        if done.get("error"):
            raise AssertionError(done["error"])
        return done["content"]

    def _finished(self, answer):
        message = self._message(answer)
        return message if message.get("error") or (message.get("done") and message.get("followUps")) else None

    def _message(self, message):
        return self.state()["chat"]["history"]["messages"][message]
