"""The LiteLLM proxy in front of a gateway."""

from pathlib import Path

from programs import Server, free_port, program

CONFIG = """
model_list:
  - model_name: m
    litellm_params: {{model: openai/m, api_base: "{base_url}", api_key: {key}}}
general_settings: {{master_key: {proxy_key}, forward_client_headers_to_llm_api: true}}
litellm_settings: {{telemetry: false, {settings}}}
"""
PROXY_KEY = "sk-proxy"


class LiteLlmProxy:
    """Serves on `origin`. Its home is a directory of the test's, `settings` are of its `litellm_settings`."""

    def __init__(self, home, base_url, key, settings=""):
        config = Path(home) / "config.yaml"
        config.write_text(CONFIG.format(base_url=base_url, key=key, proxy_key=PROXY_KEY, settings=settings))
        port = free_port()
        self.origin = f"http://127.0.0.1:{port}"
        litellm = program("litellm/bin", "litellm")
        command = [litellm, "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
        # Without this it asks the network for the prices of models.
        environment = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        self.close = Server(command, home, environment, f"{self.origin}/health/liveliness").close
